//! What happened since this process started, for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
pub(crate) struct Counters {
    overdue: AtomicU64,
    unconfirmed: AtomicU64,
}

impl Counters {
    /// A run has used up its time.
    pub(crate) fn overdue(&self) {
        self.overdue.fetch_add(1, Relaxed);
    }

    /// A run that goes on was told from its record, because its registry could not be asked.
    pub(crate) fn unconfirmed(&self) {
        self.unconfirmed.fetch_add(1, Relaxed);
    }
}

/// What happened since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Runs that have used up their time.
    pub overdue: u64,
    /// Answers about runs that go on whose registry could not be asked.
    pub unconfirmed: u64,
    /// Connections to gateways that were lost.
    pub connections_lost: u64,
}

impl crate::Engine {
    /// What happened since this process started.
    pub fn counted(&self) -> Counted {
        let counters = &self.0.counters;
        Counted {
            overdue: counters.overdue.load(Relaxed),
            unconfirmed: counters.unconfirmed.load(Relaxed),
            connections_lost: self
                .lanes()
                .map(|lane| lane.runtime.connections_lost())
                .sum(),
        }
    }
}
