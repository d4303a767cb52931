//! Removing old scopes.
//!
//! [`Workspace::plan_removal`] says exactly what would go and why the rest stays;
//! [`Workspace::remove`] does it. Each scope goes in three steps: a tombstone among the run's notes
//! (from here on the scope is gone for everybody), a rename out of the way, and the removal of what
//! was renamed. A process can die between any two: what it left is the first thing that the next
//! plan lists. The receipt stays with the tombstone, so what a run delivered is known for ever.
//!
//! Never removed: a folder without our stamp, a session's work folder, a scope whose run is live, and
//! one that references still lead to. References are not recorded one by one: whoever gives some out
//! says until when they are good ([`Workspace::hold`]), before giving them out.

mod plan;
mod remove;
mod survey;
mod tombstone;

use std::time::Duration;

use serde::Serialize;
use threadline_contract::{ArtifactScope, RunId, SessionKey};

pub use threadline_contract::RemovedFor;

pub use self::{plan::RemovalPlan, tombstone::Tombstone};
use crate::keys::{LINK_SECONDS, SKEW_SECONDS};

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Scopes that did not change for so long go.
    pub max_age: Option<Duration>,
    /// While all scopes together have more bytes, the oldest go.
    pub max_bytes: Option<u64>,
    /// Scopes that changed within this time stay in any case. By default as long as a reference
    /// lives, so that the files of a run that has just ended can be fetched by everybody who heard
    /// of them.
    pub grace: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: None,
            max_bytes: None,
            grace: Duration::from_secs((LINK_SECONDS + SKEW_SECONDS).unsigned_abs()),
        }
    }
}

/// A scope that was prepared by us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScopeFacts {
    /// The session of the run.
    pub session_key: SessionKey,
    /// The run.
    pub run_id: RunId,
    /// Where its files lie.
    pub scope: ArtifactScope,
    /// How many there are, our notes included.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// When the last of them changed, in seconds since 1970.
    pub changed_at: i64,
}

/// A scope that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// The scope.
    #[serde(flatten)]
    pub scope: ScopeFacts,
    /// Why.
    pub why: RemovedFor,
}

/// A scope that stays although it is old, or large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The scope.
    pub scope: ArtifactScope,
    /// Why.
    #[serde(flatten)]
    pub why: KeptFor,
}

/// Why a scope stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum KeptFor {
    /// Its run has not ended.
    Live,
    /// References lead to it.
    Held {
        /// Until then, in seconds since 1970.
        until: i64,
    },
    /// It changed too lately.
    Grace,
}

/// Whether a run is one of those that are looked at.
pub type IsWanted<'a> = dyn Fn(&SessionKey, &RunId) -> bool + 'a;

/// Whether a run has not ended yet.
pub type IsLive<'a> = dyn Fn(&SessionKey, &RunId) -> bool + 'a;
