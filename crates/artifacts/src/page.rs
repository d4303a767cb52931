//! The order of a list, and cursors that go on in it.

use std::{
    cmp::Reverse,
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
#[derive(Serialize, Deserialize)]
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

/// Where a page begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    /// How many candidates come before it.
    pub at: usize,
    /// Whether those are the ones that were listed before. If not, some came there behind the caller's
    /// back, or went.
    pub same: bool,
}

/// The cursor behind the last of these candidates, which are all that come before the next page.
/// `None` if there are none.
pub(crate) fn cursor<'a>(
    all: impl Iterator<Item = &'a Candidate> + Clone,
    scope: &ArtifactScope,
    asked: &str,
) -> Result<Option<String>, Error> {
    let Some(last) = all.clone().last() else {
        return Ok(None);
    };
    let cursor = Cursor {
        scope: scope.to_string(),
        asked: asked.to_owned(),
        wanted: last.wanted,
        mtime: last.stamp.mtime_ns,
        path: last.path.as_str().to_owned(),
        listed: digest(all),
    };
    let text = serde_json::to_vec(&cursor).map_err(|_| Error::BadCursor)?;
    Ok(Some(URL_SAFE_NO_PAD.encode(text)))
}

/// Tells one list of paths from another, by accident and not by malice: whoever can write files needs
/// no tricks to have some left out.
fn digest<'a>(all: impl Iterator<Item = &'a Candidate>) -> u64 {
    let mut hasher = DefaultHasher::new();
    all.for_each(|candidate| candidate.path.hash(&mut hasher));
    hasher.finish()
}

/// The first candidate behind a cursor. Also right when files came or went since it was given out.
pub(crate) fn after(
    all: &[Candidate],
    text: &str,
    scope: &ArtifactScope,
    asked: &str,
) -> Result<Begin, Error> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::BadCursor)?;
    let cursor: Cursor = serde_json::from_slice(&bytes).map_err(|_| Error::BadCursor)?;
    if cursor.scope != scope.as_str() || cursor.asked != asked {
        return Err(Error::BadCursor);
    }
    let end = (
        Reverse(cursor.wanted),
        Reverse(cursor.mtime),
        cursor.path.as_str(),
    );
    let at = all.partition_point(|candidate| candidate.key() <= end);
    let before = all.get(..at).unwrap_or_default();
    Ok(Begin {
        at,
        same: digest(before.iter()) == cursor.listed,
    })
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
