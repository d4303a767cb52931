//! How long a turn has waited for a place in its lane, where that is limited (`lanes.queue_minutes`).
//!
//! Only time in which somebody looked and found it waiting for a place counts: neither the time in which the
//! server was down, nor the wait for an earlier turn of its own session.

use std::time::Duration;

use tokio::time::Instant;

/// How much time may be lost when the server is killed.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// Counts the time that a turn waits for a place.
#[derive(Debug)]
pub(super) struct LaneClock {
    limit: Option<Duration>,
    waited: Duration,
    saved: Duration,
    /// When it was last found waiting for a place.
    since: Option<Instant>,
}

impl LaneClock {
    /// A clock that goes on from what was counted before.
    pub(super) fn new(limit: Option<Duration>, waited: Duration) -> Self {
        Self {
            limit,
            waited,
            saved: waited,
            since: None,
        }
    }

    /// The turn was found waiting: for an earlier turn of its own session, or for a place.
    pub(super) fn look(&mut self, now: Instant, for_own_turn: bool) {
        if let Some(since) = self.since {
            self.waited += now.saturating_duration_since(since);
        }
        self.since = (!for_own_turn).then_some(now);
    }

    /// How long it may still wait, where that is limited.
    pub(super) fn left(&self) -> Option<Duration> {
        // One that waits for its own thread is not failed, however long it waited for a place before.
        self.since?;
        self.limit.map(|limit| limit.saturating_sub(self.waited))
    }

    /// Whether enough was counted to write it down.
    pub(super) fn is_unsaved(&self) -> bool {
        self.limit.is_some() && self.waited.saturating_sub(self.saved) >= SAVE_EVERY
    }

    /// What is to be written down, if anything.
    pub(super) fn take_unsaved(&mut self) -> Option<Duration> {
        if self.limit.is_none() || self.waited == self.saved {
            return None;
        }
        self.saved = self.waited;
        Some(self.waited)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn only_time_in_the_lane_counts() {
        let begun = Instant::now();
        let mut clock = LaneClock::new(Some(seconds(100)), seconds(40));
        assert_eq!(clock.left(), None, "nobody has looked yet");
        clock.look(begun, true);
        clock.look(begun + seconds(500), true);
        assert_eq!(clock.left(), None, "its own thread is busy");
        clock.look(begun + seconds(900), false);
        assert_eq!(clock.left(), Some(seconds(60)));
        clock.look(begun + seconds(930), false);
        assert_eq!(
            (clock.left(), clock.is_unsaved()),
            (Some(seconds(30)), true)
        );
        assert_eq!(
            (clock.take_unsaved(), clock.take_unsaved()),
            (Some(seconds(70)), None)
        );
        // Another driver goes on from there, however long nobody looked.
        let mut clock = LaneClock::new(Some(seconds(100)), seconds(70));
        clock.look(begun + seconds(9_000), false);
        assert_eq!(clock.left(), Some(seconds(30)));
        clock.look(begun + seconds(9_031), false);
        assert_eq!(clock.left(), Some(Duration::ZERO));
    }

    #[test]
    fn without_a_limit_nothing_is_counted_or_written() {
        let mut clock = LaneClock::new(None, Duration::ZERO);
        let now = Instant::now();
        clock.look(now, false);
        clock.look(now + seconds(900), false);
        assert_eq!(
            (clock.left(), clock.is_unsaved(), clock.take_unsaved()),
            (None, false, None)
        );
    }
}
