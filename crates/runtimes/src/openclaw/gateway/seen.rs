//! Which runs were seen at work, and when: whether two overlapped decides whose a file is.

use std::collections::HashMap;

use threadline_contract::Millis;

/// Runs that are remembered.
const MOST: usize = 1024;
/// A run of which nothing was heard for so long is over, whatever became of it.
const OVER_MS: i64 = 6 * 60 * 60 * 1000;

/// What was seen. Bounded: the run that was heard of longest ago is forgotten first.
#[derive(Default)]
pub(super) struct Seen(HashMap<String, Run>);

struct Run {
    session: String,
    first: Millis,
    last: Millis,
    ended: bool,
}

impl Seen {
    /// An event of this run came, perhaps its last.
    pub(super) fn note(&mut self, run: &str, session: &str, at: Millis, ended: bool) {
        if let Some(known) = self.0.get_mut(run) {
            known.last = at.max(known.last);
            known.ended |= ended;
            return;
        }
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, run)| run.last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.0.remove(&oldest);
            }
        }
        let run_seen = Run {
            session: session.to_owned(),
            first: at,
            last: at,
            ended,
        };
        self.0.insert(run.to_owned(), run_seen);
    }

    /// Whether another session was at work in this time.
    pub(super) fn others_between(&self, session: &str, from: Millis, to: Millis) -> bool {
        self.0.values().any(|run| {
            let until = match run.ended {
                true => run.last,
                false => run.last.plus(OVER_MS),
            };
            run.session != session && run.first <= to && until >= from
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_session_at_the_same_time_counts() {
        let mut seen = Seen::default();
        seen.note("1", "a", Millis(1_000), false);
        seen.note("2", "b", Millis(5_000), false);
        seen.note("2", "b", Millis(9_000), true);
        seen.note("1", "a", Millis(9_500), true);
        assert!(!seen.others_between("a", Millis(0), Millis(4_999)));
        assert!(seen.others_between("a", Millis(0), Millis(5_000)));
        assert!(seen.others_between("a", Millis(6_000), Millis(7_000)));
        assert!(!seen.others_between("a", Millis(9_001), Millis(10_000)));
        assert!(seen.others_between("b", Millis(2_000), Millis(10_000)));
    }

    #[test]
    fn a_run_that_has_not_ended_is_still_at_work() {
        let mut seen = Seen::default();
        seen.note("1", "a", Millis(1_000), false);
        assert!(seen.others_between("b", Millis(60_000), Millis(70_000)));
        assert!(!seen.others_between("b", Millis(OVER_MS * 2), Millis(OVER_MS * 3)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut seen = Seen::default();
        for i in 0..(MOST as i64 + 100) {
            seen.note(&format!("r{i}"), "s", Millis(i), true);
        }
        assert_eq!(seen.0.len(), MOST);
        assert!(seen.0.contains_key("r1000"));
    }
}
