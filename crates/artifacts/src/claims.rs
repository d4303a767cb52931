//! Who took which file out of a folder that several runs share.
//!
//! A journal that outlives processes and is shared by all of them: every file that is copied from an
//! output root is claimed first, durably, and a file in one state is claimed by one run only. So of
//! two runs that end at the same time never both get a file; and a run that was killed between claim
//! and copy finds its claim again. It also knows which runs overlapped, as far as they came by here.
//!
//! A journal that was lost, or lost its end, must not make everything nobody's: it begins
//! anew then, and who claimed what was written before that is not known. That something was lost
//! shows in a mark beside it, which says how far it had come, and in scopes whose runs it does not
//! know; those are learnt again from the stamps of their scopes.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use threadline_contract::{RunId, SessionKey};
use threadline_files::{
    Access, Durability, FolderGuard, Journal, JournalError, Reason, Root, Stamp, atomic,
};

use crate::{
    Error,
    clock::now_ns,
    restore::{share_scope, share_session},
    window::{LAG_NS, Window},
};

const NAME: &str = "claims.journal";
const NEW: &str = "claims.journal.new";
/// How many bytes of the journal are known to have been on disk.
const MARK: &str = "claims.mark";
const MARK_BYTES: u64 = 64;
/// From this size on, what is too old to matter is dropped.
const COMPACT_BYTES: u64 = 4 * 1024 * 1024;
const DAY_NS: i64 = 24 * 60 * 60 * 1_000_000_000;
/// Claims and runs that are older than this matter to nobody: no run lasts so long.
const KEPT_NS: i64 = 30 * DAY_NS;
/// A run whose end nobody told is taken to go on for so long.
const LONGEST_RUN_NS: i64 = DAY_NS;

/// Who claims: a run of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Claimant {
    pub workspace: PathBuf,
    pub session: SessionKey,
    pub run: RunId,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
enum Entry {
    /// Something was lost: what was claimed before this time is not known.
    Opened {
        at: i64,
    },
    /// The runs that the scopes of a workspace tell of are noted.
    Learnt {
        workspace: PathBuf,
    },
    Began {
        by: Claimant,
        at: i64,
    },
    Ended {
        by: Claimant,
        at: i64,
    },
    Claim {
        by: Claimant,
        file: FileState,
        to: String,
        at: i64,
    },
}

/// One state of one file. Its rights may change without making it another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct FileState {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: i64,
}

impl FileState {
    fn of(stamp: &Stamp) -> Self {
        Self {
            dev: stamp.dev,
            ino: stamp.ino,
            size: stamp.size,
            mtime: stamp.mtime_ns,
        }
    }
}

/// Where claims are kept. Everybody who collects from the same output roots shares one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    /// Keeps claims in this folder, which is made (0700) when it is needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Opens the book, alone, until it is dropped.
    pub(crate) fn open(&self) -> Result<Book, Error> {
        let folder = atomic::create_dir_all(&self.folder, Access::Private)?;
        let guard = folder.lock()?;
        let path = self.folder.join(NAME);
        let marked = marked(&folder)?;
        // The mark is written after what it counts was put on disk.
        let mut journal = Journal::open_synced(&path, marked)?;
        let mut book = Book::default();
        for record in journal.read_after::<Entry>(0)? {
            book.note(record?.value);
        }
        let lost = journal.end() < marked;
        if !lost && journal.end() > COMPACT_BYTES {
            drop(journal);
            book.forget_before(now_ns().saturating_sub(KEPT_NS));
            rewrite(&folder, &self.folder, &book)?;
            journal = Journal::open(&path)?;
        }
        book.open = Some(Held {
            journal,
            marked,
            folder,
            _guard: guard,
        });
        if lost {
            book.begin_anew()?;
        }
        book.sync()?;
        Ok(book)
    }
}

/// Everything that is known, and the place to write more.
#[derive(Debug, Default)]
pub(crate) struct Book {
    runs: HashMap<Claimant, Lifetime>,
    claims: HashMap<FileState, Claim>,
    /// Where each run's copies went.
    copies: HashMap<Claimant, HashSet<String>>,
    /// Since when every claim is known; always, if nothing was ever lost.
    begins: Option<i64>,
    /// Workspaces whose runs are noted.
    learnt: HashSet<PathBuf>,
    open: Option<Held>,
}

/// The place to write more.
#[derive(Debug)]
struct Held {
    /// First: it is closed before another may open it.
    journal: Journal,
    marked: u64,
    folder: Root,
    _guard: FolderGuard,
}

