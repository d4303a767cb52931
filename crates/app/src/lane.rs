//! The local lane: which turns may start, which wait, and in what order. Decides; does nothing.
//!
//! The rule is [`lane::may_begin`]. Turns of the gateway share a lane of few places; turns of agents have one
//! without an end, because the bridge's own queue holds them.

use std::collections::{HashMap, HashSet, VecDeque};

use threadline_contract::{
    AppThreadKey, QueuePlace, RequestId,
    lane::{self, Standing},
    thread::ExecutionMode,
};

use crate::config::LaneSize;

/// What a turn that was offered may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Start now; it has its place.
    Start,
    /// Wait.
    Wait,
}

/// The lane is full, and so is the queue behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    size: LaneSize,
    active: HashSet<AppThreadKey>,
    waiting: VecDeque<(AppThreadKey, RequestId)>,
}

impl Lane {
    pub(crate) fn new(size: LaneSize) -> Self {
        Self {
            size,
            active: HashSet::new(),
            waiting: VecDeque::new(),
        }
    }

    /// A turn wants to run.
    pub(crate) fn offer(
        &mut self,
        thread: &AppThreadKey,
        request: &RequestId,
    ) -> Result<Place, Full> {
        let last = self.waiting.len();
        if self.may_begin(Some(thread)).next() == Some(last) {
            self.active.insert(thread.clone());
            return Ok(Place::Start);
        }
        if self.waiting.len() >= self.size.queued {
            return Err(Full);
        }
        self.wait(thread, request);
        Ok(Place::Wait)
    }

    /// A turn that was accepted earlier waits again; it is not turned away.
    pub(crate) fn wait(&mut self, thread: &AppThreadKey, request: &RequestId) {
        self.waiting.push_back((thread.clone(), request.clone()));
    }

    /// A turn that started earlier goes on; it has its place whatever the size.
    pub(crate) fn occupy(&mut self, thread: &AppThreadKey) {
        self.active.insert(thread.clone());
    }

    /// Takes the next turn that may start now; it has its place.
    pub(crate) fn start_next(&mut self) -> Option<(AppThreadKey, RequestId)> {
        let next = self.may_begin(None).next()?;
        let (thread, request) = self.waiting.remove(next)?;
        self.active.insert(thread.clone());
        Some((thread, request))
    }

    /// The thread's turn is over.
    pub(crate) fn finish(&mut self, thread: &AppThreadKey) {
        self.active.remove(thread);
    }

    /// Drops one waiting turn.
    pub(crate) fn retract(&mut self, request: &RequestId) {
        self.waiting.retain(|(_, r)| r != request);
    }

    /// Drops the thread's waiting turns.
    fn withdraw(&mut self, thread: &AppThreadKey) {
        self.waiting.retain(|(t, _)| t != thread);
    }

    /// Where the thread's first waiting turn stands.
    pub(crate) fn place(&self, thread: &AppThreadKey) -> Option<QueuePlace> {
        let at = self.waiting.iter().position(|(t, _)| t == thread)?;
        Some(self.place_at(at))
    }

    /// Every turn that waits, with its place.
    fn in_line(&self) -> impl Iterator<Item = (AppThreadKey, RequestId, QueuePlace)> {
        let waiting = self.waiting.iter().enumerate();
        waiting.map(|(at, (t, r))| (t.clone(), r.clone(), self.place_at(at)))
    }

    fn place_at(&self, at: usize) -> QueuePlace {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        QueuePlace {
            position: count(at + 1),
            queued: count(self.waiting.len()),
        }
    }

    /// The places in line of those that may start now, with one more behind them all.
    fn may_begin<'a>(&'a self, more: Option<&'a AppThreadKey>) -> impl Iterator<Item = usize> + 'a {
        let active = self.active.iter().map(|thread| (thread, Standing::Active));
        let waiting = self.waiting.iter().map(|(thread, _)| thread).chain(more);
        let waiting = waiting.map(|thread| (thread, Standing::Waiting));
        let (turns, before) = (active.chain(waiting), self.active.len());
        lane::may_begin(turns, self.size.active).map(move |at| at - before)
    }
}

