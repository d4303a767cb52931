//! Places that must not be reached, told by what they are and not by how they are called.
//!
//! A folder that an agent works in may lie above them, or lead there by another name: a second mount of the
//! same folder, another spelling on a disk that ignores case, a hard link. So every folder on the way to a
//! file is opened on its own and compared by device and number, and so is the file.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustix::{
    fs::{FileType, Mode, OFlags, Stat, fstat, openat},
    io::Errno,
};

use crate::{
    Reason,
    resolve::{THROUGH, one_step},
    root::Refused,
    stamp::retried,
};

/// What tells a file or folder from every other on this machine: its device, and its number there.
type FileId = (u64, u64);

/// Protected places as they stood at one moment. Made for one piece of work and shared by its roots.
#[derive(Clone, Debug)]
pub struct Protected(Arc<Places>);

#[derive(Debug)]
struct Places {
    /// The folders and files themselves.
    ids: HashSet<FileId>,
    /// Everything above them, which therefore does not lie in them.
    above: HashSet<FileId>,
    /// Those that do not exist yet: the folder that does, and the names from there on.
    absent: Vec<(FileId, Vec<OsString>)>,
    /// The folders among them whose contents can be listed.
    trees: Vec<PathBuf>,
    /// Folders inside that may be used.
    open: HashSet<FileId>,
    /// A folder that holds all of these names is protected wherever it is.
    marks: Vec<OsString>,
    /// Every folder and every file with several names inside; `None` if not all can be listed. Only looked
    /// for when something has another name or another mount, which is rare.
    inside: OnceLock<Option<HashSet<FileId>>>,
}

