//! What was seen and not taken.

use std::collections::BTreeMap;

use threadline_contract::{OmitReason, Omitted};
use threadline_files::{Reason, walk::Problem};

/// How many omissions are named one by one. The rest is counted: a hostile tree must not be able
/// to fill our memory with names.
const NAMED: usize = 1_000;

/// What was seen and not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omissions {
    /// The first of them, with their reasons.
    pub named: Vec<Omitted>,
    /// All of them, counted by reason.
    pub counts: BTreeMap<OmitReason, u64>,
}

impl Omissions {
    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Takes over what another look found.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (reason, count) in other.counts {
            *self.counts.entry(reason).or_default() += count;
        }
        let room = NAMED.saturating_sub(self.named.len());
        self.named.extend(other.named.into_iter().take(room));
        self.named.sort_unstable();
    }

    pub(crate) fn add(&mut self, path: impl Into<String>, reason: OmitReason) {
        *self.counts.entry(reason).or_default() += 1;
        if self.named.len() < NAMED {
            self.named.push(Omitted {
                path: path.into(),
                reason,
            });
        }
    }
}

/// Why a walk's problem keeps a file from being taken.
pub(crate) fn of_problem(problem: Problem) -> OmitReason {
    match problem {
        Problem::Symlink => OmitReason::Symlink,
        Problem::Special => OmitReason::SpecialFile,
        Problem::NameNotUtf8 => OmitReason::NameNotUtf8,
        Problem::Unreadable => OmitReason::Unreadable,
        Problem::TooDeep => OmitReason::TooDeep,
    }
}

/// Why a file that a walk had seen could not be opened or read.
pub(crate) fn of_reason(reason: Reason) -> OmitReason {
    match reason {
        Reason::NotFound | Reason::NotDirectory => OmitReason::Vanished,
        Reason::Symlink => OmitReason::Symlink,
        Reason::NotRegular => OmitReason::SpecialFile,
        Reason::HardLinked => OmitReason::HardLink,
        Reason::TooLarge => OmitReason::TooLarge,
        _ => OmitReason::Unreadable,
    }
}