/// Which lane a thread's turns use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneId {
    /// The gateway behind one bridge.
    Gateway(String),
    /// All agents.
    Agents,
}

impl LaneId {
    pub(crate) fn of(mode: ExecutionMode, endpoint: &str) -> Self {
        match mode {
            ExecutionMode::Gateway => Self::Gateway(endpoint.to_owned()),
            ExecutionMode::Agent => Self::Agents,
        }
    }
}

/// All lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// What the user allows.
    most: LaneSize,
    lanes: HashMap<LaneId, Lane>,
}

impl Lanes {
    pub(crate) fn new(most: LaneSize) -> Self {
        Self {
            most,
            lanes: HashMap::new(),
        }
    }

    pub(crate) fn lane(&mut self, id: &LaneId) -> &mut Lane {
        let size = match id {
            LaneId::Gateway(_) => self.most,
            LaneId::Agents => LaneSize {
                active: usize::MAX,
                queued: usize::MAX,
            },
        };
        self.lanes
            .entry(id.clone())
            .or_insert_with(|| Lane::new(size))
    }

    /// The lane in which a thread's turns go on or wait, else the one that it would use. A thread
    /// whose runtime turns out to be another's has its turns in one lane all the same.
    pub(crate) fn lane_for(&self, thread: &AppThreadKey, otherwise: LaneId) -> LaneId {
        let has = |lane: &Lane| {
            lane.active.contains(thread) || lane.waiting.iter().any(|(t, _)| t == thread)
        };
        let found = self.lanes.iter().find(|(_, lane)| has(lane));
        found.map_or(otherwise, |(id, _)| id.clone())
    }

    /// Drops one waiting turn, in whatever lane it waits.
    pub(crate) fn retract(&mut self, request: &RequestId) {
        self.lanes
            .values_mut()
            .for_each(|lane| lane.retract(request));
    }

    /// Every turn that waits, with its place in its lane.
    pub(crate) fn in_line(&self) -> Vec<(AppThreadKey, RequestId, QueuePlace)> {
        let lanes = self.lanes.values();
        lanes.flat_map(Lane::in_line).collect()
    }

    /// Drops the thread's waiting turns.
    pub(crate) fn withdraw(&mut self, thread: &AppThreadKey) {
        self.lanes
            .values_mut()
            .for_each(|lane| lane.withdraw(thread));
    }

    /// The bridge has said how large its gateway's lane is.
    pub(crate) fn resize(&mut self, endpoint: &str, reported: LaneSize) {
        let size = LaneSize {
            active: self.most.active.min(reported.active).max(1),
            queued: self.most.queued.min(reported.queued),
        };
        self.lane(&LaneId::Gateway(endpoint.to_owned())).size = size;
    }

    /// Takes the next turn of any lane that may start now.
    pub(crate) fn start_next(&mut self) -> Option<(LaneId, AppThreadKey, RequestId)> {
        self.lanes
            .iter_mut()
            .find_map(|(id, lane)| lane.start_next().map(|(t, r)| (id.clone(), t, r)))
    }

    /// Whether a turn of the thread is going on, in any lane.
    pub(crate) fn busy(&self, thread: &AppThreadKey) -> bool {
        self.lanes.values().any(|l| l.active.contains(thread))
    }

    /// How many turns go on or wait.
    pub(crate) fn load(&self) -> usize {
        self.lanes
            .values()
            .map(|l| l.active.len() + l.waiting.len())
            .sum()
    }

    /// Where the thread's first waiting turn stands.
    pub(crate) fn place(&self, thread: &AppThreadKey) -> Option<QueuePlace> {
        self.lanes.values().find_map(|l| l.place(thread))
    }

    /// The threads that wait, for telling them of their new places.
    pub(crate) fn waiting(&self) -> Vec<AppThreadKey> {
        let mut all: Vec<AppThreadKey> = Vec::new();
        for (thread, _) in self.lanes.values().flat_map(|l| &l.waiting) {
            if !all.contains(thread) {
                all.push(thread.clone());
            }
        }
        all
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "lane_properties.rs"]
mod properties;
