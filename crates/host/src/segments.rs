//! A journal in pieces, so that what was acknowledged can be let go of.
//!
//! Each piece is a [`Journal`] of its own, named by the number of its first entry. Entries are
//! numbered without gaps, so the piece after one is always the one named by the next number.

use std::path::{Path, PathBuf};

use threadline_files::{
    Access, Durability, Journal, JournalError, JournalReader, Root, atomic, journal::Records,
};

use crate::{Entry, HostError};

/// How large a piece grows before it is followed by another one.
pub(crate) const PIECE_BYTES: u64 = 4 * 1024 * 1024;

/// The writer.
#[derive(Debug)]
pub(crate) struct Segments {
    folder: PathBuf,
    root: Root,
    /// First entries of the pieces that are there, the oldest first. The last is written to.
    pieces: std::collections::VecDeque<u64>,
    journal: Journal,
    piece_bytes: u64,
}

impl Segments {
    /// Begins with entry 1 in a folder of its own, which must be empty or not there.
    pub(crate) fn create(folder: &Path, piece_bytes: u64) -> Result<Self, JournalError> {
        let root = atomic::create_dir_all(folder, Access::Private)?;
        Ok(Self {
            journal: Journal::open(piece(folder, 1))?,
            root,
            folder: folder.to_owned(),
            pieces: [1].into(),
            piece_bytes,
        })
    }

    /// The oldest entry that is there, or would be.
    pub(crate) fn first(&self) -> u64 {
        self.pieces.front().copied().unwrap_or(1)
    }

    /// Writes an entry and gives its size. When this fails, it is not there.
    pub(crate) fn append(
        &mut self,
        entry: &Entry,
        durability: Durability,
    ) -> Result<u64, JournalError> {
        if self.journal.end() >= self.piece_bytes {
            self.journal.sync()?;
            self.journal = Journal::open(piece(&self.folder, entry.no))?;
            self.pieces.push_back(entry.no);
        }
        let start = self.journal.end();
        Ok(self.journal.append(entry, durability)? - start)
    }

    pub(crate) fn sync(&mut self) -> Result<(), JournalError> {
        self.journal.sync()
    }

    /// Lets go of the pieces that hold nothing after this entry.
    pub(crate) fn forget(&mut self, acked: u64) -> Result<(), JournalError> {
        while let (Some(first), Some(next)) = (self.pieces.front(), self.pieces.get(1)) {
            if *next > acked + 1 {
                break;
            }
            self.root.remove_file(name(*first))?;
            self.pieces.pop_front();
        }
        Ok(())
    }
}

/// What is read of an entry: [`Entry`] itself, or less of it.
pub(crate) trait Numbered: serde::de::DeserializeOwned {
    fn no(&self) -> u64;
}

impl Numbered for Entry {
    fn no(&self) -> u64 {
        self.no
    }
}

/// Reads entries in order, behind a writer or after it has gone.
pub(crate) struct Cursor<T = Entry> {
    folder: PathBuf,
    /// The number of the next entry.
    next: u64,
    reader: JournalReader,
    /// Where in the piece to go on.
    at: u64,
    records: Option<Records<T>>,
}

impl<T: Numbered> Cursor<T> {
    /// Stands before the entry after this one.
    pub(crate) fn after(folder: &Path, after: u64) -> Result<Self, HostError> {
        let next = after + 1;
        let mut pieces: Vec<u64> = Root::open(folder)?
            .entries("")?
            .iter()
            .filter_map(|entry| number(&entry.name))
            .collect();
        pieces.sort_unstable();
        let Some(first) = pieces.iter().copied().rfind(|first| *first <= next) else {
            let found = pieces.first().copied();
            return Err(HostError::Gap {
                expected: next,
                found,
            });
        };
        let mut cursor = Self {
            folder: folder.to_owned(),
            next: first,
            reader: JournalReader::open(piece(folder, first))?,
            at: 0,
            records: None,
        };
        while cursor.next < next {
            if cursor.read()?.is_none() {
                return Err(HostError::Gap {
                    expected: next,
                    found: None,
                });
            }
        }
        Ok(cursor)
    }

    /// The next entry, if it is there yet.
    pub(crate) fn read(&mut self) -> Result<Option<T>, HostError> {
        loop {
            let mut records = match self.records.take() {
                Some(records) => records,
                None => self.reader.read_after(self.at)?,
            };
            if let Some(record) = records.next().transpose()? {
                self.records = Some(records);
                self.at = record.next;
                if record.value.no() != self.next {
                    return Err(HostError::Gap {
                        expected: self.next,
                        found: Some(record.value.no()),
                    });
                }
                self.next += 1;
                return Ok(Some(record.value));
            }
            let following = piece(&self.folder, self.next);
            // A piece without entries is named by the number it waits for: it is this one.
            if self.at == 0 || !following.exists() {
                return Ok(None);
            }
            self.reader = JournalReader::open(following)?;
            self.at = 0;
        }
    }
}

fn name(first: u64) -> String {
    format!("{first:020}.journal")
}

fn piece(folder: &Path, first: u64) -> PathBuf {
    folder.join(name(first))
}

fn number(name: &std::ffi::OsStr) -> Option<u64> {
    name.to_str()?.strip_suffix(".journal")?.parse().ok()
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "segments_properties.rs"]
mod properties;
