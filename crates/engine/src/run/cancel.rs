//! Asking a run to stop. A request until its registry confirms; asking again changes nothing.

use threadline_contract::{Code, Fault, Millis, Principal, RunId, RunStatus, UpdateKind};
use threadline_store::{Cancel, NewEvent, Run};

use super::update;
use crate::{Engine, wire};

/// What became of a wish to stop a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is recorded.
    Asked,
    /// The run had ended, and was stopped.
    Stopped,
    /// The run was told; the disk is full, so that is not written down yet.
    ToldUnstored,
    /// The disk is full, and the run can be told nothing before there is room.
    WaitsForRoom,
}

impl Engine {
    /// Asks a run to stop.
    pub(crate) async fn cancel_run(&self, caller: &Principal, run: &RunId) -> Result<Stop, Fault> {
        let (store, by) = (&self.0.store, caller.actor());
        let record = store.run(&caller.account, run).await?;
        let now = Millis::now();
        let event = cancel_event(&record, now)?;
        let outcome = store.request_cancel(&caller.account, run, &by, now, event.clone());
        match outcome.await {
            Ok(Cancel::Asked(run) | Cancel::AlreadyAsked(run) | Cancel::AlreadyEnded(run)) => {
                Ok(match run.status {
                    RunStatus::Cancelled => Stop::Stopped,
                    _ => Stop::Asked,
                })
            }
            Err(e) => {
                let fault = Fault::from(e);
                let is_full = fault.code == Code::StorageFull;
                if !is_full || self.run_elsewhere(&record).await?.is_some() {
                    return Err(fault);
                }
                Ok(match self.cancel_unstored(&record, by, event).await? {
                    true => Stop::ToldUnstored,
                    false => Stop::WaitsForRoom,
                })
            }
        }
    }
}

/// What the log says of a run that somebody asks to stop.
pub(crate) fn cancel_event(run: &Run, now: Millis) -> Result<NewEvent, Fault> {
    let (kind, event) = (UpdateKind::Task, update::CANCEL_REQUESTED);
    let asked = wire::update(&run.owner, &run.id, kind, event, now);
    update::logged(&asked, None)
}
