//! Pauses between tries: how they grow ([`Backoff`]), and how long they are everywhere in the program
//! ([`table`]). Decides; does not wait.
//!
//! No crate for it: `backon` adds its chance on top of the longest pause, from nothing to all of it, where
//! what is promised here is a longest pause; and its pauses can only be had one after the other, where a
//! gateway's are asked for by the number of tries.

pub mod table;

use std::time::Duration;

use rand::RngExt as _;

/// Doubling is of no use any more: even a millisecond has become a minute.
const MAX_DOUBLINGS: u32 = 16;

/// How the pauses between tries grow: each is twice as long as the one before, up to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// How much of each pause is left to chance, in per cent, so that many clients do not come back at the
    /// same moment.
    pub chance: u8,
}

impl Backoff {
    /// Pauses of so many milliseconds, first and longest, without chance.
    pub const fn from_millis(first: u64, longest: u64) -> Self {
        Self {
            first: Duration::from_millis(first),
            longest: Duration::from_millis(longest),
            chance: 0,
        }
    }

    /// The same, with so many per cent of each pause left to chance.
    pub const fn with_chance(self, chance: u8) -> Self {
        Self { chance, ..self }
    }

    /// The pause when so many tries failed before the last one, as long as it can be.
    pub fn at_most(&self, failed_before: u32) -> Duration {
        let doubled = 1_u32 << failed_before.min(MAX_DOUBLINGS);
        self.first.saturating_mul(doubled).min(self.longest)
    }

    /// A pause with chance taken into account. `dice`: 0 makes it shortest, 1 leaves it as it is.
    pub fn thrown(&self, pause: Duration, dice: f64) -> Duration {
        let share = f64::from(self.chance) / 100.0;
        pause.mul_f64(1.0 - share * (1.0 - dice.clamp(0.0, 1.0)))
    }

    /// Pauses from the first one on.
    pub const fn pauses(self) -> Pauses {
        Pauses {
            backoff: self,
            failed: 0,
        }
    }
}

/// Pauses of a [`Backoff`], one after the other and without an end.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    backoff: Backoff,
    failed: u32,
}

impl Pauses {
    /// The pause before the next try.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.backoff.at_most(self.failed);
        self.failed = self.failed.saturating_add(1);
        self.backoff.thrown(pause, dice())
    }

    /// How many pauses there were.
    pub const fn count(&self) -> u32 {
        self.failed
    }

    /// A try went well: the next pause is the first again.
    pub const fn reset(&mut self) {
        self.failed = 0;
    }
}

/// Chance, 0 to 1.
pub fn dice() -> f64 {
    rand::rng().random_range(0.0..=1.0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn millis(pauses: &mut Pauses, count: usize) -> Vec<u128> {
        std::iter::repeat_with(|| pauses.next_pause().as_millis())
            .take(count)
            .collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut pauses = Backoff::from_millis(200, 1000).pauses();
        assert_eq!(millis(&mut pauses, 5), [200, 400, 800, 1000, 1000]);
        assert_eq!(pauses.count(), 5);
        pauses.reset();
        assert_eq!(millis(&mut pauses, 2), [200, 400]);
    }

    #[test]
    fn pauses_stay_at_the_longest_however_many_there_were() {
        let backoff = Backoff::from_millis(500, 30_000);
        assert_eq!(backoff.at_most(u32::MAX), Duration::from_secs(30));
        let endless = Backoff {
            first: Duration::MAX,
            ..backoff
        };
        assert_eq!(endless.at_most(3), Duration::from_secs(30));
    }

    #[test]
    fn chance_only_shortens_and_only_its_share() {
        let backoff = Backoff::from_millis(1000, 1000).with_chance(20);
        let thrown = [0.0, 0.5, 1.0].map(|dice| backoff.thrown(backoff.first, dice));
        assert_eq!(thrown.map(|pause| pause.as_millis()), [800, 900, 1000]);
        let mut pauses = backoff.pauses();
        let range = Duration::from_millis(800)..=Duration::from_millis(1000);
        assert!((0..1000).all(|_| range.contains(&pauses.next_pause())));
    }
}
