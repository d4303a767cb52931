//! Bringing into a run's scope what it left in folders that it shares with other runs: the gateway's
//! output roots, and the workspace's own folders.
//!
//! There a file's place says nothing about whose it is. So a file is taken only if it was written
//! between the run's start and end **and** there is evidence: the runtime names it, or it changed while
//! a command of this run was running and none of another. That the run was open is none: background
//! processes and people write there too. And it is taken only if no other run named or claimed it.
//! What fails this is named, not delivered; but for what is known to be another run's.

mod before;
mod others;
mod places;
mod plan;
mod scan;

use std::path::PathBuf;

use threadline_contract::{ArtifactPath, OmitReason, RunId, SessionKey, plugin::CommandSpan};
use threadline_files::{Reason, Root};

pub(crate) use self::others::OthersFiles;
use self::{before::Before, places::Places, plan::Wanted};
use crate::{
    Collected, Error, Ledger, MAX_FILE_BYTES, Workspace,
    claims::{Book, Claimant},
    clock::now_ns,
    copy::{Copier, Item, Other, notes_of},
    dirs::ExpectedDirs,
    skip::NOTES,
    window::{Spans, Window},
};

/// Where copies from output roots go in a scope.
pub(crate) const SNAPSHOT: &str = "artifacts";
/// How many files one call copies, unless it says otherwise.
pub(crate) const MAX_COPIES: usize = 1_000;
/// Marks a scope that the run left empty and that was filled with copies, so that what lies in other
/// folders still comes although the scope is no longer empty.
const FALLBACK: &str = "fallback";

/// A folder that tools of the gateway write to, for all runs alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRoot {
    /// The folder that its files go to in a scope, beneath `artifacts/`.
    pub name: String,
    /// Where it lies.
    pub folder: PathBuf,
}

impl OutputRoot {
    /// The gateway's own two: `~/.openclaw/media` and `/tmp/openclaw`.
    pub fn defaults(home: &std::path::Path) -> Vec<Self> {
        let root = |name: &str, folder: PathBuf| Self {
            name: name.to_owned(),
            folder,
        };
        vec![
            root("media", home.join(".openclaw/media")),
            root("tmp-openclaw", "/tmp/openclaw".into()),
        ]
    }
}

/// What speaks for files being a run's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Testimony {
    /// When the run began (milliseconds since 1970); when it was prepared, if not said.
    pub since_ms: Option<i64>,
    /// When it ended; now, if not said.
    pub until_ms: Option<i64>,
    /// Files that the runtime names as written: absolute, or relative to the workspace.
    pub written: Vec<String>,
    /// When a command of this run was running and none of another, if the runtime watches that.
    pub command_spans: Option<Vec<CommandSpan>>,
    /// Files that are other runs' by what their tool calls name.
    pub others_files: Vec<String>,
    /// Files that may be other runs'.
    pub maybe_others_files: Vec<String>,
    /// If the runtime does not watch commands: whether a run of another session overlapped. What the
    /// ledger knows, if not said.
    pub overlapped: Option<bool>,
}

/// Where to look for a run's files.
pub(crate) struct Outputs<'a> {
    /// The output roots.
    pub roots: &'a [OutputRoot],
    /// Whether they are looked at now; if not, they only tell what lies in them.
    pub scan: bool,
    /// If given, only these files of them.
    pub only: Option<&'a [String]>,
    /// Folders of the workspace, if they are looked at now.
    pub dirs: Option<&'a ExpectedDirs>,
    /// What is known about the run.
    pub testimony: &'a Testimony,
    /// How many files are copied at most.
    pub max_files: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub collected: Collected,
    pub warnings: Vec<String>,
}

impl Workspace {
    /// As [`prepare`](Self::prepare), and notes that the run begins, so that runs beside it know of
    /// it, and what lies in the folders where it is expected to leave files.
    pub(crate) fn prepare_known(
        &self,
        session: &SessionKey,
        run: &RunId,
        ledger: &Ledger,
        dirs: &ExpectedDirs,
    ) -> Result<(), Error> {
        // First: a scope that is there already and that the ledger does not know tells of a loss.
        let mut book = self.book(ledger)?;
        // Once: a run that is prepared again may have begun.
        let before = match self.scope(session, run)? {
            (_, None) => Before::look(&self.root, dirs),
            (_, Some(_)) => Before::default(),
        };
        self.prepare(session, run)?;
        before.keep(&self.prepared(session, run)?.1)?;
        book.began(&self.claimant(session, run), now_ns())?;
        book.sync()
    }

