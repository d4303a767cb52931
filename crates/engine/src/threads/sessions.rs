//! `session.cancel` and `session.close`.

use threadline_contract::{AppThreadKey, Code, Fault, Millis, Owner, Principal, method::Receipt};
use threadline_store::{Session, SessionState};
use tracing::warn;

use crate::Engine;

/// Runs of a thread that can be open at once: no lane takes as many.
const RECENT: u32 = 200;

impl Engine {
    /// Asks the thread's open runs to stop.
    pub async fn cancel_session(
        &self,
        caller: &Principal,
        thread: &AppThreadKey,
    ) -> Result<Receipt, Fault> {
        let owner = Owner::Thread(thread.clone());
        self.known_owner(caller, &owner).await?;
        let mut receipt = Receipt {
            accepted: true,
            run_id: None,
            closed: None,
            cancelled: false,
            code: None,
            message: None,
        };
        let recent = self
            .0
            .store
            .runs_of_owner(&caller.account, &owner, None, RECENT)
            .await?;
        for run in recent.into_iter().filter(|r| !r.status.is_terminal()) {
            let one = self.cancel_run(caller, &run.id).await?;
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
        let mut receipt = self.cancel_session(caller, thread).await?;
        let mut closed = false;
        for session in self
            .0
            .store
            .sessions_of_owner(&caller.account, &Owner::Thread(thread.clone()))
            .await?
        {
            if session.state == SessionState::Open {
                self.0
                    .store
                    .set_session_state(
                        &caller.account,
                        &session.session_key,
                        SessionState::Closed,
                        &caller.actor(),
                        Millis::now(),
                    )
                    .await?;
                closed = true;
            }
            if self.session_elsewhere(&session).await?.is_none() {
                self.close_at_runtime(&session).await;
            }
        }
        receipt.closed = Some(closed);
        Ok(receipt)
    }

    /// What a runtime keeps running for a closed session is not needed any more. It ends by itself, too, but
    /// later.
    pub(crate) async fn close_at_runtime(&self, session: &Session) {
        let Ok(lane) = self.runtime(&session.runtime) else {
            return;
        };
        if let Err(fault) = lane.runtime.close(&session.session_key).await {
            warn!(session = %session.session_key, code = %fault.code, "What runs for session {} could not be ended: {}", session.session_key, fault.message);
        }
    }

    pub(crate) async fn known_owner(&self, caller: &Principal, owner: &Owner) -> Result<(), Fault> {
        if self
            .0
            .store
            .sessions_of_owner(&caller.account, owner)
            .await?
            .is_empty()
        {
            return Err(Fault::new(
                Code::MappingNotFound,
                match owner.thread() {
                    Some(thread) => format!("No session is mapped to thread `{thread}`."),
                    None => format!("No session is mapped to `{owner}`."),
                },
            ));
        }
        Ok(())
    }
}
