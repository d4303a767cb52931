//! What stays of a scope that was removed, and how long one may not be.

use serde::{Deserialize, Serialize};
use threadline_contract::{ArtifactScope, RunId, SessionKey, Sha256, canonical};
use threadline_files::{Access, Root};

use super::RemovedFor;
use crate::{Error, Workspace, notes};

const TOMBSTONE: &str = "tombstone.json";
const HELD: &str = "held.json";
const MOST_BYTES: u64 = 16 * 1024 * 1024;
/// A hold is written for a little longer than asked, so that polling does not write each time.
const SLACK_SECONDS: i64 = 60 * 60;

/// What stays of a scope that was removed. The run's receipt, where it had one, stays beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// The session of the run.
    pub session_key: SessionKey,
    /// The run.
    pub run_id: RunId,
    /// Where its files lay.
    pub scope: ArtifactScope,
    /// When they were removed, in seconds since 1970.
    pub removed_at: i64,
    /// Why.
    pub why: RemovedFor,
    /// How many files there were, our notes included.
    pub files: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// The digest of the run's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Sha256>,
    /// Without a receipt: the names of the files, as far as they could be noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Hold {
    until: i64,
}

impl Workspace {
    /// Keeps a run's scope from being removed until then (seconds since 1970). To be called before
    /// references with that expiry are given out; never shortens an earlier hold. Refused with
    /// [`Error::Removed`] if the scope is gone.
    pub fn hold(&self, session: &SessionKey, run: &RunId, until: i64) -> Result<(), Error> {
        let (scope, _) = self.prepared(session, run)?;
        let notes = self.make_notes(session, run)?;
        if held_until(&notes)?.is_some_and(|held| held >= until) && !is_removed(&notes)? {
            return Ok(());
        }
        // A removal decides under the same lock: it sees this hold, or this sees its tombstone.
        let _alone = notes.lock()?;
        if is_removed(&notes)? {
            return Err(Error::Removed {
                scope: scope.to_string(),
            });
        }
        let until = until.saturating_add(SLACK_SECONDS);
        let text = canonical::of(&Hold { until }).unwrap_or_default();
        notes.write_atomic(HELD, text.as_bytes(), Access::Shared)?;
        Ok(())
    }

    /// What stays of a run's scope, if it was removed.
    pub fn tombstone(&self, session: &SessionKey, run: &RunId) -> Result<Option<Tombstone>, Error> {
        match self.notes(session, run)? {
            Some(notes) => read(&notes),
            None => Ok(None),
        }
    }

    /// Whether a run's scope was removed, also while its files are still being cleared away.
    pub(crate) fn is_removed(&self, session: &SessionKey, run: &RunId) -> Result<bool, Error> {
        let notes = self.notes(session, run)?;
        notes.as_ref().map_or(Ok(false), is_removed)
    }
}

pub(super) fn is_removed(notes: &Root) -> Result<bool, Error> {
    match notes.stat(TOMBSTONE) {
        Ok(_) => Ok(true),
        Err(e) if e.reason() == threadline_files::Reason::NotFound => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// A tombstone that cannot be read is still one: the scope is gone.
pub(super) fn read(notes: &Root) -> Result<Option<Tombstone>, Error> {
    let bytes = notes::read(notes, TOMBSTONE, MOST_BYTES)?;
    let parsed = bytes.map(|bytes| serde_json::from_slice(&bytes));
    parsed.transpose().map_err(|e| Error::Io {
        path: TOMBSTONE.to_owned(),
        cause: e.into(),
    })
}

pub(super) fn write(notes: &Root, tombstone: &Tombstone) -> Result<(), Error> {
    let text = canonical::of(tombstone).map_err(|e| Error::Io {
        path: TOMBSTONE.to_owned(),
        cause: e.into(),
    })?;
    notes.write_atomic(TOMBSTONE, text.as_bytes(), Access::Shared)?;
    Ok(())
}

/// Until when references lead to a scope. A note that cannot be read holds for ever: fail closed.
pub(super) fn held_until(notes: &Root) -> Result<Option<i64>, Error> {
    let Some(bytes) = notes::read(notes, HELD, 4_096)? else {
        return Ok(None);
    };
    let hold: Result<Hold, _> = serde_json::from_slice(&bytes);
    Ok(Some(hold.map_or(i64::MAX, |hold| hold.until)))
}

/// Removes what only a scope that is there needs.
pub(super) fn tidy(notes: &Root) -> Result<(), Error> {
    let gone = notes.remove_file(HELD);
    match gone {
        Err(e) if e.reason() != threadline_files::Reason::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}
