//! The order in which a transaction locks rows. All decisions keep to it, so that no two of them wait for each other.

use std::collections::BTreeSet;

/// The kinds of rows that a decision locks, first to last. On PostgreSQL a lock is a row lock; SQLite has one writer
/// and needs none, but keeps to the same order, so that a mistake is found on either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A task of the board.
    Task,
    /// An agent of the board.
    Agent,
    /// A build.
    Build,
    /// A session.
    Session,
    /// A run.
    Run,
    /// The counter of a stream, which every append locks.
    Stream,
}

/// What one transaction has locked.
#[derive(Debug, Default)]
pub(crate) struct LockOrder {
    held: BTreeSet<(Rank, Box<str>)>,
}

impl LockOrder {
    /// Notes that a row is about to be locked. The error says which later one was locked before it: two rows of one
    /// kind are locked in the order of their keys.
    pub(crate) fn take(&mut self, rank: Rank, key: &str) -> Result<(), String> {
        let row = (rank, Box::from(key));
        if self.held.contains(&row) {
            return Ok(());
        }
        if let Some((last, held)) = self.held.last().filter(|last| **last > row) {
            return Err(format!(
                "{rank:?} {key} is locked after {last:?} {held}: lock rows in the order of their kinds and keys"
            ));
        }
        self.held.insert(row);
        Ok(())
    }
}

#[cfg(test)]
#[path = "lock_order_tests.rs"]
mod tests;
