//! How long to go on trying. Decides; does not wait.

use std::time::{Duration, Instant};

use threadline_retry::Pauses;

use crate::config::Timings;

/// Counts failures in a row. Any sign of life starts it over.
#[derive(Debug)]
pub(crate) struct Patience {
    since: Option<Instant>,
    allowed: u32,
    window: Duration,
    pauses: Pauses,
}

impl Patience {
    /// For a bridge that may be restarting: gives up when both the count and the time are used up.
    pub(crate) fn new(timings: &Timings) -> Self {
        Self {
            since: None,
            allowed: timings.failures,
            window: timings.patience,
            pauses: timings.backoff.pauses(),
        }
    }

    /// For something that is tried a number of times, however long that takes.
    pub(crate) fn tries(tries: u32, timings: &Timings) -> Self {
        Self {
            allowed: tries.saturating_sub(1),
            window: Duration::ZERO,
            ..Self::new(timings)
        }
    }

    /// A sign of life.
    pub(crate) fn reset(&mut self) {
        self.pauses.reset();
        self.since = None;
    }

    /// A failure: how long to pause before the next try, or `None` to give up.
    pub(crate) fn failed(&mut self, now: Instant) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        let pause = self.pauses.next_pause();
        let is_over =
            self.pauses.count() > self.allowed && now.duration_since(since) >= self.window;
        (!is_over).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use threadline_retry::Backoff;

    use super::*;

    fn timings(patience: u64) -> Timings {
        Timings {
            failures: 5,
            patience: Duration::from_secs(patience),
            backoff: Backoff::from_millis(100, 1_000).with_chance(50),
            ..Timings::default()
        }
    }

    #[test]
    fn a24_five_failures_in_a_row_are_borne_and_the_sixth_is_not() {
        let mut patience = Patience::new(&timings(0));
        let now = Instant::now();
        for _ in 0..5 {
            assert!(patience.failed(now).is_some());
        }
        assert_eq!(patience.failed(now), None);
        patience.reset();
        assert!(patience.failed(now).is_some());
    }

    #[test]
    fn a_bridge_has_the_whole_window_to_come_back() {
        let mut patience = Patience::new(&timings(120));
        let start = Instant::now();
        let mut now = start;
        let mut tries = 0;
        while let Some(pause) = patience.failed(now) {
            assert!(pause <= Duration::from_secs(1));
            assert!(pause >= Duration::from_millis(50));
            now += pause;
            tries += 1;
        }
        assert!(now - start >= Duration::from_secs(120));
        assert!(tries > 100);
    }
}
