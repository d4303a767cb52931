//! Bringing files in the background, one run of a thread after the other.

use std::{sync::Arc, time::Duration};

use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, RequestId, ResultCode,
    method::{self, TaskParams},
    thread::{Lifecycle, SyncStatus, TaskAssociation, TaskThread},
};

use tokio_util::sync::CancellationToken;

use super::{
    App, Core,
    queue::lane_of,
    run::{Run, Sent},
    which::busy,
};
use crate::{
    api::ThreadView,
    change,
    outbox::ToSync,
    records::lock,
    request,
    sync::{self, Job, Outcome},
    verdict::{self, Told},
    workspace,
};

impl App {
    /// Asks for what is still missing here: the result of a run that was given up on, or files that
    /// did not come. Returns as soon as it is known what there is to do; the rest shows as events.
    pub async fn sync(&self, thread: &str) -> Result<ThreadView, Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let record = core.records.read(&key).await?;
        change::not_archived(&record)?;
        if record.lifecycle_state.status != Lifecycle::Ready {
            return core.view(&key).await;
        }
        let Some(association) = record.context_state.task_association.clone() else {
            return Err(nothing("The thread has no run yet."));
        };
        if association.cancel_requested {
            return core.sync_cancelled(&key, &record, &association).await;
        }
        let request = association.request_id;
        let syncing = record.context_state.last_artifact_sync_status == Some(SyncStatus::Syncing);
        let under_way = lock(&core.to_sync).contains(&request) || lock(&core.lanes).busy(&key);
        if syncing && under_way {
            return core.view(&key).await;
        }
        core.idle(&key).await?;
        core.quiet(&request).await?;
        if association.run_id.is_none() {
            return Err(nothing(
                "The bridge never confirmed the last turn. Retry sends it again; nothing runs twice.",
            ));
        }
        let bridge = core
            .endpoints
            .bridge(&record.execution_binding.endpoint_id)?;
        let params = lookup(&record, association.run_id.clone());
        let asked = bridge.call_value(method::TASKS_GET, &params).await;
        let told = asked.and_then(verdict::read)?;
        if told.snapshot.status.is_terminal() {
            core.apply(&key, &request, told).await?;
        } else {
            core.reattach(&key, &request).await?;
        }
        core.view(&key).await
    }
}

impl Core {
    /// Nothing of a run that was cancelled is brought; what became of it, and what it left at its bridge,
    /// is told.
    async fn sync_cancelled(
        self: &Arc<Self>,
        key: &AppThreadKey,
        record: &TaskThread,
        association: &TaskAssociation,
    ) -> Result<ThreadView, Fault> {
        let found = match &association.run_id {
            None => None,
            Some(run) => {
                let bridge = self
                    .endpoints
                    .bridge(&record.execution_binding.endpoint_id)?;
                let params = lookup(record, Some(run.clone()));
                let asked = bridge.call_value(method::TASKS_GET, &params).await;
                Some(asked.and_then(verdict::read))
            }
        };
        let became = match found {
            None => "Its bridge never confirmed it.".to_owned(),
            Some(Err(trouble)) => {
                format!("Its bridge cannot say what it left: {}", trouble.message)
            }
            Some(Ok(told)) if !told.snapshot.status.is_terminal() => {
                "It was asked to stop, and has not yet.".to_owned()
            }
            Some(Ok(told)) => {
                let left = change::left_of(&told);
                let files = left.len();
                self.records
                    .update(key, |record| {
                        change::left(record, &association.request_id, left, Millis::now());
                        Ok(())
                    })
                    .await?;
                left_there(files, association, &record.name)
            }
        };
        let mut view = self.view(key).await?;
        view.notice = Some(format!(
            "The last run was cancelled, so nothing of it is brought. {became} Retry sends it again."
        ));
        Ok(view)
    }

    /// Goes on with a run that the thread had given up on.
    pub(crate) async fn reattach(
        self: &Arc<Self>,
        key: &AppThreadKey,
        request: &RequestId,
    ) -> Result<(), Fault> {
        self.idle(key).await?;
        let sealed = {
            let request = request.clone();
            self.outbox(move |outbox| {
                let sealed = outbox.sealed(&request)?;
                if sealed.is_some() {
                    outbox.note_open(&request)?;
                }
                Ok(sealed)
            })
            .await?
        };
        let stop = self.stoppable(key);
        let body = sealed.map(|(_, body)| body);
        let resumed = self
            .records
            .update(key, |record| {
                change::resumed(record, request)?;
                let mut lanes = lock(&self.lanes);
                let lane = lanes.lane_for(key, lane_of(record));
                lanes.lane(&lane).occupy(key);
                Ok(lane)
            })
            .await
            .and_then(|(record, lane)| {
                let bridge = self
                    .endpoints
                    .bridge(&record.execution_binding.endpoint_id)?;
                let run = Run::of(&record, bridge, body, Sent::Perhaps);
                Ok((lane, run.ok_or_else(busy)?))
            });
        match resumed {
            Ok((lane, run)) => {
                let core = self.clone();
                self.spawn(async move { core.run(lane, run, stop).await });
                Ok(())
            }
            Err(fault) => {
                lock(&self.running).remove(key);
                Err(fault)
            }
        }
    }

