//! Stopping: asked for at once, told when the bridge has confirmed it.

use std::{sync::Arc, time::Instant};

use serde_json::Value;
use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, RequestId, RunId,
    method::{self, SessionParams, TaskParams},
    thread::{Lifecycle, TaskThread},
};

use super::{App, Core};
use crate::{
    api::ThreadView,
    bridge::{Bridge, patience::Patience},
    change::{self, Waiting},
    outbox::TaskToCancel,
    records::lock,
};

impl App {
    /// Asks the thread's run to stop and drops the turns that wait. The thread's run goes on, marked
    /// as to be cancelled, until its bridge says that it ended. One whose bridge cannot be asked now
    /// is given up at once, and the bridge is told when it can be. Of a thread without a run, the
    /// files on their way are stopped.
    pub async fn cancel(&self, thread: &str) -> Result<ThreadView, Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let record = core.records.read(&key).await?;
        if record.lifecycle_state.status != Lifecycle::Ready || !core.stop_sync(&key) {
            core.stop(&key, record, None).await?;
        }
        core.view(&key).await
    }

    /// Stops one turn, as [`cancel`](Self::cancel) does, and nothing else of its thread: it is dropped
    /// if it waits, and its run is asked to stop if it runs. Of one that has ended, the files on their way
    /// are stopped.
    pub async fn cancel_turn(
        &self,
        thread: &str,
        request: &RequestId,
    ) -> Result<ThreadView, Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let dropped = core.drop_turn(&key, request).await;
        match dropped {
            Ok(()) => {}
            Err(fault) if fault.code == Code::TurnNotWaiting => {
                let record = core.records.read(&key).await?;
                let ended = record.lifecycle_state.status == Lifecycle::Ready;
                let own = is_current(&record, request);
                if !(own && ended && core.stop_sync(&key)) {
                    core.stop(&key, record, Some(request)).await?;
                }
            }
            Err(fault) => return Err(fault),
        }
        core.view(&key).await
    }
}

impl Core {
    /// Stops a thread's run; if it is not of one turn alone, the turns that wait are dropped.
    async fn stop(
        self: &Arc<Self>,
        key: &AppThreadKey,
        record: TaskThread,
        only: Option<&RequestId>,
    ) -> Result<(), Fault> {
        let waiting = match only {
            Some(_) => Waiting::Kept,
            None => Waiting::Dropped,
        };
        let running = |record: &TaskThread| {
            record.lifecycle_state.status == Lifecycle::Running
                && only.is_none_or(|request| is_current(record, request))
        };
        let noted = match &record.context_state.task_association {
            Some(association) if running(&record) => {
                // Before the record says so: a crash in between must still stop the run.
                let task = TaskToCancel {
                    thread_id: key.clone(),
                    run_id: association.run_id.clone(),
                    keeps_waiting: waiting == Waiting::Kept,
                };
                let request = association.request_id.clone();
                self.outbox(move |outbox| {
                    outbox.note_cancel(&request, &task)?;
                    Ok(Some(request))
                })
                .await?
            }
            _ => None,
        };
        let already = change::stopping(&record);
        let followed = lock(&self.running).contains_key(key);
        let away = lock(&self.live).get(key).is_some_and(|l| l.away.is_some());
        let stopped = self
            .records
            .update(key, |record| {
                if only.is_some() && !running(record) {
                    return Err(Fault::new(
                        Code::TurnNotWaiting,
                        "The turn neither waits nor runs any more, so there is nothing to cancel.",
                    ));
                }
                let mut dropped = Vec::new();
                if waiting == Waiting::Dropped {
                    dropped.clone_from(&record.context_state.queued_turns);
                }
                let association = record.context_state.task_association.as_ref();
                let named = association.is_some_and(|a| a.run_id.is_some());
                let stop = if running(record) && named && followed && !away {
                    change::stop_asked(record, waiting);
                    true
                } else {
                    change::aborted(record, waiting, Millis::now())?
                };
                if waiting == Waiting::Dropped {
                    lock(&self.lanes).withdraw(key);
                }
                Ok((stop, dropped))
            })
            .await;
        let (record, (stop, dropped)) = match stopped {
            Ok(stopped) => stopped,
            Err(fault) => {
                // It ended by itself in this very moment.
                if let Some(request) = noted {
                    self.stop_noted(key, &request).await;
                }
                return Err(fault);
            }
        };
        self.outbox(move |outbox| {
            let mut dropped = dropped.iter();
            dropped.try_for_each(|turn| outbox.remove(&turn.request_id))
        })
        .await?;
        let token = lock(&self.running).get(key).cloned();
        match (token, &record.context_state.task_association) {
            (Some(token), _) if stop && !already => token.cancel(),
            // Nobody follows it, or it did not stop when it was first asked: tell the bridge from here.
            (_, Some(association)) if stop => {
                let bridge = self
                    .endpoints
                    .bridge(&record.execution_binding.endpoint_id)?;
                let (request, run) = (association.request_id.clone(), association.run_id.clone());
                self.spawn_stop(bridge, key.clone(), request, run);
            }
            _ => {}
        }
        if !change::stopping(&record) {
            self.live_end(key);
        }
        self.pump();
        Ok(())
    }
}

