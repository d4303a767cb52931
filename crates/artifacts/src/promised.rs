//! Large artifacts that are proven while they are handed over, not before.
//!
//! Hashing takes longer than sending, so whoever wants the whole of a file would wait twice. A file
//! that still looks exactly as it did when it was listed may be handed over at once, if its end is
//! held back until all of it was hashed: of other bytes nobody gets a whole file.

use std::{
    fs::File,
    sync::{Arc, OnceLock},
};

use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::Sha256;
use threadline_files::Stamp;

use crate::{
    ArtifactIdentity, Error, Reader, Workspace, cache::Digests, clock::now_ns, content_type,
    measure, verified::Verified,
};

/// Smaller files are hashed sooner than the digests of a large listing are read.
const LARGE: u64 = 8 * 1024 * 1024;

/// An artifact that is open and promises to be what its identity says.
#[derive(Debug)]
pub struct Promised {
    reader: Reader,
    verified: Arc<Verified>,
    proven: OnceLock<()>,
}

impl Workspace {
    /// As [`read`](Self::read), but a large file that looks as it did when it was listed is not
    /// hashed yet. Any other is proven when this returns.
    pub fn read_promised(&self, identity: &ArtifactIdentity) -> Result<Promised, Error> {
        let (file, stamp) = self.find(identity)?;
        let was_read = self.verified.get(&stamp).is_some();
        let promised = |reader| Promised {
            reader,
            verified: Arc::clone(&self.verified),
            proven: OnceLock::new(),
        };
        if !was_read && stamp.size >= LARGE && self.looks_as_listed(identity, &stamp) {
            return Ok(promised(self.unproven(file, identity, stamp)?));
        }
        let proven = promised(self.proven(file, identity, stamp)?);
        let _ = proven.proven.set(());
        Ok(proven)
    }

    /// Only a promise: the digests of a listing prove nothing (see [`cache`](crate::cache)).
    fn looks_as_listed(&self, identity: &ArtifactIdentity, stamp: &Stamp) -> bool {
        let digests = Digests::load(self, &identity.session, &identity.run);
        let known = digests.find(stamp);
        known.is_some_and(|known| known.sha256 == identity.sha256)
    }

    fn unproven(
        &self,
        file: File,
        identity: &ArtifactIdentity,
        stamp: Stamp,
    ) -> Result<Reader, Error> {
        let path = &identity.path;
        let content_type = match content_type::of_name(path.as_str()) {
            Some(by_name) => by_name,
            None => {
                measure::of_bytes(&file, &self.verified).map_err(|e| Error::io(e, path.as_str()))?
            }
        };
        Ok(Reader::new(
            file,
            path,
            stamp,
            identity.sha256,
            content_type,
        ))
    }
}

impl Promised {
    /// What it is.
    pub fn content_type(&self) -> &'static str {
        self.reader.content_type()
    }

    /// Its bytes, if they are proven already.
    pub fn proven(&self) -> Option<&Reader> {
        self.proven.get().map(|()| &self.reader)
    }

    /// Its bytes, proven. Reads all of them, unless that was done.
    pub fn prove(&self) -> Result<&Reader, Error> {
        if self.proven.get().is_none() {
            let found = self.reader.measured(&self.verified)?;
            self.judge(found)?;
        }
        Ok(&self.reader)
    }

    /// Its bytes, proven or not. Whoever hands them on holds the last of them back until a
    /// [`Proof`] that saw all of them is finished.
    pub fn unproven(&self) -> &Reader {
        &self.reader
    }

    /// Begins a proof by bytes as they pass.
    pub fn proof(self: &Arc<Self>) -> Proof {
        Proof {
            promised: Arc::clone(self),
            hasher: Hasher::new(),
            began_ns: now_ns(),
        }
    }

    fn judge(&self, found: Sha256) -> Result<(), Error> {
        if found != self.reader.sha256() {
            return Err(self.reader.changed());
        }
        let _ = self.proven.set(());
        Ok(())
    }
}

/// Hashes an artifact's bytes as they pass, from the first to the last.
#[derive(Debug)]
pub struct Proof {
    promised: Arc<Promised>,
    hasher: Hasher,
    began_ns: i64,
}

impl Proof {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.promised.verified.meter.add(bytes.len() as u64);
    }

    /// Whether all of them were those that the identity names, and nobody wrote meanwhile.
    pub fn finish(self) -> Result<(), Error> {
        let found = Sha256(self.hasher.finalize().into());
        let reader = &self.promised.reader;
        reader.unchanged()?;
        self.promised.judge(found)?;
        self.promised
            .verified
            .put(reader.stamp(), found, self.began_ns);
        Ok(())
    }
}

#[cfg(test)]
#[path = "promised_tests.rs"]
mod tests;
