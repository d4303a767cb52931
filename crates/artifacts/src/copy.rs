//! Copying into a scope: many files at once, each whole or not at all.

use std::{
    fs::File, io::Read as _, os::unix::fs::PermissionsExt as _, path::Path, thread, time::Duration,
};

use rayon::prelude::*;
use threadline_contract::{ArtifactPath, OmitReason, Sha256};
use threadline_files::{
    Access, Durability, FileKind, Reason, Root, Staged, Stamp,
    hash::{self, Hashed},
};

use crate::{
    Error,
    clock::{now_ns, settled},
    omissions::of_reason,
    skip::NOTES,
};

/// Where copies stand until they are whole. Beneath our notes, so that no export ever sees them.
const STAGING: &str = "staging";

/// How often a file that changes under the copy is tried, and the pause in between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// Copies that are staged together: each holds a descriptor until it is published.
const BATCH: usize = 128;
/// Up to so many files are synced one by one. For more, one sync of the file system is cheaper.
const FEW: usize = 16;

/// What became of one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Copied { size: u64, sha256: Sha256 },
    Present,
    Omitted(OmitReason),
}

/// A file to be copied.
pub(crate) struct Item<'a> {
    /// The folder that it lies in.
    pub source: &'a Root,
    /// Where, in that folder.
    pub from: String,
    /// Where it goes in the scope.
    pub to: ArtifactPath,
    /// The path as it is told, where that is another than `from`.
    pub shown: Option<String>,
    /// What becomes of another file of the same name in the scope.
    pub other: Other,
}

/// A file in the scope under the name that a copy would get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// It stays: the agent put it there.
    Stays,
    /// It stays if it is newer.
    StaysIfNewer,
    /// It goes, unless somebody wrote to it since: it is an earlier copy of the same file, and a copy
    /// has the time of its bytes.
    OurCopy,
}

/// Puts files into a scope, a batch at a time, and tells what became of each. Only one at a time works
/// on a scope: the caller holds its lock.
///
/// Storage that fails (a full disk) ends it: the whole collection can be repeated. A source that fails
/// costs only itself.
pub(crate) struct Copier<'a, D> {
    scope: &'a Root,
    notes: &'a Root,
    max_file_bytes: u64,
    waiting: Vec<Item<'a>>,
    /// Made with the first file.
    staging: Option<Root>,
    /// Whether there were more files than are synced one by one.
    many: bool,
    done: D,
}

/// A file on its way into the scope.
enum Staging {
    Done(Outcome),
    Ready(Staged),
}

impl<'a, D: FnMut(Item<'a>, Outcome)> Copier<'a, D> {
    /// A copier that tells `done` of every file.
    pub(crate) fn new(
        scope: &'a Root,
        notes: &'a Root,
        max_file_bytes: u64,
        done: D,
    ) -> Result<Self, Error> {
        // What a killed copier left is of no use to anybody.
        match notes.remove_dir_all(STAGING) {
            Ok(()) => {}
            Err(e) if e.reason() == Reason::NotFound => {}
            Err(e) if e.reason() == Reason::Symlink => notes.remove_file(STAGING)?,
            Err(e) => return Err(e.into()),
        }
        Ok(Self {
            scope,
            notes,
            max_file_bytes,
            waiting: Vec::new(),
            staging: None,
            many: false,
            done,
        })
    }

    /// Copies a file, now or with the next ones.
    pub(crate) fn add(&mut self, item: Item<'a>) -> Result<(), Error> {
        self.waiting.push(item);
        if self.waiting.len() < BATCH {
            return Ok(());
        }
        self.many = true;
        self.copy_waiting()
    }

    /// Copies what is left, and tidies up.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.many |= self.waiting.len() > FEW;
        self.copy_waiting()?;
        if self.many {
            self.scope.sync()?;
        }
        if self.staging.is_some() {
            self.notes.remove_dir_all(STAGING)?;
        }
        Ok(())
    }

    fn copy_waiting(&mut self) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let staging = match self.staging.take() {
            Some(staging) => staging,
            None => self.notes.create_dir_all(STAGING, Access::Private)?,
        };
        let staging = self.staging.insert(staging);
        let to = Target {
            scope: self.scope,
            staging,
            max_file_bytes: self.max_file_bytes,
        };
        let durability = match self.many {
            true => Durability::Later,
            false => Durability::Now,
        };
        let batch = std::mem::take(&mut self.waiting);
        let staged: Vec<Staging> = batch
            .par_iter()
            .map(|item| to.stage(item, durability))
            .collect::<Result<_, Error>>()?;
        // No name before its bytes: after a power loss a file is there whole or not at all.
        if self.many {
            self.scope.sync()?;
        }
        for (item, staging) in batch.into_iter().zip(staged) {
            let outcome = match staging {
                Staging::Done(outcome) => outcome,
                Staging::Ready(staged) => to.publish(&item.to, staged)?,
            };
            (self.done)(item, outcome);
        }
        Ok(())
    }
}

/// Where files go.
struct Target<'a> {
    scope: &'a Root,
    staging: &'a Root,
    max_file_bytes: u64,
}

