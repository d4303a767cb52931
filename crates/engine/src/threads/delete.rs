//! `session.delete`: everything that the bridge holds of a thread goes, for good.
//!
//! The wish is on the disk before anything is removed, and is forgotten with the last row. So a
//! deletion that a crash cut short is finished at the next start.

use threadline_contract::{AppThreadKey, Fault, Millis, RunId, method::SessionDeleted};
use threadline_store::{Deletion, Dialect, Phase, Run};
use tracing::{info, warn};

use crate::{Caller, Engine, attachments, run::patience::Patience};

/// Runs that are looked at together.
const PAGE: u32 = 200;

impl Engine {
    /// Removes a thread: its runs are asked to stop, and when they have stopped, their folders,
    /// records and logs go. A folder of the user's own stays as it is. Asking again changes nothing;
    /// of a thread that is not there, nothing is left either.
    pub async fn delete_session(
        &self,
        caller: &Caller,
        thread: &AppThreadKey,
    ) -> Result<SessionDeleted, Fault> {
        let gone = |deleted| SessionDeleted {
            thread_id: thread.clone(),
            deleted,
        };
        let store = &self.0.store;
        if store
            .sessions_of_thread(&caller.account, thread)
            .await?
            .is_empty()
        {
            return Ok(gone(true));
        }
        let deletion = Deletion {
            account: caller.account.clone(),
            thread: thread.clone(),
            node: self.0.config.node.clone(),
        };
        store.ask_deletion(&deletion, Millis::now()).await?;
        self.close_session(caller, thread).await?;
        let engine = self.clone();
        let removing = self
            .0
            .tasks
            .spawn(async move { engine.remove(deletion).await });
        // A run may take its time to stop; the deletion goes on without a listener.
        let removed = tokio::time::timeout(self.0.config.result_wait, removing).await;
        Ok(gone(matches!(removed, Ok(Ok(true)))))
    }

    /// Goes on with the deletions that were under way.
    pub(crate) async fn take_up_deletions(&self) -> Result<(), Fault> {
        // Of those that share a database, the node that was asked has the files. A database of one
        // owner is ours alone, whatever name this node had then.
        let sole = self.0.store.dialect() == Dialect::Sqlite;
        let node = (!sole).then_some(self.0.config.node.as_str());
        for deletion in self.0.store.deletions(node).await? {
            info!(thread = %deletion.thread, "Going on with the deletion of thread {}", deletion.thread);
            let engine = self.clone();
            self.0
                .tasks
                .spawn(async move { engine.remove(deletion).await });
        }
        Ok(())
    }

    /// Removes a thread as soon as its runs have stopped. `false`: the server stops first.
    async fn remove(&self, deletion: Deletion) -> bool {
        let mut patience = Patience::new(20, 1);
        loop {
            match self.try_remove(&deletion).await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(fault) => {
                    warn!(thread = %deletion.thread, code = %fault.code, "Thread {} cannot be deleted yet: {}", deletion.thread, fault.message);
                }
            }
            if patience.wait(self).await.is_err() {
                return false;
            }
        }
    }

    /// `false`: a run goes on.
    async fn try_remove(&self, deletion: &Deletion) -> Result<bool, Fault> {
        let store = &self.0.store;
        let mut runs: Vec<Run> = Vec::new();
        loop {
            let last = runs.last().map(|r| &r.id);
            let page = store
                .runs_of_thread(&deletion.account, &deletion.thread, last, PAGE)
                .await?;
            if page.is_empty() {
                break;
            }
            runs.extend(page);
        }
        // One of a runtime that is not there any more can neither stop nor be heard.
        let goes_on = |r: &Run| r.phase != Phase::Closed && self.lane(&r.runtime).is_some();
        if runs.iter().any(goes_on) {
            return Ok(false);
        }
        let sessions = store
            .sessions_of_thread(&deletion.account, &deletion.thread)
            .await?;
        for session in sessions {
            let own = runs.iter().filter(|r| r.session_key == session.session_key);
            let own: Vec<RunId> = own.map(|r| r.id.clone()).collect();
            match self.lane(&session.runtime) {
                Some(lane) => {
                    lane.runtime.forget(&session.session_key, &own).await?;
                    if !lane.runtime.is_local() {
                        self.0.downloads.clear().await;
                    }
                }
                None => {
                    warn!(thread = %deletion.thread, runtime = %session.runtime, "What {} holds of thread {} stays there: it is not configured", session.runtime, deletion.thread);
                }
            }
        }
        for run in &runs {
            attachments::forget(&self.0.config.attachments, &run.id);
        }
        store.delete_thread(deletion).await?;
        info!(thread = %deletion.thread, "Deleted thread {}", deletion.thread);
        Ok(true)
    }
}
