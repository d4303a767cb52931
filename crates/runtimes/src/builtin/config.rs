//! What the builtin runtime is told at start-up.

use std::{fmt, path::PathBuf, time::Duration};

use threadline_retry::{Backoff, table};

use super::look::Looking;
use crate::{LaneSize, LocalWorkspace};

/// Everything the builtin runtime needs.
#[derive(Clone, Debug)]
pub struct BuiltinConfig {
    /// The folder that holds the runs' journals.
    pub records: PathBuf,
    /// Where turns work and what leaves them.
    pub workspace: LocalWorkspace,
    /// The model, or `None` for the demonstration.
    pub model: Option<ModelConfig>,
    /// How many turns run at once.
    pub lane: LaneSize,
    /// Where a turn stops.
    pub limits: Limits,
    /// How the demonstration learns what the person already has.
    pub looking: Looking,
    /// How long the demonstration pauses between its steps, so that a person sees them happen.
    pub pause: Duration,
}

impl BuiltinConfig {
    /// The settings that fit a person on one machine.
    pub fn new(records: PathBuf, workspace: LocalWorkspace) -> Self {
        Self {
            records,
            workspace,
            model: None,
            lane: LaneSize {
                max_active: 5,
                max_queued: 20,
            },
            limits: Limits::default(),
            looking: Looking::Here,
            pause: Duration::from_millis(150),
        }
    }
}

/// An OpenAI-compatible endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// The base URL, to which `/chat/completions` is added.
    pub url: String,
    /// The key, when the endpoint wants one.
    pub key: Option<String>,
    /// The model's name there.
    pub model: String,
}

impl fmt::Debug for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address may carry a name and a password in front of its host.
        let url = match self.url.rsplit_once('@') {
            Some((_, rest)) => format!("(…)@{rest}"),
            None => self.url.clone(),
        };
        f.debug_struct("ModelConfig")
            .field("url", &url)
            .field("key", &self.key.as_ref().map(|_| "(set)"))
            .field("model", &self.model)
            .finish()
    }
}

/// Where a turn of the model agent stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model calls in one turn.
    pub max_steps: u32,
    /// Time in one turn; time in which a question is open does not count.
    pub max_time: Duration,
    /// How long a connection may take.
    pub connect: Duration,
    /// How long the endpoint may be silent: before it answers, and between two pieces of an answer.
    pub silence: Duration,
    /// How often a model call is tried again after a failure that may pass.
    pub retries: u32,
    /// The pauses before that.
    pub backoff: Backoff,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 40,
            max_time: Duration::from_secs(30 * 60),
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(120),
            retries: 4,
            backoff: table::MODEL,
        }
    }
}
