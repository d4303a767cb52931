//! A work folder after a turn, held against its listing from before: both in byte order, so that
//! reading each once is enough.

use std::{cmp::Ordering, iter::Peekable};

use threadline_contract::Sha256;
use threadline_files::{Stamp, walk::Found};

use crate::{
    Error,
    listing::{Entry, Listing},
};

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was not there before.
    New,
    /// It was there and was written.
    Written,
    /// It looks the same, but was so young when it was listed that only its content can tell.
    Ask(Sha256),
    /// It was there and was not written.
    Same,
    /// The listing was cut short before this path.
    Unlisted,
}

/// One step through both.
#[derive(Debug)]
pub(crate) enum Step {
    /// A file that is there now.
    File {
        path: String,
        stamp: Stamp,
        verdict: Verdict,
    },
    /// A file that is gone.
    Removed { path: String },
    /// Something else that the walk found.
    Other(Found),
}

/// Judges a file that was there before.
///
/// Another size, modification time or inode means that this turn wrote it, also when the bytes came
/// out the same: a report that was made again is this turn's report. A changed attribute time alone
/// (`chmod`, a second name) is not writing.
pub(crate) fn judge(before: &Entry, now: &Stamp) -> Verdict {
    let same = (before.size, before.mtime, before.ino) == (now.size, now.mtime_ns, now.ino);
    match before.sha256 {
        _ if !same => Verdict::Written,
        Some(sha256) => Verdict::Ask(sha256),
        None => Verdict::Same,
    }
}

/// Walks both at once.
pub(crate) struct Diff<W: Iterator<Item = Found>> {
    listing: Listing,
    before: Option<Entry>,
    walk: Peekable<W>,
}

impl<W: Iterator<Item = Found>> Diff<W> {
    pub(crate) fn new(mut listing: Listing, walk: W) -> Result<Self, Error> {
        let before = listing.next().transpose()?;
        Ok(Self {
            listing,
            before,
            walk: walk.peekable(),
        })
    }

    pub(crate) fn taken_ns(&self) -> i64 {
        self.listing.head.taken_ns
    }

    /// Whether something that is no file came with the turn. Asked after the last step.
    pub(crate) fn is_new(&self, other: &str) -> bool {
        self.listing.is_new(other)
    }

    /// The next step, or nothing at the end of both.
    pub(crate) fn step(&mut self) -> Result<Option<Step>, Error> {
        let now = match self.walk.peek() {
            Some(Found::File { path, .. }) => Some(path),
            Some(_) => return Ok(self.walk.next().map(Step::Other)),
            None => None,
        };
        let order = match (&self.before, now) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(now)) => before.path.as_bytes().cmp(now.as_bytes()),
        };
        if order == Ordering::Less {
            let next = self.listing.next().transpose()?;
            let gone = std::mem::replace(&mut self.before, next);
            return Ok(gone.map(|entry| Step::Removed { path: entry.path }));
        }
        let Some(Found::File { path, stamp }) = self.walk.next() else {
            return Ok(None);
        };
        let verdict = if order == Ordering::Greater {
            let past_the_end = self.before.is_none() && !self.listing.complete();
            if past_the_end {
                Verdict::Unlisted
            } else {
                Verdict::New
            }
        } else {
            let next = self.listing.next().transpose()?;
            let before = std::mem::replace(&mut self.before, next);
            before.map_or(Verdict::New, |entry| judge(&entry, &stamp))
        };
        Ok(Some(Step::File {
            path,
            stamp,
            verdict,
        }))
    }
}