/// Whose a file is, when it was claimed last, and where its copies went: it may have several names.
#[derive(Clone, Debug)]
struct Claim {
    by: Claimant,
    at: i64,
    to: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Lifetime {
    began: i64,
    ended: Option<i64>,
}

impl Book {
    fn note(&mut self, entry: Entry) {
        match entry {
            Entry::Opened { at } => {
                self.begins = Some(at);
                self.learnt.clear();
            }
            Entry::Learnt { workspace } => {
                self.learnt.insert(workspace);
            }
            Entry::Began { by, at } => {
                let run = self.runs.entry(by).or_insert(Lifetime {
                    began: at,
                    ended: None,
                });
                run.began = run.began.min(at);
            }
            Entry::Ended { by, at } => {
                let run = self.runs.entry(by).or_insert(Lifetime {
                    began: at,
                    ended: None,
                });
                run.ended = Some(at);
            }
            Entry::Claim { by, file, to, at } => {
                let copies = self.copies.entry(by.clone()).or_default();
                copies.insert(to.clone());
                // The first claim stands; the same run may claim once more, for another name.
                let claim = self.claims.entry(file).or_insert(Claim {
                    by: by.clone(),
                    at,
                    to: Vec::new(),
                });
                if claim.by == by {
                    claim.at = claim.at.max(at);
                    claim.to.push(to);
                }
            }
        }
    }

    fn add(&mut self, entry: Entry) -> Result<(), Error> {
        if let Some(held) = &mut self.open {
            held.journal.append(&entry, Durability::Later)?;
        }
        self.note(entry);
        Ok(())
    }

    /// Puts what was added on disk. Before this, nothing may be done on its strength.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        if let Some(held) = &mut self.open {
            held.journal.sync()?;
            let end = held.journal.end();
            if held.marked != end {
                mark(&held.folder, end, Durability::Later)?;
                held.marked = end;
            }
        }
        Ok(())
    }

    /// Whether the runs of a workspace are noted.
    pub(crate) fn knows(&self, workspace: &Path) -> bool {
        self.learnt.contains(workspace)
    }

    /// Notes runs that the scopes of a workspace tell of, and when each was prepared. Every one of
    /// them came by here; if one is not known, more was lost with it.
    pub(crate) fn learn(
        &mut self,
        workspace: &Path,
        runs: impl IntoIterator<Item = (Claimant, i64)>,
    ) -> Result<(), Error> {
        let oldest = now_ns().saturating_sub(KEPT_NS);
        let unknown = |(by, at): &(Claimant, i64)| *at >= oldest && !self.runs.contains_key(by);
        let unknown: Vec<_> = runs.into_iter().filter(unknown).collect();
        if !unknown.is_empty() {
            self.begin_anew()?;
        }
        for (by, at) in unknown {
            self.began(&by, at)?;
        }
        self.add(Entry::Learnt {
            workspace: workspace.to_owned(),
        })
    }

    fn begin_anew(&mut self) -> Result<(), Error> {
        tracing::warn!(
            "The record of claimed files is not whole: whose the files are that are older than now is not known"
        );
        self.add(Entry::Opened { at: now_ns() })
    }

    /// Whether a file may have been claimed when claims were written that are lost.
    pub(crate) fn may_be_claimed(&self, stamp: &Stamp) -> bool {
        let begins = self.begins.map(|at| at.saturating_sub(LAG_NS));
        begins.is_some_and(|at| stamp.ctime_ns < at)
    }

    /// A run goes on since then, as far as is known.
    pub(crate) fn began(&mut self, by: &Claimant, at: i64) -> Result<(), Error> {
        match self.runs.get(by) {
            Some(run) if run.began <= at => Ok(()),
            _ => self.add(Entry::Began { by: by.clone(), at }),
        }
    }

    /// When a run was prepared, if it was, and no other one has a folder of the same name.
    pub(crate) fn prepared_at(&self, by: &Claimant) -> Option<i64> {
        let run = self.runs.get(by)?;
        let alone = |other: &Claimant| other == by || !share_scope(by, other);
        self.runs.keys().all(alone).then_some(run.began)
    }

    /// Since when a run's session has a folder, if it has, and no other one's has the same name.
    pub(crate) fn session_since(&self, by: &Claimant) -> Option<i64> {
        let sharing = || {
            self.runs
                .iter()
                .filter(|(other, _)| share_session(by, other))
        };
        let alone = sharing().all(|(other, _)| other.session == by.session);
        let since = sharing().map(|(_, run)| run.began).min();
        since.filter(|_| alone)
    }

    /// A run has ended.
    pub(crate) fn ended(&mut self, by: &Claimant, at: i64) -> Result<(), Error> {
        match self.runs.get(by) {
            Some(run) if run.ended == Some(at) => Ok(()),
            _ => self.add(Entry::Ended { by: by.clone(), at }),
        }
    }

    /// The runs that have begun here and are not known to have ended.
    pub(crate) fn live_runs(&self) -> HashSet<Claimant> {
        let now = now_ns();
        let goes_on =
            |run: &Lifetime| run.ended.is_none() && run.began.saturating_add(LONGEST_RUN_NS) > now;
        let live = self.runs.iter().filter(|(_, run)| goes_on(run));
        live.map(|(by, _)| by.clone()).collect()
    }

    /// Whether a run of another session went on at some time in the window. Runs of one session
    /// follow each other; one that is named anew after it was prepared is not another.
    pub(crate) fn overlapped(&self, by: &Claimant, window: &Window) -> bool {
        self.runs.iter().any(|(other, run)| {
            let end = run
                .ended
                .unwrap_or(run.began.saturating_add(LONGEST_RUN_NS));
            other.session != by.session && run.began <= window.until_ns && end >= window.since_ns
        })
    }

    /// Whether another run has a file in the state that it is in.
    pub(crate) fn is_anothers(&self, by: &Claimant, stamp: &Stamp) -> bool {
        let claim = self.claims.get(&FileState::of(stamp));
        claim.is_some_and(|claim| claim.by != *by)
    }

    /// Claims a file in the state that it is in. `false` if another run has it.
    pub(crate) fn claim(&mut self, by: &Claimant, stamp: &Stamp, to: &str) -> Result<bool, Error> {
        let file = FileState::of(stamp);
        match self.claims.get(&file) {
            Some(claim) if claim.by != *by => return Ok(false),
            Some(claim) if claim.to.iter().any(|known| known == to) => return Ok(true),
            _ => {}
        }
        self.add(Entry::Claim {
            by: by.clone(),
            file,
            to: to.to_owned(),
            at: now_ns(),
        })?;
        Ok(true)
    }

    /// Whether what lies at `to` in a run's scope is a copy that was made on a claim.
    pub(crate) fn copied(&self, by: &Claimant, to: &str) -> bool {
        self.copies.get(by).is_some_and(|all| all.contains(to))
    }

    fn forget_before(&mut self, oldest: i64) {
        self.claims.retain(|_, claim| claim.at >= oldest);
        self.runs
            .retain(|_, run| run.ended.unwrap_or(run.began) >= oldest);
        self.copies.clear();
        for claim in self.claims.values() {
            let copies = self.copies.entry(claim.by.clone()).or_default();
            copies.extend(claim.to.iter().cloned());
        }
    }
}

