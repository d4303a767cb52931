//! Whole files or none: bytes go to a temporary name first and get their real name at the end.

use std::{
    fs::File,
    io::{Read, Write as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{
        AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, fchmod, fstat, futimens, linkat,
        openat, renameat, renameat_with, unlinkat,
    },
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use crate::{Access, Durability, Error, FileKind, Reason, Result, Root, stamp::retried};

/// One buffer of a streaming copy or hash.
pub(crate) const CHUNK: usize = 128 * 1024;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many bytes.
    pub size: u64,
    /// The SHA-256 of them, taken on the same pass.
    pub sha256: [u8; 32],
}

/// Bytes that are on disk under a temporary name. Dropped without being published, they go away.
#[derive(Debug)]
pub struct Staged {
    folder: Root,
    name: String,
    file: File,
    written: Written,
    durability: Durability,
    published: bool,
}

impl Root {
    /// Writes everything from `source` to a temporary name in this folder. The file gets its real
    /// name, in any folder of the same file system, by [`Staged::publish`]; so a caller can look
    /// once more at where the bytes came from before anybody sees them.
    pub fn stage(
        &self,
        source: &mut impl Read,
        access: Access,
        durability: Durability,
    ) -> Result<Staged> {
        let mut staging = self.begin(access, durability)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        loop {
            let got = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Error::source(e, self.path())),
            };
            let bytes = buffer.get(..got).unwrap_or(&buffer);
            hasher.update(bytes);
            staging.write(bytes)?;
        }
        staging.sync()?;
        let Staging(mut staged) = staging;
        staged.written.sha256 = hasher.finalize().into();
        Ok(staged)
    }

    /// Begins a file as [`stage`](Self::stage) does, for who has its bytes piece by piece and needs no
    /// digest of them.
    pub fn begin(&self, access: Access, durability: Durability) -> Result<Staging> {
        let (name, file) = self.fresh_file(access)?;
        let written = Written {
            size: 0,
            sha256: [0; 32],
        };
        Ok(Staging(Staged {
            folder: self.clone(),
            name,
            file,
            written,
            durability,
            published: false,
        }))
    }

    /// Begins a file that never has a name, for what need not outlast this process.
    pub fn begin_unnamed(&self) -> Result<Unnamed> {
        let (name, file) = self.fresh_file(Access::Private)?;
        let removed = retried(|| unlinkat(self.fd(), &name, AtFlags::empty()));
        removed.map_err(|e| Error::os(e, self.path().join(&name)))?;
        Ok(Unnamed {
            folder: self.clone(),
            file,
        })
    }

    /// Streams a file into place: either all of it is there under its name, on disk, or nothing.
    pub fn copy_in(
        &self,
        rel: impl AsRef<Path>,
        source: &mut impl Read,
        access: Access,
    ) -> Result<Written> {
        let rel = rel.as_ref();
        let folder = self.folder_of(rel)?;
        folder
            .stage(source, access, Durability::Now)?
            .publish(self, rel)
    }

    /// As [`copy_in`](Self::copy_in), from bytes. What was there before is replaced as a whole.
    pub fn write_atomic(
        &self,
        rel: impl AsRef<Path>,
        bytes: &[u8],
        access: Access,
    ) -> Result<Written> {
        self.copy_in(rel, &mut &*bytes, access)
    }

    /// As [`write_atomic`](Self::write_atomic), for a file that may be somebody else's to care for: one that
    /// is there keeps its permission bits.
    pub fn rewrite(&self, rel: impl AsRef<Path>, bytes: &[u8]) -> Result<Written> {
        let rel = rel.as_ref();
        let folder = self.folder_of(rel)?;
        let staged = folder.stage(&mut &*bytes, Access::Shared, Durability::Now)?;
        match self.stat(rel) {
            Ok(there) if there.kind == FileKind::File => staged.set_mode(there.mode)?,
            Ok(_) => {}
            Err(e) if e.reason() == Reason::NotFound => {}
            Err(e) => return Err(e),
        }
        staged.publish(self, rel)
    }

    /// As [`write_atomic`](Self::write_atomic), but refuses with
    /// [`AlreadyExists`](crate::Reason::AlreadyExists) if anything stands under the name: of two
    /// callers at the same time, one wins.
    pub fn create_file(
        &self,
        rel: impl AsRef<Path>,
        bytes: &[u8],
        access: Access,
    ) -> Result<Written> {
        let rel = rel.as_ref();
        let folder = self.folder_of(rel)?;
        folder
            .stage(&mut &*bytes, access, Durability::Now)?
            .publish_new(self, rel)
    }

    fn folder_of(&self, rel: &Path) -> Result<Self> {
        self.open_dir(rel.parent().unwrap_or(Path::new("")))
    }

    fn fresh_file(&self, access: Access) -> Result<(String, File)> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = fresh_name();
            match openat(self.fd(), &name, flags, access.file()) {
                Ok(fd) => return Ok((name, File::from(fd))),
                Err(Errno::EXIST | Errno::INTR) => {}
                Err(e) => return Err(Error::os(e, self.path())),
            }
        }
    }
}

