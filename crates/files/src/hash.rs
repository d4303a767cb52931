//! Size, digest and stamp of one and the same bytes.

use std::{cell::Cell, fs::File, io, os::unix::fs::FileExt as _};

use sha2::{Digest as _, Sha256};

use crate::{Stamp, stage::CHUNK};

/// What one pass over an open file found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// The bytes stood still while they were read.
    Stable {
        /// The SHA-256 of all of them.
        sha256: [u8; 32],
        /// The file's stamp, the same before and after. Its size is the number of bytes hashed.
        stamp: Stamp,
    },
    /// Somebody wrote while we read; the digest would be of bytes that never were together.
    Changed,
}

/// Hashes an open file from its beginning, wherever its cursor stands.
///
/// The stamp is taken before and after. No more is read than the file had at first, so that one that
/// never stops growing cannot hold us; that it grew shows in the second stamp.
pub fn file(file: &File) -> io::Result<Hashed> {
    file_with(file, Stamp::of(file)?, |_| {})
}

/// As [`file`](fn@file), for a caller that has just taken the first stamp itself and wants to see the
/// bytes as they pass.
pub fn file_with(file: &File, before: Stamp, mut see: impl FnMut(&[u8])) -> io::Result<Hashed> {
    let sha256 = beginning(file, before.size, &mut see)?;
    Ok(match sha256 {
        Some(sha256) if Stamp::of(file)? == before => Hashed::Stable {
            sha256,
            stamp: before,
        },
        _ => Hashed::Changed,
    })
}

/// The digest of so many bytes from the beginning of a file; `None` if it has less.
pub(crate) fn beginning(
    file: &File,
    size: u64,
    see: &mut impl FnMut(&[u8]),
) -> io::Result<Option<[u8; 32]>> {
    let room = usize::try_from(size).unwrap_or(CHUNK).min(CHUNK);
    // One buffer per thread: a new one for each of many small files costs as much as reading it.
    let mut buffer = BUFFER.take();
    if buffer.len() < room {
        buffer.resize(room, 0);
    }
    let sha256 = pass(file, size, &mut buffer, see);
    BUFFER.set(buffer);
    sha256
}

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn pass(
    file: &File,
    size: u64,
    buffer: &mut [u8],
    see: &mut impl FnMut(&[u8]),
) -> io::Result<Option<[u8; 32]>> {
    let mut hasher = Sha256::new();
    let mut at = 0;
    while at < size {
        let left = usize::try_from(size - at).unwrap_or(usize::MAX);
        let left = left.min(buffer.len());
        let part = buffer.get_mut(..left).unwrap_or_default();
        let got = match file.read_at(part, at) {
            Ok(0) => return Ok(None),
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let bytes = part.get(..got).unwrap_or_default();
        hasher.update(bytes);
        see(bytes);
        at += got as u64;
    }
    Ok(Some(hasher.finalize().into()))
}