/// Writes the book anew, beside the old one, and puts it in its place as a whole.
fn rewrite(folder: &Root, path: &Path, book: &Book) -> Result<(), Error> {
    match folder.remove_file(NEW) {
        Err(e) if e.reason() != Reason::NotFound => return Err(e.into()),
        _ => {}
    }
    let mut journal = Journal::open(path.join(NEW))?;
    let mut put = |entry: &Entry| journal.append(entry, Durability::Later).map(|_| ());
    if let Some(at) = book.begins {
        put(&Entry::Opened { at })?;
    }
    for workspace in &book.learnt {
        put(&Entry::Learnt {
            workspace: workspace.clone(),
        })?;
    }
    for (by, run) in &book.runs {
        put(&Entry::Began {
            by: by.clone(),
            at: run.began,
        })?;
        if let Some(at) = run.ended {
            put(&Entry::Ended { by: by.clone(), at })?;
        }
    }
    for (file, claim) in &book.claims {
        for to in &claim.to {
            put(&Entry::Claim {
                by: claim.by.clone(),
                file: *file,
                to: to.clone(),
                at: claim.at,
            })?;
        }
    }
    journal.sync()?;
    drop(journal);
    // Shorter from here on, and not for loss.
    mark(folder, 0, Durability::Now)?;
    folder.rename(NEW, NAME)?;
    Ok(())
}

/// A power cut may take a mark that is put on disk later: an older one, or none of its bytes, is left then,
/// which is no sign of loss.
fn mark(folder: &Root, bytes: u64, durability: Durability) -> Result<(), Error> {
    let text = bytes.to_string();
    let staged = folder.stage(&mut text.as_bytes(), Access::Private, durability)?;
    staged.publish(folder, MARK)?;
    Ok(())
}

/// How long the journal must be. A mark that cannot be read speaks for loss.
fn marked(folder: &Root) -> Result<u64, Error> {
    match folder.read_limited(MARK, MARK_BYTES) {
        Ok(text) if text.is_empty() => Ok(0),
        Ok(text) => {
            let text = str::from_utf8(&text).ok();
            Ok(text.and_then(|t| t.parse().ok()).unwrap_or(u64::MAX))
        }
        Err(e) if e.reason() == Reason::NotFound => Ok(0),
        Err(e) if e.reason() == Reason::TooLarge => Ok(u64::MAX),
        Err(e) => Err(e.into()),
    }
}

impl From<JournalError> for Error {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Files(e) => Self::Files(e),
            other => Self::BadLedger(other),
        }
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
