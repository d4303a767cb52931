//! Serving an artifact's bytes, after checking that they are the ones that were promised.

use std::{fs::File, os::unix::fs::FileExt as _};

use threadline_files::{Reason, Stamp};

use crate::{
    ArtifactIdentity, Error, Workspace,
    measure::{self, Unmeasured},
    skip::exports_file,
};

/// The most that one read gives. Whoever streams a file holds no more of it.
pub const MAX_CHUNK: u64 = 4 * 1024 * 1024;

/// An artifact that is open and was found to be what its identity says.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: String,
    stamp: Stamp,
    content_type: &'static str,
}

/// A part of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes: as many as asked for, unless the file or [`MAX_CHUNK`] ends first.
    pub bytes: Vec<u8>,
    /// Whether the file ends with them.
    pub eof: bool,
}

impl Workspace {
    /// Opens an artifact. Its bytes are checked against the identity before any is served: by
    /// their stamp if they were hashed lately, by hashing them otherwise.
    pub fn read(&self, identity: &ArtifactIdentity) -> Result<Reader, Error> {
        let path = identity.path.as_str();
        let not_found = || Error::NotFound {
            path: path.to_owned(),
        };
        let changed = || Error::Changed {
            path: path.to_owned(),
        };
        let (_, scope) = self.scope(&identity.session, &identity.run)?;
        let scope = scope.ok_or_else(not_found)?;
        if !exports_file(path) {
            return Err(not_found());
        }
        let file = scope.open_file(path).map_err(|e| match e.reason() {
            Reason::NotFound | Reason::NotDirectory => not_found(),
            Reason::Symlink => Error::SymlinkRejected {
                path: path.to_owned(),
            },
            Reason::NotRegular | Reason::HardLinked => Error::NotAFile {
                path: path.to_owned(),
            },
            _ => e.into(),
        })?;
        let failed = |e| Error::io(e, path);
        let stamp = Stamp::of(&file).map_err(failed)?;
        if stamp.size != identity.size {
            return Err(changed());
        }
        let found = measure::opened(&file, &identity.path, stamp, &self.verified);
        let found = found.map_err(|e| match e {
            Unmeasured::Changed => changed(),
            Unmeasured::Io(e) => failed(e),
        })?;
        if found.sha256 != identity.sha256 {
            return Err(changed());
        }
        Ok(Reader {
            file,
            path: path.to_owned(),
            stamp,
            content_type: found.content_type,
        })
    }
}

impl Reader {
    /// How many bytes the artifact has.
    pub fn size(&self) -> u64 {
        self.stamp.size
    }

    /// What it is.
    pub fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// What the file looked like when it was checked.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Reads a part, at any place and in any order. At the end it gives nothing; a range that
    /// begins behind the end, or has no length, is an error. A file that has changed since it was
    /// checked is an error too: bytes of two states are never mixed.
    pub fn read_range(&self, offset: u64, length: u64) -> Result<Chunk, Error> {
        let size = self.stamp.size;
        if length == 0 || offset > size {
            return Err(Error::RangeInvalid {
                offset,
                length,
                size,
            });
        }
        let length = length.min(MAX_CHUNK).min(size - offset);
        let failed = |e| Error::io(e, &self.path);
        // No more than MAX_CHUNK, so it fits.
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.file.read_exact_at(&mut bytes, offset);
        if Stamp::of(&self.file).map_err(failed)? != self.stamp {
            return Err(Error::Changed {
                path: self.path.clone(),
            });
        }
        read.map_err(failed)?;
        Ok(Chunk {
            bytes,
            eof: offset + length == size,
        })
    }
}
