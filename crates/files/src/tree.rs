//! Listing a whole tree at once, by several threads: for callers that need all of it anyway.

use rayon::prelude::*;
use rustix::{
    fs::{AtFlags, Dir, FileType, statat},
    io::Errno,
};

use crate::{
    FileKind, Reason, Root, Stamp, Stat,
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
    let mut names = Vec::new();
    for entry in Dir::read_from(held.fd()).map_err(Reason::of)? {
        let entry = entry.map_err(Reason::of)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not say; then the name must be asked about.
            FileType::Unknown => {
                match retried(|| statat(held.fd(), name, AtFlags::SYMLINK_NOFOLLOW)) {
                    Ok(st) => Stat::from_stat(&st).kind,
                    Err(Errno::NOENT) => continue,
                    Err(e) => return Err(Reason::of(e)),
                }
            }
            kind => FileKind::of(kind),
        };
        if kind == FileKind::File {
            names.push(name.to_owned());
            continue;
        }
        let Ok(text) = name.to_str() else {
            let path = join(&folder.path, &escaped(name.to_bytes()));
            level.problem(path, Problem::NameNotUtf8);
            continue;
        };
        let path = join(&folder.path, text);
        match kind {
            FileKind::Symlink => level.problem(path, Problem::Symlink),
            FileKind::Dir if !enter(&path) => level.others.push(Found::NotEntered { path }),
            FileKind::Dir if folder.depth == max_depth => level.problem(path, Problem::TooDeep),
            FileKind::Dir => level.folders.push(Folder {
                path,
                depth: folder.depth + 1,
            }),
            FileKind::File | FileKind::Special => level.problem(path, Problem::Special),
        }
    }
    let dir = held.fd();
    let stamped = |name: &std::ffi::CString| {
        let Ok(text) = name.to_str() else {
            let path = join(&folder.path, &escaped(name.as_bytes()));
            return Err(Some((path, Problem::NameNotUtf8)));
        };
        let path = join(&folder.path, text);
        match retried(|| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(st) => {
                let stat = Stat::from_stat(&st);
                match stat.kind {
                    FileKind::File => Ok((path, stat.stamp)),
                    FileKind::Symlink => Err(Some((path, Problem::Symlink))),
                    FileKind::Dir | FileKind::Special => Err(Some((path, Problem::Special))),
                }
            }
            Err(Errno::NOENT) => Err(None),
            Err(_) => Err(Some((path, Problem::Unreadable))),
        }
    };
    let found: Vec<_> = if names.len() < MANY {
        names.iter().map(stamped).collect()
    } else {
        names.par_iter().map(stamped).collect()
    };
    level.files.reserve(found.len());
    for one in found {
        match one {
            Ok(file) => level.files.push(file),
            Err(Some((path, problem))) => level.problem(path, problem),
            Err(None) => {}
        }
    }
    Ok(())
}
