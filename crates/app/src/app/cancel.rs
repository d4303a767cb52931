//! Stopping: here at once, at the bridge for sure.

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
    /// Stops the thread's run and drops the turns that wait. The thread is free at once; what the
    /// run still says is ignored.
    pub async fn cancel(&self, thread: &str) -> Result<ThreadView, Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let record = core.records.read(&key).await?;
        let going_on = record
            .context_state
            .task_association
            .as_ref()
            .filter(|_| record.lifecycle_state.status == Lifecycle::Running);
        if let Some(association) = going_on {
            // Before the record says so: a crash in between must still stop the run.
            let task = TaskToCancel {
                thread_id: key.clone(),
                run_id: association.run_id.clone(),
            };
            let request = association.request_id.clone();
            core.outbox(move |outbox| outbox.note_cancel(&request, &task))
                .await?;
        }
        let dropped = record
            .context_state
            .queued_turns
            .iter()
            .map(|t| t.request_id.clone());
        let dropped: Vec<RequestId> = dropped.collect();
        let (record, stop) = core
            .records
            .update(&key, |record| {
                let stop = change::aborted(record, Millis::now())?;
                lock(&core.lanes).withdraw(&key);
                Ok(stop)
            })
            .await?;
        core.outbox(move |outbox| dropped.iter().try_for_each(|r| outbox.remove(r)))
            .await?;
        let token = lock(&core.running).get(&key).cloned();
        match token {
            Some(token) if stop => token.cancel(),
            // Its result was just being applied, or it was never taken up again: tell the bridge.
            _ if stop => {
                if let Some(association) = &record.context_state.task_association {
                    let bridge = core
                        .endpoints
                        .bridge(&record.execution_binding.endpoint_id)?;
                    core.spawn_stop(
                        bridge,
                        key.clone(),
                        association.request_id.clone(),
                        association.run_id.clone(),
                    );
                }
            }
            _ => {}
        }
        core.live_end(&key);
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
        let request = request.clone();
        if let Err(fault) = self.outbox(move |outbox| outbox.cancelled(&request)).await {
            tracing::warn!(thread = %key, "{fault}");
        }
    }
}