    /// Opens the ledger. One that has not heard of this workspace (it is new, or was lost) learns
    /// first which runs there are: it must not take them for none.
    pub(crate) fn book(&self, ledger: &Ledger) -> Result<Book, Error> {
        let mut book = ledger.open()?;
        if !book.knows(&self.place) {
            let runs = self.prepared_runs()?.into_iter();
            let runs = runs.map(|(session, run, at)| (self.claimant(&session, &run), at));
            book.learn(&self.place, runs)?;
        }
        Ok(book)
    }

    /// Copies into the scope what the run left elsewhere. Can be repeated at any time, also after a
    /// kill in the middle.
    pub(crate) fn gather(
        &self,
        session: &SessionKey,
        run: &RunId,
        ledger: &Ledger,
        outputs: &Outputs<'_>,
    ) -> Result<Gathered, Error> {
        let (scope, scope_dir) = self.prepared(session, run)?;
        let notes = notes_of(&scope_dir)?;
        let _alone = notes.lock()?;
        let by = self.claimant(session, run);
        let window = self.window(&scope_dir, outputs.testimony)?;
        let mut gathered = Gathered::default();

        let others = OthersFiles::new(&outputs.testimony.others_files);
        let maybe_others = OthersFiles::new(&outputs.testimony.maybe_others_files);
        let fallback = fallback_is_on(&scope_dir, &notes, outputs.testimony)?;
        let places = Places::open(self, scope.as_str(), outputs.roots, &mut gathered.warnings)?;
        let before = Before::read(&scope_dir)?;
        let wanted = plan::wanted(&places, outputs, &window, &before, fallback, &mut gathered)?;
        let mut book = self.book(ledger)?;
        book.began(&by, window.since_ns)?;
        if outputs.testimony.until_ms.is_some() {
            book.ended(&by, window.until_ns)?;
        }
        let unnamed = match (
            &outputs.testimony.command_spans,
            outputs.testimony.overlapped,
        ) {
            (Some(spans), _) => Unnamed::InSpans(Spans::new(spans)),
            (None, Some(overlapped)) => Unnamed::All(!overlapped),
            (None, None) => Unnamed::All(!book.overlapped(&by, &window)),
        };
        let evidence = Evidence {
            by: &by,
            book: &book,
            window: &window,
            unnamed,
            others: &others,
            maybe_others: &maybe_others,
            scope_is_empty: fallback,
        };
        let mut claimed = Vec::new();
        if wanted.iter().any(|w| book.may_be_claimed(&w.stamp)) {
            gathered.warnings.push(
                "The record of who took which file was begun anew, so nobody can tell whose older files are: those were not collected."
                    .to_owned(),
            );
        }
        for wanted in wanted {
            if evidence.is_only_anothers(&wanted) {
                continue;
            }
            match judge(&wanted, &evidence, &scope_dir)? {
                Ok(ruling) => claimed.push((wanted, ruling)),
                Err(reason) => gathered.collected.omitted.add(wanted.shown, reason),
            }
        }
        let over = claimed.split_off(claimed.len().min(outputs.max_files));
        for (wanted, _) in over {
            gathered
                .collected
                .omitted
                .add(wanted.shown, OmitReason::OverLimit);
        }
        for (wanted, ruling) in &claimed {
            // Judged above: it is nobody else's, and the book is held.
            let to = if *ruling == Ruling::NameTaken {
                ""
            } else {
                wanted.to.as_str()
            };
            book.claim(&by, &wanted.stamp, to)?;
        }
        book.sync()?;
        drop(book);

        // What is put there now is not the run's own doing, and must not keep the rest out.
        if fallback && !claimed.is_empty() {
            mark_fallback(&notes)?;
        }
        let collected = &mut gathered.collected;
        let done = |item: Item<'_>, outcome| {
            let shown = item.shown.unwrap_or(item.from);
            collected.add(shown, item.to, outcome, usize::MAX);
        };
        let mut copier = Copier::new(&scope_dir, &notes, MAX_FILE_BYTES, done)?;
        for (wanted, ruling) in claimed {
            copier.add(Item {
                source: wanted.source,
                from: wanted.from,
                to: wanted.to,
                shown: Some(wanted.shown),
                other: match ruling {
                    Ruling::OurCopy => Other::OurCopy,
                    Ruling::Free | Ruling::NameTaken => Other::Stays,
                },
            })?;
        }
        copier.finish()?;
        gathered.collected.omitted.order();
        gathered
            .collected
            .copied
            .sort_by(|a, b| a.path.cmp(&b.path));
        Ok(gathered)
    }

    pub(crate) fn claimant(&self, session: &SessionKey, run: &RunId) -> Claimant {
        Claimant {
            workspace: self.place.clone(),
            session: session.clone(),
            run: run.clone(),
        }
    }

    /// From the run's start (when it was prepared, if nobody says) to its end.
    fn window(&self, scope_dir: &Root, testimony: &Testimony) -> Result<Window, Error> {
        let since_ns = match testimony.since_ms {
            Some(ms) => ms.saturating_mul(1_000_000),
            None => prepared_ns(scope_dir)?,
        };
        let until_ns = match testimony.until_ms {
            // A whole millisecond: the caller's clock counts no finer.
            Some(ms) => ms.saturating_add(1).saturating_mul(1_000_000),
            None => i64::MAX,
        };
        Ok(Window { since_ns, until_ns })
    }
}

