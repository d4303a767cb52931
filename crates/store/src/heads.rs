//! The last number of each stream, as the one SQLite writer remembers it.
//!
//! Three layers: what is committed, what this batch adds, what the current piece of work adds. A
//! rollback drops a layer, so no number is ever given twice or skipped. The memory is bounded: a
//! stream that is not remembered is looked up in the table.

use std::collections::HashMap;

use crate::StreamId;

/// Streams remembered at most; beyond it everything is forgotten and looked up again.
const MOST: usize = 8192;

#[derive(Debug, Default)]
pub(crate) struct Heads {
    committed: HashMap<StreamId, i64>,
    batch: HashMap<StreamId, i64>,
    work: HashMap<StreamId, i64>,
}

impl Heads {
    pub(crate) fn get(&self, stream: &StreamId) -> Option<i64> {
        [&self.work, &self.batch, &self.committed]
            .into_iter()
            .find_map(|layer| layer.get(stream).copied())
    }

    pub(crate) fn set(&mut self, stream: &StreamId, last: i64) {
        self.work.insert(stream.clone(), last);
    }

    /// The stream is gone. Should that be rolled back, the table says where it stands.
    pub(crate) fn remove(&mut self, stream: &StreamId) {
        for layer in [&mut self.work, &mut self.batch, &mut self.committed] {
            layer.remove(stream);
        }
    }

    /// The current piece of work will be part of the batch.
    pub(crate) fn keep_work(&mut self) {
        self.batch.extend(self.work.drain());
    }

    /// The current piece of work was rolled back.
    pub(crate) fn drop_work(&mut self) {
        self.work.clear();
    }

    /// The batch is on the disk.
    pub(crate) fn committed(&mut self) {
        if self.committed.len() + self.batch.len() > MOST {
            self.committed.clear();
        }
        self.committed.extend(self.batch.drain());
    }

    /// The batch failed. Whether the disk has it is for the table to say.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
#[path = "heads_tests.rs"]
mod tests;
