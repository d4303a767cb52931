//! How long a gateway may be silent, and what is done about it.

use std::time::Duration;

use tokio::time::Instant;

/// After so long without a frame the gateway is asked for a sign of life, which costs it nothing.
const PING_AFTER: Duration = Duration::from_secs(3);
/// After so long it is taken not to answer at present.
const UNHEARD_AFTER: Duration = Duration::from_secs(5);
/// After so long the connection is given up. A busy gateway may need seconds to get round to it.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(15);

/// How long nothing was heard.
pub(super) struct Silence {
    /// How long there may be no word; a sign of life is none.
    patience: Duration,
    word: Instant,
    sign: Instant,
    /// What was done about it since.
    done: usize,
}

/// What a silence comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Sign {
    /// A sign of life is asked for.
    Ping,
    /// It does not answer at present.
    Unheard,
    /// The connection is given up after so long.
    GivenUp(Duration),
}

impl Silence {
    const STEPS: [Duration; 3] = [PING_AFTER, UNHEARD_AFTER, GIVEN_UP_AFTER];

    pub(super) fn new(patience: Duration, now: Instant) -> Self {
        Self {
            patience,
            word: now,
            sign: now,
            done: 0,
        }
    }

    /// Something came.
    pub(super) fn heard(&mut self, is_word: bool, now: Instant) {
        self.sign = now;
        self.done = 0;
        if is_word {
            self.word = now;
        }
    }

    /// When something is to be done about it.
    pub(super) fn next(&self) -> Instant {
        let step = Self::STEPS.get(self.done).unwrap_or(&GIVEN_UP_AFTER);
        (self.sign + *step).min(self.word + self.patience)
    }

    /// What is to be done now.
    pub(super) fn passed(&mut self, now: Instant) -> Option<Sign> {
        if now >= self.word + self.patience {
            return Some(Sign::GivenUp(self.patience));
        }
        let step = Self::STEPS.get(self.done)?;
        if now < self.sign + *step {
            return None;
        }
        self.done += 1;
        Some(match self.done {
            1 => Sign::Ping,
            2 => Sign::Unheard,
            _ => Sign::GivenUp(GIVEN_UP_AFTER),
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// What a silence comes to at these seconds after its beginning.
    fn at(silence: &mut Silence, begun: Instant, seconds: &[u64]) -> Vec<Option<Sign>> {
        let at = seconds.iter().map(|s| begun + Duration::from_secs(*s));
        at.map(|now| silence.passed(now)).collect()
    }

    #[test]
    fn a_sign_of_life_is_asked_for_before_a_connection_is_given_up() {
        let begun = Instant::now();
        let mut silence = Silence::new(Duration::from_secs(60), begun);
        let asked = [None, Some(Sign::Ping), Some(Sign::Unheard)];
        assert_eq!(at(&mut silence, begun, &[2, 3, 5]), asked);
        let later = begun + Duration::from_secs(6);
        silence.heard(false, later);
        assert_eq!(at(&mut silence, later, &[2, 3, 5]), asked);
        let given_up = [None, Some(Sign::GivenUp(GIVEN_UP_AFTER))];
        assert_eq!(at(&mut silence, later, &[14, 15]), given_up);
    }

    #[test]
    fn a_sign_of_life_is_no_word() {
        let begun = Instant::now();
        let patience = Duration::from_secs(6);
        let mut silence = Silence::new(patience, begun);
        let later = begun + Duration::from_secs(5);
        silence.heard(false, later);
        assert_eq!(silence.next(), begun + patience);
        let given_up = [None, Some(Sign::GivenUp(patience))];
        assert_eq!(at(&mut silence, begun, &[5, 6]), given_up);
        silence.heard(true, later);
        assert_eq!(at(&mut silence, begun, &[6]), [None]);
    }
}