/// When a scope was prepared: its stamp is written once.
pub(crate) fn prepared_ns(scope_dir: &Root) -> Result<i64, Error> {
    Ok(scope_dir
        .stat(format!("{NOTES}/scope.json"))?
        .stamp
        .mtime_ns)
}

/// What the scope has under the name that a file would get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ruling {
    Free,
    /// An earlier copy of ours: it gives way when its source was written anew.
    OurCopy,
    /// Something that the agent itself put there: it is never replaced.
    NameTaken,
}

/// Which files that nothing names are the run's.
enum Unnamed {
    /// Those that changed in these spans.
    InSpans(Spans),
    /// All of them, or none: nobody watched. Then those in expected folders only if the run left nothing
    /// in its own.
    All(bool),
}

/// What is known about whose files are whose.
struct Evidence<'a> {
    by: &'a Claimant,
    book: &'a Book,
    window: &'a Window,
    unnamed: Unnamed,
    others: &'a OthersFiles,
    maybe_others: &'a OthersFiles,
    /// The run left nothing in its own folder.
    scope_is_empty: bool,
}

impl Evidence<'_> {
    /// Whether a file is known to be another run's, and this one never named it: not a word about it is
    /// missed here.
    fn is_only_anothers(&self, wanted: &Wanted<'_>) -> bool {
        let theirs = self.others.hold(wanted.source, &wanted.from)
            || self.book.is_anothers(self.by, &wanted.stamp);
        theirs && !wanted.named
    }

    /// Whether something speaks for a file being the run's, and nothing against it.
    fn speaks_for(&self, wanted: &Wanted<'_>) -> bool {
        // Another user's file in a folder that all users share is not ours to deliver.
        let stat = wanted.source.stat(&wanted.from);
        let foreign = stat.is_ok_and(|stat| stat.uid != threadline_files::user());
        let claimed = self.book.is_anothers(self.by, &wanted.stamp)
            || self.book.may_be_claimed(&wanted.stamp);
        let evident = wanted.named
            || match &self.unnamed {
                Unnamed::InSpans(spans) => spans.hold(self.window.changed_ns(&wanted.stamp)),
                Unnamed::All(all) => *all && (self.scope_is_empty || !wanted.in_expected_dir),
            };
        let hold = |others: &OthersFiles| others.hold(wanted.source, &wanted.from);
        evident && !foreign && !claimed && !hold(self.others) && !hold(self.maybe_others)
    }
}

/// Whether a file is the run's, and what is in its way.
fn judge(
    wanted: &Wanted<'_>,
    evidence: &Evidence<'_>,
    scope_dir: &Root,
) -> Result<Result<Ruling, OmitReason>, Error> {
    if !evidence.speaks_for(wanted) {
        return Ok(Err(OmitReason::AmbiguousOwner));
    }
    let to = &wanted.to;
    Ok(Ok(if evidence.book.copied(evidence.by, to.as_str()) {
        Ruling::OurCopy
    } else if is_there(scope_dir, to)? {
        Ruling::NameTaken
    } else {
        Ruling::Free
    }))
}

fn is_there(scope_dir: &Root, path: &ArtifactPath) -> Result<bool, Error> {
    match scope_dir.stat(path.as_str()) {
        Ok(_) => Ok(true),
        Err(e) => match e.reason() {
            Reason::NotFound => Ok(false),
            Reason::Symlink | Reason::NotDirectory => Ok(true),
            _ => Err(e.into()),
        },
    }
}

/// Whether the run left nothing in its scope.
fn fallback_is_on(scope_dir: &Root, notes: &Root, known: &Testimony) -> Result<bool, Error> {
    match notes.stat(FALLBACK) {
        Ok(_) => return Ok(true),
        Err(e) if e.reason() == Reason::NotFound => {}
        Err(e) => return Err(e.into()),
    }
    let others = known.others_files.iter().chain(&known.maybe_others_files);
    Ok(scan::has_no_files(scope_dir, &OthersFiles::new(others)))
}

fn mark_fallback(notes: &Root) -> Result<(), Error> {
    use threadline_files::Access;
    match notes.create_file(FALLBACK, b"", Access::Shared) {
        Err(e) if e.reason() != Reason::AlreadyExists => Err(e.into()),
        _ => Ok(()),
    }
}
