//! What a work folder looked like before a turn.
//!
//! JSON lines in the byte order of paths, streamed in both directions, so that a folder with a
//! million files costs no more memory than one with ten: a head, one line per file, and an end that
//! proves that the listing is whole.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead as _, BufReader, Read},
};

use serde::{Deserialize, Serialize};
use threadline_contract::{RunId, SessionKey, Sha256};
use threadline_files::{
    Access, Durability, Reason, Root, Stamp,
    hash::{self, Hashed},
    walk::Found,
};

use crate::{
    Error, WorkFolder, Workspace,
    clock::{now_ns, settled},
    skip::NOTES,
    work::Work,
};

const NAME: &str = "before.jsonl";
const VERSION: u32 = 1;
/// A path has at most a few thousand bytes; a line that is longer is not ours.
const LINE_BYTES: u64 = 1024 * 1024;

/// What taking the listing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// It was taken now.
    Taken,
    /// An earlier one is there (this run was prepared before a crash), and stays: the turn may
    /// have written since.
    Kept,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    v: u32,
    pub folder: String,
    pub taken_ns: i64,
}

/// One file as it was before the turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub path: String,
    pub ino: u64,
    pub size: u64,
    pub mtime: i64,
    /// Only for files that had just been written when they were listed: their stamp alone would
    /// not tell a change that came right after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}

/// Something in a user's folder that is no file: a link, a FIFO, a name that is not text.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Other {
    other: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct End {
    files: u64,
    complete: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    File(Entry),
    Other(Other),
    End(End),
}

impl Workspace {
    /// Notes, durably, what the work folder looks like before the turn. Taken once per run: after
    /// a crash the first one stays.
    pub fn list_before(
        &self,
        session: &SessionKey,
        run: &RunId,
        folder: &WorkFolder,
    ) -> Result<Listed, Error> {
        let (_, scope) = self.prepared(session, run)?;
        let notes = scope.open_dir(NOTES)?;
        match notes.stat(NAME) {
            Ok(_) => return Ok(Listed::Kept),
            Err(e) if e.reason() == Reason::NotFound => {}
            Err(e) => return Err(e.into()),
        }
        let work = self.work(session, run, folder)?;
        let mut lines = Lines::new(&work)?;
        let staged = notes.stage(&mut lines, Access::Shared, Durability::Now)?;
        match staged.publish_new(&notes, NAME) {
            Ok(_) => Ok(Listed::Taken),
            Err(e) if e.reason() == Reason::AlreadyExists => Ok(Listed::Kept),
            Err(e) => Err(e.into()),
        }
    }
}

/// The text of a listing, made while it is read.
struct Lines<'a, W> {
    work: &'a Work,
    walk: W,
    head: Head,
    files: u64,
    others: u64,
    ended: bool,
    text: Vec<u8>,
    at: usize,
}

impl<'a> Lines<'a, ()> {
    fn new(work: &'a Work) -> Result<Lines<'a, impl Iterator<Item = Found> + 'a>, Error> {
        let head = Head {
            v: VERSION,
            folder: work.name(),
            taken_ns: now_ns(),
        };
        let text = line(&head).map_err(|e| Error::BadListing {
            scope: head.folder.clone(),
            why: e.to_string(),
        })?;
        Ok(Lines {
            work,
            walk: work.walk(),
            head,
            files: 0,
            others: 0,
            ended: false,
            text,
            at: 0,
        })
    }
}

impl<W: Iterator<Item = Found>> Lines<'_, W> {
    fn next_line(&mut self) -> io::Result<Vec<u8>> {
        while self.files + self.others < self.work.limit() as u64 {
            let Some(found) = self.walk.next() else {
                return self.end(true);
            };
            let (path, stamp) = match found {
                Found::File { path, stamp } => (path, stamp),
                // In our own folder all of them are told after every turn.
                Found::Problem { path, .. } if self.work.user => {
                    self.others += 1;
                    return line(&Other { other: path });
                }
                Found::Problem { .. } | Found::NotEntered { .. } => continue,
            };
            // A file that is being written right now is not listed: whatever it ends up as is new.
            let Some(sha256) = self.content(&path, &stamp) else {
                continue;
            };
            self.files += 1;
            let Stamp {
                ino,
                size,
                mtime_ns: mtime,
                ..
            } = stamp;
            return line(&Entry {
                path,
                ino,
                size,
                mtime,
                sha256,
            });
        }
        self.end(false)
    }

    fn end(&mut self, complete: bool) -> io::Result<Vec<u8>> {
        self.ended = true;
        line(&End {
            files: self.files,
            complete,
        })
    }

    /// The digest of a file whose stamp is too young to be trusted; `None` if it does not stand
    /// still.
    fn content(&self, path: &str, stamp: &Stamp) -> Option<Option<Sha256>> {
        if settled(stamp, self.head.taken_ns) {
            return Some(None);
        }
        let file = self.work.root.open_file(path).ok()?;
        match hash::file(&file).ok()? {
            Hashed::Stable {
                sha256,
                stamp: read,
            } if read == *stamp => Some(Some(Sha256(sha256))),
            _ => None,
        }
    }
}

