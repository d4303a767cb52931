//! What holds in every lane, whatever comes in which order: a lane is driven step by step by random
//! arrivals, looks, ends, restarts of servers and changes of its size.

use proptest::prelude::*;

use super::*;
use Phase::*;

const SERVERS: [&str; 2] = ["north", "south"];

#[derive(Clone, Debug)]
enum Step {
    /// A turn of a session arrives at a server.
    Arrive { session: u8, server: usize },
    /// One of the waiting turns looks whether it may go.
    Look(prop::sample::Index),
    /// One of the turns that are on their way goes on to its next phase.
    GoOn(prop::sample::Index),
    /// One that the runtime does not have yet is stopped.
    Stop(prop::sample::Index),
    /// A server goes away or comes back: its turns change to other places.
    Away { server: usize, away: bool },
    /// The lane gets another size.
    Resize(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0u8..6, 0usize..2).prop_map(|(session, server)| Step::Arrive { session, server }),
        8 => at().prop_map(Step::Look),
        8 => at().prop_map(Step::GoOn),
        1 => at().prop_map(Step::Stop),
        1 => (0usize..2, any::<bool>()).prop_map(|(server, away)| Step::Away { server, away }),
        1 => (1u32..5).prop_map(Step::Resize),
    ]
}

/// A lane of a runtime with what the records say of its runs, driven as the engine does.
struct Driven {
    local: bool,
    size: LaneSize,
    away: [bool; 2],
    runs: Vec<(Entry, usize)>,
    arrived: u32,
    /// Places were taken from a pool, or turns moved into it, by something else than a look.
    disturbed: bool,
}

