//! The copying itself: many at once, each whole or not at all.

use std::{io::Read as _, path::Path, thread, time::Duration};

use rayon::prelude::*;
use threadline_contract::{ArtifactPath, OmitReason, Sha256};
use threadline_files::{
    Access, Durability, FileKind, Reason, Root, Staged, Stamp,
    hash::{self, Hashed},
};

use super::CollectOptions;
use crate::{Error, omissions::of_reason};

/// How often a file that changes under the copy is tried, and the pause in between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// Copies that are staged together: each holds a descriptor until it is published.
const BATCH: usize = 128;
/// Up to so many files are synced one by one. For more, one sync of the file system is cheaper.
const FEW: usize = 16;

/// What became of one file.
pub(super) enum Outcome {
    Copied { size: u64, sha256: Sha256 },
    Present,
    Kept,
    Omitted(OmitReason),
}

pub(super) struct Copier<'a> {
    pub work: &'a Root,
    pub scope: &'a Root,
    pub staging: &'a Root,
    pub options: &'a CollectOptions,
}

/// A file on its way into the scope.
enum Staging {
    Done(Outcome),
    Ready(Staged),
}

impl Copier<'_> {
    /// Copies everything. Storage that fails (a full disk) ends it: the whole collection can be
    /// repeated. A source that fails costs only itself.
    pub(super) fn copy_all(
        &self,
        paths: Vec<ArtifactPath>,
    ) -> Result<Vec<(ArtifactPath, Outcome)>, Error> {
        let durability = if paths.len() <= FEW {
            Durability::Now
        } else {
            Durability::Later
        };
        let mut outcomes = Vec::with_capacity(paths.len());
        for batch in paths.chunks(BATCH) {
            let staged: Vec<Staging> = batch
                .par_iter()
                .map(|path| self.stage(path, durability))
                .collect::<Result<_, Error>>()?;
            // No name before its bytes: after a power loss a file is there whole or not at all.
            if durability == Durability::Later {
                self.scope.sync()?;
            }
            for (path, staging) in batch.iter().zip(staged) {
                let outcome = match staging {
                    Staging::Done(outcome) => outcome,
                    Staging::Ready(staged) => self.publish(path, staged)?,
                };
                outcomes.push((path.clone(), outcome));
            }
        }
        if durability == Durability::Later {
            self.scope.sync()?;
        }
        Ok(outcomes)
    }

    fn stage(&self, path: &ArtifactPath, durability: Durability) -> Result<Staging, Error> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let source = match self.work.open_file(path.as_str()) {
                Ok(source) => source,
                Err(e) => return Ok(omitted(of_reason(e.reason()))),
            };
            let Ok(before) = Stamp::of(&source) else {
                return Ok(omitted(OmitReason::Unreadable));
            };
            if before.size > self.options.max_file_bytes {
                return Ok(omitted(OmitReason::TooLarge));
            }
            match self.in_the_way(path, &source, &before)? {
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
            let still = Stamp::of(&source).is_ok_and(|after| after == before);
            if still && staged.written().size == before.size {
                staged.set_modified(before.mtime_ns)?;
                return Ok(Staging::Ready(staged));
            }
        }
        Ok(omitted(OmitReason::ChangedWhileReading))
    }

    /// Looks at what the scope has under the path.
    fn in_the_way(
        &self,
        path: &ArtifactPath,
        source: &std::fs::File,
        before: &Stamp,
    ) -> Result<InTheWay, Error> {
        use InTheWay::{Nothing, Settled, Unstable};
        let there = match self.scope.stat(path.as_str()) {
            Ok(there) => there,
            Err(e) => {
                return Ok(match e.reason() {
                    Reason::NotFound => Nothing,
                    // The agent has a link or a file where we would need a folder.
                    Reason::Symlink => Settled(Outcome::Omitted(OmitReason::Symlink)),
                    Reason::NotDirectory => Settled(Outcome::Kept),
                    _ => return Err(e.into()),
                });
            }
        };
        match there.kind {
            FileKind::Dir => return Ok(Settled(Outcome::Kept)),
            // Cannot be delivered; the file from the work folder can.
            FileKind::Symlink | FileKind::Special => return Ok(Nothing),
            FileKind::File => {}
        }
        if there.stamp.size == before.size {
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
        let newer = there.stamp.mtime_ns >= before.mtime_ns;
        Ok(if newer {
            Settled(Outcome::Kept)
        } else {
            Nothing
        })
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
                Reason::NotDirectory | Reason::NotRegular => Ok(Outcome::Kept),
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

fn omitted(reason: OmitReason) -> Staging {
    Staging::Done(Outcome::Omitted(reason))
}
