//! An append-only record: JSON, one per line, one writer, any number of readers.
//!
//! A line is `<check> <json>\n`, where the check is the head of a SHA-256 over the line's offset and
//! the JSON. A line counts when its newline is there and its check is right at that offset; so a
//! torn write, a flipped bit, and bytes that a crash left from somewhere else are all told from a
//! record.
//!
//! A bad line at the very end is what a crash in the middle of a write leaves: it is cut off when
//! the writer opens the journal, and the cut is reported. A bad line with an intact one after it is
//! damage, and an error that names the place: nothing is skipped in silence.

mod line;
mod reader;

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, OFlags, fdatasync, flock, fsync, ftruncate},
    io::Errno,
};
use serde::Serialize;

pub use self::reader::{JournalReader, Record, Records};
use self::reader::{Line, Lines};
use crate::{Access, Durability, Error, Root, atomic, stamp::retried};

/// The longest record that is taken. Replay never holds more than one.
pub const LONGEST_RECORD: usize = 64 * 1024 * 1024;

/// What can go wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file itself could not be used.
    #[error(transparent)]
    Files(#[from] Error),
    /// Another writer has it open.
    #[error("{}: another writer has this journal open", path.display())]
    Busy {
        /// The journal.
        path: PathBuf,
    },
    /// A record is damaged although later ones are intact.
    #[error("{}: the record at byte {offset} is damaged, and intact records follow it", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Where the damaged record begins.
        offset: u64,
    },
    /// An intact record is not of the kind that was asked for.
    #[error("{}: the record at byte {offset} is not understood ({cause})", path.display())]
    NotUnderstood {
        /// The journal.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// What the reader stumbled over.
        #[source]
        cause: serde_json::Error,
    },
    /// A cursor lies behind the end: the journal lost its tail since the cursor was given out.
    #[error("{}: cursor {cursor} lies behind the end at byte {end}", path.display())]
    PastEnd {
        /// The journal.
        path: PathBuf,
        /// What was asked for.
        cursor: u64,
        /// Where the journal ends.
        end: u64,
    },
    /// A record is larger than [`LONGEST_RECORD`].
    #[error("{}: a record of {size} bytes is too large", path.display())]
    TooLarge {
        /// The journal.
        path: PathBuf,
        /// Its size as JSON.
        size: usize,
    },
    /// A value cannot be written as JSON.
    #[error("{}: a record cannot be written as JSON ({cause})", path.display())]
    NotJson {
        /// The journal.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: serde_json::Error,
    },
    /// An earlier write failed in a way that leaves the end of the file unknown. Opening the
    /// journal again finds it out.
    #[error("{}: an earlier write failed; open the journal again", path.display())]
    Broken {
        /// The journal.
        path: PathBuf,
    },
}

/// A tail that a crash left behind and opening removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where the journal ends now.
    pub offset: u64,
    /// How many bytes were removed.
    pub bytes: u64,
}

/// The one writer of a journal.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    end: u64,
    /// Something was written that no sync has covered yet.
    unsynced: bool,
    broken: bool,
    cut: Option<Cut>,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens a journal, made (0600) if it is not there; checks every record and cuts off a torn
    /// tail. The records themselves are read with [`read_after`](Self::read_after).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::open_synced(path, 0)
    }

    /// As [`open`](Self::open), for a caller who knows that so many bytes are on disk, and the journal's name
    /// with them: if there are no more than these, they are not put there once again.
    pub fn open_synced(path: impl AsRef<Path>, synced: u64) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let file = atomic::open_own(&path, OFlags::RDWR | OFlags::CREATE, Access::Private.file())?;
        let failed = |e: Errno| JournalError::Files(Error::os(e, &path));
        match retried(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(JournalError::Busy { path }),
            Err(e) => return Err(failed(e)),
        }
        let mut lines = Lines::new(&file, 0);
        let end = loop {
            match lines.next().map_err(|e| Error::io(e, &path))? {
                Line::Record { .. } => {}
                Line::End { at } => break at,
                Line::Bad { at } => {
                    if lines.any_record_left(at).map_err(|e| Error::io(e, &path))? {
                        return Err(JournalError::Damaged { path, offset: at });
                    }
                    break at;
                }
            }
        };
        let size = file.metadata().map_err(|e| Error::io(e, &path))?.len();
        let cut = (size > end).then(|| Cut {
            offset: end,
            bytes: size - end,
        });
        if cut.is_some() {
            ftruncate(&file, end).map_err(failed)?;
        }
        // Whether just made, just cut, or left by a process that died before its sync: what is
        // replayed from here on is on disk, name included.
        if size == 0 || size != synced || cut.is_some() {
            if size > 0 {
                retried(|| fsync(&file)).map_err(failed)?;
            }
            Root::open(atomic::apart(&path)?.0)?.sync_names()?;
        }
        Ok(Self {
            file,
            path,
            end,
            unsynced: false,
            broken: false,
            cut,
            buffer: Vec::new(),
        })
    }

    /// The tail that opening had to cut off, for the log.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Where the next record will begin: the cursor after the last one.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Adds a record and gives the cursor after it. When this fails, the record is not there.
    pub fn append(
        &mut self,
        record: &impl Serialize,
        durability: Durability,
    ) -> Result<u64, JournalError> {
        if self.broken {
            return Err(JournalError::Broken {
                path: self.path.clone(),
            });
        }
        self.buffer.clear();
        line::encode(self.end, record, &mut self.buffer).map_err(|cause| {
            JournalError::NotJson {
                path: self.path.clone(),
                cause,
            }
        })?;
        if self.buffer.len() > line::OVERHEAD + LONGEST_RECORD {
            let size = self.buffer.len() - line::OVERHEAD;
            self.buffer = Vec::new();
            return Err(JournalError::TooLarge {
                path: self.path.clone(),
                size,
            });
        }
        let start = self.end;
        if let Err(e) = self.file.write_all_at(&self.buffer, start) {
            // A full disk takes part of a line. Take it away again; if even that fails, only
            // opening anew can tell where the journal ends.
            self.broken = ftruncate(&self.file, start).is_err();
            return Err(Error::io(e, &self.path).into());
        }
        self.end += self.buffer.len() as u64;
        self.unsynced = true;
        // One large record must not keep its memory for ever.
        self.buffer.clear();
        self.buffer.shrink_to(64 * 1024);
        if durability == Durability::Now
            && let Err(e) = self.sync()
        {
            self.end = start;
            return Err(e);
        }
        Ok(self.end)
    }

    /// Puts everything appended so far on disk.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        if self.broken {
            return Err(JournalError::Broken {
                path: self.path.clone(),
            });
        }
        if !self.unsynced {
            return Ok(());
        }
        if let Err(e) = retried(|| fdatasync(&self.file)) {
            // The system may have dropped the pages and would report success the next time.
            self.broken = true;
            return Err(Error::os(e, &self.path).into());
        }
        self.unsynced = false;
        Ok(())
    }

    /// A reader of this journal.
    pub fn reader(&self) -> Result<JournalReader, JournalError> {
        JournalReader::open(&self.path)
    }

    /// The records after a cursor; 0 is the beginning.
    pub fn read_after<T: serde::de::DeserializeOwned>(
        &self,
        cursor: u64,
    ) -> Result<Records<T>, JournalError> {
        self.reader()?.read_after(cursor)
    }
}
