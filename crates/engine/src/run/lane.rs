//! Admission: who may run now, who waits, and where. First come, first served, and one run per
//! session at a time.

use threadline_contract::{QueuePlace, RunId, SessionKey};
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
pub(crate) fn has_room(lane: &[Entry], size: LaneSize) -> bool {
    let open = lane.iter().filter(|e| e.phase != Phase::Collecting).count() as u64;
    open < u64::from(size.max_active) + u64::from(size.max_queued)
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

/// Where a waiting run stands. A run that waits for an earlier turn of its own session does not
/// hold up others behind it. A run whose files are being collected has left the runtime, so it
/// takes no place; but its session is busy until then, because the next turn would write into the
/// folder that is being read.
pub(crate) fn place(lane: &[Entry], run: &RunId, size: LaneSize) -> Place {
    let mut free =
        i64::from(size.max_active) - lane.iter().filter(|e| holds_place(e.phase)).count() as i64;
    let queued = lane.iter().filter(|e| e.phase == Phase::Queued).count() as u32;
    let mut position = 0;
    for (i, entry) in lane.iter().enumerate() {
        if entry.phase != Phase::Queued {
            continue;
        }
        position += 1;
        let session_is_busy = lane[..i]
            .iter()
            .any(|earlier| earlier.session == entry.session);
        let may_go = free > 0 && !session_is_busy;
        if entry.run == *run {
            return if may_go {
                Place::Go
            } else {
                Place::Wait(QueuePlace { position, queued })
            };
        }
        if may_go {
            free -= 1;
        }
    }
    Place::Go
}

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
        assert!(has_room(&[], size));
        assert!(!has_room(&lane(&[("1", "a", Running)]), size)); // B29
        assert!(has_room(&lane(&[("1", "a", Collecting)]), size));
    }
}
