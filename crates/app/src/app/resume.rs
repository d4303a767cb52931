//! Going on after a start: nothing is invented, nothing is lost, nothing runs twice.

use std::{collections::HashMap, sync::Arc};

use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, RequestId,
    method::{self, QuestionsParams},
    thread::{Lifecycle, QueuedTurn, SyncStatus, TaskThread},
};

use super::{
    Core,
    queue::lane_of,
    run::{Run, Sent},
};
use crate::{
    bridge::{Bridge, lenient, trouble::Trouble},
    change::{self, Waiting},
    endpoints::LOCAL,
    lane::LaneId,
    outbox::{TaskToCancel, Unfinished},
    records::lock,
};

impl Core {
    /// Takes up everything that was not done when the app last ended.
    pub(super) async fn resume(self: &Arc<Self>) -> Result<(), Fault> {
        let unfinished = self.outbox(|outbox| outbox.unfinished()).await?;
        for found in &unfinished {
            let Some(task) = &found.cancel else { continue };
            if let Err(fault) = self.resume_cancel(&found.request, task).await {
                if fault.code == Code::ThreadNotFound {
                    let request = found.request.clone();
                    self.outbox(move |outbox| outbox.remove(&request)).await?;
                }
                tracing::warn!(thread = %task.thread_id, "A stop of {} was not taken up: {fault}", task.thread_id);
            }
        }
        for found in &unfinished {
            if let Some(task) = &found.sync {
                self.spawn_sync(task.clone(), None);
            }
        }
        let busy = self.busy_threads();
        let mut waiting: Vec<(QueuedTurn, AppThreadKey, LaneId)> = Vec::new();
        // A thread whose run has ended, but whose result was not applied, looks like one at rest.
        let open = |found: &Unfinished| Some((found.open.clone()?, found.request.clone()));
        let open: HashMap<AppThreadKey, RequestId> = unfinished.iter().filter_map(open).collect();
        let ended = open.keys().filter(|key| !busy.contains(key)).cloned();
        let all: Vec<AppThreadKey> = busy.iter().cloned().chain(ended).collect();
        for key in all {
            match self.records.read(&key).await {
                Ok(record) => {
                    let open = open.get(&key);
                    self.resume_thread(&record, open, &mut waiting).await?;
                }
                Err(fault) => tracing::error!(thread = %key, "{key} cannot be taken up: {fault}"),
            }
        }
        // In the order in which they were asked for.
        waiting.sort_by(|(a, ..), (b, ..)| {
            (a.queued_at_ms, &a.request_id).cmp(&(b.queued_at_ms, &b.request_id))
        });
        for (turn, key, lane) in waiting {
            lock(&self.lanes).lane(&lane).wait(&key, &turn.request_id);
        }
        self.pump();
        self.ask_lane_size(LOCAL);
        let core = self.clone();
        self.spawn(async move { core.sweep(unfinished).await });
        Ok(())
    }

    async fn resume_thread(
        self: &Arc<Self>,
        record: &TaskThread,
        open: Option<&RequestId>,
        waiting: &mut Vec<(QueuedTurn, AppThreadKey, LaneId)>,
    ) -> Result<(), Fault> {
        let key = &record.thread_id;
        let lane = lane_of(record);
        for turn in &record.context_state.queued_turns {
            waiting.push((turn.clone(), key.clone(), lane.clone()));
        }
        let last = record.context_state.task_association.as_ref();
        // One that was given up may never have reached the bridge, and must not begin now.
        let result = last.and_then(|a| record.result_of(&a.request_id));
        let awaited = result.is_some_and(|r| r.artifact_sync_status == Some(SyncStatus::Syncing));
        let open = last.filter(|a| Some(&a.request_id) == open);
        let open = open.filter(|a| awaited || !a.cancel_requested);
        match record.lifecycle_state.status {
            Lifecycle::Running => self.resume_run(record, lane).await,
            _ if open.is_some() => self.resume_run(record, lane).await,
            Lifecycle::Queued if record.context_state.queued_turns.is_empty() => {
                // Cannot be, and must not stay: nothing would ever start it.
                self.records
                    .update(key, |record| {
                        let gone = Fault::new(Code::RunLost, Code::RunLost.advice());
                        change::unsent(record, &RequestId::fresh(), &gone)
                    })
                    .await
                    .map(drop)
            }
            _ => Ok(()),
        }
    }

    async fn resume_run(self: &Arc<Self>, record: &TaskThread, lane: LaneId) -> Result<(), Fault> {
        let key = record.thread_id.clone();
        let association = record.context_state.task_association.clone();
        let sealed = match &association {
            Some(association) => {
                let request = association.request_id.clone();
                self.outbox(move |outbox| outbox.sealed(&request)).await?
            }
            None => None,
        };
        let known = sealed.is_some() || association.as_ref().is_some_and(|a| a.run_id.is_some());
        let bridge = self.endpoints.bridge(&record.execution_binding.endpoint_id);
        let body = sealed.map(|(_, body)| body);
        let run = match (known, bridge) {
            (true, Ok(bridge)) => Run::of(record, bridge, body, Sent::Perhaps),
            (true, Err(fault)) => return self.give_up(&key, record, fault).await,
            (false, _) => None,
        };
        let Some(run) = run else {
            let lost = Fault::new(
                Code::RunLost,
                "The request is not stored any more, so its run cannot be found. Send it again.",
            );
            return self.give_up(&key, record, lost).await;
        };
        lock(&self.lanes).lane(&lane).occupy(&key);
        self.resume_questions(&key, run.bridge.clone());
        let stop = self.stoppable(&key);
        let core = self.clone();
        self.spawn(async move { core.run(lane, run, stop).await });
        Ok(())
    }

