//! What was seen and not taken.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use threadline_contract::{OmitReason, Omitted, shown_name};
use threadline_files::{Reason, walk::Problem};

/// How many omissions are named one by one. The rest is counted: a hostile tree must not be able
/// to fill our memory with names.
const NAMED: usize = 1_000;
/// How many of those are that were there before the run and did not change: a folder that all runs
/// share gathers more of them with every run, and they hide the others.
const UNCHANGED_NAMED: u64 = 20;

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

    /// What was not taken from the folder that a run worked in, put together with what was not listed
    /// of its scope. Each name has one fate: one that was delivered was not left out (unless another
    /// file had its name), and one that both looks came upon is told once.
    #[must_use]
    pub fn with(mut self, scope: Self, is_delivered: impl Fn(&str) -> bool) -> Self {
        let told: HashSet<&str> = scope.named.iter().map(|o| o.path.as_str()).collect();
        let counts = &mut self.counts;
        self.named.retain(|omitted| {
            let path = omitted.path.as_str();
            let taken = omitted.reason != OmitReason::NameTaken && is_delivered(path);
            let once_more = taken || told.contains(path);
            if once_more && let Some(count) = counts.get_mut(&omitted.reason) {
                *count = count.saturating_sub(1);
            }
            !once_more
        });
        self.counts.retain(|_, count| *count > 0);
        self.append(scope);
        self.order();
        self
    }

    /// Adds others.
    pub(crate) fn append(&mut self, others: Self) {
        for (reason, count) in others.counts {
            *self.counts.entry(reason).or_default() += count;
        }
        let room = NAMED.saturating_sub(self.named.len());
        self.named.extend(others.named.into_iter().take(room));
    }

    /// What somebody may miss comes first, what the run had nothing to do with last.
    pub(crate) fn order(&mut self) {
        let last = |o: &Omitted| o.reason == OmitReason::ChangedOutsideRun;
        self.named
            .sort_unstable_by(|a, b| (last(a), a).cmp(&(last(b), b)));
    }

    pub(crate) fn add(&mut self, path: impl Into<String>, reason: OmitReason) {
        let count = self.counts.entry(reason).or_default();
        *count += 1;
        let enough = reason == OmitReason::ChangedOutsideRun && *count > UNCHANGED_NAMED;
        if self.named.len() < NAMED && !enough {
            let path = path.into();
            let path = shown_name(&path).into_owned();
            self.named.push(Omitted { path, reason });
        }
    }
}

/// Omissions that come in no order, of which those with the first paths are named.
#[derive(Debug, Default)]
pub(crate) struct Unordered {
    counts: BTreeMap<OmitReason, u64>,
    named: BTreeSet<(String, OmitReason)>,
    unchanged: BTreeSet<(String, OmitReason)>,
}

impl Unordered {
    pub(crate) fn add(&mut self, path: &str, reason: OmitReason) {
        *self.counts.entry(reason).or_default() += 1;
        let (named, most) = match reason {
            OmitReason::ChangedOutsideRun => (&mut self.unchanged, UNCHANGED_NAMED as usize),
            _ => (&mut self.named, NAMED),
        };
        let full = named.len() >= most;
        if full && named.last().is_some_and(|last| last.0.as_str() <= path) {
            return;
        }
        named.insert((shown_name(path).into_owned(), reason));
        if named.len() > most {
            named.pop_last();
        }
    }

    /// All of them, by path.
    pub(crate) fn ordered(mut self) -> Omissions {
        self.named.append(&mut self.unchanged);
        let named = self.named.into_iter().take(NAMED);
        Omissions {
            named: named
                .map(|(path, reason)| Omitted { path, reason })
                .collect(),
            counts: self.counts,
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
        Problem::Protected => OmitReason::Protected,
    }
}

/// Why a file that a walk had seen could not be opened or read.
pub(crate) fn of_reason(reason: Reason) -> OmitReason {
    match reason {
        Reason::NotFound | Reason::NotDirectory => OmitReason::Vanished,
        Reason::Symlink => OmitReason::Symlink,
        Reason::NotRegular => OmitReason::SpecialFile,
        Reason::HardLinked => OmitReason::HardLink,
        Reason::Protected => OmitReason::Protected,
        Reason::TooLarge => OmitReason::TooLarge,
        _ => OmitReason::Unreadable,
    }
}

#[cfg(test)]
#[path = "omissions_tests.rs"]
mod tests;
