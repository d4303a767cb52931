//! What an operator of this machine's own bridge sees and does: whatever runs there, also for other apps.

use std::collections::BTreeMap;

use serde::Serialize;
use threadline_contract::{
    AppThreadKey, Fault,
    method::{self, Receipt, TaskParams},
    operator::{OperatorStatus, RunsPage, RunsParams, SessionsPage, SessionsParams},
};

use super::App;
use crate::{
    api::{CancelRunParams, Named, ThreadName},
    endpoints::LOCAL,
};

impl App {
    /// How the bridge stands.
    pub async fn operator_status(&self) -> Result<Named<OperatorStatus>, Fault> {
        let bridge = self.core.endpoints.bridge(LOCAL)?;
        let none = serde_json::json!({});
        let mut status: OperatorStatus = bridge.call(method::OPERATOR_STATUS, &none).await?;
        // Turns that wait here for a place are in the same line; the bridge has not heard of them.
        let waiting = self.core.waiting_by_runtime(LOCAL);
        status.open.queued += waiting.values().copied().map(u64::from).sum::<u64>();
        for line in &mut status.runtimes {
            line.state.queued += waiting.get(&line.runtime).copied().unwrap_or(0);
        }
        let errors = status.runtimes.iter().filter_map(|r| r.last_error.as_ref());
        let threads: Vec<AppThreadKey> = errors
            .map(|error| &error.thread_id)
            .chain(status.hosts.iter().map(|host| &host.thread_id))
            .cloned()
            .collect();
        Ok(self.named(status, &threads))
    }

    /// One page of the account's runs.
    pub async fn operator_runs(&self, params: RunsParams) -> Result<Named<RunsPage>, Fault> {
        let bridge = self.core.endpoints.bridge(LOCAL)?;
        let page: RunsPage = bridge.call(method::OPERATOR_RUNS, &params).await?;
        let threads: Vec<AppThreadKey> = page.runs.iter().map(|r| r.thread_id.clone()).collect();
        Ok(self.named(page, &threads))
    }

    /// One page of the account's sessions.
    pub async fn operator_sessions(
        &self,
        params: SessionsParams,
    ) -> Result<Named<SessionsPage>, Fault> {
        let bridge = self.core.endpoints.bridge(LOCAL)?;
        let page: SessionsPage = bridge.call(method::OPERATOR_SESSIONS, &params).await?;
        let sessions = page.sessions.iter();
        let threads: Vec<AppThreadKey> = sessions.map(|s| s.thread_id.clone()).collect();
        Ok(self.named(page, &threads))
    }

    /// Asks a run to stop, whoever started it. A thread of this app is cancelled as its own commands would,
    /// so that it knows that somebody wanted it.
    pub async fn operator_cancel(&self, params: CancelRunParams) -> Result<Receipt, Fault> {
        if let Ok(record) = self.core.records.read(&params.thread_id).await {
            let current = record.context_state.task_association.as_ref();
            if let Some(own) = current.filter(|a| a.run_id.as_ref() == Some(&params.run_id)) {
                self.cancel_turn(params.thread_id.as_str(), &own.request_id)
                    .await?;
            }
        }
        let bridge = self.core.endpoints.bridge(LOCAL)?;
        let task = TaskParams {
            app_thread_key: Some(params.thread_id),
            run_id: Some(params.run_id),
            ..TaskParams::default()
        };
        Ok(bridge.call(method::TASKS_CANCEL, &task).await?)
    }

    /// What the bridge said, with the names of those threads that are this app's.
    fn named<T: Serialize>(&self, of: T, threads: &[AppThreadKey]) -> Named<T> {
        let names: BTreeMap<AppThreadKey, ThreadName> = self.core.records.index(|index| {
            let named = threads.iter().filter_map(|thread| {
                let summary = &index.get(thread)?.summary;
                let name = ThreadName {
                    name: summary.name.clone(),
                    title: summary.title.clone(),
                };
                Some((thread.clone(), name))
            });
            named.collect()
        });
        Named { of, names }
    }
}