impl Protected {
    /// Protects these folders with all that is in them and these files, except what lies in the `open`
    /// folders. A path that does not exist is protected from being made.
    pub fn new<'a>(
        paths: impl IntoIterator<Item = &'a Path>,
        open: impl IntoIterator<Item = &'a Path>,
    ) -> Self {
        let mut places = Places {
            ids: HashSet::new(),
            above: HashSet::new(),
            absent: Vec::new(),
            trees: Vec::new(),
            open: open.into_iter().filter_map(id_at).collect(),
            marks: Vec::new(),
            inside: OnceLock::new(),
        };
        for path in paths {
            places.add(path);
        }
        Self(Arc::new(places))
    }

    /// Protects also every folder that holds all of these names, wherever it is found, except the `open` ones.
    #[must_use]
    pub fn and_folders_with(mut self, names: &[&str]) -> Self {
        // Nobody else has it yet.
        if let Some(places) = Arc::get_mut(&mut self.0) {
            places.marks = names.iter().map(OsString::from).collect();
        }
        self
    }

    /// Opens `parts` (never empty) beneath `dir`, one folder at a time, unless that leads to a protected
    /// place. Follows no symlink.
    pub(crate) fn open_beneath(
        &self,
        dir: BorrowedFd<'_>,
        parts: &[&OsStr],
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Refused> {
        let mut held: Option<OwnedFd> = None;
        for (index, part) in parts.iter().enumerate() {
            let at = held.as_ref().map_or(dir, |d| d.as_fd());
            let left = parts.get(index..).unwrap_or_default();
            self.refuse_absent(at, left)?;
            let (flags, mode) = match left.len() {
                1 => (flags, mode),
                _ => (THROUGH, Mode::empty()),
            };
            let next = one_step(at, part, flags, mode).map_err(Refused::Os)?;
            self.refuse_reached(next.as_fd())?;
            held = Some(next);
        }
        held.ok_or(Refused::Os(Errno::INVAL))
    }

    /// Refuses a folder that is to be a root if it is protected, or lies in a folder that is.
    pub(crate) fn refuse_root(&self, dir: BorrowedFd<'_>) -> Result<(), Refused> {
        let mut held: Option<OwnedFd> = None;
        let mut below: Option<FileId> = None;
        loop {
            let at = held.as_ref().map_or(dir, |d| d.as_fd());
            let id = id_of(at)?;
            // The folder above all others is its own parent.
            if self.0.open.contains(&id) || below == Some(id) {
                return Ok(());
            }
            self.refuse_reached(at)?;
            let up = retried(|| openat(at, "..", THROUGH, Mode::empty())).map_err(Refused::Os)?;
            below = Some(id);
            held = Some(up);
        }
    }

    /// Refuses to change a name if what has it is protected, or if it would make a protected place.
    pub(crate) fn refuse_name(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<(), Refused> {
        use rustix::fs::{AtFlags, statat};
        self.refuse_absent(dir, &[name])?;
        match retried(|| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(st) if self.0.ids.contains(&(st.st_dev, st.st_ino)) => Err(PROTECTED),
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(Refused::Os(e)),
        }
    }

    /// Refuses what was opened, if it is a protected place or lies in one under another name.
    fn refuse_reached(&self, fd: BorrowedFd<'_>) -> Result<(), Refused> {
        let st = retried(|| fstat(fd)).map_err(Refused::Os)?;
        let id = (st.st_dev, st.st_ino);
        let is_folder = FileType::from_raw_mode(st.st_mode) == FileType::Directory;
        let is_mount = is_mount(fd);
        let is_protected = self.0.ids.contains(&id)
            || match (is_mount, is_folder) {
                (true, true) => shows_processes(fd) || self.0.is_marked(fd, id) || self.0.holds(id),
                (true, false) => self.0.holds_file(id),
                (false, true) => self.0.is_marked(fd, id),
                (false, false) => st.st_nlink > 1 && self.0.holds(id),
            };
        match is_protected {
            true => Err(PROTECTED),
            false => Ok(()),
        }
    }

    /// Refuses to tell about a file by its name, if it is a protected one or lies in a protected place under
    /// another name.
    pub(crate) fn refuse_facts(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        st: &Stat,
    ) -> Result<(), Refused> {
        let id = (st.st_dev, st.st_ino);
        let is_file = FileType::from_raw_mode(st.st_mode) == FileType::RegularFile;
        let is_protected = self.0.ids.contains(&id)
            || is_file
                && (st.st_nlink > 1 && self.0.holds(id)
                    || is_mount_at(dir, name) && self.0.holds_file(id));
        match is_protected {
            true => Err(PROTECTED),
            false => Ok(()),
        }
    }

    fn refuse_absent(&self, dir: BorrowedFd<'_>, left: &[&OsStr]) -> Result<(), Refused> {
        if self.0.absent.is_empty() {
            return Ok(());
        }
        let id = id_of(dir)?;
        let leads_there = |names: &[OsString]| {
            let same = |(a, b): (&OsString, &&OsStr)| {
                a.to_string_lossy().to_lowercase() == b.to_string_lossy().to_lowercase()
            };
            left.len() >= names.len() && names.iter().zip(left).all(same)
        };
        match self
            .0
            .absent
            .iter()
            .any(|(at, names)| *at == id && leads_there(names))
        {
            true => Err(PROTECTED),
            false => Ok(()),
        }
    }
}

const PROTECTED: Refused = Refused::For(Reason::Protected);

impl Places {
    fn add(&mut self, path: &Path) {
        let Ok(path) = std::path::absolute(path) else {
            return;
        };
        // As far as it exists, by what it really is; a link that leads nowhere is a name like any other.
        for existing in path.ancestors() {
            let Ok(real) = existing.canonicalize() else {
                continue;
            };
            let Ok(facts) = real.metadata() else {
                continue;
            };
            let id = (facts.dev(), facts.ino());
            match path.strip_prefix(existing) {
                Ok(rest) if rest.as_os_str().is_empty() => {
                    self.ids.insert(id);
                    self.above
                        .extend(real.ancestors().skip(1).filter_map(id_at));
                    if facts.is_dir() && !is_proc(&real) {
                        self.add_linked(&real);
                        self.trees.push(real);
                    }
                }
                Ok(rest) => self
                    .absent
                    .push((id, rest.iter().map(OsStr::to_owned).collect())),
                Err(_) => {}
            }
            return;
        }
    }

    /// Whether a folder holds everything that marks a protected one: files that only their owner can read. An
    /// agent whose files all can be read could otherwise lock its user out of a folder by two names.
    fn is_marked(&self, dir: BorrowedFd<'_>, id: FileId) -> bool {
        use rustix::fs::{AtFlags, statat};
        let holds = |name: &OsString| {
            let st = retried(|| statat(dir, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW));
            st.is_ok_and(|st| st.st_mode & 0o077 == 0)
        };
        !self.marks.is_empty() && !self.open.contains(&id) && self.marks.iter().all(holds)
    }

    /// What the links directly in a protected folder lead to belongs to it: somebody moved a part of it to
    /// another disk.
    fn add_linked(&mut self, folder: &Path) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let Some(target) = is_link.then(|| entry.path().canonicalize().ok()).flatten() else {
                continue;
            };
            let Some(id) = id_at(&target).filter(|_| !folder.starts_with(&target)) else {
                continue;
            };
            self.ids.insert(id);
            if target.is_dir() {
                self.trees.push(target);
            }
        }
    }

    /// Whether a folder, or a file with several names, also lies in a protected folder. Where that cannot be
    /// told, it does.
    fn holds(&self, id: FileId) -> bool {
        if self.above.contains(&id) {
            return false;
        }
        let inside = self.inside.get_or_init(|| {
            let mut inside = HashSet::new();
            let listed = self.each_inside(|id, is_folder, names| {
                if is_folder || names > 1 {
                    inside.insert(id);
                }
            });
            listed.map(|()| inside)
        });
        inside.as_ref().is_none_or(|inside| inside.contains(&id))
    }

    /// Whether a file that is shown at another place also lies in a protected folder, whatever names it has.
    fn holds_file(&self, id: FileId) -> bool {
        let mut found = false;
        let listed = self.each_inside(|other, _, _| found |= other == id);
        found || listed.is_none()
    }

    /// Gives everything in the protected folders that may not be used: what it is, whether it is a folder, and
    /// how many names it has. `None` if not all could be listed.
    fn each_inside(&self, mut see: impl FnMut(FileId, bool, u64)) -> Option<()> {
        let mut left = self.trees.clone();
        let mut entered = HashSet::new();
        while let Some(folder) = left.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                entries => entries.ok()?,
            };
            for entry in entries {
                let entry = entry.ok()?;
                let facts = match entry.metadata() {
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                    facts => facts.ok()?,
                };
                let id = (facts.dev(), facts.ino());
                if facts.is_dir() && (self.open.contains(&id) || !entered.insert(id)) {
                    continue;
                }
                see(id, facts.is_dir(), facts.nlink());
                if facts.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        Some(())
    }
}

