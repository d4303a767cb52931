//! A turn's way through the lane: taken, started, over.

use std::sync::Arc;

use threadline_contract::{
    AppThreadKey, Code, Deliverable, Fault, LoadClass, Millis, RequestId,
    thread::{ExecutionMode, QueuedTurn, TaskThread},
};

use super::{
    Core,
    resume::refers,
    run::{Run, Sent},
};
use crate::{
    change,
    lane::{LaneId, Place},
    records::lock,
    request::{self, Session},
};

/// What became of a turn between sealing its request and starting it.
enum Begin {
    Begun,
    Edited,
    Dropped,
}

/// What a turn consists of, beside its thread.
pub(super) struct Ask {
    pub(super) request: RequestId,
    pub(super) prompt: String,
    pub(super) deliverables: Vec<Deliverable>,
    pub(super) attachments: Vec<String>,
    pub(super) load_class: Option<LoadClass>,
}

impl Core {
    /// Takes a turn: it starts, waits, or is turned away. What was put aside for one that is not taken
    /// is removed, unless the thread keeps it to try again.
    pub(super) async fn ask(self: &Arc<Self>, key: &AppThreadKey, ask: Ask) -> Result<(), Fault> {
        let request = ask.request.clone();
        let taken = self.offer(key, ask).await;
        if taken.is_err() {
            let record = self.records.read(key).await;
            if !record.is_ok_and(|record| refers(&record, &request)) {
                self.outbox(move |outbox| outbox.remove(&request)).await?;
            }
        }
        taken
    }

    async fn offer(self: &Arc<Self>, key: &AppThreadKey, ask: Ask) -> Result<(), Fault> {
        let request = ask.request.clone();
        let mut offered: Option<(LaneId, Place)> = None;
        let mut before = None;
        let stored = self
            .records
            .update(key, |record| {
                // Its own moment, by which its message is found again.
                let last = record
                    .context_state
                    .messages
                    .last()
                    .map(|m| m.timestamp_ms.plus(1));
                let now = Millis::now();
                let turn = QueuedTurn {
                    request_id: ask.request,
                    prompt: ask.prompt,
                    deliverables: ask.deliverables,
                    attachments: ask.attachments,
                    load_class: ask.load_class,
                    queued_at_ms: last.map_or(now, |last| last.max(now)),
                };
                // Under the record's lock: whoever starts this turn finds it stored.
                let place = {
                    let mut lanes = lock(&self.lanes);
                    let lane = lanes.lane_for(key, lane_of(record));
                    let place = lanes.lane(&lane).offer(key, &turn.request_id);
                    offered = place.ok().map(|place| (lane, place));
                    place
                };
                match place {
                    Ok(place) => change::asked(record, turn, place).map(Ok),
                    Err(_) => {
                        let fault = Fault::new(Code::QueueFull, Code::QueueFull.advice())
                            .with("threadId", key.as_str())
                            .with("name", record.name.clone());
                        before = current(record);
                        let kept = change::turned_away(record, &turn, &fault);
                        Ok(Err((fault, kept.then_some(turn))))
                    }
                }
            })
            .await;
        let record = match (stored, &offered) {
            (Ok((record, Ok(()))), _) => record,
            (Ok((_, Err((fault, None)))), _) => return Err(fault),
            (Ok((record, Err((fault, Some(turn))))), _) => {
                let sealed = request::build(&record, &turn, Session::of(&record));
                self.outbox(move |outbox| outbox.keep(&request, &sealed))
                    .await?;
                self.replaced(key, before).await;
                return Err(fault);
            }
            (Err(fault), offered) => {
                // The record was not written: the turn does not exist.
                if let Some((lane, place)) = offered {
                    let mut lanes = lock(&self.lanes);
                    match place {
                        Place::Start => lanes.lane(lane).finish(key),
                        Place::Wait => lanes.lane(lane).retract(&request),
                    }
                }
                return Err(fault);
            }
        };
        if record.execution_binding.execution_mode == ExecutionMode::Gateway {
            self.ask_lane_size(&record.execution_binding.endpoint_id);
        }
        match offered {
            Some((lane, Place::Start)) => self.start(lane, key.clone(), request).await,
            _ => self.pump(),
        }
        Ok(())
    }

