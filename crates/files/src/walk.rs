//! Listing a tree: one fixed order, no recursion, nothing followed, nothing silent.

use std::{ffi::OsString, fmt::Write as _, os::unix::ffi::OsStrExt as _};

use crate::{FileKind, Reason, Result, Root, Stamp};

/// Something that a walk came upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A regular file.
    File {
        /// Where it lies, relative to the walked root.
        path: String,
        /// What it looked like when it was listed. Who opens it later compares.
        stamp: Stamp,
    },
    /// A folder that the caller did not want to enter.
    NotEntered {
        /// Where it lies.
        path: String,
    },
    /// Something that is not delivered.
    Problem {
        /// Where it lies; bytes that are not text are escaped.
        path: String,
        /// Why not.
        problem: Problem,
        /// What it looked like, where its path does not lead to it: its name is not text.
        stamp: Option<Stamp>,
    },
}

impl Found {
    /// Where it lies.
    pub fn path(&self) -> &str {
        match self {
            Self::File { path, .. } | Self::NotEntered { path } | Self::Problem { path, .. } => {
                path
            }
        }
    }
}

/// Why something in a tree is not a file to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device.
    Special,
    /// A name that is not UTF-8. If it is a folder, nothing in it can be named either.
    NameNotUtf8,
    /// A folder that we may not list, or a name that cannot be asked about.
    Unreadable,
    /// A folder beyond the depth limit.
    TooDeep,
    /// A protected place.
    Protected,
}

/// A walk under way. Yields files in the byte order of their full paths, so that two listings can be
/// compared by reading both once.
///
/// Each folder is opened from the root when its turn comes, so that a tree of any shape costs two
/// descriptors; and is listed and its files stamped while it is held. A file or folder that goes
/// away meanwhile is not there, as if the walk had come a little later.
pub struct Walk<'a> {
    root: &'a Root,
    depth: usize,
    enter: Box<dyn FnMut(&str) -> bool + 'a>,
    /// What is left to do, the next thing last.
    left: Vec<Step>,
}

enum Step {
    Yield(Found),
    List { folder: String, depth: usize },
}

/// Walks everything beneath `root`. `max_depth` is how many folders deep a file may lie: 0 means
/// files of the root itself.
pub fn walk(root: &Root, max_depth: usize) -> Walk<'_> {
    let left = vec![Step::List {
        folder: String::new(),
        depth: 0,
    }];
    Walk {
        root,
        depth: max_depth,
        enter: Box::new(|_| true),
        left,
    }
}

impl<'a> Walk<'a> {
    /// Asks before a folder is entered; it gets the folder's path.
    #[must_use]
    pub fn enter_if(mut self, enter: impl FnMut(&str) -> bool + 'a) -> Self {
        self.enter = Box::new(enter);
        self
    }

    fn list(&mut self, folder: &str, depth: usize) -> Result<()> {
        let held = self.root.open_dir(folder)?;
        let mut entries = held.entries("")?;
        // A folder's files have paths that go on with `/`: it must stand where they will.
        fn key(name: &OsString, kind: FileKind) -> impl Iterator<Item = &u8> {
            let slash: &[u8] = if kind == FileKind::Dir { b"/" } else { b"" };
            name.as_bytes().iter().chain(slash)
        }
        entries.sort_unstable_by(|a, b| key(&a.name, a.kind).cmp(key(&b.name, b.kind)));
        for entry in entries.into_iter().rev() {
            let Some(name) = entry.name.to_str() else {
                let path = join(folder, &escaped(entry.name.as_bytes()));
                let stamp = held.stat(&entry.name).ok().map(|stat| stat.stamp);
                self.left.push(Step::Yield(Found::Problem {
                    path,
                    problem: Problem::NameNotUtf8,
                    stamp,
                }));
                continue;
            };
            let path = join(folder, name);
            match entry.kind {
                FileKind::Symlink => self.problem(path, Problem::Symlink),
                FileKind::Special => self.problem(path, Problem::Special),
                FileKind::Dir if !(self.enter)(&path) => {
                    self.left.push(Step::Yield(Found::NotEntered { path }));
                }
                FileKind::Dir if depth == self.depth => self.problem(path, Problem::TooDeep),
                FileKind::Dir => self.left.push(Step::List {
                    folder: path,
                    depth: depth + 1,
                }),
                FileKind::File => match held.stat(name) {
                    Ok(stat) if stat.kind == FileKind::File => {
                        self.left.push(Step::Yield(Found::File {
                            path,
                            stamp: stat.stamp,
                        }));
                    }
                    Ok(stat) if stat.kind == FileKind::Symlink => {
                        self.problem(path, Problem::Symlink);
                    }
                    Ok(_) => self.problem(path, Problem::Special),
                    Err(e) if e.reason() == Reason::NotFound => {}
                    Err(e) if e.reason() == Reason::Protected => {
                        self.problem(path, Problem::Protected);
                    }
                    Err(_) => self.problem(path, Problem::Unreadable),
                },
            }
        }
        Ok(())
    }

    fn problem(&mut self, path: String, problem: Problem) {
        self.left.push(Step::Yield(Found::Problem {
            path,
            problem,
            stamp: None,
        }));
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let (folder, depth) = match self.left.pop()? {
                Step::Yield(found) => return Some(found),
                Step::List { folder, depth } => (folder, depth),
            };
            let problem = match self.list(&folder, depth).map_err(|e| e.reason()) {
                Ok(()) | Err(Reason::NotFound | Reason::NotDirectory) => continue,
                Err(Reason::Symlink) => Problem::Symlink,
                Err(Reason::Protected) => Problem::Protected,
                Err(_) => Problem::Unreadable,
            };
            return Some(Found::Problem {
                path: folder,
                problem,
                stamp: None,
            });
        }
    }
}

pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        // Not `format!`: a tree has many names.
        let mut path = String::with_capacity(folder.len() + 1 + name.len());
        path.push_str(folder);
        path.push('/');
        path.push_str(name);
        path
    }
}

/// A name as a person can see it: text stays, other bytes become `\xNN`.
pub fn escaped(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}
