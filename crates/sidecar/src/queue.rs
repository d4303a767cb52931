//! The requests that were read and are not answered yet: few are worked on, few wait, and whoever
//! brings more has to wait too.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use threadline_contract::rpc::{Id, Request};

use crate::Limits;

/// How far the service has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// More may come.
    Open,
    /// Nothing more comes; what is there is done.
    Draining,
    /// What waits is refused, what has begun may finish.
    Stopped,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    waiting: VecDeque<Request>,
    /// Threads that work.
    workers: usize,
    /// Whether the reader is about to answer something itself.
    reader: bool,
    /// Until when those that have begun may finish.
    deadline: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    limits: Limits,
}

/// What became of a request that was brought.
#[derive(Debug, PartialEq)]
pub(crate) enum Pushed {
    /// Somebody is there who will take it.
    Waits,
    /// It needs one more worker, who is counted already.
    NeedsWorker,
    /// Nothing is taken any more.
    Refused(Request),
}

/// What a worker does next.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    /// The request.
    Do(Request),
    /// Saying that it is too late for it.
    Refuse(Request),
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Open,
                waiting: VecDeque::new(),
                workers: 0,
                reader: false,
                deadline: None,
            }),
            changed: Condvar::new(),
            limits,
        }
    }

    /// Brings a request, as soon as there is room.
    pub(crate) fn push(&self, request: Request) -> Pushed {
        let mut state = self.lock();
        loop {
            if state.phase != Phase::Open {
                return Pushed::Refused(request);
            }
            if state.workers < self.limits.concurrent {
                state.workers += 1;
                state.waiting.push_back(request);
                return Pushed::NeedsWorker;
            }
            if state.waiting.len() < self.limits.waiting {
                state.waiting.push_back(request);
                return Pushed::Waits;
            }
            state = self.wait(state);
        }
    }

    /// The next request for a worker that was counted. `None`: there is nothing to do, and it no
    /// longer counts.
    pub(crate) fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        let task = state.waiting.pop_front().map(match state.phase {
            Phase::Stopped => Task::Refuse,
            Phase::Open | Phase::Draining => Task::Do,
        });
        if task.is_none() {
            state.workers = state.workers.saturating_sub(1);
        }
        drop(state);
        self.changed.notify_all();
        task
    }

    /// Takes a request back that nobody has begun with.
    pub(crate) fn take_back(&self, id: &Id) -> Option<Request> {
        let mut state = self.lock();
        let at = state
            .waiting
            .iter()
            .position(|request| request.id.as_ref() == Some(id))?;
        let request = state.waiting.remove(at);
        drop(state);
        self.changed.notify_all();
        request
    }

    /// The reader answers something itself: the end waits for that, too.
    pub(crate) fn reader_works(&self, works: bool) {
        self.lock().reader = works;
        self.changed.notify_all();
    }

    /// Nothing more comes.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        state.phase = state.phase.max(Phase::Draining);
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing more is begun.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        if state.phase != Phase::Stopped {
            state.phase = Phase::Stopped;
            state.deadline = Instant::now().checked_add(self.limits.patience);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().phase == Phase::Stopped
    }

    /// Waits until nothing more comes and everything is answered. `false` when that took too long
    /// after a stop.
    pub(crate) fn wait_for_end(&self) -> bool {
        let mut state = self.lock();
        loop {
            let idle = state.waiting.is_empty() && state.workers == 0 && !state.reader;
            if idle && state.phase != Phase::Open {
                return true;
            }
            state = match state.deadline {
                None => self.wait(state),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let woken = self.changed.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is made in one step, so a panic elsewhere leaves nothing half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
