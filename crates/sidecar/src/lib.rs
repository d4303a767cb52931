//! The gateway's plugin asks, the artifact engine answers: JSON-RPC 2.0, one object per line, over a
//! pair of pipes. `docs/sidecar.md` is the page for whoever writes the other end.
//!
//! Plain threads, because everything that is done here blocks. One reads lines; each request that is
//! being worked on has one of its own, up to a limit, and none exists while there is nothing to do.
//! An answer is written as a whole by the thread that made it. So a client that does not read its
//! answers stops the workers, these stop the queue, and the queue stops the reading: memory is
//! bounded by the limits, whatever the client does.
//!
//! **Invariants.** A request that was read is answered exactly once, unless its client has gone away
//! or ran out of patience with us. Nothing but answers is written to the output. No line ends the
//! service.

mod cut;
mod methods;
mod open;
mod output;
mod queue;
mod sidecar;

pub use open::{Settings, open};
pub use sidecar::{Ended, Sidecar, serve};

use std::time::Duration;

/// How much is taken at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest line. The rest of a longer one is skipped, and it is answered with an error.
    pub line_bytes: usize,
    /// Requests that are worked on at the same time.
    pub concurrent: usize,
    /// Requests that have been read and wait. Beyond them, nothing is read.
    pub waiting: usize,
    /// How long requests that have begun may take to finish when the service was told to stop.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 1024 * 1024,
            concurrent: 8,
            waiting: 16,
            patience: Duration::from_secs(5),
        }
    }
}
