//! Stopping: asked for at once, told when the bridge has confirmed it.

use std::{sync::Arc, time::Instant};

use threadline_contract::{
    AppThreadKey, Fault, Millis, RequestId, RunId,
    method::{self, Receipt, SessionParams, TaskParams},
    thread::Lifecycle,
};

use super::{App, Core};
use crate::{
    api::ThreadView,
    bridge::{Bridge, patience::Patience},
    change,
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
        if record.lifecycle_state.status == Lifecycle::Ready && core.stop_sync(&key) {
            return core.view(&key).await;
        }
        let noted = match &record.context_state.task_association {
            Some(association) if record.lifecycle_state.status == Lifecycle::Running => {
                // Before the record says so: a crash in between must still stop the run.
                let task = TaskToCancel {
                    thread_id: key.clone(),
                    run_id: association.run_id.clone(),
                };
                let request = association.request_id.clone();
                core.outbox(move |outbox| {
                    outbox.note_cancel(&request, &task)?;
                    Ok(Some(request))
                })
                .await?
            }
            _ => None,
        };
        let already = change::stopping(&record);
        let followed = lock(&core.running).contains_key(&key);
        let away = lock(&core.live).get(&key).is_some_and(|l| l.away.is_some());
        let stopped = core
            .records
            .update(&key, |record| {
                let dropped = record.context_state.queued_turns.clone();
                let association = record.context_state.task_association.as_ref();
                let named = association.is_some_and(|a| a.run_id.is_some());
                let running = record.lifecycle_state.status == Lifecycle::Running;
                let stop = if running && named && followed && !away {
                    change::stop_asked(record);
                    true
                } else {
                    change::aborted(record, Millis::now())?
                };
                lock(&core.lanes).withdraw(&key);
                Ok((stop, dropped))
            })
            .await;
        let (record, (stop, dropped)) = match stopped {
            Ok(stopped) => stopped,
            Err(fault) => {
                // It ended by itself in this very moment.
                if let Some(request) = noted {
                    core.stop_noted(&key, &request).await;
                }
                return Err(fault);
            }
        };
        core.outbox(move |outbox| {
            let mut dropped = dropped.iter();
            dropped.try_for_each(|turn| outbox.remove(&turn.request_id))
        })
        .await?;
        let token = lock(&core.running).get(&key).cloned();
        match (token, &record.context_state.task_association) {
            (Some(token), _) if stop && !already => token.cancel(),
            // Nobody follows it, or it did not stop when it was first asked: tell the bridge from here.
            (_, Some(association)) if stop => {
                let bridge = core
                    .endpoints
                    .bridge(&record.execution_binding.endpoint_id)?;
                let (request, run) = (association.request_id.clone(), association.run_id.clone());
                core.spawn_stop(bridge, key.clone(), request, run);
            }
            _ => {}
        }
        if !change::stopping(&record) {
            core.live_end(&key);
        }
        core.pump();
        core.view(&key).await
    }
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
        let request = request.clone();
        if let Err(fault) = self.outbox(move |outbox| outbox.cancelled(&request)).await {
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
                    bridge.call::<Receipt>(method::TASKS_CANCEL, &params).await
                }
                None => {
                    let params = SessionParams {
                        session_id: key.clone(),
                    };
                    bridge.call::<Receipt>(method::CANCEL, &params).await
                }
            };
            match told {
                Ok(receipt) => {
                    if !receipt.accepted {
                        let why = receipt.message.unwrap_or_default();
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