    async fn give_up(
        &self,
        key: &AppThreadKey,
        record: &TaskThread,
        fault: Fault,
    ) -> Result<(), Fault> {
        let request = record
            .context_state
            .task_association
            .as_ref()
            .map(|a| &a.request_id);
        self.records
            .update(key, |record| match request {
                Some(request) => {
                    change::lost(record, request, &Trouble::from(fault), Millis::now())
                }
                None => change::unsent(record, &RequestId::fresh(), &fault),
            })
            .await
            .map(drop)
    }

    /// Questions that were asked before the place in the log from which it is read on.
    fn resume_questions(self: &Arc<Self>, key: &AppThreadKey, bridge: Bridge) {
        let (core, key) = (self.clone(), key.clone());
        self.spawn(async move {
            let params = QuestionsParams {
                thread_id: Some(key.clone()),
                include_closed: false,
            };
            match bridge.call_value(method::QUESTIONS_LIST, &params).await {
                Ok(found) if lock(&core.running).contains_key(&key) => {
                    core.live_questions(&key, lenient::questions(&found));
                }
                Ok(_) => {}
                Err(trouble) => {
                    tracing::debug!(thread = %key, "The questions of {key} are not known yet: {}", trouble.message);
                }
            }
        });
    }

    /// The user stopped a run, and the app ended before the bridge had heard.
    async fn resume_cancel(
        self: &Arc<Self>,
        request: &RequestId,
        task: &TaskToCancel,
    ) -> Result<(), Fault> {
        let key = &task.thread_id;
        let waiting = match task.keeps_waiting {
            true => Waiting::Kept,
            false => Waiting::Dropped,
        };
        let (record, ()) = self
            .records
            .update(key, |record| {
                let current = record.context_state.task_association.as_ref();
                let current = current.is_some_and(|a| a.request_id == *request);
                if current && record.lifecycle_state.status == Lifecycle::Running {
                    change::stop_asked(record, waiting);
                }
                Ok(())
            })
            .await?;
        let known = record
            .context_state
            .task_association
            .as_ref()
            .filter(|a| a.request_id == *request)
            .and_then(|a| a.run_id.clone());
        let bridge = self
            .endpoints
            .bridge(&record.execution_binding.endpoint_id)?;
        self.spawn_stop(
            bridge,
            key.clone(),
            request.clone(),
            known.or(task.run_id.clone()),
        );
        Ok(())
    }

    /// Threads with a turn that waits or runs. The record says so, and not the lanes: a turn that is
    /// just starting is in neither of their lists.
    fn busy_threads(&self) -> Vec<AppThreadKey> {
        self.records.index(|index| {
            let busy = |s: &crate::api::Summary| {
                s.queued_turns > 0
                    || matches!(s.lifecycle_status, Lifecycle::Running | Lifecycle::Queued)
            };
            let entries = index.entries().map(|e| &e.summary);
            entries
                .filter(|s| busy(s))
                .map(|s| s.thread_id.clone())
                .collect()
        })
    }

    /// Removes what no thread refers to: a crash came between two steps.
    async fn sweep(self: &Arc<Self>, unfinished: Vec<Unfinished>) {
        for found in unfinished {
            if found.sync.is_some() || found.cancel.is_some() {
                continue;
            }
            if let Some(key) = &found.open
                && !self.is_given_up(key, &found.request).await
            {
                continue;
            }
            if let Err(fault) = self.sweep_one(&found.request).await {
                tracing::warn!("An old request was not looked at: {fault}");
            }
        }
    }

    /// Whether a request that was open is not waited for: the user stopped it, and nobody follows it.
    async fn is_given_up(&self, key: &AppThreadKey, request: &RequestId) -> bool {
        let record = self.records.read(key).await;
        let stopped = record.is_ok_and(|record| change::was_cancelled(&record, request));
        stopped && !lock(&self.running).contains_key(key)
    }

    async fn sweep_one(&self, request: &RequestId) -> Result<(), Fault> {
        let sealed = {
            let request = request.clone();
            self.outbox(move |outbox| outbox.sealed(&request)).await?
        };
        let needed = match sealed {
            Some((sealed, _)) => match self.records.read(&sealed.params.session_id).await {
                Ok(record) => {
                    if change::is_done_with(&record, request) {
                        let request = request.clone();
                        return self
                            .outbox(move |outbox| {
                                outbox.closed(&request)?;
                                outbox.tidy(&request)
                            })
                            .await;
                    }
                    refers(&record, request)
                }
                Err(fault) => fault.code != Code::ThreadNotFound,
            },
            // Never sealed: only a turn that waits, or starts just now, can refer to it.
            None => {
                let mut needed = false;
                for key in self.busy_threads() {
                    let record = self.records.read(&key).await;
                    needed |= record.is_ok_and(|record| refers(&record, request));
                }
                needed
            }
        };
        // It may be sent again just now.
        if needed || lock(&self.asking).contains(request) {
            return Ok(());
        }
        let request = request.clone();
        self.outbox(move |outbox| outbox.remove(&request)).await
    }
}

pub(super) fn refers(record: &TaskThread, request: &RequestId) -> bool {
    let context = &record.context_state;
    context
        .task_association
        .as_ref()
        .is_some_and(|a| a.request_id == *request)
        || context
            .queued_turns
            .iter()
            .any(|t| t.request_id == *request)
}
