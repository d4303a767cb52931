//! Stops that were asked for while there was no room to write them down. They reach the run all the same, and are
//! written down as soon as there is room. This process alone knows of them until then.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use threadline_contract::{Actor, Fault, Millis, RunId};
use threadline_retry::table;
use threadline_runtimes::RunRef;
use threadline_store::{NewEvent, Phase, Run};
use tracing::{debug, warn};

use crate::Engine;

/// The runs that were asked to stop.
#[derive(Default)]
pub(crate) struct UnstoredCancels(Mutex<HashSet<RunId>>);

impl UnstoredCancels {
    fn lock(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Whether a run was asked to stop without that being written down yet.
    pub(crate) fn has_unstored_cancel(&self, run: &RunId) -> bool {
        self.0.unstored_cancels.lock().contains(run)
    }

    /// Hands a stop to a run of this server now, and writes it down later. `false`: its runtime cannot be told
    /// either before there is room.
    pub(crate) async fn cancel_unstored(
        &self,
        run: &Run,
        by: Actor,
        event: NewEvent,
    ) -> Result<bool, Fault> {
        if self.0.unstored_cancels.lock().insert(run.id.clone()) {
            let (engine, run) = (self.clone(), run.clone());
            self.0
                .tasks
                .spawn(async move { engine.store_cancel(&run, &by, event).await });
        }
        // One that has not begun is stopped by its driver, which looks before it begins it.
        if !matches!(run.phase, Phase::Starting | Phase::Running) {
            return Ok(true);
        }
        let name = RunRef {
            session: run.session_key.clone(),
            run: run.id.clone(),
        };
        let cancelled = self.runtime(&run.runtime)?.runtime.cancel(&name);
        let told = cancelled.await;
        if let Err(fault) = &told {
            debug!(run.id = %run.id, code = %fault.code, "Run {} cannot be told to stop yet: {}", run.id, fault.message);
        }
        Ok(told.is_ok())
    }

    async fn store_cancel(&self, run: &Run, by: &Actor, event: NewEvent) {
        let mut pauses = table::STORE_CANCEL.pauses();
        while self.pause(&mut pauses).await.is_ok() {
            let stored = self.0.store.request_cancel(
                &run.account,
                &run.id,
                by,
                Millis::now(),
                event.clone(),
            );
            match stored.await {
                Ok(_) => break,
                Err(e) => {
                    warn!(run.id = %run.id, error = %e, "The stop of run {} cannot be written down yet: {e}", run.id);
                }
            }
        }
        self.0.unstored_cancels.lock().remove(&run.id);
    }
}
