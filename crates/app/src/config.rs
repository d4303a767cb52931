//! Everything the app must be told: where things lie, which bridge, and how patient to be.

use std::{path::PathBuf, time::Duration};

use threadline_retry::{Backoff, table};

/// What an [`App`](crate::App) is opened with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The app's own folder: records, index, unfinished requests. Owned by one process.
    pub data: PathBuf,
    /// Where threads get their workspaces: `$HOME/.xworkmate/threads`.
    pub workspaces: PathBuf,
    /// The bridge of threads that name no other.
    pub bridge: Endpoint,
    /// The lane of a bridge's gateway; what the bridge reports can only make it smaller.
    pub lane: LaneSize,
    /// How many files come at once.
    pub downloads: usize,
    /// How long to wait for what.
    pub timings: Timings,
}

impl Config {
    /// Settings with every number at its default.
    pub fn new(data: PathBuf, workspaces: PathBuf, bridge: Endpoint) -> Self {
        Self {
            data,
            workspaces,
            bridge,
            lane: LaneSize::default(),
            downloads: 4,
            timings: Timings::default(),
        }
    }
}

/// A bridge and how to get in.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address, without a path of the protocol.
    pub url: String,
    /// The bearer token.
    pub token: Option<String>,
}
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.url)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish()
    }
}

/// How many gateway turns run and wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSize {
    /// At once.
    pub active: usize,
    /// Behind them, across all threads.
    pub queued: usize,
}
impl Default for LaneSize {
    fn default() -> Self {
        Self {
            active: 5,
            queued: 20,
        }
    }
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// Until a connection stands.
    pub connect: Duration,
    /// Until a short request is answered.
    pub answer: Duration,
    /// A stream that says nothing for so long is cut: three of the bridge's keepalives.
    pub silence: Duration,
    /// Between two looks at a run that cannot be streamed.
    pub poll: Duration,
    /// How long a bridge may be away before its run is given up on.
    pub patience: Duration,
    /// How many tries in a row must fail as well before that.
    pub failures: u32,
    /// How long a run that can only be polled may take, questions not counted.
    pub deadline: Duration,
    /// The pauses after failures.
    pub backoff: Backoff,
    /// How many tries in a row a download may fail without getting any further.
    pub download_tries: u32,
    /// How long files that the bridge still collects are waited for.
    pub collect: Duration,
}
impl Default for Timings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(12),
            answer: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            poll: Duration::from_secs(2),
            patience: Duration::from_secs(120),
            failures: 5,
            deadline: Duration::from_secs(35 * 60),
            backoff: table::BRIDGE_AWAY,
            download_tries: 5,
            collect: Duration::from_secs(10 * 60),
        }
    }
}