/// A file without a name: it lasts as long as somebody holds it.
#[derive(Debug)]
pub struct Unnamed {
    folder: Root,
    file: File,
}

impl Unnamed {
    /// Appends the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|e| Error::io(e, self.folder.path()))
    }

    /// The file, to be read.
    pub fn into_file(self) -> File {
        self.file
    }
}

/// A file that is being written under a temporary name. Dropped, it goes away.
#[derive(Debug)]
pub struct Staging(Staged);

impl Staging {
    /// Appends the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Self(staged) = self;
        let written = staged.file.write_all(bytes);
        written.map_err(|e| Error::io(e, staged.folder.path()))?;
        staged.written.size += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file its name, as [`Staged::publish`] does.
    pub fn publish(self, root: &Root, rel: impl AsRef<Path>) -> Result<()> {
        self.sync()?;
        self.0.publish(root, rel).map(drop)
    }

    fn sync(&self) -> Result<()> {
        let Self(staged) = self;
        if staged.durability == Durability::Later {
            return Ok(());
        }
        let synced = staged.file.sync_all();
        synced.map_err(|e| Error::io(e, staged.folder.path()))
    }
}

impl Staged {
    /// What was written so far: everything.
    pub fn written(&self) -> Written {
        self.written
    }

    /// Gives the file the modification time that the bytes had where they came from.
    pub fn set_modified(&self, mtime_ns: i64) -> Result<()> {
        let time = Timespec {
            tv_sec: mtime_ns.div_euclid(1_000_000_000),
            tv_nsec: mtime_ns.rem_euclid(1_000_000_000) as _,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        futimens(&self.file, &times).map_err(|e| Error::os(e, self.folder.path().join(&self.name)))
    }

    /// Lets everybody who may read the file run it too.
    pub fn make_executable(&self) -> Result<()> {
        let failed = |e| Error::os(e, self.folder.path().join(&self.name));
        let mode = retried(|| fstat(&self.file)).map_err(failed)?.st_mode & 0o777;
        let runs = Mode::from_raw_mode(mode | ((mode & 0o444) >> 2));
        retried(|| fchmod(&self.file, runs)).map_err(failed)
    }

    /// Gives the file these permission bits.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o777);
        retried(|| fchmod(&self.file, mode))
            .map_err(|e| Error::os(e, self.folder.path().join(&self.name)))
    }

    /// Gives the bytes their name, replacing a file that has it. The folder must exist.
    pub fn publish(self, root: &Root, rel: impl AsRef<Path>) -> Result<Written> {
        self.put(root, rel.as_ref(), false)
    }

    /// As [`publish`](Self::publish), but never replaces anything.
    pub fn publish_new(self, root: &Root, rel: impl AsRef<Path>) -> Result<Written> {
        self.put(root, rel.as_ref(), true)
    }

    fn put(mut self, root: &Root, rel: &Path, new: bool) -> Result<Written> {
        let (parent, name) = root.parent_to_write(rel)?;
        root.may_change(&parent, name, rel)?;
        let moved = if new {
            match renameat_with(
                self.folder.fd(),
                &self.name,
                &parent,
                name,
                RenameFlags::NOREPLACE,
            ) {
                // Not every file system knows the flag; a hard link refuses an existing name too,
                // and dropping `self` then takes the temporary one away.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    let from = self.folder.fd();
                    linkat(from, &self.name, &parent, name, AtFlags::empty())
                }
                done => done.map(|()| self.published = true),
            }
        } else {
            renameat(self.folder.fd(), &self.name, &parent, name).map(|()| self.published = true)
        };
        moved.map_err(|e| root.failed(e, rel))?;
        if self.durability == Durability::Now {
            root.sync_parent(&parent, rel)?;
        }
        Ok(self.written)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.published {
            // Nobody to tell; the name says what it is, and whoever owns the folder sweeps it.
            let _ = unlinkat(self.folder.fd(), &self.name, AtFlags::empty());
        }
    }
}

/// Whether a name is one of those that files have before they get their real one. In a folder that
/// no writer is at work in, such a file is a dead process's.
pub fn is_temporary(name: impl AsRef<std::ffi::OsStr>) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let name = name.as_ref().as_bytes();
    name.starts_with(b".threadline-") && name.ends_with(b".tmp")
}

/// A name that no one else uses: at most a leftover of a dead process had it.
pub(crate) fn fresh_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".threadline-{}-{n}.tmp", std::process::id())
}
