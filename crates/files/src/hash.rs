//! Size, digest and stamp of one and the same bytes.

use std::{fs::File, io, os::unix::fs::FileExt as _};

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
/// The stamp is taken before and after. A file that grows is given up at once, so that one that
/// never stops growing cannot hold us.
pub fn file(file: &File) -> io::Result<Hashed> {
    file_with(file, |_| {})
}

/// As [`file`](fn@file), and tells after each part how many bytes it had.
pub fn file_with(file: &File, mut tell: impl FnMut(u64)) -> io::Result<Hashed> {
    let before = Stamp::of(file)?;
    let mut hasher = Sha256::new();
    // One byte more than the size, so that the end is seen without a second read of small files.
    let room = usize::try_from(before.size)
        .unwrap_or(CHUNK)
        .saturating_add(1)
        .min(CHUNK);
    let mut buffer = vec![0; room];
    let mut at = 0;
    loop {
        let got = match file.read_at(&mut buffer, at) {
            Ok(0) => break,
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(buffer.get(..got).unwrap_or(&buffer));
        at += got as u64;
        tell(got as u64);
        if at > before.size {
            return Ok(Hashed::Changed);
        }
    }
    if at != before.size || Stamp::of(file)? != before {
        return Ok(Hashed::Changed);
    }
    Ok(Hashed::Stable {
        sha256: hasher.finalize().into(),
        stamp: before,
    })
}