    /// Brings the files of a run in the background.
    pub(crate) fn spawn_sync(self: &Arc<Self>, task: ToSync, told: Option<Told>) {
        lock(&self.to_sync).insert(task.request_id.clone());
        // Taken in order: the lock is fair, and asking for it begins here.
        let turn = lock(&self.syncs)
            .entry(task.thread_id.clone())
            .or_default()
            .clone();
        let core = self.clone();
        self.spawn(async move {
            let guard = turn.lock().await;
            let (key, request) = (task.thread_id.clone(), task.request_id.clone());
            let stop = CancellationToken::new();
            lock(&core.syncing).insert(key.clone(), stop.clone());
            let done = core.sync_run(&task, told, &stop).await;
            lock(&core.syncing).remove(&key);
            drop(guard);
            core.release_sync(&key, turn);
            let tidied = match done {
                Ok(code) => core.tidy(&request, code).await,
                // The thread was removed meanwhile, and with it everything that was to be done.
                Err(fault) if fault.code == Code::ThreadNotFound => {
                    let request = request.clone();
                    core.outbox(move |outbox| outbox.remove(&request)).await
                }
                Err(fault) => Err(fault),
            };
            if let Err(fault) = tidied {
                tracing::error!(thread = %key, "The sync of {key} could not be stored: {fault}");
            }
            lock(&core.to_sync).remove(&request);
            core.records.touch(&key);
        });
    }

    /// Stops the sync of a thread, if one is under way.
    pub(crate) fn stop_sync(&self, key: &AppThreadKey) -> bool {
        let found = lock(&self.syncing).get(key).cloned();
        found.inspect(CancellationToken::cancel).is_some()
    }

    async fn sync_run(
        self: &Arc<Self>,
        task: &ToSync,
        told: Option<Told>,
        stop: &CancellationToken,
    ) -> Result<ResultCode, Fault> {
        let key = &task.thread_id;
        let record = self.records.read(key).await?;
        let brought = tokio::select! {
            brought = self.bring(task, &record, told) => brought,
            () = stop.cancelled() => Err(Fault::new(
                Code::ConnectionClosed,
                "You stopped the files on their way. `threadline sync` brings the rest.",
            )),
        };
        let outcome = match brought {
            Ok(outcome) => outcome,
            Err(fault) => {
                tracing::warn!(thread = %key, code = %fault.code, "The files of {key} could not be brought: {}", fault.message);
                Outcome::failed(&fault)
            }
        };
        tracing::info!(thread = %key, files = outcome.files.len(), "Brought {} files of {key}", outcome.files.len());
        let now = Millis::now();
        let (_, applied) = self
            .surely("What was brought", || {
                self.records.update_as(
                    key,
                    |record| Ok(change::synced(record, &task.request_id, &outcome, now)),
                    |before, after| change::is_news(before, after, &task.request_id),
                )
            })
            .await?;
        if !applied {
            tracing::info!(thread = %key, "The files of a run of {key} that nobody wants any more came: {:?}", outcome.status);
        }
        let request = task.request_id.clone();
        self.outbox(move |outbox| outbox.synced(&request)).await?;
        Ok(match outcome.status {
            SyncStatus::Synced | SyncStatus::NoExportedArtifacts => ResultCode::Success,
            _ => ResultCode::Failed,
        })
    }

    async fn bring(
        self: &Arc<Self>,
        task: &ToSync,
        record: &TaskThread,
        told: Option<Told>,
    ) -> Result<Outcome, Fault> {
        let bridge = self
            .endpoints
            .bridge(&record.execution_binding.endpoint_id)?;
        let params = lookup(record, Some(task.run_id.clone()));
        let told = match told {
            Some(told) => told,
            None => {
                self.records
                    .update(&task.thread_id, |record| {
                        change::syncing(record, &task.request_id);
                        Ok(())
                    })
                    .await?;
                sync::ask_again(&bridge, &params).await?
            }
        };
        sync::bring(Job {
            bridge,
            thread: task.thread_id.clone(),
            run: task.run_id.clone(),
            workspace: workspace::path_of(&self.config.workspaces, record),
            lookup: params,
            told,
            scope: task.scope.clone(),
            downloads: self.config.downloads,
            progress: self.progress.clone(),
        })
        .await
    }

    /// Waits until a sync that has told its outcome is really over.
    async fn quiet(&self, request: &RequestId) -> Result<(), Fault> {
        for _ in 0..250 {
            if !lock(&self.to_sync).contains(request) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(busy())
    }

    fn release_sync(&self, key: &AppThreadKey, turn: Arc<tokio::sync::Mutex<()>>) {
        let mut syncs = lock(&self.syncs);
        drop(turn);
        if syncs
            .get(key)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            syncs.remove(key);
        }
    }

    /// Removes a request that ended well or was cancelled, unless trying it again would need it.
    pub(crate) async fn tidy(&self, request: &RequestId, code: ResultCode) -> Result<(), Fault> {
        if !matches!(code, ResultCode::Success | ResultCode::Aborted) {
            return Ok(());
        }
        let request = request.clone();
        self.outbox(move |outbox| outbox.tidy(&request)).await
    }
}

/// Where the files of a cancelled run are, and how they go.
fn left_there(files: usize, association: &TaskAssociation, name: &str) -> String {
    let folder = association.remote_working_directory.as_ref();
    let folder = folder.map_or_else(String::new, |folder| format!(" in `{folder}`"));
    let left = match files {
        0 => return "It left no files.".to_owned(),
        1 => format!("It left 1 file, which stays at its bridge{folder}."),
        n => format!("It left {n} files, which stay at its bridge{folder}."),
    };
    format!(
        "{left} What you need of it can be copied there; `threadline archive {name}` and `threadline delete {name}` remove it with the thread."
    )
}

fn lookup(record: &TaskThread, run: Option<threadline_contract::RunId>) -> TaskParams {
    TaskParams {
        app_thread_key: Some(record.thread_id.clone()),
        openclaw_session_key: request::gateway_session(record),
        run_id: run,
        include_artifacts: Some(true),
        ..TaskParams::default()
    }
}

fn nothing(why: &str) -> Fault {
    Fault::new(Code::TaskNotFound, why)
}
