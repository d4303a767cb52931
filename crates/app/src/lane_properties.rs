//! What holds in all lanes, whatever is asked for in which order.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// A new turn of a thread, which would use this lane.
    Offer { thread: u8, lane: usize },
    /// A turn that was accepted before the app was restarted.
    Wait { thread: u8, lane: usize },
    /// A turn that had begun before the app was restarted.
    Occupy { thread: u8, lane: usize },
    /// A thread's turn is over.
    Finish { thread: u8 },
    /// One waiting turn is dropped.
    Retract(prop::sample::Index),
    /// All waiting turns of a thread are dropped.
    Withdraw { thread: u8 },
    /// A bridge says how large its gateway's lane is.
    Resize { lane: usize, to: LaneSize },
}

fn step() -> impl Strategy<Value = Step> {
    let (thread, lane) = (|| 0u8..6, || 0usize..3);
    let size = (0usize..6, 0usize..8).prop_map(|(active, queued)| LaneSize { active, queued });
    prop_oneof![
        8 => (thread(), lane()).prop_map(|(thread, lane)| Step::Offer { thread, lane }),
        1 => (thread(), lane()).prop_map(|(thread, lane)| Step::Wait { thread, lane }),
        1 => (thread(), lane()).prop_map(|(thread, lane)| Step::Occupy { thread, lane }),
        6 => thread().prop_map(|thread| Step::Finish { thread }),
        1 => any::<prop::sample::Index>().prop_map(Step::Retract),
        1 => thread().prop_map(|thread| Step::Withdraw { thread }),
        1 => (0usize..2, size).prop_map(|(lane, to)| Step::Resize { lane, to }),
    ]
}

const MOST: LaneSize = LaneSize {
    active: 3,
    queued: 6,
};

fn lane_id(n: usize) -> LaneId {
    match n {
        0 => LaneId::Gateway("one".into()),
        1 => LaneId::Gateway("two".into()),
        _ => LaneId::Agents,
    }
}

fn key(n: u8) -> AppThreadKey {
    AppThreadKey::new(format!("thread-{n}")).unwrap()
}

/// What one lane must hold, kept beside it.
#[derive(Clone, Debug)]
struct Expected {
    size: LaneSize,
    active: Vec<AppThreadKey>,
    waiting: Vec<(AppThreadKey, RequestId)>,
}

impl Expected {
    fn may_start(&self, thread: &AppThreadKey) -> bool {
        self.active.len() < self.size.active && !self.active.contains(thread)
    }

    fn first_that_may_start(&self) -> Option<usize> {
        self.waiting.iter().position(|(t, _)| self.may_start(t))
    }
}

/// The lanes and what they must hold.
struct Driven {
    lanes: Lanes,
    expected: BTreeMap<usize, Expected>,
    asked: u32,
}

impl Driven {
    fn new() -> Self {
        let expected = (0..3).map(|n| {
            let endless = LaneSize {
                active: usize::MAX,
                queued: usize::MAX,
            };
            let lane = Expected {
                size: if n == 2 { endless } else { MOST },
                active: vec![],
                waiting: vec![],
            };
            (n, lane)
        });
        Self {
            lanes: Lanes::new(MOST),
            expected: expected.collect(),
            asked: 0,
        }
    }

    /// The lane that a thread's turn goes to: the one in which it has turns already.
    fn lane_of(&mut self, thread: &AppThreadKey, otherwise: usize) -> usize {
        let has = |(_, lane): &(&usize, &Expected)| {
            lane.active.contains(thread) || lane.waiting.iter().any(|(t, _)| t == thread)
        };
        let expected = self
            .expected
            .iter()
            .find(has)
            .map_or(otherwise, |(n, _)| *n);
        let told = self.lanes.lane_for(thread, lane_id(otherwise));
        assert_eq!(told, lane_id(expected), "the lane of {thread}");
        expected
    }

    fn fresh(&mut self) -> RequestId {
        self.asked += 1;
        RequestId::new(format!("request-{}", self.asked)).unwrap()
    }