impl Target<'_> {
    fn stage(&self, item: &Item<'_>, durability: Durability) -> Result<Staging, Error> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let began_ns = now_ns();
            let source = match item.source.open_file(&item.from) {
                Ok(source) => source,
                Err(e) => return Ok(omitted(of_reason(e.reason()))),
            };
            let Ok(before) = Stamp::of(&source) else {
                return Ok(omitted(OmitReason::Unreadable));
            };
            if before.size > self.max_file_bytes {
                return Ok(omitted(OmitReason::TooLarge));
            }
            match self.in_the_way(item, &source, &before)? {
                InTheWay::Nothing => {}
                InTheWay::Unstable => continue,
                InTheWay::Settled(outcome) => return Ok(Staging::Done(outcome)),
            }
            // One byte more than it had: a file that grows without end is noticed, not chased.
            let mut bytes = (&source).take(before.size.saturating_add(1));
            let staged = match self.staging.stage(&mut bytes, Access::Shared, durability) {
                Ok(staged) => staged,
                Err(e) if e.reason() == Reason::Source => {
                    return Ok(omitted(OmitReason::Unreadable));
                }
                Err(e) => return Err(e.into()),
            };
            let written = staged.written();
            // A write that is under way leaves no trace in a young stamp, but not the same bytes
            // twice either.
            let twice = || {
                settled(&before, began_ns)
                    || matches!(hash::file(&source), Ok(Hashed::Stable { sha256, .. }) if sha256 == written.sha256)
            };
            let still = || Stamp::of(&source).is_ok_and(|after| after == before);
            if written.size == before.size && still() && twice() {
                staged.set_modified(before.mtime_ns)?;
                if executable(&source) {
                    staged.make_executable()?;
                }
                return Ok(Staging::Ready(staged));
            }
        }
        Ok(omitted(OmitReason::ChangedWhileReading))
    }

    /// Looks at what the scope has under the path.
    fn in_the_way(
        &self,
        item: &Item<'_>,
        source: &File,
        before: &Stamp,
    ) -> Result<InTheWay, Error> {
        use InTheWay::{Nothing, Settled, Unstable};
        let path = &item.to;
        let taken = || Settled(Outcome::Omitted(OmitReason::NameTaken));
        let there = match self.scope.stat(path.as_str()) {
            Ok(there) => there,
            Err(e) => {
                return Ok(match e.reason() {
                    Reason::NotFound => Nothing,
                    // The agent has a link or a file where we would need a folder.
                    Reason::Symlink => Settled(Outcome::Omitted(OmitReason::Symlink)),
                    Reason::NotDirectory => taken(),
                    _ => return Err(e.into()),
                });
            }
        };
        match there.kind {
            FileKind::Dir => return Ok(taken()),
            // Cannot be delivered; the file from the work folder can.
            FileKind::Symlink | FileKind::Special if item.other == Other::Stays => {
                return Ok(taken());
            }
            FileKind::Symlink | FileKind::Special => return Ok(Nothing),
            FileKind::File => {}
        }
        if there.stamp.size == before.size {
            // A copy keeps the time of its bytes, so that repeating reads none of them; unless the
            // time is so young that a change might not show in it.
            if there.stamp.mtime_ns == before.mtime_ns && settled(before, now_ns()) {
                return Ok(Settled(Outcome::Present));
            }
            let Ok(Hashed::Stable { sha256: ours, .. }) = hash::file(source) else {
                return Ok(Unstable);
            };
            let theirs = self
                .scope
                .open_file(path.as_str())
                .ok()
                .and_then(|f| hash::file(&f).ok());
            if matches!(theirs, Some(Hashed::Stable { sha256, .. }) if sha256 == ours) {
                return Ok(Settled(Outcome::Present));
            }
        }
        let goes = match item.other {
            Other::Stays => false,
            Other::StaysIfNewer => there.stamp.mtime_ns < before.mtime_ns,
            Other::OurCopy => there.stamp.mtime_ns <= before.mtime_ns,
        };
        Ok(if goes { Nothing } else { taken() })
    }

    fn publish(&self, path: &ArtifactPath, staged: Staged) -> Result<Outcome, Error> {
        let written = staged.written();
        let folder = Path::new(path.as_str()).parent().unwrap_or(Path::new(""));
        let put = self
            .scope
            .create_dir_all(folder, Access::Shared)
            .and_then(|_| staged.publish(self.scope, path.as_str()));
        match put {
            Ok(_) => Ok(Outcome::Copied {
                size: written.size,
                sha256: Sha256(written.sha256),
            }),
            // Two collected paths can be in each other's way only through the agent's own files.
            Err(e) => match e.reason() {
                Reason::Symlink => Ok(Outcome::Omitted(OmitReason::Symlink)),
                Reason::NotDirectory | Reason::NotRegular => {
                    Ok(Outcome::Omitted(OmitReason::NameTaken))
                }
                _ => Err(e.into()),
            },
        }
    }
}

enum InTheWay {
    Nothing,
    Unstable,
    Settled(Outcome),
}

/// Whether its owner may run it: a script that a turn made should still run where it arrives.
fn executable(file: &File) -> bool {
    file.metadata()
        .is_ok_and(|facts| facts.permissions().mode() & 0o100 != 0)
}

/// A scope's notes, where its lock lies too.
pub(crate) fn notes_of(scope: &Root) -> Result<Root, Error> {
    Ok(scope.open_dir(NOTES)?)
}

fn omitted(reason: OmitReason) -> Staging {
    Staging::Done(Outcome::Omitted(reason))
}
