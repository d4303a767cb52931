//! What happens, as it happens: the bridge's log of a thread, joined with what changes here.
//!
//! Only the log's events have numbers and can be resumed from. Everything else is state: whoever
//! missed some of it gets the newest, and needs no more. So no channel here can overflow into a loss.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use threadline_contract::{AppThreadKey, Fault};
use tokio::sync::{broadcast, mpsc};
use tokio_stream::{Stream, wrappers::ReceiverStream};

use super::{App, Core};
use crate::{
    api::{AppEvent, Begin},
    bridge::patience::Patience,
    config::Timings,
    follow,
    records::Change,
};

const BUFFERED: usize = 64;

impl App {
    /// Everything about one thread: its state now, its steps from where in the log the listener wants to
    /// begin, and then what is added. Ends when the listener goes or the thread is removed.
    pub async fn events(
        &self,
        thread: &str,
        begin: Begin,
    ) -> Result<impl Stream<Item = AppEvent> + Send + use<>, Fault> {
        let key = self.core.find(thread)?;
        let record = self.core.records.read(&key).await?;
        let bridge = self
            .core
            .endpoints
            .bridge(&record.execution_binding.endpoint_id)?;
        let (send, events) = mpsc::channel(BUFFERED);
        let core = self.core.clone();
        self.core.spawn(async move {
            let relay = core.relay(&bridge, &key, begin, &send);
            let local = core.local(&key, &send);
            tokio::select! {
                () = relay => {}
                () = local => {}
                () = send.closed() => {}
            }
        });
        Ok(ReceiverStream::new(events))
    }

    /// Every thread that changes, from now on; first the ones that are working. A page subscribes
    /// first and lists afterwards, so that nothing falls in between.
    pub fn changes(&self) -> impl Stream<Item = AppEvent> + Send + use<> {
        let (send, events) = mpsc::channel(BUFFERED);
        let core = self.core.clone();
        let bell = core.records.subscribe();
        let (since, working) = core.records.index(|index| {
            let working = index.entries().map(|e| &e.summary);
            let working = working.filter(|s| {
                s.queued_turns > 0
                    || s.lifecycle_status == threadline_contract::thread::Lifecycle::Running
            });
            let keys: Vec<AppThreadKey> = working.map(|s| s.thread_id.clone()).collect();
            (index.revision(), keys)
        });
        self.core.spawn(async move {
            tokio::select! {
                () = core.tell_changes(bell, since, working, &send) => {}
                () = send.closed() => {}
            }
        });
        ReceiverStream::new(events)
    }
}

impl Core {
    async fn tell_changes(
        self: &Arc<Self>,
        mut bell: tokio::sync::watch::Receiver<u64>,
        mut since: u64,
        working: Vec<AppThreadKey>,
        out: &mpsc::Sender<AppEvent>,
    ) {
        let mut changes: Vec<Change> = working.into_iter().map(Change::Put).collect();
        loop {
            for change in changes {
                let event = match change {
                    Change::Put(key) => {
                        let summary = self.records.index(|index| self.summary(index, &key));
                        let Some(summary) = summary else { continue };
                        AppEvent::Changed(summary)
                    }
                    Change::Removed(key) => AppEvent::Removed(key),
                };
                if out.send(event).await.is_err() {
                    return;
                }
            }
            if bell.changed().await.is_err() {
                return;
            }
            (changes, since) = self
                .records
                .index(|index| (index.since(since), index.revision()));
        }
    }

    /// The thread's own state and its files, as they change here.
    async fn local(self: &Arc<Self>, key: &AppThreadKey, out: &mpsc::Sender<AppEvent>) {
        let mut bell = self.records.subscribe();
        let mut files = self.progress.subscribe();
        let mut seen: Option<u64> = None;
        loop {
            let revision = self.records.index(|index| index.revision_of(key));
            let Some(revision) = revision else {
                // The listener may be gone too; either way this was the last event.
                let _ = out.send(AppEvent::Removed(key.clone())).await;
                return;
            };
            if seen != Some(revision) {
                seen = Some(revision);
                match self.view(key).await {
                    Ok(view) => {
                        if out.send(AppEvent::Thread(Box::new(view))).await.is_err() {
                            return;
                        }
                    }
                    Err(fault) => tracing::warn!(thread = %key, "{key} cannot be shown: {fault}"),
                }
            }
            let sent = tokio::select! {
                changed = bell.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    continue;
                }
                file = files.recv() => match file {
                    Ok(file) if file.thread_id == *key => out.send(AppEvent::File(file)).await,
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => continue,
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// The bridge's log of the thread, for as long as somebody listens.
    async fn relay(
        &self,
        bridge: &crate::bridge::Bridge,
        key: &AppThreadKey,
        begin: Begin,
        out: &mpsc::Sender<AppEvent>,
    ) {
        let timings = Timings {
            patience: Duration::MAX,
            ..bridge.timings
        };
        let mut patience = Patience::new(&timings);
        let mut after = match begin {
            Begin::After(after) => after,
            Begin::Last(count) => loop {
                match bridge.last_event(key).await {
                    Ok(head) => break (head - i64::from(count)).max(0),
                    // No log yet: everything is still to come.
                    Err(trouble) if trouble.http() == Some(404) => break 0,
                    Err(trouble) => {
                        tracing::debug!(thread = %key, "The log of {key} cannot be read: {}", trouble.message)
                    }
                }
                let pause = patience.failed(Instant::now());
                tokio::time::sleep(pause.unwrap_or(timings.backoff.longest)).await;
            },
        };
        loop {
            match bridge.events(key, after).await {
                Ok(mut frames) => {
                    while let Ok(Some(frame)) = frames.next().await {
                        patience.reset();
                        let Some((id, update)) = follow::logged(&frame, key) else {
                            continue;
                        };
                        if id <= after {
                            continue;
                        }
                        after = id;
                        let update = AppEvent::Update(id, Box::new(update));
                        if out.send(update).await.is_err() {
                            return;
                        }
                    }
                }
                // A thread without a turn has no log yet; one whose beginning was cleared away goes
                // on with what is left.
                Err(trouble) => match trouble.http() {
                    Some(410) => after = oldest(&trouble.fault).unwrap_or(after).max(after),
                    _ => {
                        tracing::debug!(thread = %key, "The log of {key} cannot be read: {}", trouble.message)
                    }
                },
            }
            let pause = patience
                .failed(Instant::now())
                .unwrap_or(timings.backoff.longest);
            tokio::time::sleep(pause).await;
        }
    }
}

/// Where a log that was cleared begins, as its refusal says.
fn oldest(fault: &Option<Fault>) -> Option<i64> {
    fault.as_ref()?.data.get("oldest")?.as_i64()
}
