//! A folder held open, and everything that may be done beneath it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read as _,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, fsync, mkdirat,
        renameat, statat, unlinkat,
    },
    io::Errno,
};

use crate::{
    Access, Error, FileKind, Protected, Reason, Resolver, Result, Stamp, Stat, hash,
    rel::parts,
    resolve::{self, THROUGH},
    stamp::retried,
};

/// A directory that can be listed and synced.
pub(crate) const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// NONBLOCK: a FIFO or a device must not stall us before the descriptor can be checked.
const SAFE: OFlags = OFlags::NONBLOCK
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A folder held open. Paths given to its methods are plain and relative (one spelling per file, no
/// `.`, `..`, empty or NUL part); where a folder is asked for, the empty path is the root itself.
///
/// Later renames of the path that led here change nothing, and no symlink beneath it is followed.
/// Cloning is cheap and shares the held folder.
#[derive(Clone, Debug)]
pub struct Root {
    dir: Arc<OwnedFd>,
    path: PathBuf,
    resolver: Resolver,
    protected: Option<Protected>,
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, as the file system spells it.
    pub name: OsString,
    /// What stands there.
    pub kind: FileKind,
}

/// Keeps a folder locked until it is dropped.
#[derive(Debug)]
pub struct FolderGuard {
    _held: OwnedFd,
}

/// The folder that a name lies in: the root itself, or one beneath it.
pub(crate) enum Parent<'a> {
    Root(&'a OwnedFd),
    Beneath(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(fd) => fd.as_fd(),
            Self::Beneath(fd) => fd.as_fd(),
        }
    }
}