fn id_of(fd: BorrowedFd<'_>) -> Result<FileId, Refused> {
    let st = retried(|| fstat(fd)).map_err(Refused::Os)?;
    Ok((st.st_dev, st.st_ino))
}

fn id_at(path: &Path) -> Option<FileId> {
    let facts = path.metadata().ok()?;
    Some((facts.dev(), facts.ino()))
}

/// Whether processes are shown here, with what is in their environment and their memory.
#[cfg(target_os = "linux")]
fn shows_processes(dir: BorrowedFd<'_>) -> bool {
    let facts = retried(|| rustix::fs::fstatfs(dir));
    facts.is_ok_and(|facts| facts.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn shows_processes(_: BorrowedFd<'_>) -> bool {
    false
}

/// The same of a path. What is in there comes and goes, so it is never listed.
#[cfg(target_os = "linux")]
fn is_proc(path: &Path) -> bool {
    let facts = rustix::fs::statfs(path);
    facts.is_ok_and(|facts| facts.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_proc(_: &Path) -> bool {
    false
}

/// Whether something is mounted on this folder or file: only there a folder has a second path, and a file one
/// that its number of names does not tell.
#[cfg(target_os = "linux")]
fn is_mount(fd: BorrowedFd<'_>) -> bool {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
    let facts = retried(|| statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::empty()));
    // A system that cannot say is asked about every folder by what lies in the protected ones.
    facts.map_or(true, |facts| {
        !facts
            .stx_attributes_mask
            .contains(StatxAttributes::MOUNT_ROOT)
            || facts.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    })
}

/// The same of a name in a folder. A system that cannot say tells it when the file is opened.
#[cfg(target_os = "linux")]
fn is_mount_at(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
    let facts = retried(|| statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty()));
    facts.is_ok_and(|facts| facts.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_at(_: BorrowedFd<'_>, _: &OsStr) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn is_mount(_: BorrowedFd<'_>) -> bool {
    false
}
