//! Admission: who may run now, who waits, and where. The rule is [`lane::may_begin`]; here is which runs of a
//! record it is about.

use threadline_contract::{
    QueuePlace, RunId, SessionKey,
    lane::{self, Standing},
};
use threadline_runtimes::LaneSize;

use threadline_store::Phase;

use super::phase::holds_place;

/// An open run of one runtime, in the order in which it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The run.
    pub(crate) run: RunId,
    /// Its session.
    pub(crate) session: SessionKey,
    /// Where it is.
    pub(crate) phase: Phase,
    /// Which places it takes one of.
    pub(crate) places: Pool,
}

/// Places of a runtime that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// Of all servers that share the database and are there: they send to one gateway.
    Common,
    /// Of one server: its agents run on its own host, or it is away.
    Of(String),
}

/// Which places a run takes. `local`: its agent runs on its server's host. A run of a server that is
/// away takes none from those that are there: it may stay open for as long as that server is away.
pub(crate) fn pool(server: &str, local: bool, away: bool) -> Pool {
    match local || away {
        true => Pool::Of(server.to_owned()),
        false => Pool::Common,
    }
}

/// What a run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Run.
    Go,
    /// Wait, there.
    Wait(QueuePlace),
}

/// Whether one more run may be accepted at all.
pub(crate) fn has_room(lane: &[Entry], places: &Pool, size: LaneSize) -> bool {
    let takes = |e: &&Entry| e.places == *places && e.phase != Phase::Collecting;
    let open = lane.iter().filter(takes).count() as u64;
    open < u64::from(size.max_active) + u64::from(size.max_queued)
}

/// How many runs hold one of these places, and how many wait for one. One whose files are being collected
/// has left the runtime, and its place is free.
pub(crate) fn load(lane: &[Entry], places: &Pool) -> (u32, u32) {
    let of_these = || lane.iter().filter(|e| e.places == *places);
    let held = of_these().filter(|e| holds_place(e.phase)).count();
    let queued = of_these().filter(|e| e.phase == Phase::Queued).count();
    (held as u32, queued as u32)
}

/// Whether a run waits for an earlier turn of its own session, and not for a place.
pub(crate) fn waits_for_own_turn(lane: &[Entry], run: &RunId) -> bool {
    let at = lane.iter().position(|entry| entry.run == *run);
    at.is_some_and(|at| {
        lane[..at]
            .iter()
            .any(|earlier| earlier.session == lane[at].session)
    })
}

/// Where a waiting run stands. A run whose files are being collected has left the runtime, so it takes no
/// place; but its session is busy until then, because the next turn would write into the folder that is being
/// read. So is the session of a run that takes a place of another pool.
pub(crate) fn place(lane: &[Entry], run: &RunId, size: LaneSize) -> Place {
    let Some(asked) = lane.iter().find(|e| e.run == *run) else {
        return Place::Go;
    };
    let standing = |entry: &Entry| match entry.places == asked.places {
        true if entry.phase == Phase::Queued => Standing::Waiting,
        true if holds_place(entry.phase) => Standing::Active,
        _ => Standing::Busy,
    };
    let turns = lane.iter().map(|entry| (&entry.session, standing(entry)));
    let places = usize::try_from(size.max_active).unwrap_or(usize::MAX);
    let is_asked = |at: usize| lane.get(at).is_some_and(|entry| entry.run == *run);
    let waits = asked.phase == Phase::Queued;
    if !waits || lane::may_begin(turns, places).any(is_asked) {
        return Place::Go;
    }
    let in_line = |entry: &&Entry| standing(entry) == Standing::Waiting;
    let before = lane.iter().take_while(|entry| entry.run != *run);
    let (_, queued) = load(lane, &asked.places);
    Place::Wait(QueuePlace {
        position: before.filter(in_line).count() as u32 + 1,
        queued,
    })
}

#[cfg(test)]
#[path = "lane_properties.rs"]
mod properties;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use Phase::*;

    fn lane(entries: &[(&str, &str, Phase)]) -> Vec<Entry> {
        let make = |(run, session, phase): &(&str, &str, Phase)| Entry {
            run: RunId::new(run).unwrap(),
            session: SessionKey::new(session).unwrap(),
            phase: *phase,
            places: Pool::Common,
        };
        entries.iter().map(make).collect()
    }
    fn at(lane: &[Entry], run: &str, max_active: u32) -> Place {
        place(
            lane,
            &RunId::new(run).unwrap(),
            LaneSize {
                max_active,
                max_queued: 20,
            },
        )
    }
    fn wait(position: u32, queued: u32) -> Place {
        Place::Wait(QueuePlace { position, queued })
    }

    #[test]
    fn first_come_first_served_with_live_positions() {
        let mut runs = lane(&[
            ("1", "a", Running),
            ("2", "b", Queued),
            ("3", "c", Queued),
            ("4", "d", Queued),
        ]);
        assert_eq!(
            [at(&runs, "2", 1), at(&runs, "3", 1), at(&runs, "4", 1)],
            [wait(1, 3), wait(2, 3), wait(3, 3)]
        );
        runs.remove(0); // B30
        assert_eq!(
            [at(&runs, "2", 1), at(&runs, "3", 1), at(&runs, "4", 1)],
            [Place::Go, wait(2, 3), wait(3, 3)]
        );
        assert_eq!(
            [at(&runs, "2", 2), at(&runs, "3", 2), at(&runs, "4", 2)],
            [Place::Go, Place::Go, wait(3, 3)]
        );
    }

    #[test]
    fn one_run_per_session_and_others_may_pass() {
        let runs = lane(&[
            ("1", "a", Running),
            ("2", "a", Queued),
            ("3", "a", Queued),
            ("4", "b", Queued),
        ]);
        assert_eq!(
            [at(&runs, "2", 5), at(&runs, "3", 5), at(&runs, "4", 5)],
            [wait(1, 3), wait(2, 3), Place::Go]
        );
        let collecting = lane(&[
            ("1", "a", Collecting),
            ("2", "a", Queued),
            ("3", "b", Queued),
        ]);
        assert_eq!(
            [at(&collecting, "2", 1), at(&collecting, "3", 1)],
            [wait(1, 2), Place::Go]
        );
    }

    #[test]
    fn a_full_lane_takes_nobody() {
        let size = LaneSize {
            max_active: 1,
            max_queued: 0,
        };
        let room = |lane: &[Entry]| has_room(lane, &Pool::Common, size);
        assert!(room(&[]));
        assert!(!room(&lane(&[("1", "a", Running)]))); // B29
        assert!(room(&lane(&[("1", "a", Collecting)])));
    }

    #[test]
    fn runs_take_places_of_their_own_pool_only_and_a_session_is_busy_whoever_drives_it() {
        let mut runs = lane(&[
            ("1", "a", Running),
            ("2", "b", Queued),
            ("3", "c", Queued),
            ("4", "a", Queued),
        ]);
        for gone in &mut runs[..2] {
            gone.places = pool("gone", false, true);
        }
        assert_eq!(
            ["1", "2", "3", "4"].map(|run| at(&runs, run, 1)),
            [Place::Go, wait(1, 1), Place::Go, wait(2, 2)]
        );
        assert_eq!(
            [
                load(&runs, &Pool::Common),
                load(&runs, &pool("gone", true, false))
            ],
            [(0, 2), (1, 1)]
        );
        let size = LaneSize {
            max_active: 1,
            max_queued: 1,
        };
        assert!(!has_room(&runs, &Pool::Common, size));
        assert!(has_room(&runs[..3], &Pool::Common, size));
    }
}