impl Root {
    /// Holds a folder open. The path is ours (from configuration), so symlinks in it are followed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let dir = retried(|| rustix::fs::open(path, LIST, Mode::empty()))
            .map_err(|e| Error::os(e, path))?;
        let resolver = resolve::probe(dir.as_fd());
        Ok(Self {
            dir: Arc::new(dir),
            path: path.to_owned(),
            resolver,
            protected: None,
        })
    }

    /// The same folder as a root from which no protected place is reached, by whatever name. Refused with
    /// [`Reason::Protected`] if the folder itself is one or lies in one.
    pub fn avoiding(mut self, protected: &Protected) -> Result<Self> {
        protected
            .refuse_root(self.dir.as_fd())
            .map_err(|refused| self.refused(refused, Path::new("")))?;
        self.protected = Some(protected.clone());
        Ok(self)
    }

    /// Chooses how paths are resolved. [`open`](Self::open) has already picked the best way; this
    /// is for holding the ways against each other.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }

    /// How paths are resolved here.
    pub fn resolver(&self) -> Resolver {
        self.resolver
    }

    /// The path that led here: for messages and for telling others, never for access.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the held folder really lies, symlinks resolved: to compare with paths that others
    /// name. Not for access either.
    pub fn real_path(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::{fd::AsRawFd as _, unix::ffi::OsStringExt as _};
            let link = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
            if let Ok(path) = rustix::fs::readlink(link, Vec::new()) {
                return PathBuf::from(OsString::from_vec(path.into_bytes()));
            }
        }
        std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone())
    }

    /// A regular file, opened for reading. The checks are made on the open descriptor: what was
    /// checked is what will be read.
    pub fn open_file(&self, rel: impl AsRef<Path>) -> Result<File> {
        self.open_stamped(rel).map(|(file, _)| file)
    }

    /// As [`open_file`](Self::open_file), with what the file looked like when it was checked.
    pub fn open_stamped(&self, rel: impl AsRef<Path>) -> Result<(File, Stamp)> {
        let rel = rel.as_ref();
        let fd = self.resolve(rel, OFlags::RDONLY | SAFE, Mode::empty())?;
        self.regular(fd, rel)
    }

    /// The digest of a file that a walk saw with this stamp, if it still has it when all of it was
    /// read; `None` otherwise, and whoever wants to know why opens it. What was opened is checked
    /// once, afterwards: until then nothing that was read counts.
    pub fn hash_as_seen(
        &self,
        rel: impl AsRef<Path>,
        seen: &Stamp,
        mut see: impl FnMut(&[u8]),
    ) -> Option<[u8; 32]> {
        let rel = rel.as_ref();
        let fd = self.resolve(rel, OFlags::RDONLY | SAFE, Mode::empty());
        let file = File::from(fd.ok()?);
        let sha256 = hash::beginning(&file, seen.size, &mut see).ok()??;
        let (_, stamp) = self.regular(file.into(), rel).ok()?;
        (stamp == *seen).then_some(sha256)
    }

    /// A regular file of at most `limit` bytes, read whole.
    pub fn read_limited(&self, rel: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let rel = rel.as_ref();
        let (file, stamp) = self.open_stamped(rel)?;
        // Room for all of it and the end, so that it is read at once.
        let room = stamp.size.min(limit).saturating_add(1);
        let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or_default());
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io(e, self.path.join(rel)))?;
        if bytes.len() as u64 > limit {
            return Err(Error::new(Reason::TooLarge, self.path.join(rel)));
        }
        Ok(bytes)
    }

    /// A regular file, opened for appending; made if it is not there.
    pub fn append_file(&self, rel: impl AsRef<Path>, access: Access) -> Result<File> {
        let rel = rel.as_ref();
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | SAFE;
        let fd = self.resolve(rel, flags, access.file())?;
        self.regular(fd, rel).map(|(file, _)| file)
    }

    /// A folder beneath, held open in its turn.
    pub fn open_dir(&self, rel: impl AsRef<Path>) -> Result<Self> {
        let rel = rel.as_ref();
        if self.parts(rel)?.is_empty() {
            return Ok(self.clone());
        }
        let dir = self.resolve(rel, LIST, Mode::empty())?;
        Ok(Self {
            dir: Arc::new(dir),
            path: self.path.join(rel),
            resolver: self.resolver,
            protected: self.protected.clone(),
        })
    }

    /// Makes a folder and those above it, as far as they are missing, and opens it. The new names
    /// are on disk when this returns.
    pub fn create_dir_all(&self, rel: impl AsRef<Path>, access: Access) -> Result<Self> {
        let rel = rel.as_ref();
        match self.open_dir(rel) {
            Err(e) if e.reason() == Reason::NotFound => {}
            found => return found,
        }
        let mut here = self.clone();
        for part in self.parts(rel)? {
            here = match here.open_dir(part) {
                Err(e) if e.reason() == Reason::NotFound => {
                    match mkdirat(&here.dir, part, access.dir()) {
                        // Somebody else was quicker. Opening it says whether it is a folder.
                        Ok(()) | Err(Errno::EXIST) => here.sync_names()?,
                        Err(e) => return Err(Error::os(e, here.path.join(part))),
                    }
                    here.open_dir(part)?
                }
                found => found?,
            };
        }
        Ok(here)
    }

    /// The names in a folder, in the order of their bytes.
    pub fn entries(&self, rel: impl AsRef<Path>) -> Result<Vec<Entry>> {
        let dir = self.open_dir(rel)?;
        let failed = |e| Error::os(e, &dir.path);
        let mut found = Vec::new();
        for entry in Dir::read_from(&dir.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say; then the name must be asked about.
                FileType::Unknown => match dir.stat(name) {
                    Ok(stat) => stat.kind,
                    Err(e) if e.reason() == Reason::NotFound => continue,
                    Err(e) => return Err(e),
                },
                kind => FileKind::of(kind),
            };
            found.push(Entry {
                name: name.to_owned(),
                kind,
            });
        }
        found.sort_unstable_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(found)
    }

    /// Facts about what stands under a name, without following it. A protected file is refused.
    pub fn stat(&self, rel: impl AsRef<Path>) -> Result<Stat> {
        let rel = rel.as_ref();
        let st = if rel.as_os_str().is_empty() {
            retried(|| fstat(&self.dir))
        } else {
            let (parent, name) = self.parent(rel, THROUGH)?;
            let st = retried(|| statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW));
            if let (Ok(st), Some(protected)) = (&st, &self.protected) {
                let refused = protected.refuse_facts(parent.as_fd(), name, st);
                refused.map_err(|refused| self.refused(refused, rel))?;
            }
            st
        };
        st.map(|st| Stat::from_stat(&st))
            .map_err(|e| self.failed(e, rel))
    }

    /// Removes a file, symlink or special file (the name itself; nothing is followed).
    pub fn remove_file(&self, rel: impl AsRef<Path>) -> Result<()> {
        let rel = rel.as_ref();
        let (parent, name) = self.parent(rel, LIST)?;
        self.may_change(&parent, name, rel)?;
        unlinkat(&parent, name, AtFlags::empty()).map_err(|e| self.failed(e, rel))?;
        self.sync_parent(&parent, rel)
    }

    /// Moves a file or folder; a file under the new name is replaced.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let (old_parent, old_name) = self.parent(from, LIST)?;
        let (new_parent, new_name) = self.parent(to, LIST)?;
        self.may_change(&old_parent, old_name, from)?;
        self.may_change(&new_parent, new_name, to)?;
        renameat(&old_parent, old_name, &new_parent, new_name).map_err(|e| {
            let at_fault = if e == Errno::NOENT { from } else { to };
            self.failed(e, at_fault)
        })?;
        self.sync_parent(&new_parent, to)?;
        self.sync_parent(&old_parent, from)
    }

    /// Puts everything written beneath this root (and on its file system) on disk. One call for
    /// many files that were written with [`Durability::Later`](crate::Durability::Later).
    pub fn sync(&self) -> Result<()> {
        #[cfg(target_os = "linux")]
        let synced = rustix::fs::syncfs(&self.dir);
        #[cfg(not(target_os = "linux"))]
        let synced = {
            rustix::fs::sync();
            Ok(())
        };
        synced.map_err(|e| Error::os(e, &self.path))
    }

    /// Waits until nobody else holds this folder this way, and holds it until the guard is dropped.
    /// Keeps out only those who ask too; also in other processes.
    pub fn lock(&self) -> Result<FolderGuard> {
        // A lock belongs to an open descriptor: each holder needs its own.
        let own = retried(|| rustix::fs::openat(&self.dir, ".", LIST, Mode::empty()));
        let own = own.map_err(|e| Error::os(e, &self.path))?;
        retried(|| flock(&own, FlockOperation::LockExclusive))
            .map_err(|e| Error::os(e, &self.path))?;
        Ok(FolderGuard { _held: own })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    pub(crate) fn sync_names(&self) -> Result<()> {
        retried(|| fsync(&self.dir)).map_err(|e| Error::os(e, &self.path))
    }

    pub(crate) fn sync_parent(&self, parent: &Parent<'_>, rel: &Path) -> Result<()> {
        retried(|| fsync(parent)).map_err(|e| self.failed(e, rel))
    }

    /// The folder that `rel` lies in, and its name there.
    pub(crate) fn parent<'a>(
        &'a self,
        rel: &'a Path,
        flags: OFlags,
    ) -> Result<(Parent<'a>, &'a OsStr)> {
        let parts = self.parts(rel)?;
        let Some((name, above)) = parts.split_last() else {
            return Err(Error::new(Reason::NotRelative, self.path.join(rel)));
        };
        if above.is_empty() {
            return Ok((Parent::Root(&self.dir), name));
        }
        let fd = self.open_parts(above, flags, Mode::empty(), rel)?;
        Ok((Parent::Beneath(fd), name))
    }

    /// Whether a name may be given, taken away or moved.
    pub(crate) fn may_change(&self, parent: &Parent<'_>, name: &OsStr, rel: &Path) -> Result<()> {
        let Some(protected) = &self.protected else {
            return Ok(());
        };
        let refused = protected.refuse_name(parent.as_fd(), name);
        refused.map_err(|refused| self.refused(refused, rel))
    }

    /// As [`parent`](Self::parent), for a caller that will change names in it and sync them.
    pub(crate) fn parent_to_write<'a>(&'a self, rel: &'a Path) -> Result<(Parent<'a>, &'a OsStr)> {
        self.parent(rel, LIST)
    }

    pub(crate) fn failed(&self, errno: Errno, rel: &Path) -> Error {
        Error::os(errno, self.path.join(rel))
    }

    fn resolve(&self, rel: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let parts = self.parts(rel)?;
        if parts.is_empty() {
            return Err(Error::new(Reason::NotRelative, &self.path));
        }
        self.open_parts(&parts, flags, mode, rel)
    }

    fn open_parts(
        &self,
        parts: &[&OsStr],
        flags: OFlags,
        mode: Mode,
        rel: &Path,
    ) -> Result<OwnedFd> {
        let dir = self.dir.as_fd();
        match &self.protected {
            None => resolve::open(self.resolver, dir, parts, flags, mode).map_err(Refused::Os),
            Some(protected) => protected.open_beneath(dir, parts, flags, mode),
        }
        .map_err(|refused| self.refused(refused, rel))
    }

    fn parts<'a>(&self, rel: &'a Path) -> Result<Vec<&'a OsStr>> {
        // Not joined: an absolute `rel` would replace the root in the message.
        parts(rel).ok_or_else(|| Error::new(Reason::NotRelative, rel))
    }

    fn regular(&self, fd: OwnedFd, rel: &Path) -> Result<(File, Stamp)> {
        checked_regular(fd).map_err(|refused| self.refused(refused, rel))
    }

    fn refused(&self, refused: Refused, rel: &Path) -> Error {
        match refused {
            Refused::Os(e) => self.failed(e, rel),
            Refused::For(reason) => Error::new(reason, self.path.join(rel)),
        }
    }
}

pub(crate) enum Refused {
    Os(Errno),
    For(Reason),
}

/// Takes an open descriptor only if it is a regular file whose bytes are its owner's to give: a
/// second name is fine for our own files, but another user's file may have been linked in here by
/// somebody who cannot read it.
pub(crate) fn checked_regular(fd: OwnedFd) -> Result<(File, Stamp), Refused> {
    let st = retried(|| fstat(&fd)).map_err(Refused::Os)?;
    if FileType::from_raw_mode(st.st_mode) != FileType::RegularFile {
        return Err(Refused::For(Reason::NotRegular));
    }
    if st.st_nlink > 1 && st.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Refused::For(Reason::HardLinked));
    }
    Ok((File::from(fd), Stamp::from_stat(&st)))
}
