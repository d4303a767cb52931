//! What a file holds: size, digest and type, all of one state of it. Export and read both ask here,
//! so this is the one place where content is hashed for delivery and where a remembered digest may
//! stand in for reading.

use std::{borrow::Cow, fs::File, io, os::unix::fs::FileExt as _};

use threadline_contract::{ArtifactPath, OmitReason, Sha256};
use threadline_files::{
    Root, Stamp,
    hash::{self, Hashed},
};

use crate::{
    cache::{Digests, Known},
    clock::now_ns,
    content_type,
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

/// Measures a file that looked like `seen` when a walk came by. One that is known in exactly that
/// state is not even opened: whatever could keep it from being delivered (another owner's link, a
/// change of rights) would have changed the stamp.
pub(crate) fn listed(
    root: &Root,
    path: &ArtifactPath,
    seen: &Stamp,
    max_file_bytes: u64,
    verified: &Verified,
    digests: &Digests,
) -> Result<Measured<Cow<'static, str>>, OmitReason> {
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
    let file = root
        .open_file(path.as_str())
        .map_err(|e| of_reason(e.reason()))?;
    let began_ns = now_ns();
    let stamp = Stamp::of(&file).map_err(|_| OmitReason::Unreadable)?;
    if stamp.size > max_file_bytes {
        return Err(OmitReason::TooLarge);
    }
    let found = opened(&file, path, stamp, verified).map_err(|e| match e {
        Unmeasured::Changed => OmitReason::ChangedWhileReading,
        Unmeasured::Io(_) => OmitReason::Unreadable,
    })?;
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

/// Measures an open file that looks like `stamp`. Only what this process has read itself stands in
/// for reading here: on the answer, bytes are delivered.
pub(crate) fn opened(
    file: &File,
    path: &ArtifactPath,
    stamp: Stamp,
    verified: &Verified,
) -> Result<Measured, Unmeasured> {
    let sha256 = match verified.get(&stamp) {
        Some(sha256) => sha256,
        None => {
            let began_ns = now_ns();
            match hash::file_with(file, |bytes| verified.meter.add(bytes))? {
                Hashed::Stable {
                    sha256,
                    stamp: hashed,
                } if hashed == stamp => {
                    verified.put(stamp, Sha256(sha256), began_ns);
                    Sha256(sha256)
                }
                _ => return Err(Unmeasured::Changed),
            }
        }
    };
    let content_type = type_of(path, file, verified)?;
    Ok(Measured {
        stamp,
        sha256,
        content_type,
    })
}

/// What an open file is.
fn type_of(path: &ArtifactPath, file: &File, verified: &Verified) -> io::Result<&'static str> {
    if let Some(known) = content_type::of_name(path.as_str()) {
        return Ok(known);
    }
    let mut head = vec![0; content_type::HEAD];
    let got = file.read_at(&mut head, 0)?;
    verified.meter.add(got as u64);
    Ok(content_type::of_head(head.get(..got).unwrap_or_default()))
}
