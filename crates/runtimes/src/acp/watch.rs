//! Waiting for the end of each host, so that what a killed one leaves running is ended at once, and not only
//! when somebody needs its session again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use threadline_contract::Fault;
use threadline_host::{Hosts, State, Swept};
use tokio_util::task::AbortOnDropHandle;

use super::{bind::host_fault, config::AgentHosts, hosts::Seen};

/// A task for each host that is waited for, by the host's life.
pub(super) type Watchers = Arc<Mutex<HashMap<String, AbortOnDropHandle<()>>>>;

impl AgentHosts {
    /// Ends what killed hosts have left, and waits for the end of those that are there. Folders that cannot be
    /// read are told in the log: a session that needs one says so when it is used.
    pub async fn watch_all(&self) -> Result<(), Fault> {
        let sweep = self.hosts.sweep().await.map_err(host_fault)?;
        sweep.swept.iter().for_each(report);
        for (folder, why) in sweep.unreadable {
            tracing::warn!(folder = %folder.display(), error = %why, "What a host left cannot be looked for: its folder cannot be read");
        }
        for state in sweep.alive {
            self.watch(state);
        }
        Ok(())
    }

    /// Waits for the end of a host, unless somebody does already.
    pub(super) fn watch(&self, state: State) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|_, task| !task.is_finished());
        let boot = state.boot.clone();
        watchers.entry(boot).or_insert_with(|| {
            let task = clean_up_after(self.hosts.clone(), state, Arc::clone(&self.seen));
            AbortOnDropHandle::new(tokio::spawn(task))
        });
    }
}

async fn clean_up_after(hosts: Hosts, state: State, seen: Seen) {
    hosts.until_gone(&state).await;
    match hosts.sweep_session(&state.session).await {
        Ok(swept) => swept.iter().for_each(report),
        Err(e) => {
            tracing::error!(error = %e, session = state.session, "what a killed host left could not be looked for")
        }
    }
    *seen.lock().await = None;
}

pub(super) fn report(swept: &Swept) {
    match (swept.clean, swept.killed) {
        (false, _) => tracing::error!(
            "Processes that a killed host of {} has left cannot be ended",
            swept.session
        ),
        (true, killed) => tracing::info!(
            "A host of {} was killed; ended {killed} processes that it had left",
            swept.session
        ),
    }
}
