//! One turn, from its request to its result.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use threadline_contract::{
    AppThreadKey, ArtifactScope, Code, Fault, Millis, QuestionState, RequestId, RunId,
    SessionUpdate, method,
    thread::{SyncStatus, TaskThread},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::{
    bridge::{Bridge, snapshot::Snapshot, trouble::Trouble},
    change,
    follow::{self, Heard, Order},
    lane::LaneId,
    outbox::ToSync,
    records::lock,
    request,
    verdict::{self, Told},
};

/// Events between the stream and whoever takes them in.
const BUFFERED: usize = 64;
/// How far the stored place in the log may lie behind: what is read again after a crash.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// A turn that is being followed.
pub(crate) struct Run {
    pub(crate) bridge: Bridge,
    pub(crate) order: Order,
    /// Whether the bridge may have heard of it.
    sent: Sent,
    /// What the record knows of the run already.
    known: Known,
}

#[derive(Default)]
struct Known {
    run: Option<RunId>,
    scope: bool,
    identified: bool,
    saved: Option<Instant>,
    saved_id: i64,
}

/// Whether a request has left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Certainly not.
    Never,
    /// Perhaps.
    Perhaps,
}

/// Why following ended.
enum End {
    Told(Box<Told>),
    Trouble(Trouble),
    /// The user stopped it.
    Stopped,
}

impl Run {
    /// The turn that a record says is going on.
    pub(crate) fn of(
        record: &TaskThread,
        bridge: Bridge,
        body: Option<Bytes>,
        sent: Sent,
    ) -> Option<Self> {
        let association = record.context_state.task_association.as_ref()?;
        Some(Self {
            bridge,
            order: Order {
                thread: record.thread_id.clone(),
                request: association.request_id.clone(),
                body,
                after: association.last_event_id,
                run: association.run_id.clone(),
                gateway_session: request::gateway_session(record),
                started_at: association.started_at_ms,
            },
            sent,
            known: Known {
                run: association.run_id.clone(),
                scope: association.artifact_scope.is_some(),
                identified: association.session_key.is_some()
                    && record.execution_binding.runtime.is_some(),
                saved: None,
                saved_id: association.last_event_id,
            },
        })
    }
}

