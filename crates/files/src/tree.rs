//! Listing a whole tree at once, by several threads.

use std::{
    ffi::{CStr, CString},
    os::fd::AsFd as _,
    sync::{Mutex, PoisonError},
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
/// So many files are handed over at once, or a few more.
const PART_FILES: usize = 4_096;

/// A tree as it was found.
#[derive(Debug, Default)]
pub struct Tree {
    /// The regular files, in no order that means anything.
    pub files: Vec<(String, Stamp)>,
    /// Everything else that a [`walk`](fn@crate::walk::walk) would have named; of a whole tree by path.
    pub others: Vec<Found>,
}

/// A folder whose turn has come.
struct Folder {
    path: String,
    depth: usize,
}

/// Lists everything beneath `root`, as [`walk`](fn@crate::walk::walk) does and as safely, but by all
/// threads at once and all in memory. `enter` is asked before a folder is entered.
pub fn list(root: &Root, max_depth: usize, enter: impl Fn(&str) -> bool + Sync) -> Tree {
    let tree = Mutex::new(Tree::default());
    visit(root, max_depth, enter, |part: Tree| {
        // A panic elsewhere cannot leave a part half-added.
        let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.files.extend(part.files);
        tree.others.extend(part.others);
    });
    let mut tree = tree.into_inner().unwrap_or_else(PoisonError::into_inner);
    tree.others
        .sort_unstable_by(|a, b| a.path().as_bytes().cmp(b.path().as_bytes()));
    tree
}

/// The same, a part at a time, in no order and from all threads: what is not kept costs no memory.
///
/// Folders are listed level by level, not by recursion: a hostile tree can be deeper than a stack,
/// and threads that steal each other's recursion make it deeper still.
pub fn visit(
    root: &Root,
    max_depth: usize,
    enter: impl Fn(&str) -> bool + Sync,
    see: impl Fn(Tree) + Sync,
) {
    let mut level = vec![Folder {
        path: String::new(),
        depth: 0,
    }];
    let listing = Listing {
        root,
        max_depth,
        enter: &enter,
        see: &see,
    };
    while !level.is_empty() {
        let listed: Vec<Vec<Folder>> = level
            .into_par_iter()
            .map(|folder| listing.one(folder))
            .collect();
        level = listed.into_iter().flatten().collect();
    }
}

/// How a tree is listed.
struct Listing<'a, E, S> {
    root: &'a Root,
    max_depth: usize,
    enter: &'a E,
    see: &'a S,
}

/// What was found of one folder and not seen yet, and its folders.
#[derive(Default)]
struct Level {
    part: Tree,
    folders: Vec<Folder>,
}

impl Level {
    fn problem(&mut self, path: String, problem: Problem) {
        let stamp = None;
        self.part.others.push(Found::Problem {
            path,
            problem,
            stamp,
        });
    }
}

impl<E: Fn(&str) -> bool + Sync, S: Fn(Tree) + Sync> Listing<'_, E, S> {
    fn take(&self, level: &mut Level, found: Look, folder: &Folder) {
        let (path, kind) = match found {
            Look::File(path, stamp) => {
                level.part.files.push((path, stamp));
                if level.part.files.len() >= PART_FILES {
                    (self.see)(std::mem::take(&mut level.part));
                }
                return;
            }
            Look::Bad(found) => return level.part.others.push(found),
            Look::Gone => return,
            Look::Other(path, kind) => (path, kind),
        };
        match kind {
            FileKind::Symlink => level.problem(path, Problem::Symlink),
            FileKind::Dir if !(self.enter)(&path) => {
                level.part.others.push(Found::NotEntered { path });
            }
            FileKind::Dir if folder.depth == self.max_depth => {
                level.problem(path, Problem::TooDeep);
            }
            FileKind::Dir => level.folders.push(Folder {
                path,
                depth: folder.depth + 1,
            }),
            FileKind::File | FileKind::Special => level.problem(path, Problem::Special),
        }
    }

    fn one(&self, folder: Folder) -> Vec<Folder> {
        let mut level = Level::default();
        let problem = match self.fill(&mut level, &folder) {
            // Gone or replaced meanwhile: as if we had come a little later.
            Ok(()) | Err(Reason::NotFound | Reason::NotDirectory) => None,
            Err(Reason::Symlink) => Some(Problem::Symlink),
            Err(Reason::Protected) => Some(Problem::Protected),
            Err(_) => Some(Problem::Unreadable),
        };
        // What was listed before the failure is not thrown away.
        if let Some(problem) = problem {
            level.problem(folder.path, problem);
        }
        (self.see)(level.part);
        level.folders
    }

    fn fill(&self, level: &mut Level, folder: &Folder) -> Result<(), Reason> {
        let held = self.root.open_dir(&folder.path).map_err(|e| e.reason())?;
        // Files beyond the first many, to be asked about by all threads.
        let mut rest: Vec<CString> = Vec::new();
        let mut files = 0;
        each_name(&held, folder, |name, kind| match kind {
            FileType::RegularFile if files >= MANY => {
                rest.push(name.to_owned());
                if rest.len() >= PART_FILES {
                    self.look_at(level, &held, folder, std::mem::take(&mut rest));
                }
            }
            // Some file systems do not say what a name is. Then it is asked about, as a file is.
            FileType::RegularFile | FileType::Unknown => {
                files += 1;
                let found = look(&held, &folder.path, name);
                self.take(level, found, folder);
            }
            kind => match name.to_str() {
                Ok(text) => {
                    let found = Look::Other(join(&folder.path, text), FileKind::of(kind));
                    self.take(level, found, folder);
                }
                Err(_) => level.part.others.push(not_text(&held, &folder.path, name)),
            },
        })
        .map_err(Reason::of)?;
        self.look_at(level, &held, folder, rest);
        Ok(())
    }

    /// Asks about files by all threads.
    fn look_at(&self, level: &mut Level, held: &Root, folder: &Folder, names: Vec<CString>) {
        let looked: Vec<Look> = names
            .par_iter()
            .map(|name| look(held, &folder.path, name))
            .collect();
        for found in looked {
            self.take(level, found, folder);
        }
    }
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
    Bad(Found),
    Gone,
}

fn look(held: &Root, folder: &str, name: &CStr) -> Look {
    let Ok(text) = name.to_str() else {
        return Look::Bad(not_text(held, folder, name));
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
        Err(_) => Look::Bad(Found::Problem {
            path,
            problem: Problem::Unreadable,
            stamp: None,
        }),
    }
}

/// A name that is not text.
fn not_text(held: &Root, folder: &str, name: &CStr) -> Found {
    let stat = retried(|| statat(held.fd(), name, AtFlags::SYMLINK_NOFOLLOW));
    Found::Problem {
        path: join(folder, &escaped(name.to_bytes())),
        problem: Problem::NameNotUtf8,
        stamp: stat.ok().map(|stat| Stat::from_stat(&stat).stamp),
    }
}
