//! Which runs wait for room on a disk. In memory alone: on a full disk nothing can be written down.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use threadline_contract::Millis;

use crate::RunRef;

/// Since when runs wait for room.
#[derive(Debug, Default)]
pub(super) struct NoRoom(Mutex<HashMap<RunRef, Millis>>);

impl NoRoom {
    /// A run waits since then, or since earlier; or (`None`) it does not wait.
    pub(super) fn set(&self, run: &RunRef, since: Option<Millis>) {
        let mut all = self.lock();
        match since {
            Some(since) => _ = all.entry(run.clone()).or_insert(since),
            None => _ = all.remove(run),
        }
    }

    /// Since when a run waits.
    pub(super) fn since(&self, run: &RunRef) -> Option<Millis> {
        self.lock().get(run).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunRef, Millis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
