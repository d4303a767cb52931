//! Serving an artifact's bytes, after checking that they are the ones that were promised.

use std::{fs::File, os::unix::fs::FileExt as _};

use threadline_contract::{ArtifactPath, RunId, SessionKey, Sha256};
use threadline_files::{Reason, Root, Stamp, read_held_at};

use crate::{
    ArtifactIdentity, Error, MAX_FILE_BYTES, ScopeStyle, Workspace, content_type,
    measure::{self, Unmeasured},
    skip::exports_file,
    verified::Verified,
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
        let (file, stamp) = self.find(identity)?;
        self.proven(file, identity, stamp)
    }

    /// Opens the file that an identity names, if it has the right size.
    pub(crate) fn find(&self, identity: &ArtifactIdentity) -> Result<(File, Stamp), Error> {
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
        Ok((file, stamp))
    }

    /// A reader of what an identity names, if that is what the file holds.
    pub(crate) fn proven(
        &self,
        file: File,
        identity: &ArtifactIdentity,
        stamp: Stamp,
    ) -> Result<Reader, Error> {
        let reader = self.measured(file, &identity.path, stamp)?;
        if reader.sha256 == identity.sha256 {
            Ok(reader)
        } else {
            Err(changed(&identity.path))
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
        let by_name = content_type::of_name(path.as_str());
        let found = measure::opened(&file, by_name, stamp, &self.verified);
        let found = found.map_err(|e| unmeasured(e, path.as_str()))?;
        let (sha256, content_type) = (found.sha256, found.content_type);
        Ok(Reader::new(file, path, stamp, sha256, content_type))
    }
}

fn unmeasured(e: Unmeasured, path: &str) -> Error {
    match e {
        Unmeasured::Changed => Error::Changed {
            path: path.to_owned(),
        },
        Unmeasured::Io(e) => Error::io(e, path),
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
    pub(crate) fn new(
        file: File,
        path: &ArtifactPath,
        stamp: Stamp,
        sha256: Sha256,
        content_type: &'static str,
    ) -> Self {
        Self {
            file,
            path: path.as_str().to_owned(),
            stamp,
            sha256,
            content_type,
        }
    }

    /// What the file holds now, hashed unless it was lately.
    pub(crate) fn measured(&self, verified: &Verified) -> Result<Sha256, Error> {
        let kind = Some(self.content_type);
        let found = measure::opened(&self.file, kind, self.stamp, verified);
        Ok(found.map_err(|e| unmeasured(e, &self.path))?.sha256)
    }

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
        // No more than MAX_CHUNK, so it fits.
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.file.read_exact_at(&mut bytes, offset);
        self.unchanged()?;
        read.map_err(|e| Error::io(e, &self.path))?;
        Ok(Chunk {
            bytes,
            eof: offset + length == size,
        })
    }

    /// Reads what there is room for, or less. Nothing is the end; a changed file is an error.
    pub fn read_into(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let read = loop {
            match self.file.read_at(buffer, offset) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        self.unchanged()?;
        read.map_err(|e| Error::io(e, &self.path))
    }

    /// As [`read_into`](Self::read_into), for who may not wait for the disk: `None` where that would
    /// be needed.
    pub fn read_held(&self, buffer: &mut [u8], offset: u64) -> Result<Option<usize>, Error> {
        let read = read_held_at(&self.file, buffer, offset);
        if matches!(read, Ok(Some(_))) {
            self.unchanged()?;
        }
        read.map_err(|e| Error::io(e, &self.path))
    }

    /// Bytes of two states are never mixed.
    pub(crate) fn unchanged(&self) -> Result<(), Error> {
        let now = Stamp::of(&self.file).map_err(|e| Error::io(e, &self.path))?;
        if now == self.stamp {
            return Ok(());
        }
        Err(self.changed())
    }

    pub(crate) fn changed(&self) -> Error {
        Error::Changed {
            path: self.path.clone(),
        }
    }
}