    /// Starts every turn that may start now.
    pub(crate) fn pump(self: &Arc<Self>) {
        loop {
            let next = lock(&self.lanes).start_next();
            let Some((lane, key, request)) = next else {
                break;
            };
            let core = self.clone();
            self.spawn(async move { core.start(lane, key, request).await });
        }
        for key in lock(&self.lanes).waiting() {
            self.records.touch(&key);
        }
    }

    /// Starts a turn that has its place in the lane.
    pub(crate) async fn start(
        self: &Arc<Self>,
        lane: LaneId,
        key: AppThreadKey,
        request: RequestId,
    ) {
        let stop = self.stoppable(&key);
        match self.begin(&key, &request).await {
            Ok(Some(order)) => {
                let core = self.clone();
                self.spawn(async move { core.run(lane, order, stop).await });
            }
            Ok(None) => self.free(&lane, &key),
            Err(fault) => {
                tracing::warn!(thread = %key, "A turn of {key} could not be sent: {fault}");
                let failed = self
                    .surely("The end of a turn", || {
                        self.records
                            .update(&key, |r| change::unsent(r, &request, &fault))
                    })
                    .await;
                if let Err(fault) = failed {
                    tracing::error!(thread = %key, "The failure of a turn of {key} was not stored: {fault}");
                }
                self.free(&lane, &key);
            }
        }
    }

    /// The thread's turn is over: its place goes to the next.
    pub(crate) fn free(self: &Arc<Self>, lane: &LaneId, key: &AppThreadKey) {
        lock(&self.running).remove(key);
        lock(&self.lanes).lane(lane).finish(key);
        self.pump();
    }

    /// Removes what was kept of a request that is no longer the thread's current one.
    async fn replaced(&self, key: &AppThreadKey, old: Option<RequestId>) {
        if let Some(old) = old.filter(|old| !lock(&self.to_sync).contains(old))
            && let Err(fault) = self.outbox(move |outbox| outbox.remove(&old)).await
        {
            // The next start sweeps it.
            tracing::warn!(thread = %key, "An old request of {key} was not removed: {fault}");
        }
    }

    /// Seals the request of a waiting turn and marks the thread as running.
    async fn begin(&self, key: &AppThreadKey, request: &RequestId) -> Result<Option<Run>, Fault> {
        let (record, begun, body) = loop {
            // Under the record's lock: the turn may be just about to be stored.
            let (record, ()) = self.records.update(key, |_| Ok(())).await?;
            let turns = &record.context_state.queued_turns;
            let Some(turn) = turns.iter().find(|t| t.request_id == *request) else {
                return Ok(None);
            };
            let sealed = request::build(&record, turn, Session::of(&record));
            let body = {
                let request = request.clone();
                self.outbox(move |outbox| {
                    outbox.seal(&request, &sealed)?;
                    outbox.sealed(&request)
                })
                .await?
            };
            let now = Millis::now();
            let (begun, step) = self
                .records
                .update(key, |record| {
                    let mut turns = record.context_state.queued_turns.iter();
                    if turns.any(|t| t.request_id == *request && t != turn) {
                        return Ok(Begin::Edited);
                    }
                    Ok(match change::begin(record, request, now)? {
                        Some(_) => Begin::Begun,
                        None => Begin::Dropped,
                    })
                })
                .await?;
            match step {
                Begin::Begun => break (record, begun, body),
                // What was sealed is not what the user wants by now.
                Begin::Edited => {}
                Begin::Dropped => {
                    let request = request.clone();
                    self.outbox(move |outbox| outbox.remove(&request)).await?;
                    return Ok(None);
                }
            }
        };
        self.replaced(key, current(&record)).await;
        let bridge = self
            .endpoints
            .bridge(&begun.execution_binding.endpoint_id)?;
        Ok(Run::of(
            &begun,
            bridge,
            body.map(|(_, body)| body),
            Sent::Never,
        ))
    }
}

/// The lane of a thread's turns.
pub(crate) fn lane_of(record: &TaskThread) -> LaneId {
    let binding = &record.execution_binding;
    LaneId::of(binding.execution_mode, &binding.endpoint_id)
}

/// The request of the thread's current or last run.
fn current(record: &TaskThread) -> Option<RequestId> {
    let association = record.context_state.task_association.as_ref();
    association.map(|a| a.request_id.clone())
}
