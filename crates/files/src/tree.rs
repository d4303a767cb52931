//! Listing a whole tree at once, by several threads: for callers that need all of it anyway.

use std::{
    ffi::{CStr, CString},
    os::fd::AsFd as _,
};

use rayon::prelude::*;
use rustix::{
    fs::{AtFlags, FileType, Mode, openat, statat},
    io::Errno,
};

use crate::{
    FileKind, Reason, Root, Stamp, Stat,
    root::LIST,
    stamp::retried,
    walk::{Found, Problem, escaped, join},
};

/// From so many names on, one folder is shared among threads.
const MANY: usize = 512;

/// A tree as it was found.
#[derive(Debug, Default)]
pub struct Tree {
    /// The regular files, in no order that means anything.
    pub files: Vec<(String, Stamp)>,
    /// Everything else that a [`walk`](fn@crate::walk::walk) would have named, by path.
    pub others: Vec<Found>,
}

/// A folder whose turn has come.
struct Folder {
    path: String,
    depth: usize,
}

/// Lists everything beneath `root`, as [`walk`](fn@crate::walk::walk) does and as safely, but by all
/// threads at once and all in memory. `enter` is asked before a folder is entered.
///
/// Folders are listed level by level, not by recursion: a hostile tree can be deeper than a stack,
/// and threads that steal each other's recursion make it deeper still.
pub fn list(root: &Root, max_depth: usize, enter: impl Fn(&str) -> bool + Sync) -> Tree {
    let mut tree = Tree::default();
    let mut level = vec![Folder {
        path: String::new(),
        depth: 0,
    }];
    while !level.is_empty() {
        let listed: Vec<Level> = level
            .into_par_iter()
            .map(|folder| one(root, folder, max_depth, &enter))
            .collect();
        level = Vec::new();
        for part in listed {
            tree.files.extend(part.files);
            tree.others.extend(part.others);
            level.extend(part.folders);
        }
    }
    tree.others
        .sort_unstable_by(|a, b| a.path().as_bytes().cmp(b.path().as_bytes()));
    tree
}

/// What one folder holds.
#[derive(Default)]
struct Level {
    files: Vec<(String, Stamp)>,
    others: Vec<Found>,
    folders: Vec<Folder>,
}

impl Level {
    fn take(
        &mut self,
        found: Look,
        folder: &Folder,
        max_depth: usize,
        enter: &impl Fn(&str) -> bool,
    ) {
        let (path, kind) = match found {
            Look::File(path, stamp) => return self.files.push((path, stamp)),
            Look::Bad(path, problem) => return self.problem(path, problem),
            Look::Gone => return,
            Look::Other(path, kind) => (path, kind),
        };
        match kind {
            FileKind::Symlink => self.problem(path, Problem::Symlink),
            FileKind::Dir if !enter(&path) => self.others.push(Found::NotEntered { path }),
            FileKind::Dir if folder.depth == max_depth => self.problem(path, Problem::TooDeep),
            FileKind::Dir => self.folders.push(Folder {
                path,
                depth: folder.depth + 1,
            }),
            FileKind::File | FileKind::Special => self.problem(path, Problem::Special),
        }
    }

    fn problem(&mut self, path: String, problem: Problem) {
        self.others.push(Found::Problem { path, problem });
    }
}

fn one(root: &Root, folder: Folder, max_depth: usize, enter: &impl Fn(&str) -> bool) -> Level {
    let mut level = Level::default();
    let problem = match fill(&mut level, root, &folder, max_depth, enter) {
        // Gone or replaced meanwhile: as if we had come a little later.
        Ok(()) | Err(Reason::NotFound | Reason::NotDirectory) => return level,
        Err(Reason::Symlink) => Problem::Symlink,
        Err(Reason::Protected) => Problem::Protected,
        Err(_) => Problem::Unreadable,
    };
    // What was listed before the failure is not thrown away.
    level.problem(folder.path, problem);
    level
}

fn fill(
    level: &mut Level,
    root: &Root,
    folder: &Folder,
    max_depth: usize,
    enter: &impl Fn(&str) -> bool,
) -> Result<(), Reason> {
    let held = root.open_dir(&folder.path).map_err(|e| e.reason())?;
    // Files beyond the first many, to be asked about by all threads.
    let mut rest: Vec<CString> = Vec::new();
    each_name(&held, folder, |name, kind| match kind {
        FileType::RegularFile if level.files.len() >= MANY => rest.push(name.to_owned()),
        // Some file systems do not say what a name is. Then it is asked about, as a file is.
        FileType::RegularFile | FileType::Unknown => {
            let found = look(&held, &folder.path, name);
            level.take(found, folder, max_depth, enter);
        }
        kind => match name.to_str() {
            Ok(text) => {
                let found = Look::Other(join(&folder.path, text), FileKind::of(kind));
                level.take(found, folder, max_depth, enter);
            }
            Err(_) => {
                let path = join(&folder.path, &escaped(name.to_bytes()));
                level.problem(path, Problem::NameNotUtf8);
            }
        },
    })
    .map_err(Reason::of)?;
    let looked: Vec<Look> = rest
        .par_iter()
        .map(|name| look(&held, &folder.path, name))
        .collect();
    for found in looked {
        level.take(found, folder, max_depth, enter);
    }
    Ok(())
}

/// Gives every name in a folder, but the two that each has.
#[cfg(target_os = "linux")]
fn each_name(
    held: &Root,
    folder: &Folder,
    mut take: impl FnMut(&CStr, FileType),
) -> Result<(), Errno> {
    // The place in a listing belongs to the open folder. The root is shared with others.
    let own = if folder.path.is_empty() {
        Some(retried(|| openat(held.fd(), ".", LIST, Mode::empty()))?)
    } else {
        None
    };
    let dir = own.as_ref().map_or(held.fd(), |own| own.as_fd());
    // Unlike `Dir`, this makes no copy of each name.
    let mut buffer = [std::mem::MaybeUninit::uninit(); 32 * 1024];
    let mut entries = rustix::fs::RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            take(entry.file_name(), entry.file_type());
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn each_name(held: &Root, _: &Folder, mut take: impl FnMut(&CStr, FileType)) -> Result<(), Errno> {
    let own = retried(|| openat(held.fd(), ".", LIST, Mode::empty()))?;
    for entry in rustix::fs::Dir::new(own)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            take(entry.file_name(), entry.file_type());
        }
    }
    Ok(())
}

/// What stands under a name.
enum Look {
    File(String, Stamp),
    Other(String, FileKind),
    Bad(String, Problem),
    Gone,
}

fn look(held: &Root, folder: &str, name: &CStr) -> Look {
    let Ok(text) = name.to_str() else {
        let path = join(folder, &escaped(name.to_bytes()));
        return Look::Bad(path, Problem::NameNotUtf8);
    };
    let path = join(folder, text);
    match retried(|| statat(held.fd(), name, AtFlags::SYMLINK_NOFOLLOW)) {
        Ok(st) => {
            let stat = Stat::from_stat(&st);
            match stat.kind {
                FileKind::File => Look::File(path, stat.stamp),
                kind => Look::Other(path, kind),
            }
        }
        Err(Errno::NOENT) => Look::Gone,
        Err(_) => Look::Bad(path, Problem::Unreadable),
    }
}