impl Core {
    /// Follows a turn to its end and applies it.
    pub(crate) async fn run(self: Arc<Self>, lane: LaneId, mut run: Run, stop: CancellationToken) {
        let key = run.order.thread.clone();
        let request = run.order.request.clone();
        let end = if stop.is_cancelled() && run.sent == Sent::Never {
            self.stop_noted(&key, &request).await;
            End::Stopped
        } else {
            self.listen(&mut run, &stop).await
        };
        let applied = match end {
            End::Stopped => Ok(()),
            End::Told(told) => self.finish(&run, *told).await,
            End::Trouble(trouble) => self.lose(&key, &request, &trouble).await,
        };
        let closed = match applied {
            Ok(()) => self.close(&key, &request).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = closed {
            tracing::error!(thread = %key, "The end of a run of {key} was not stored: {fault}");
        }
        self.live_end(&key);
        self.free(&lane, &key);
    }

    /// The request's result is not waited for any more. One that ended well or was cancelled is not
    /// needed either.
    async fn close(&self, key: &AppThreadKey, request: &RequestId) -> Result<(), Fault> {
        let closed = request.clone();
        self.outbox(move |outbox| outbox.closed(&closed)).await?;
        match self.records.read(key).await {
            Ok(record) if change::is_done_with(&record, request) => {
                let request = request.clone();
                self.outbox(move |outbox| outbox.tidy(&request)).await
            }
            _ => Ok(()),
        }
    }

    /// From here on the thread's run can be stopped.
    pub(crate) fn stoppable(&self, key: &AppThreadKey) -> CancellationToken {
        let stop = CancellationToken::new();
        lock(&self.running).insert(key.clone(), stop.clone());
        stop
    }

    async fn listen(self: &Arc<Self>, run: &mut Run, stop: &CancellationToken) -> End {
        let (send, mut heard) = mpsc::channel(BUFFERED);
        let (bridge, order) = (run.bridge.clone(), run.order.clone());
        let following = follow::follow(&bridge, order, &send);
        tokio::pin!(following);
        let mut asked = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled(), if !asked => {
                    let key = &run.order.thread;
                    let record = self.records.read(key).await;
                    if !record.is_ok_and(|record| change::stopping(&record)) {
                        break;
                    }
                    // The run is over when its bridge says so, not when it was asked.
                    asked = true;
                    let (bridge, run_id) = (run.bridge.clone(), run.known.run.clone());
                    self.spawn_stop(bridge, key.clone(), run.order.request.clone(), run_id);
                }
                Some(heard) = heard.recv() => self.hear(run, heard).await,
                end = &mut following => {
                    while let Ok(heard) = heard.try_recv() {
                        self.hear(run, heard).await;
                    }
                    return match end {
                        Ok(told) => End::Told(Box::new(told)),
                        Err(trouble) => End::Trouble(trouble),
                    };
                }
            }
        }
        // The bridge can only stop a run that it has: listen until it has named it.
        while run.known.run.is_none() {
            tokio::select! {
                Some(heard) = heard.recv() => self.hear(run, heard).await,
                _ = &mut following => break,
            }
        }
        drop(heard);
        self.stop_at_bridge(
            &run.bridge,
            &run.order.thread,
            &run.order.request,
            run.known.run.clone(),
        )
        .await;
        End::Stopped
    }

    async fn hear(self: &Arc<Self>, run: &mut Run, heard: Heard) {
        let taken = match heard {
            Heard::Update(id, update) => self.hear_update(run, id, &update).await,
            Heard::Accepted(accepted) => self.hear_accepted(run, accepted).await,
            Heard::Handle(snapshot) => self.hear_handle(run, &snapshot).await,
            Heard::Away(away) => {
                self.live_away(&run.order.thread, away);
                Ok(())
            }
        };
        if let Err(fault) = taken {
            // The result will tell all of it again; only a restart before that loses its place.
            let key = &run.order.thread;
            tracing::warn!(thread = %key, "News of {key} was not stored: {fault}");
        }
    }

    async fn hear_accepted(self: &Arc<Self>, run: &mut Run, accepted: RunId) -> Result<(), Fault> {
        let request = run.order.request.clone();
        self.records
            .update(&run.order.thread, |record| {
                change::announced(record, &request, &accepted, None);
                Ok(())
            })
            .await?;
        run.known.run = Some(accepted);
        if !std::mem::replace(&mut run.known.identified, true) {
            self.identify(run);
        }
        Ok(())
    }

    async fn hear_update(
        self: &Arc<Self>,
        run: &mut Run,
        id: Option<i64>,
        update: &SessionUpdate,
    ) -> Result<(), Fault> {
        let (key, request) = (run.order.thread.clone(), run.order.request.clone());
        let known = &mut run.known;
        self.live_update(&key, update);
        let closed = update.question.as_ref();
        if let Some(question) = closed.filter(|q| q.state != QuestionState::Open) {
            self.records
                .update(&key, |record| {
                    change::question_closed(record, question);
                    Ok(())
                })
                .await?;
        }
        let ended = update.event == "task.ended";
        let news = known.run.as_ref() != Some(&update.run_id)
            || (update.artifact_scope.is_some() && !known.scope);
        if news || ended {
            self.records
                .update(&key, |record| {
                    let scope = update.artifact_scope.as_ref();
                    change::announced(record, &request, &update.run_id, scope);
                    change::heard_until(record, &request, id.unwrap_or(0));
                    match update.status.filter(|_| ended) {
                        Some(status) => change::ended_early(record, &request, status, update.code),
                        None => Ok(()),
                    }
                })
                .await?;
            known.run = Some(update.run_id.clone());
            known.scope |= update.artifact_scope.is_some();
            known.saved = Some(Instant::now());
        } else if let Some(id) = id.filter(|id| *id > known.saved_id)
            && known.saved.is_none_or(|at| at.elapsed() >= SAVE_EVERY)
        {
            self.records
                .note(&key, |record| change::heard_until(record, &request, id))
                .await?;
            known.saved = Some(Instant::now());
            known.saved_id = id;
        }
        let identified = std::mem::replace(&mut known.identified, true);
        if !identified || ended {
            self.identify(run);
        }
        Ok(())
    }

    async fn hear_handle(
        self: &Arc<Self>,
        run: &mut Run,
        snapshot: &Snapshot,
    ) -> Result<(), Fault> {
        let (key, request) = (run.order.thread.clone(), run.order.request.clone());
        self.live_handle(&key, snapshot);
        self.records
            .update(&key, |record| {
                change::handle(record, &request, snapshot);
                Ok(())
            })
            .await?;
        run.known.run = Some(snapshot.run_id.clone());
        run.known.scope |= snapshot.artifact_scope.is_some();
        run.known.identified = true;
        Ok(())
    }

    /// Events do not say which session and runtime a run has, nor what it answered; its snapshot does. Asked
    /// for beside the stream, because the record should know the first before the end, and the answer
    /// before the run's files are collected.
    fn identify(self: &Arc<Self>, run: &Run) {
        let (core, bridge) = (self.clone(), run.bridge.clone());
        let (key, request) = (run.order.thread.clone(), run.order.request.clone());
        let params = method::TaskParams {
            run_id: run.known.run.clone(),
            include_artifacts: Some(false),
            ..follow::lookup(&run.order)
        };
        self.spawn(async move {
            let asked = bridge.call_value(method::TASKS_GET, &params).await;
            let told = asked.and_then(verdict::read);
            let stored = match &told {
                Ok(told) => core
                    .records
                    .update(&key, |record| {
                        change::handle(record, &request, &told.snapshot);
                        change::answered(record, &request, &told.snapshot, Millis::now());
                        Ok(())
                    })
                    .await
                    .map(drop),
                Err(trouble) => Err(trouble.clone().into()),
            };
            if let Err(fault) = stored {
                tracing::debug!(thread = %key, "The session of {key} is not known before its result: {fault}");
            }
        });
    }

    /// Applies a result.
    pub(crate) async fn finish(self: &Arc<Self>, run: &Run, told: Told) -> Result<(), Fault> {
        let (key, request) = (&run.order.thread, &run.order.request);
        if run
            .known
            .run
            .as_ref()
            .is_some_and(|known| *known != told.snapshot.run_id)
            || told.snapshot.thread_id != *key
        {
            let strange = Trouble::final_(
                Code::BadBridgeAnswer,
                format!(
                    "The bridge answered with run {}, which is not the one that was asked for.",
                    told.snapshot.run_id
                ),
            );
            return self.lose(key, request, &strange).await;
        }
        self.apply(key, request, told).await
    }

    /// Applies the result of a request, and brings its files if there are any.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        key: &AppThreadKey,
        request: &RequestId,
        told: Told,
    ) -> Result<(), Fault> {
        let verdict = verdict::verdict(&told);
        let record = self.records.read(key).await?;
        let snapshot = &told.snapshot;
        let announced = record.context_state.task_association.as_ref();
        let announced = announced.filter(|a| a.run_id.as_ref() == Some(&snapshot.run_id));
        let scope = match announced.and_then(|a| a.artifact_scope.clone()) {
            Some(scope) => Some(scope),
            None => {
                let session = snapshot.session_key.as_ref();
                let own = session.map(|session| ArtifactScope::of(session, &snapshot.run_id));
                own.transpose()?
            }
        };
        let to_sync = ToSync {
            thread_id: key.clone(),
            request_id: request.clone(),
            run_id: told.snapshot.run_id.clone(),
            scope,
        };
        let sync = verdict.sync == SyncStatus::Syncing;
        if sync {
            // Before the record says so: a crash in between must find it.
            let task = to_sync.clone();
            self.outbox(move |outbox| outbox.note_sync(&task)).await?;
        }
        let now = Millis::now();
        let (_, applied) = self
            .surely("A result", || {
                self.records.update_as(
                    key,
                    |record| change::ended(record, request, &told.snapshot, &verdict, now),
                    |before, after| change::is_news(before, after, request),
                )
            })
            .await?;
        match (applied, sync) {
            (true, true) => self.spawn_sync(to_sync, Some(told)),
            (true, false) => self.tidy(request, verdict.code).await?,
            (false, _) => {
                tracing::info!(thread = %key, "A late result of {key} was ignored");
                let request = request.clone();
                self.outbox(move |outbox| outbox.synced(&request)).await?;
            }
        }
        Ok(())
    }

    async fn lose(
        self: &Arc<Self>,
        key: &AppThreadKey,
        request: &RequestId,
        trouble: &Trouble,
    ) -> Result<(), Fault> {
        tracing::warn!(thread = %key, code = %trouble.code, "A run of {key} is not heard any more: {}", trouble.message);
        let now = Millis::now();
        self.surely("The loss of a run", || {
            self.records
                .update(key, |record| change::lost(record, request, trouble, now))
        })
        .await?;
        Ok(())
    }
}