impl Driven {
    fn new(local: bool, size: LaneSize) -> Self {
        Self {
            local,
            size,
            away: [false; 2],
            runs: vec![],
            arrived: 0,
            disturbed: false,
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let entry = |(entry, server): &(Entry, usize)| Entry {
            places: pool(SERVERS[*server], self.local, self.away[*server]),
            ..entry.clone()
        };
        self.runs.iter().map(entry).collect()
    }

    /// Takes a turn on if there is room, as the engine does.
    fn arrive(&mut self, session: String, server: usize) -> Option<RunId> {
        let places = pool(SERVERS[server], self.local, false);
        if self.away[server] || !has_room(&self.entries(), &places, self.size) {
            return None;
        }
        self.arrived += 1;
        let run = RunId::new(format!("run-{}", self.arrived)).unwrap();
        let entry = Entry {
            run: run.clone(),
            session: SessionKey::new(session).unwrap(),
            phase: Queued,
            places,
        };
        self.runs.push((entry, server));
        Some(run)
    }

    fn take(&mut self, step: Step) {
        let all = self.runs.len();
        match step {
            Step::Arrive { session, server } => {
                self.arrive(format!("session-{session}"), server);
            }
            Step::Look(which) if all > 0 => self.look(which.index(all)),
            Step::GoOn(which) if all > 0 => self.go_on(which.index(all)),
            Step::Stop(which) if all > 0 => {
                let at = which.index(all);
                if matches!(self.runs[at].0.phase, Queued | Preparing | Starting) {
                    self.runs.remove(at);
                }
            }
            Step::Away { server, away } => {
                self.disturbed |= self.away[server] != away;
                self.away[server] = away;
            }
            Step::Resize(max_active) => {
                self.disturbed = true;
                self.size.max_active = max_active;
            }
            Step::Look(_) | Step::GoOn(_) | Step::Stop(_) => {}
        }
    }

    fn look(&mut self, at: usize) {
        let (entry, _) = &self.runs[at];
        if entry.phase != Queued {
            return;
        }
        let entries = self.entries();
        if place(&entries, &entry.run, self.size) == Place::Go {
            let (held, _) = load(&entries, &entries[at].places);
            assert!(held < self.size.max_active, "there was no place");
            self.runs[at].0.phase = Preparing;
        }
    }

    fn go_on(&mut self, at: usize) {
        let next = match self.runs[at].0.phase {
            Queued => return,
            Preparing => Starting,
            Starting => Running,
            Running => Collecting,
            Collecting | Closed => {
                self.runs.remove(at);
                return;
            }
        };
        self.runs[at].0.phase = next;
    }

    fn check(&self) {
        let entries = self.entries();
        let pools = [
            pool(SERVERS[0], self.local, self.away[0]),
            pool(SERVERS[1], self.local, self.away[1]),
        ];
        for places in &pools {
            self.check_pool(&entries, places);
        }
        for (at, entry) in entries.iter().enumerate() {
            let earlier = || entries[..at].iter().filter(|e| e.session == entry.session);
            assert!(
                entry.phase == Queued || earlier().count() == 0,
                "two turns of {} at once: {entries:?}",
                entry.session
            );
            assert_eq!(
                waits_for_own_turn(&entries, &entry.run),
                earlier().next().is_some()
            );
        }
    }

    fn check_pool(&self, entries: &[Entry], places: &Pool) {
        let size = self.size;
        let of_pool: Vec<&Entry> = entries.iter().filter(|e| e.places == *places).collect();
        let waiting: Vec<&Entry> = of_pool
            .iter()
            .copied()
            .filter(|e| e.phase == Queued)
            .collect();
        let held = of_pool
            .iter()
            .filter(|e| matches!(e.phase, Preparing | Starting | Running))
            .count();
        assert_eq!(
            load(entries, places),
            (held as u32, waiting.len() as u32),
            "{places:?} of {entries:?}"
        );
        if !self.disturbed {
            assert!(held as u32 <= size.max_active, "too many hold a place");
            let open = held + waiting.len();
            assert!(
                open as u32 <= size.max_active + size.max_queued,
                "too many were taken on"
            );
        }
        // Whoever could go: those whose session is free, as many as there are places, the first ones.
        let is_free = |e: &Entry| !waits_for_own_turn(entries, &e.run);
        let free = (size.max_active as usize).saturating_sub(held);
        let may_go: Vec<&RunId> = waiting
            .iter()
            .filter(|e| is_free(e))
            .take(free)
            .map(|e| &e.run)
            .collect();
        let told: Vec<Place> = waiting
            .iter()
            .map(|e| place(entries, &e.run, size))
            .collect();
        let queued = waiting.len() as u32;
        let expected: Vec<Place> = (1..)
            .zip(&waiting)
            .map(|(position, e)| match may_go.contains(&&e.run) {
                true => Place::Go,
                false => Place::Wait(QueuePlace { position, queued }),
            })
            .collect();
        assert_eq!(told, expected, "{places:?} of {entries:?}");
    }
}

proptest! {
    #[test]
    fn in_every_lane_places_are_kept_and_given_in_order(
        local: bool,
        max_active in 1u32..5,
        max_queued in 0u32..12,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut lane = Driven::new(local, LaneSize { max_active, max_queued });
        for step in steps {
            lane.take(step);
            lane.check();
        }
    }

    /// However many arrive behind it, and however long its own session is busy.
    #[test]
    fn every_turn_in_a_lane_gets_its_place(
        local: bool,
        max_active in 1u32..5,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let size = LaneSize { max_active, max_queued: 40 };
        let mut lane = Driven::new(local, size);
        for step in steps {
            lane.take(step);
        }
        lane.away = [false; 2];
        lane.size = size;
        let Some(last) = lane.arrive("session-0".into(), 0) else { return Ok(()) };
        let mut waits = true;
        // Each round everyone looks once, everyone who works goes on by one phase, and others arrive.
        for round in 0..4 * lane.runs.len() {
            for at in (0..lane.runs.len()).rev() {
                lane.look(at);
            }
            for at in (0..lane.runs.len()).rev() {
                lane.go_on(at);
            }
            for other in 0..2 {
                lane.arrive(format!("later-{round}-{other}"), other);
            }
            let mine = lane.runs.iter().find(|(entry, _)| entry.run == last);
            waits = mine.is_some_and(|(entry, _)| entry.phase == Queued);
            if !waits {
                break;
            }
        }
        prop_assert!(!waits, "{last} still waits: {:?}", lane.entries());
    }
}
