//! Turns that wait, one by one: listed, dropped, edited.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, QueuePlace, RequestId, RuntimeId,
    thread::{QueuedTurn, TaskThread},
};

use super::{App, Core};
use crate::{
    api::{EditTurnParams, Queue, QueueParams, QueuedTurnView, ThreadView, TurnParams, WaitsFor},
    change,
    records::lock,
};

impl App {
    /// The turns that wait here, of all threads or of one, in the order in which they were asked for.
    pub async fn queue_list(&self, params: QueueParams) -> Result<Queue, Fault> {
        let core = &self.core;
        let only = params.thread.as_deref().map(|text| core.find(text));
        let only: Option<AppThreadKey> = only.transpose()?;
        let in_line = core.in_line();
        let mut records: HashMap<AppThreadKey, TaskThread> = HashMap::new();
        let mut turns = Vec::new();
        for (key, request, place, waits_for) in in_line {
            if only.as_ref().is_some_and(|only| *only != key) {
                continue;
            }
            if !records.contains_key(&key) {
                let record = core.records.read(&key).await?;
                records.insert(key.clone(), record);
            }
            let record = &records[&key];
            let mut waiting = record.context_state.queued_turns.iter();
            // One that started meanwhile does not wait.
            if let Some(turn) = waiting.find(|t| t.request_id == request) {
                turns.push(view_of(record, turn, place, waits_for));
            }
        }
        turns.sort_by(|a, b| {
            (a.queued_at_ms, a.position, &a.request_id).cmp(&(
                b.queued_at_ms,
                b.position,
                &b.request_id,
            ))
        });
        let live = lock(&core.live);
        let at_bridge = live
            .iter()
            .filter(|(key, live)| live.queue.is_some() && only.as_ref().is_none_or(|o| o == *key));
        Ok(Queue {
            turns,
            queued_at_bridge: u32::try_from(at_bridge.count()).unwrap_or(u32::MAX),
        })
    }

    /// Drops one turn that waits. The run before it and the turns beside it are not touched.
    pub async fn queue_drop(&self, params: TurnParams) -> Result<ThreadView, Fault> {
        let key = self.core.find(&params.thread)?;
        self.core.drop_turn(&key, &params.request_id).await?;
        self.core.view(&key).await
    }

    /// Gives one turn that waits other words; its files, its declarations and its place stay.
    pub async fn queue_edit(&self, params: EditTurnParams) -> Result<ThreadView, Fault> {
        if params.prompt.trim().is_empty() {
            return Err(Fault::new(
                Code::PromptRequired,
                "The turn has no prompt. Say what to do, or drop the turn.",
            ));
        }
        let key = self.core.find(&params.thread)?;
        self.core
            .records
            .update(&key, |record| {
                change::edit_turn(record, &params.request_id, &params.prompt)
            })
            .await?;
        self.core.view(&key).await
    }
}

impl Core {
    /// Every turn that waits here, with its place in its lane and what it waits for.
    fn in_line(&self) -> Vec<(AppThreadKey, RequestId, QueuePlace, WaitsFor)> {
        let lanes = lock(&self.lanes);
        let mut earlier: HashSet<AppThreadKey> = HashSet::new();
        let line = lanes.in_line().into_iter();
        line.map(|(key, request, place)| {
            let first = earlier.insert(key.clone());
            let waits_for = match first && !lanes.busy(&key) {
                true => WaitsFor::Place,
                false => WaitsFor::OwnThread,
            };
            (key, request, place, waits_for)
        })
        .collect()
    }

    /// How many turns wait here for a place of each runtime of a bridge.
    pub(super) fn waiting_by_runtime(&self, endpoint: &str) -> HashMap<RuntimeId, u32> {
        let in_line = self.in_line();
        let for_place = in_line.iter().filter(|(.., what)| *what == WaitsFor::Place);
        let mut waiting = HashMap::new();
        self.records.index(|index| {
            for (key, ..) in for_place {
                let entry = index.get(key).filter(|entry| entry.endpoint == endpoint);
                if let Some(runtime) = entry.and_then(|entry| entry.summary.runtime.clone()) {
                    *waiting.entry(runtime).or_default() += 1;
                }
            }
        });
        waiting
    }

    /// Drops one turn that waits, with what was put aside for it.
    pub(super) async fn drop_turn(
        self: &Arc<Self>,
        key: &AppThreadKey,
        request: &RequestId,
    ) -> Result<(), Fault> {
        self.records
            .update(key, |record| {
                change::drop_turn(record, request, Millis::now())?;
                // Under the record's lock: nobody starts it any more.
                lock(&self.lanes).retract(request);
                Ok(())
            })
            .await?;
        let request = request.clone();
        self.outbox(move |outbox| outbox.remove(&request)).await?;
        self.pump();
        Ok(())
    }
}

fn view_of(
    record: &TaskThread,
    turn: &QueuedTurn,
    place: QueuePlace,
    waits_for: WaitsFor,
) -> QueuedTurnView {
    QueuedTurnView {
        thread_id: record.thread_id.clone(),
        thread_name: record.name.clone(),
        request_id: turn.request_id.clone(),
        prompt: turn.prompt.clone(),
        waits_for,
        position: place.position,
        queued: place.queued,
        attachments: u32::try_from(turn.attachments.len()).unwrap_or(u32::MAX),
        expect: turn.deliverables.clone(),
        queued_at_ms: turn.queued_at_ms,
    }
}
