//! Serving an artifact's bytes, after checking that they are the ones that were promised.

use std::{fs::File, os::unix::fs::FileExt as _};

use threadline_contract::{ArtifactPath, RunId, SessionKey, Sha256};
use threadline_files::{Reason, Root, Stamp};

use crate::{
    ArtifactIdentity, Error, MAX_FILE_BYTES, ScopeStyle, Workspace, content_type,
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
    sha256: Sha256,
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
        let path = &identity.path;
        let (session, run) = (&identity.session, &identity.run);
        let scope = match self.scope(session, run).map_err(|e| on_the_way(e, path))? {
            (_, Some(scope)) => scope,
            (scope, None) if self.is_removed(session, run)? => {
                return Err(Error::Removed {
                    scope: scope.to_string(),
                });
            }
            // The identity proves the bytes, so what the earlier plugin left may serve them.
            (_, None) => match self
                .peer_scope(session, run)
                .map_err(|e| on_the_way(e, path))?
            {
                (_, Some(scope)) => scope,
                (_, None) => return Err(not_found(path)),
            },
        };
        let (file, stamp) = open(&scope, path)?;
        if stamp.size != identity.size {
            return Err(changed(path));
        }
        let reader = self.measured(file, path, stamp)?;
        if reader.sha256 == identity.sha256 {
            Ok(reader)
        } else {
            Err(changed(path))
        }
    }

    /// Opens whatever lies at a path of a run's scope now.
    pub fn read_path(
        &self,
        style: ScopeStyle,
        session: &SessionKey,
        run: &RunId,
        path: &ArtifactPath,
    ) -> Result<Reader, Error> {
        let found = self.scope_in(style, session, run);
        let (_, scope) = found.map_err(|e| on_the_way(e, path))?;
        let (file, stamp) = open(&scope.ok_or_else(|| not_found(path))?, path)?;
        self.measured(file, path, stamp)
    }

    fn measured(&self, file: File, path: &ArtifactPath, stamp: Stamp) -> Result<Reader, Error> {
        let found = measure::opened(
            &file,
            content_type::of_name(path.as_str()),
            stamp,
            &self.verified,
        );
        let found = found.map_err(|e| match e {
            Unmeasured::Changed => changed(path),
            Unmeasured::Io(e) => Error::io(e, path.as_str()),
        })?;
        Ok(Reader {
            file,
            path: path.as_str().to_owned(),
            stamp,
            sha256: found.sha256,
            content_type: found.content_type,
        })
    }
}

/// A regular file of a scope that an export may have listed.
fn open(scope: &Root, path: &ArtifactPath) -> Result<(File, Stamp), Error> {
    if !exports_file(path.as_str()) {
        return Err(not_found(path));
    }
    let file = scope
        .open_file(path.as_str())
        .map_err(|e| match e.reason() {
            Reason::NotFound | Reason::NotDirectory | Reason::NameTooLong => not_found(path),
            Reason::Denied => Error::Io {
                path: path.as_str().to_owned(),
                cause: std::io::ErrorKind::PermissionDenied.into(),
            },
            Reason::Symlink => Error::SymlinkRejected {
                path: path.as_str().to_owned(),
            },
            Reason::NotRegular | Reason::HardLinked => Error::NotAFile {
                path: path.as_str().to_owned(),
            },
            _ => e.into(),
        })?;
    let stamp = Stamp::of(&file).map_err(|e| Error::io(e, path.as_str()))?;
    if stamp.size > MAX_FILE_BYTES {
        return Err(not_found(path));
    }
    Ok((file, stamp))
}

/// Who reads is told about the file: that its folder is a link is the same as if it were one.
fn on_the_way(e: Error, path: &ArtifactPath) -> Error {
    match e {
        Error::Escapes { .. } => Error::SymlinkRejected {
            path: path.as_str().to_owned(),
        },
        e => e,
    }
}

fn not_found(path: &ArtifactPath) -> Error {
    Error::NotFound {
        path: path.as_str().to_owned(),
    }
}

fn changed(path: &ArtifactPath) -> Error {
    Error::Changed {
        path: path.as_str().to_owned(),
    }
}

impl Reader {
    /// How many bytes the artifact has.
    pub fn size(&self) -> u64 {
        self.stamp.size
    }

    /// The digest of all of them.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
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
