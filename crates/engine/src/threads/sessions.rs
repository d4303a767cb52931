//! `session.cancel`, `session.close` and `session.delete`.

use threadline_contract::{
    AppThreadKey, Code, Fault, Owner, Principal, RunId,
    method::{Receipt, SessionDeleted},
};

use crate::{Engine, run::cancel::Stop};

/// What is said of a stop on a full disk.
const CANCEL_UNSTORED: &str = "The run was told to stop. The disk is full, so that is not written down yet: make room, and its end is recorded.";
/// The same where its agent can be told nothing before there is room.
const CANCEL_WAITS: &str = "The disk is full, and its agent can be told nothing before there is room. The run is told to stop as soon as there is.";

impl Engine {
    /// Asks the thread's open runs to stop.
    pub async fn cancel_session(
        &self,
        caller: &Principal,
        thread: &AppThreadKey,
    ) -> Result<Receipt, Fault> {
        let owner = Owner::Thread(thread.clone());
        let mut receipt = Receipt {
            accepted: true,
            run_id: None,
            closed: None,
            cancelled: false,
            code: None,
            message: None,
        };
        for (run, stop) in self.cancel_runs(caller, &owner).await? {
            let one = stopped(run, stop);
            receipt.run_id = one.run_id;
            receipt.code = receipt.code.or(one.code);
            receipt.message = receipt.message.or(one.message);
        }
        Ok(receipt)
    }

    /// Ends the thread's sessions: their runs are asked to stop, and a message no longer goes on
    /// with them. `session.start` opens them again.
    pub async fn close_session(
        &self,
        caller: &Principal,
        thread: &AppThreadKey,
    ) -> Result<Receipt, Fault> {
        let owner = Owner::Thread(thread.clone());
        let closed = self.close_sessions(caller, &owner).await?;
        Ok(Receipt {
            accepted: true,
            run_id: closed.stopped_run,
            closed: Some(closed.was_open),
            cancelled: false,
            code: None,
            message: None,
        })
    }

    /// Removes a thread: its runs are asked to stop, and when they have stopped, their folders,
    /// records and logs go. Asking again changes nothing; of a thread that is not there, nothing is left
    /// either.
    pub async fn delete_session(
        &self,
        caller: &Principal,
        thread: &AppThreadKey,
    ) -> Result<SessionDeleted, Fault> {
        let deleted = self.delete(caller, &Owner::Thread(thread.clone())).await?;
        Ok(SessionDeleted {
            thread_id: thread.clone(),
            deleted,
        })
    }
}

/// What is answered to a wish to stop a run.
pub(super) fn stopped(run: RunId, stop: Stop) -> Receipt {
    let unstored = match stop {
        Stop::Asked | Stop::Stopped => None,
        Stop::ToldUnstored => Some(CANCEL_UNSTORED),
        Stop::WaitsForRoom => Some(CANCEL_WAITS),
    };
    Receipt {
        accepted: true,
        run_id: Some(run),
        closed: None,
        cancelled: stop == Stop::Stopped,
        code: unstored.map(|_| Code::StorageFull),
        message: unstored.map(str::to_owned),
    }
}