impl<W: Iterator<Item = Found>> Read for Lines<'_, W> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            if self.ended {
                return Ok(0);
            }
            self.text = self.next_line()?;
            self.at = 0;
        }
        let left = self.text.get(self.at..).unwrap_or_default();
        let n = left.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..n), left.get(..n)) {
            to.copy_from_slice(from);
        }
        self.at += n;
        Ok(n)
    }
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    Ok(text)
}

/// A listing being read.
pub(crate) struct Listing {
    lines: BufReader<File>,
    scope: String,
    pub head: Head,
    /// Whether everything in the folder was listed; known at the end.
    complete: Option<bool>,
    read: u64,
    /// What was there and was no file; known at the end.
    others: HashSet<String>,
}

impl Listing {
    /// Opens the listing that was taken of this folder.
    pub(crate) fn open(scope_dir: &Root, scope: &str, work: &Work) -> Result<Self, Error> {
        let file = match scope_dir.open_file(format!("{NOTES}/{NAME}")) {
            Ok(file) => file,
            Err(e) if e.reason() == Reason::NotFound => {
                return Err(Error::NotListed {
                    scope: scope.to_owned(),
                });
            }
            Err(e) => return Err(e.into()),
        };
        let mut lines = BufReader::new(file);
        let wrong = |why: String| Error::BadListing {
            scope: scope.to_owned(),
            why,
        };
        let head: Head = read_line(&mut lines).map_err(|e| wrong(e.to_string()))?;
        if head.v != VERSION {
            return Err(wrong(format!("it has version {}", head.v)));
        }
        if head.folder != work.name() {
            return Err(wrong(format!("it is of `{}`", head.folder)));
        }
        Ok(Self {
            lines,
            scope: scope.to_owned(),
            head,
            complete: None,
            read: 0,
            others: HashSet::new(),
        })
    }

    /// Whether the listing says of every file whether it was there. Asked after its end.
    pub(crate) fn complete(&self) -> bool {
        self.complete == Some(true)
    }

    /// Whether something that is no file is known not to have been there. Asked after its end.
    pub(crate) fn is_new(&self, other: &str) -> bool {
        self.complete() && !self.others.contains(other)
    }

    fn step(&mut self) -> Result<Option<Entry>, String> {
        if self.complete.is_some() {
            return Ok(None);
        }
        let line = loop {
            match read_line(&mut self.lines).map_err(|e| e.to_string())? {
                Line::Other(Other { other }) => drop(self.others.insert(other)),
                line => break line,
            }
        };
        match line {
            Line::Other(_) => Ok(None),
            Line::File(entry) => {
                self.read += 1;
                Ok(Some(entry))
            }
            Line::End(end) if end.files == self.read => {
                self.complete = Some(end.complete);
                Ok(None)
            }
            Line::End(end) => Err(format!("it has {} of {} files", self.read, end.files)),
        }
    }
}

impl Iterator for Listing {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().map_err(|why| {
            self.complete = Some(false);
            Error::BadListing {
                scope: self.scope.clone(),
                why,
            }
        });
        step.transpose()
    }
}

fn read_line<T: serde::de::DeserializeOwned>(lines: &mut BufReader<File>) -> io::Result<T> {
    let mut text = Vec::new();
    lines.take(LINE_BYTES).read_until(b'\n', &mut text)?;
    if text.pop() != Some(b'\n') {
        return Err(io::Error::other("it breaks off"));
    }
    Ok(serde_json::from_slice(&text)?)
}
