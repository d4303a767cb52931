//! Reading a journal: while opening it, for replay, and behind a live writer.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read},
    marker::PhantomData,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use serde::de::DeserializeOwned;

use super::{JournalError, LONGEST_RECORD, line};
use crate::{Error, atomic};

/// One record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<T> {
    /// Where it begins.
    pub offset: u64,
    /// The cursor after it: ask again from here for what comes later.
    pub next: u64,
    /// The record.
    pub value: T,
}

/// Reads a journal, also while a writer appends to it.
#[derive(Debug)]
pub struct JournalReader {
    file: File,
    path: PathBuf,
}

impl JournalReader {
    /// Opens a journal for reading.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let file = atomic::open_own(&path, OFlags::RDONLY, Mode::empty())?;
        Ok(Self { file, path })
    }

    /// The records after a cursor (0 is the beginning) that are there now. A line that is only
    /// half written ends the answer: ask again from the last record's `next`.
    pub fn read_after<T: DeserializeOwned>(&self, cursor: u64) -> Result<Records<T>, JournalError> {
        let failed = |e| JournalError::Files(Error::io(e, &self.path));
        let end = self.file.metadata().map_err(failed)?.len();
        if cursor > end {
            return Err(JournalError::PastEnd {
                path: self.path.clone(),
                cursor,
                end,
            });
        }
        let file = self.file.try_clone().map_err(failed)?;
        Ok(Records {
            lines: Some(Lines::new(file, cursor)),
            path: self.path.clone(),
            kind: PhantomData,
        })
    }
}

/// Records in order. Holds one at a time, however long the journal is; ends after an error.
#[derive(Debug)]
pub struct Records<T> {
    /// `None` once the end or an error was reached.
    lines: Option<Lines<File>>,
    path: PathBuf,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Records<T> {
    fn step(&mut self) -> Result<Option<Record<T>>, JournalError> {
        let Some(lines) = &mut self.lines else {
            return Ok(None);
        };
        match lines.next().map_err(|e| Error::io(e, &self.path))? {
            Line::Record { at, next } => {
                let value = serde_json::from_slice(lines.json()).map_err(|cause| {
                    JournalError::NotUnderstood {
                        path: self.path.clone(),
                        offset: at,
                        cause,
                    }
                })?;
                Ok(Some(Record {
                    offset: at,
                    next,
                    value,
                }))
            }
            Line::End { .. } => Ok(None),
            Line::Bad { at } => {
                // The tail of a dead writer that nobody has cut yet is the end; anything else is
                // damage.
                if lines
                    .any_record_left(at)
                    .map_err(|e| Error::io(e, &self.path))?
                {
                    Err(JournalError::Damaged {
                        path: self.path.clone(),
                        offset: at,
                    })
                } else {
                    Ok(None)
                }
            }
        }
    }
}

impl<T: DeserializeOwned> Iterator for Records<T> {
    type Item = Result<Record<T>, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.lines = None;
        }
        step.transpose()
    }
}

/// What stands at a place in the file.
pub(super) enum Line {
    /// An intact record; its text is in [`Lines::json`].
    Record { at: u64, next: u64 },
    /// A whole line that is not a record.
    Bad { at: u64 },
    /// The end, or a line whose newline is not there.
    End { at: u64 },
}

/// Lines from an offset on, one in memory at a time.
#[derive(Debug)]
pub(super) struct Lines<F> {
    source: BufReader<From<F>>,
    at: u64,
    line: Vec<u8>,
}

impl<F: std::borrow::Borrow<File>> Lines<F> {
    pub(super) fn new(file: F, at: u64) -> Self {
        let source = BufReader::with_capacity(64 * 1024, From { file, at });
        Self {
            source,
            at,
            line: Vec::new(),
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Line> {
        let at = self.at;
        self.line.clear();
        self.line.shrink_to(64 * 1024);
        // One byte beyond the longest line tells "too long" from "not all there yet".
        let most = (line::OVERHEAD + LONGEST_RECORD + 1) as u64;
        let got = (&mut self.source)
            .take(most)
            .read_until(b'\n', &mut self.line)? as u64;
        let whole = self.line.pop_if(|last| *last == b'\n').is_some();
        if !whole && got < most {
            return Ok(Line::End { at });
        }
        self.at += got;
        if whole && line::decode(at, &self.line).is_some() {
            Ok(Line::Record { at, next: self.at })
        } else {
            Ok(Line::Bad { at })
        }
    }

    /// The JSON of the record that `next` just found.
    pub(super) fn json(&self) -> &[u8] {
        self.line.get(line::OVERHEAD - 1..).unwrap_or_default()
    }

    /// After a bad line: whether an intact record stands at its end or anywhere in the rest.
    pub(super) fn any_record_left(&mut self, mut bad: u64) -> io::Result<bool> {
        loop {
            if line::hides_record(bad, &self.line) {
                return Ok(true);
            }
            match self.next()? {
                Line::Record { .. } => return Ok(true),
                Line::Bad { at } => bad = at,
                Line::End { .. } => return Ok(false),
            }
        }
    }
}

/// Reads a file from a place of its own, whatever other readers of the descriptor do.
#[derive(Debug)]
struct From<F> {
    file: F,
    at: u64,
}

impl<F: std::borrow::Borrow<File>> Read for From<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.borrow().read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}
