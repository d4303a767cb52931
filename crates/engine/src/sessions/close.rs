//! Stopping what an owner's sessions do, and closing them.

use threadline_contract::{Code, Fault, Millis, Owner, Principal, RunId, SessionKey};
use threadline_store::{NewEvent, Run, Session, SessionState, StoreError};
use tracing::warn;

use crate::{
    Engine,
    run::cancel::{Stop, cancel_event},
    wire,
};

/// Runs of an owner that can be open at once: no lane takes as many.
const RECENT_RUNS: u32 = 200;

/// What closing an owner's sessions found.
pub(crate) struct ClosedSessions {
    /// One of them took turns.
    pub(crate) was_open: bool,
    /// A run that was asked to stop, the oldest.
    pub(crate) stopped_run: Option<RunId>,
}

impl Engine {
    /// Asks an owner's open runs to stop. Gives what was said of each.
    pub(crate) async fn cancel_runs(
        &self,
        caller: &Principal,
        owner: &Owner,
    ) -> Result<Vec<(RunId, Stop)>, Fault> {
        self.known_owner(caller, owner).await?;
        let store = &self.0.store;
        let recent = store
            .runs_of_owner(&caller.account, owner, None, RECENT_RUNS)
            .await?;
        let mut stopped = vec![];
        for run in recent.into_iter().filter(|r| !r.status.is_terminal()) {
            let stop = self.cancel_run(caller, &run.id).await?;
            stopped.push((run.id, stop));
        }
        Ok(stopped)
    }

    /// Ends an owner's sessions: their runs are asked to stop, and a message no longer goes on with them.
    pub(crate) async fn close_sessions(
        &self,
        caller: &Principal,
        owner: &Owner,
    ) -> Result<ClosedSessions, Fault> {
        self.known_owner(caller, owner).await?;
        let store = &self.0.store;
        let sessions = store.sessions_of_owner(&caller.account, owner).await?;
        let mut runs = store
            .runs_of_owner(&caller.account, owner, None, RECENT_RUNS)
            .await?;
        runs.retain(|run| !run.status.is_terminal());
        let closed = ClosedSessions {
            was_open: sessions.iter().any(|s| s.state == SessionState::Open),
            stopped_run: runs.last().map(|run| run.id.clone()),
        };
        if let Err(e) = self.store_close(caller, &sessions, runs).await {
            let fault = Fault::from(e);
            if fault.code == Code::StorageFull {
                // They are told to stop although it cannot be written down.
                self.cancel_runs(caller, owner).await?;
            }
            return Err(fault);
        }
        for session in sessions {
            if self.session_elsewhere(&session).await?.is_none() {
                self.close_at_runtime(&session).await;
            }
        }
        Ok(closed)
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

    /// Refuses an owner that has no session.
    pub(crate) async fn known_owner(&self, caller: &Principal, owner: &Owner) -> Result<(), Fault> {
        let store = &self.0.store;
        let sessions = store.sessions_of_owner(&caller.account, owner).await?;
        if !sessions.is_empty() {
            return Ok(());
        }
        Err(Fault::new(
            Code::MappingNotFound,
            format!("No session is mapped to {}.", wire::called(owner)),
        ))
    }
}
