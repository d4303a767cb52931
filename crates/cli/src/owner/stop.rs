//! When an owner ends: a signal came, or nobody needs it any more.

use std::time::Duration;

use threadline_contract::{Code, Fault};
use tokio::signal::unix::{Signal, SignalKind, signal};

use threadline_server::Activity;

/// The signals that end an owner. Not the one of a closing terminal: whoever started it with `nohup`
/// wants that ignored, and to hear it would undo that.
pub(crate) struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Fault> {
        let hear = |kind| {
            signal(kind)
                .map_err(|e| Fault::new(Code::Internal, format!("Signals cannot be heard: {e}.")))
        };
        Ok(Self {
            term: hear(SignalKind::terminate())?,
            int: hear(SignalKind::interrupt())?,
        })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

/// Ends when nothing has gone on for so long; never, when there is no such time.
pub(super) async fn unneeded(idle: Option<Duration>, activity: &Activity, busy: impl Fn() -> bool) {
    let Some(idle) = idle else {
        return std::future::pending().await;
    };
    loop {
        if busy() {
            activity.touch();
        }
        let since = activity.idle();
        if since >= idle {
            return;
        }
        // Often enough to see a run that began and ended between two looks: its requests were seen.
        tokio::time::sleep((idle - since).clamp(Duration::from_millis(50), Duration::from_secs(1)))
            .await;
    }
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;
