//! Runs that wait for room on a disk. This process alone knows of them: on a full disk nothing can be written
//! down, so whoever asks is told from memory.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use threadline_contract::{Code, Fault, Millis, RunId, RuntimeId, SessionKey};
use threadline_runtimes::RunRef;

use super::update::span;
use crate::Engine;

/// Runs whose record cannot be written for want of room, and since when.
#[derive(Default)]
pub(crate) struct Stalls(Mutex<HashMap<RunId, Millis>>);

impl Stalls {
    /// A run could not be written: it waits, if that is for want of room.
    pub(crate) fn failed(&self, run: &RunId, fault: &Fault) {
        if fault.code == Code::StorageFull {
            self.lock().entry(run.clone()).or_insert_with(Millis::now);
        }
    }

    /// A run was written, or is over.
    pub(crate) fn wrote(&self, run: &RunId) {
        self.lock().remove(run);
    }

    fn since(&self, run: &RunId) -> Option<Millis> {
        self.lock().get(run).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Millis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Since when a run waits for room on a disk, as far as this process knows.
    pub(crate) fn waits_for_room(
        &self,
        runtime: &RuntimeId,
        session: &SessionKey,
        run: &RunId,
    ) -> Option<Millis> {
        let at_runtime = self.lane(runtime).and_then(|lane| {
            lane.runtime.waits_for_room(&RunRef {
                session: session.clone(),
                run: run.clone(),
            })
        });
        let here = self.0.stalls.since(run);
        here.into_iter().chain(at_runtime).min()
    }
}

/// What a person reads of a run that waits for room.
pub(crate) fn sentence(since: Millis, now: Millis) -> String {
    let waited = u64::try_from(now.since(since)).unwrap_or_default() / 1_000;
    let waited = match waited {
        0 => "just now".to_owned(),
        // Whole minutes, so that it does not change with every look.
        1..60 => "for less than a minute".to_owned(),
        _ => format!("for {}", span(Duration::from_secs(waited / 60 * 60))),
    };
    format!(
        "The disk is full: it waits for room, {waited}. Make room on the disk of the data folder; it goes on by itself."
    )
}

#[cfg(test)]
#[path = "stall_tests.rs"]
mod tests;
