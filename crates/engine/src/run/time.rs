//! How long a run may take and how long it has. Time in which a question is open counts for nothing.

use threadline_contract::{LoadClass, Millis};
use threadline_store::{Run, StoredQuestion};

/// How many minutes a run may take, by the class that its request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// `short_task`.
    pub short: u32,
    /// `long_task`, which is everything that names no class.
    pub long: u32,
    /// `complex_chain_task`.
    pub complex: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            short: 10,
            long: 30,
            complex: 60,
        }
    }
}

impl Budgets {
    /// The minutes of a class.
    pub const fn minutes(self, class: LoadClass) -> u32 {
        match class {
            LoadClass::ShortTask => self.short,
            LoadClass::LongTask => self.long,
            LoadClass::ComplexChainTask => self.complex,
        }
    }
}

/// The times of a run that has begun, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// How long the runtime has worked on it.
    pub(crate) wall: i64,
    /// How much of that a question was open.
    pub(crate) waited: i64,
    /// When its time is over; where a question is open, as if it were answered now.
    pub(crate) deadline: Option<Millis>,
}

impl Times {
    /// The times by `now`, unless the run has not begun.
    pub(crate) fn of(
        run: &Run,
        minutes: Option<u32>,
        questions: &[StoredQuestion],
        now: Millis,
    ) -> Option<Self> {
        let from = run.started_at?;
        let until = run.ended_at.unwrap_or(now);
        let waited = waited(questions, from, until);
        Some(Self {
            wall: until.since(from),
            waited,
            deadline: minutes.map(|minutes| from.plus(i64::from(minutes) * 60_000 + waited)),
        })
    }
}

/// How long a question was open between two moments; several at once count once.
pub(crate) fn waited(questions: &[StoredQuestion], from: Millis, until: Millis) -> i64 {
    let mut open: Vec<(Millis, Millis)> = questions
        .iter()
        .map(|q| {
            (
                q.asked_at.max(from),
                q.closed_at.unwrap_or(until).min(until),
            )
        })
        .collect();
    open.sort_unstable();
    let (mut sum, mut counted) = (0, from);
    for (asked, closed) in open {
        let asked = asked.max(counted);
        if closed > asked {
            sum += closed.since(asked);
            counted = closed;
        }
    }
    sum
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