    fn expected(&mut self, lane: usize) -> &mut Expected {
        self.expected.get_mut(&lane).unwrap()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Offer { thread, lane } => self.offer(&key(thread), lane),
            Step::Wait { thread, lane } => {
                let thread = key(thread);
                let (lane, request) = (self.lane_of(&thread, lane), self.fresh());
                self.lanes.lane(&lane_id(lane)).wait(&thread, &request);
                self.expected(lane).waiting.push((thread, request));
            }
            Step::Occupy { thread, lane } => {
                let thread = key(thread);
                let lane = self.lane_of(&thread, lane);
                self.lanes.lane(&lane_id(lane)).occupy(&thread);
                let active = &mut self.expected(lane).active;
                if !active.contains(&thread) {
                    active.push(thread);
                }
            }
            Step::Finish { thread } => {
                let thread = key(thread);
                let lane = self.lane_of(&thread, 0);
                self.lanes.lane(&lane_id(lane)).finish(&thread);
                self.expected(lane).active.retain(|t| *t != thread);
            }
            Step::Retract(which) => {
                let all: Vec<RequestId> = self
                    .expected
                    .values()
                    .flat_map(|l| l.waiting.iter().map(|(_, r)| r.clone()))
                    .collect();
                if !all.is_empty() {
                    let gone = &all[which.index(all.len())];
                    self.lanes.retract(gone);
                    for lane in self.expected.values_mut() {
                        lane.waiting.retain(|(_, r)| r != gone);
                    }
                }
            }
            Step::Withdraw { thread } => {
                self.lanes.withdraw(&key(thread));
                for lane in self.expected.values_mut() {
                    lane.waiting.retain(|(t, _)| *t != key(thread));
                }
            }
            Step::Resize { lane, to } => {
                let LaneId::Gateway(endpoint) = lane_id(lane) else {
                    return;
                };
                self.lanes.resize(&endpoint, to);
                self.expected(lane).size = LaneSize {
                    active: to.active.clamp(1, MOST.active),
                    queued: to.queued.min(MOST.queued),
                };
            }
        }
    }

    fn offer(&mut self, thread: &AppThreadKey, lane: usize) {
        let (lane, request) = (self.lane_of(thread, lane), self.fresh());
        let told = self.lanes.lane(&lane_id(lane)).offer(thread, &request);
        let expected = self.expected(lane);
        let starts = expected.may_start(thread) && expected.first_that_may_start().is_none();
        let full = expected.waiting.len() >= expected.size.queued;
        match (starts, full) {
            (true, _) => {
                expected.active.push(thread.clone());
                assert_eq!(told, Ok(Place::Start));
            }
            (false, true) => assert_eq!(told, Err(Full)),
            (false, false) => {
                expected.waiting.push((thread.clone(), request));
                assert_eq!(told, Ok(Place::Wait));
            }
        }
    }

    /// Starts whoever may start, as the app does after every change.
    fn pump(&mut self) {
        while let Some((id, thread, request)) = self.lanes.start_next() {
            let lane = (0..3).find(|n| lane_id(*n) == id).unwrap();
            let expected = self.expected(lane);
            let next = expected.first_that_may_start();
            let next = next.map(|at| expected.waiting.remove(at));
            assert_eq!(
                next,
                Some((thread.clone(), request)),
                "first come, first served"
            );
            expected.active.push(thread);
        }
        for (lane, expected) in &self.expected {
            assert_eq!(
                expected.first_that_may_start(),
                None,
                "a lost place in lane {lane}"
            );
        }
    }

    fn check(&self) {
        let expected_line = self.expected.values().flat_map(|lane| {
            let queued = lane.waiting.len() as u32;
            (1..).zip(&lane.waiting).map(move |(position, (t, r))| {
                (r.clone(), (t.clone(), QueuePlace { position, queued }))
            })
        });
        let line: BTreeMap<RequestId, (AppThreadKey, QueuePlace)> = expected_line.collect();
        let told = self.lanes.in_line().into_iter();
        assert_eq!(
            told.map(|(t, r, place)| (r, (t, place)))
                .collect::<BTreeMap<_, _>>(),
            line
        );
        for thread in (0..6).map(key) {
            let lanes = || self.expected.values();
            let going_on = lanes().filter(|l| l.active.contains(&thread)).count();
            assert!(going_on < 2, "{thread} has two turns at once");
            assert_eq!(self.lanes.busy(&thread), going_on == 1);
            let first = lanes().find_map(|l| {
                let at = l.waiting.iter().position(|(t, _)| *t == thread)?;
                Some(line[&l.waiting[at].1].1)
            });
            assert_eq!(self.lanes.place(&thread), first);
        }
        let load: usize = self
            .expected
            .values()
            .map(|l| l.active.len() + l.waiting.len())
            .sum();
        assert_eq!(self.lanes.load(), load);
    }
}

proptest! {
    #[test]
    fn in_all_lanes_turns_start_in_order_one_per_thread_and_no_place_is_lost(
        steps in prop::collection::vec((step(), any::<bool>()), 1..150)
    ) {
        let mut driven = Driven::new();
        for (step, pumped) in steps {
            driven.take(step);
            if pumped {
                driven.pump();
            }
            driven.check();
        }
    }

    /// However many are asked for behind it: each turn that waits starts when those before it are over.
    #[test]
    fn every_waiting_turn_starts(steps in prop::collection::vec(step(), 1..80)) {
        let mut driven = Driven::new();
        for step in steps {
            driven.take(step);
            driven.pump();
        }
        let of_all = |d: &Driven| -> Vec<RequestId> {
            let waiting = d.expected.values().flat_map(|l| &l.waiting);
            waiting.map(|(_, request)| request.clone()).collect()
        };
        let before = of_all(&driven);
        // Each round every turn that goes on ends, and every thread asks for one more.
        for _ in 0..=before.len() {
            for thread in 0..6 {
                driven.take(Step::Finish { thread });
            }
            driven.pump();
            for thread in 0..6 {
                driven.take(Step::Offer { thread, lane: 0 });
                driven.pump();
            }
        }
        let left: Vec<RequestId> = of_all(&driven);
        let starved: Vec<&RequestId> = before.iter().filter(|r| left.contains(r)).collect();
        prop_assert!(starved.is_empty(), "still waiting: {:?}", starved);
    }
}
