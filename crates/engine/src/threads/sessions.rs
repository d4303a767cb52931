//! `session.cancel` and `session.close`.

use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, Owner, Principal, RunId, SessionKey, method::Receipt,
};
use threadline_store::{NewEvent, Run, Session, SessionState, StoreError};
use tracing::warn;

use super::tasks::cancel_event;
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
        let owner = Owner::Thread(thread.clone());
        self.known_owner(caller, &owner).await?;
        let store = &self.0.store;
        let sessions = store.sessions_of_owner(&caller.account, &owner).await?;
        let mut runs = store
            .runs_of_owner(&caller.account, &owner, None, RECENT)
            .await?;
        runs.retain(|run| !run.status.is_terminal());
        let receipt = Receipt {
            accepted: true,
            run_id: runs.last().map(|run| run.id.clone()),
            closed: Some(sessions.iter().any(|s| s.state == SessionState::Open)),
            cancelled: false,
            code: None,
            message: None,
        };
        if let Err(e) = self.store_close(caller, &sessions, runs).await {
            let fault = Fault::from(e);
            if fault.code == Code::StorageFull {
                // They are told to stop although it cannot be written down.
                self.cancel_session(caller, thread).await?;
            }
            return Err(fault);
        }
        for session in sessions {
            if self.session_elsewhere(&session).await?.is_none() {
                self.close_at_runtime(&session).await;
            }
        }
        Ok(receipt)
    }

    /// Closes sessions and records the wish that their runs stop, in one transaction.
    async fn store_close(
        &self,
        caller: &Principal,
        sessions: &[Session],
        runs: Vec<Run>,
    ) -> Result<(), StoreError> {
        let (account, by, now) = (caller.account.clone(), caller.actor(), Millis::now());
        let keys = sessions.iter().map(|session| session.session_key.clone());
        let mut keys: Vec<SessionKey> = keys.collect();
        keys.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        let stop = |run: Run| Ok((cancel_event(&run, now)?, run.id));
        let mut stops: Vec<(NewEvent, RunId)> =
            runs.into_iter().map(stop).collect::<Result<_, Fault>>()?;
        stops.sort_by(|(_, a), (_, b)| a.as_str().cmp(b.as_str()));
        let work = self.0.store.transact(move |mut tx| {
            Box::pin(async move {
                for key in &keys {
                    if tx.lock_session(&account, key).await?.state == SessionState::Open {
                        let closed = SessionState::Closed;
                        tx.set_session_state(&account, key, closed, &by, now)
                            .await?;
                    }
                }
                for (_, run) in &stops {
                    tx.lock_run(&account, run).await?;
                }
                for (event, run) in stops {
                    tx.request_cancel(&account, &run, &by, now, event).await?;
                }
                Ok(())
            })
        });
        work.await
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
