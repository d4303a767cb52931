//! What a file holds: size, digest and type, all of one state of it. Export and read both ask here,
//! so this is the one place where content is hashed for delivery and where a remembered digest may
//! stand in for reading.

use std::{borrow::Cow, fs::File, io, os::unix::fs::FileExt as _};

use threadline_contract::{ArtifactPath, OmitReason, Sha256};
use threadline_files::{
    Stamp,
    hash::{self, Hashed},
};

use crate::{
    cache::Known,
    clock::{TICK_NS, now_ns, settled},
    content_type,
    export::Reading,
    omissions::of_reason,
    verified::Verified,
};

/// What a file was found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured<T = &'static str> {
    /// The state of the file that the rest is true of; its size is the number of bytes hashed.
    pub stamp: Stamp,
    /// The digest of them.
    pub sha256: Sha256,
    /// What it is.
    pub content_type: T,
}

/// Why an open file has no digest.
#[derive(Debug)]
pub(crate) enum Unmeasured {
    /// Somebody wrote while it was read.
    Changed,
    /// It could not be read.
    Io(io::Error),
}

impl From<io::Error> for Unmeasured {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Measures a file that looked like `seen` when a walk came by. One that is known in exactly that state
/// is not even opened: whatever could keep it from being delivered (another owner's link, a
/// change of rights) would have changed the stamp.
pub(crate) fn listed(
    reading: &Reading<'_>,
    path: &ArtifactPath,
    seen: &Stamp,
) -> Result<Measured<Cow<'static, str>>, OmitReason> {
    let digests = reading.digests;
    let by_name = content_type::of_name(path.as_str());
    if let Some(known) = digests.get(seen)
        && let Some(content_type) = by_name
            .map(Cow::Borrowed)
            .or_else(|| known.content_type.as_deref().map(|t| t.to_owned().into()))
    {
        return Ok(Measured {
            stamp: *seen,
            sha256: known.sha256,
            content_type,
        });
    }
    let began_ns = now_ns();
    let found = match as_seen(reading, path, by_name, seen, began_ns) {
        Some(found) => found,
        None => looked_at(reading, path, by_name, began_ns)?,
    };
    let stamp = found.stamp;
    let known = Known {
        sha256: found.sha256,
        content_type: match by_name {
            Some(_) => None,
            None => Some(found.content_type.into()),
        },
    };
    digests.learn(stamp, began_ns, known);
    Ok(Measured {
        stamp,
        sha256: found.sha256,
        content_type: found.content_type.into(),
    })
}

/// Measures a file that still looks as the walk saw it, at the least cost. `None`: it does not, or it
/// is so new that more care is needed, or its bytes are known.
fn as_seen(
    reading: &Reading<'_>,
    path: &ArtifactPath,
    by_name: Option<&'static str>,
    seen: &Stamp,
    began_ns: i64,
) -> Option<Measured> {
    let Reading {
        scope, verified, ..
    } = *reading;
    if !settled(seen, began_ns) || verified.get(seen).is_some() {
        return None;
    }
    let mut seeing = Seeing::new(by_name, verified);
    let sha256 = scope.hash_as_seen(path.as_str(), seen, |bytes| seeing.see(bytes))?;
    Some(seeing.measured(*seen, Sha256(sha256), began_ns))
}

/// Measures whatever stands at a path now.
fn looked_at(
    reading: &Reading<'_>,
    path: &ArtifactPath,
    by_name: Option<&'static str>,
    began_ns: i64,
) -> Result<Measured, OmitReason> {
    let Reading {
        scope,
        max_file_bytes,
        verified,
        ..
    } = *reading;
    let opened_file = scope.open_stamped(path.as_str());
    let (file, stamp) = opened_file.map_err(|e| of_reason(e.reason()))?;
    if stamp.size > max_file_bytes {
        return Err(OmitReason::TooLarge);
    }
    let unmeasured = |e| match e {
        Unmeasured::Changed => OmitReason::ChangedWhileReading,
        Unmeasured::Io(_) => OmitReason::Unreadable,
    };
    let found = opened(&file, by_name, stamp, verified).map_err(unmeasured)?;
    // The system notes the time of a write when it begins. One that is under way leaves no trace in
    // the stamp, but not the same bytes twice either. (Who reads knows what the bytes must be.)
    if stamp.mtime_ns >= began_ns.saturating_sub(TICK_NS) {
        let again = opened(&file, by_name, stamp, verified).map_err(unmeasured)?;
        if again.sha256 != found.sha256 {
            return Err(OmitReason::ChangedWhileReading);
        }
    }
    Ok(found)
}

/// Bytes as they pass on their way to a digest.
struct Seeing<'a> {
    content_type: Option<&'static str>,
    verified: &'a Verified,
}

impl<'a> Seeing<'a> {
    fn new(by_name: Option<&'static str>, verified: &'a Verified) -> Self {
        Self {
            content_type: by_name,
            verified,
        }
    }

    fn see(&mut self, bytes: &[u8]) {
        self.verified.meter.add(bytes.len() as u64);
        // The first part is at least as long as what a type is told by, or all there is.
        self.content_type
            .get_or_insert_with(|| content_type::of_head(bytes));
    }

    /// What came of them, remembered.
    fn measured(self, stamp: Stamp, sha256: Sha256, began_ns: i64) -> Measured {
        self.verified.put(stamp, sha256, began_ns);
        Measured {
            stamp,
            sha256,
            content_type: self.content_type.unwrap_or(content_type::UNKNOWN),
        }
    }
}

/// Measures an open file that looks like `stamp`, and is what its name says, if that says anything. Only what this process has read itself stands in
/// for reading here: on the answer, bytes are delivered.
pub(crate) fn opened(
    file: &File,
    by_name: Option<&'static str>,
    stamp: Stamp,
    verified: &Verified,
) -> Result<Measured, Unmeasured> {
    if let Some(sha256) = verified.get(&stamp) {
        let content_type = match by_name {
            Some(content_type) => content_type,
            None => of_bytes(file, verified)?,
        };
        return Ok(Measured {
            stamp,
            sha256,
            content_type,
        });
    }
    let began_ns = now_ns();
    let mut seeing = Seeing::new(by_name, verified);
    let hashed = hash::file_with(file, stamp, |bytes| seeing.see(bytes))?;
    let Hashed::Stable { sha256, .. } = hashed else {
        return Err(Unmeasured::Changed);
    };
    Ok(seeing.measured(stamp, Sha256(sha256), began_ns))
}

/// What an open file is, by its first bytes.
pub(crate) fn of_bytes(file: &File, verified: &Verified) -> io::Result<&'static str> {
    let mut head = vec![0; content_type::HEAD];
    let got = file.read_at(&mut head, 0)?;
    verified.meter.add(got as u64);
    Ok(content_type::of_head(head.get(..got).unwrap_or_default()))
}