/// Whether this request is the thread's current or last one.
fn is_current(record: &TaskThread, request: &RequestId) -> bool {
    let association = record.context_state.task_association.as_ref();
    association.is_some_and(|a| a.request_id == *request)
}

impl Core {
    pub(crate) fn spawn_stop(
        self: &Arc<Self>,
        bridge: Bridge,
        key: AppThreadKey,
        request: RequestId,
        run: Option<RunId>,
    ) {
        let core = self.clone();
        self.spawn(async move { core.stop_at_bridge(&bridge, &key, &request, run).await });
    }

    /// Nobody has to be told any more that the run was stopped.
    pub(crate) async fn stop_noted(&self, key: &AppThreadKey, request: &RequestId) {
        let cancelled = match self.records.read(key).await {
            Ok(record) => change::was_cancelled(&record, request),
            Err(_) => false,
        };
        let request = request.clone();
        let noted = self.outbox(move |outbox| {
            outbox.cancelled(&request)?;
            match cancelled {
                true => outbox.tidy(&request),
                false => Ok(()),
            }
        });
        if let Err(fault) = noted.await {
            tracing::warn!(thread = %key, "{fault}");
        }
    }

    /// Tells the bridge to stop a run until it has heard. What cannot be told now is told at the next
    /// start.
    pub(crate) async fn stop_at_bridge(
        &self,
        bridge: &Bridge,
        key: &AppThreadKey,
        request: &RequestId,
        run: Option<RunId>,
    ) {
        let mut patience = Patience::new(&bridge.timings);
        loop {
            let told = match &run {
                Some(run) => {
                    let params = TaskParams {
                        app_thread_key: Some(key.clone()),
                        run_id: Some(run.clone()),
                        ..TaskParams::default()
                    };
                    bridge.call_value(method::TASKS_CANCEL, &params).await
                }
                None => {
                    let params = SessionParams {
                        session_id: key.clone(),
                    };
                    bridge.call_value(method::CANCEL, &params).await
                }
            };
            match told {
                Ok(receipt) => {
                    if receipt.get("accepted") == Some(&Value::Bool(false)) {
                        let why = receipt.get("message").and_then(Value::as_str);
                        let why = why.unwrap_or_default();
                        tracing::info!(thread = %key, "There was nothing to stop for {key}: {why}");
                    }
                    break;
                }
                Err(trouble) if !trouble.again => {
                    tracing::warn!(thread = %key, "The bridge would not stop the run of {key}: {}", trouble.message);
                    break;
                }
                Err(trouble) => match patience.failed(Instant::now()) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => {
                        tracing::warn!(thread = %key, "The bridge could not be told to stop the run of {key}: {}", trouble.message);
                        return;
                    }
                },
            }
        }
        self.stop_noted(key, request).await;
    }
}
