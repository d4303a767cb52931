//! Deciding what to take, without touching the scope.

use threadline_contract::{ArtifactPath, OmitReason, Sha256};
use threadline_files::{
    FileKind, Reason, Root,
    hash::{self, Hashed},
    walk::{Found, Problem},
};

use super::{Change, ChangeKind, ChangeSummary};
use crate::{
    Error, Omissions,
    clock::TICK_NS,
    diff::{Diff, Step, Verdict},
    evidence::Named,
    ignore::Ignore,
    omissions::{of_problem, of_reason},
    skip::{collects_file, exports_file},
    work::Work,
};

/// How many changes of a user's folder are named one by one.
const FIRST: usize = 50;

/// Hands each file that is to be taken to `take`, once; gives back what else changed in a user's folder.
pub(super) fn make<W: Iterator<Item = Found>>(
    work: &Work,
    mut diff: Diff<W>,
    named: Named,
    ignore: &Ignore,
    omitted: &mut Omissions,
    take: &mut dyn FnMut(ArtifactPath) -> Result<(), Error>,
) -> Result<Option<ChangeSummary>, Error> {
    let taken_ns = diff.taken_ns();
    let mut planner = Planner {
        work,
        named,
        taken_ns,
        ignore,
        omitted,
        take,
        others: Vec::new(),
    };
    let mut summary = ChangeSummary {
        complete: true,
        ..ChangeSummary::default()
    };
    let mut seen = 0;
    while let Some(step) = diff.step()? {
        if let Step::File { .. } = step {
            seen += 1;
            if seen > work.limit() {
                summary.complete = false;
                planner.others.clear();
                break;
            }
        }
        if let Some(change) = planner.step(step)? {
            summary.add(change);
        }
    }
    for (path, problem) in std::mem::take(&mut planner.others) {
        if diff.is_new(&path) {
            planner.omitted.add(path, of_problem(problem));
        }
    }
    planner.rest()?;
    Ok(work.user.then_some(summary))
}

struct Planner<'a> {
    work: &'a Work,
    /// Evidence that the walk has not come upon yet.
    named: Named,
    taken_ns: i64,
    ignore: &'a Ignore,
    omitted: &'a mut Omissions,
    take: &'a mut dyn FnMut(ArtifactPath) -> Result<(), Error>,
    /// What a user's folder holds beside files. Which of it is new shows at the end.
    others: Vec<(String, Problem)>,
}

impl Planner<'_> {
    /// Takes, omits or passes over what one step found; gives back a change that stays in a
    /// user's folder.
    fn step(&mut self, step: Step) -> Result<Option<Change>, Error> {
        Ok(match step {
            Step::Removed { path } => Some(Change {
                path,
                kind: ChangeKind::Removed,
            }),
            Step::Other(Found::Problem { path, problem, .. }) => {
                let was_named = self.named.files.remove(&path);
                // A user's folder is full of links that are none of our business.
                if was_named || !self.work.user {
                    self.omitted.add(path, of_problem(problem));
                } else {
                    self.others.push((path, problem));
                }
                None
            }
            Step::Other(Found::NotEntered { path }) => {
                if !self.work.user {
                    self.omitted.add(path, OmitReason::Skipped);
                }
                None
            }
            Step::Other(Found::File { .. }) => None,
            Step::File {
                path,
                stamp,
                verdict,
            } => {
                let kind = match verdict {
                    Verdict::New => Some(ChangeKind::Created),
                    Verdict::Written => Some(ChangeKind::Modified),
                    Verdict::Ask(before) => (content(&self.work.root, &path) != Some(before))
                        .then_some(ChangeKind::Modified),
                    Verdict::Same => None,
                    Verdict::Unlisted => self.young(stamp.ctime_ns).then_some(ChangeKind::Modified),
                };
                self.file(path, kind)?
            }
        })
    }

    fn file(&mut self, path: String, change: Option<ChangeKind>) -> Result<Option<Change>, Error> {
        let named = self.named.files.remove(&path);
        let Some(kind) = change else {
            // Named, but not written: a tool call that failed, or one that only read.
            if named {
                self.omitted.add(path, OmitReason::ChangedOutsideRun);
            }
            return Ok(None);
        };
        let wanted = if self.work.user {
            named || (collects_file(&path) && self.named.patterns.matches(&path))
        } else {
            true
        };
        if !wanted {
            return Ok(Some(Change { path, kind }));
        }
        if self.ignore.matches(&path) {
            self.omitted.add(path, OmitReason::Ignored);
        } else if !named && !collects_file(&path) {
            self.omitted.add(path, OmitReason::Skipped);
        } else {
            self.take(path)?;
        }
        Ok(None)
    }

    fn take(&mut self, path: String) -> Result<(), Error> {
        match ArtifactPath::to_deliver(path) {
            Ok(path) => (self.take)(path),
            Err(bad) => {
                self.omitted.add(bad.0, OmitReason::UnsafeName);
                Ok(())
            }
        }
    }

    /// Evidence for files in folders that the walk does not enter. Their state before the turn is
    /// not known; that they changed since the listing was taken is.
    fn rest(&mut self) -> Result<(), Error> {
        for path in std::mem::take(&mut self.named.files) {
            match self.work.root.stat(&path) {
                Ok(stat) if stat.kind == FileKind::File => {
                    if !exports_file(&path) {
                        self.omitted.add(path, OmitReason::Skipped);
                    } else if self.young(stat.stamp.ctime_ns) {
                        self.take(path)?;
                    } else {
                        self.omitted.add(path, OmitReason::ChangedOutsideRun);
                    }
                }
                Ok(stat) if stat.kind == FileKind::Symlink => {
                    self.omitted.add(path, OmitReason::Symlink);
                }
                // A folder is not a file that was written.
                Ok(stat) if stat.kind == FileKind::Dir => {}
                Ok(_) => self.omitted.add(path, OmitReason::SpecialFile),
                // A scratch file that the turn removed again was not left out: it is not there.
                Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => {}
                Err(e) => self.omitted.add(path, of_reason(e.reason())),
            }
        }
        Ok(())
    }

    /// Whether a file changed after the listing was taken, as far as clocks can tell. The time is
    /// one that nobody can set.
    fn young(&self, ctime_ns: i64) -> bool {
        ctime_ns >= self.taken_ns.saturating_sub(TICK_NS)
    }
}

fn content(work: &Root, path: &str) -> Option<Sha256> {
    let file = work.open_file(path).ok()?;
    match hash::file(&file).ok()? {
        Hashed::Stable { sha256, .. } => Some(Sha256(sha256)),
        Hashed::Changed => None,
    }
}

impl ChangeSummary {
    fn add(&mut self, change: Change) {
        match change.kind {
            ChangeKind::Created => self.created += 1,
            ChangeKind::Modified => self.modified += 1,
            ChangeKind::Removed => self.removed += 1,
        }
        if self.first.len() < FIRST {
            self.first.push(change);
        }
    }
}
