//! The order of a list, and cursors that go on in it.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use threadline_contract::{ArtifactPath, ArtifactScope};
use threadline_files::Stamp;

use crate::Error;

/// A file that can be delivered, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub path: ArtifactPath,
    /// What it looked like when the walk came by.
    pub stamp: Stamp,
    /// Whether it is of a type that was asked for.
    pub wanted: bool,
}

impl Candidate {
    /// What was asked for first, then the latest, then by the bytes of the path. The time is the one
    /// of the bytes: collecting keeps it, so that the order tells when the agent wrote, not when we
    /// copied.
    pub(crate) fn key(&self) -> (Reverse<bool>, Reverse<i64>, &str) {
        (
            Reverse(self.wanted),
            Reverse(self.stamp.mtime_ns),
            self.path.as_str(),
        )
    }
}

/// Where a page ended. Names what it is a page of, so that it cannot be used on another list.
#[derive(Debug, Serialize, Deserialize)]
struct Cursor {
    scope: String,
    /// What was asked for, which decides order and content of the list.
    asked: String,
    wanted: bool,
    mtime: i64,
    path: String,
    /// What was listed up to here.
    listed: u64,
}

/// Where the page before ended.
#[derive(Debug)]
pub(crate) struct Position(Cursor);

impl Position {
    /// Reads a cursor. One that is of another list is refused.
    pub(crate) fn read(text: &str, scope: &ArtifactScope, asked: &str) -> Result<Self, Error> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::BadCursor)?;
        let cursor: Cursor = serde_json::from_slice(&bytes).map_err(|_| Error::BadCursor)?;
        match cursor.scope == scope.as_str() && cursor.asked == asked {
            true => Ok(Self(cursor)),
            false => Err(Error::BadCursor),
        }
    }

    /// Whether a candidate comes before the next page. Also right when files came or went since the
    /// cursor was given out.
    pub(crate) fn is_behind(&self, candidate: &Candidate) -> bool {
        let cursor = &self.0;
        let end = (
            Reverse(cursor.wanted),
            Reverse(cursor.mtime),
            cursor.path.as_str(),
        );
        candidate.key() <= end
    }

    /// Whether what comes before the next page is what was listed. If not, some came there behind the
    /// caller's back, or went.
    pub(crate) fn is_same(&self, before: Paths) -> bool {
        before.0 == self.0.listed
    }
}

/// Tells one set of paths from another, by accident and not by malice: whoever can write files needs
/// no tricks to have some left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paths(u64);

impl Paths {
    /// Adds one, in any order.
    pub(crate) fn add(&mut self, candidate: &Candidate) {
        let mut hasher = DefaultHasher::new();
        candidate.path.hash(&mut hasher);
        self.0 = self.0.wrapping_add(hasher.finish());
    }
}

/// The cursor behind a candidate, which is the last of all these paths.
pub(crate) fn cursor(
    last: &Candidate,
    listed: Paths,
    scope: &ArtifactScope,
    asked: &str,
) -> Result<String, Error> {
    let cursor = Cursor {
        scope: scope.to_string(),
        asked: asked.to_owned(),
        wanted: last.wanted,
        mtime: last.stamp.mtime_ns,
        path: last.path.as_str().to_owned(),
        listed: listed.0,
    };
    let text = serde_json::to_vec(&cursor).map_err(|_| Error::BadCursor)?;
    Ok(URL_SAFE_NO_PAD.encode(text))
}

/// The candidates that come first, so many of them at most; none is held that comes later.
#[derive(Debug)]
pub(crate) struct First {
    most: usize,
    found: BinaryHeap<ByKey>,
}

impl First {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            found: BinaryHeap::new(),
        }
    }

    pub(crate) fn add(&mut self, candidate: Candidate) {
        let last = self.found.peek().filter(|_| self.found.len() == self.most);
        if last.is_some_and(|last| last.0.key() <= candidate.key()) {
            return;
        }
        self.found.push(ByKey(candidate));
        if self.found.len() > self.most {
            self.found.pop();
        }
    }

    /// In order.
    pub(crate) fn ordered(self) -> Vec<Candidate> {
        let sorted = self.found.into_sorted_vec();
        sorted
            .into_iter()
            .map(|ByKey(candidate)| candidate)
            .collect()
    }
}

#[derive(Debug)]
struct ByKey(Candidate);

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(&other.0.key())
    }
}
impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for ByKey {}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
