//! Bringing a run's files home.
//!
//! Only on a terminal success, only files that the bridge lists for this run's scope. Each file is
//! downloaded into `.xworkmate/runs/<run>/parts`, hashed while it is written, and gets its name in
//! the workspace by a rename after size and digest were found right. A download that breaks goes on
//! where it broke, also after a restart.
//!
//! **What lies in the workspace already.** `.xworkmate/ledger.json` names the files that we put there
//! and for which run. When a run delivers files:
//! - a file of an earlier run that nobody changed moves to `.xworkmate/runs/<that run>/files`, whether
//!   or not this run has one of the same name: what lies in the open is this run's or the user's;
//! - a file that the user made or changed, and whose name this run needs, stays beside it as
//!   `<name>.yours.<ext>`, and the thread says so; if the name is not needed it stays as it is.
//!
//! A run without files moves nothing.
//!
//! **The receipt.** `.xworkmate/runs/<run>/receipt.json` says what the run delivered, all of it, also
//! where not all of it came. `threadline verify` holds the folder against it.
//!
//! **Invariant**: nothing here reads the workspace to find out what a run made.

mod download;
pub(crate) mod earlier;
mod ledger;
mod list;
pub(crate) mod own_files;
mod place;
mod receipt;
mod verified;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use futures_util::{StreamExt as _, stream};
use threadline_contract::{
    AppThreadKey, ArtifactItem, ArtifactPath, Code, Fault, Omitted, RunId, Sha256,
    method::TaskParams,
    scope,
    thread::{SyncStatus, SyncedFile},
};
use threadline_files::{Access, Root};
use tokio::sync::broadcast;

use self::{
    download::{Fetched, Fetcher},
    list::Links,
    place::Placed,
};
pub(crate) use self::{list::ask_again, receipt::receipt_of, verified::Verified};
use crate::{
    api::FileProgress,
    bridge::Bridge,
    fault::{internal, storage},
    verdict::{self, Told},
    workspace,
};

/// Lines of a detail that a person would still read.
const MOST_LINES: usize = 20;

/// A run whose files are to be brought.
pub(crate) struct Job {
    pub(crate) bridge: Bridge,
    pub(crate) thread: AppThreadKey,
    pub(crate) run: RunId,
    /// Where they go.
    pub(crate) workspace: PathBuf,
    /// What finds the run at the bridge.
    pub(crate) lookup: TaskParams,
    /// The terminal snapshot.
    pub(crate) told: Told,
    /// The scope that the run was announced with.
    pub(crate) scope: Option<threadline_contract::ArtifactScope>,
    /// How many at once.
    pub(crate) downloads: usize,
    /// Hears of every file's progress.
    pub(crate) progress: broadcast::Sender<FileProgress>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: SyncStatus,
    pub(crate) detail: Option<String>,
    /// The files that are here, by path.
    pub(crate) files: Vec<SyncedFile>,
    pub(crate) omitted: Vec<Omitted>,
    /// The digest of the receipt that lies in the workspace.
    pub(crate) receipt: Option<Sha256>,
}

impl Outcome {
    /// Nothing could be brought at all.
    pub(crate) fn failed(fault: &Fault) -> Self {
        Self {
            status: SyncStatus::Failed,
            detail: Some(format!("{}: {}", fault.code, fault.message)),
            files: Vec::new(),
            omitted: Vec::new(),
            receipt: None,
        }
    }
}

/// A file that did not come, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    pub(crate) path: String,
    pub(crate) code: Code,
    pub(crate) why: String,
}

/// Brings the files of a run. The caller holds the thread's sync lock.
pub(crate) async fn bring(mut job: Job) -> Result<Outcome, Fault> {
    list::settled(&mut job).await?;
    verdict::check_scope(&job.told, job.scope.as_ref())?;
    if let Some(why) = job.told.snapshot.artifacts_failed.clone() {
        let code = Code::RuntimeReadFailed;
        return Ok(Outcome::failed(&Fault::new(code, why)));
    }
    let listed = list::all(&job).await?;
    if listed.items.is_empty() && listed.missed.is_empty() {
        return Ok(Outcome {
            status: SyncStatus::NoExportedArtifacts,
            detail: None,
            files: Vec::new(),
            omitted: listed.omitted,
            receipt: None,
        });
    }
    let root = {
        let (path, thread) = (job.workspace.clone(), job.thread.clone());
        blocking(move || workspace::open(&path, &thread)).await??
    };
    // Another process that shares this home must not place files between our steps.
    let guard = {
        let root = root.clone();
        blocking(move || root.open_dir(workspace::NOTES)?.lock())
            .await?
            .map_err(storage)?
    };

    let job = Arc::new(job);
    let items = Arc::new(listed.items);
    let present = {
        let (root, items) = (root.clone(), items.clone());
        blocking(move || place::present(&root, &items))
            .await?
            .map_err(storage)?
    };
    let (fetched, mut missed) = match listed.removed {
        None => fetch(&job, &root, &items, &present).await?,
        Some(_) => (Vec::new(), gone(&items, &present)),
    };
    let receipt = receipt::of(&job.told.snapshot, &items, listed.receipt, &listed.missed);
    missed.extend(listed.missed);

    let (placed, receipt) = {
        let (root, run) = (root.clone(), job.run.clone());
        blocking(move || {
            let placed = if present.is_empty() && fetched.is_empty() {
                Ok(Placed::default())
            } else {
                place::place(&root, &run, &items, &present, fetched)
            };
            let kept = receipt.and_then(|receipt| {
                let kept = receipt.map(|receipt| receipt::keep(&root, &run, &receipt));
                kept.transpose()
            });
            drop(guard);
            placed.map(|placed| (placed, kept))
        })
        .await??
    };
    missed.extend(placed.missed.iter().cloned());
    let receipt = receipt.unwrap_or_else(|miss| {
        missed.push(miss);
        None
    });
    for file in &placed.files {
        // Nobody may listen; progress is not a promise.
        let _ = job.progress.send(FileProgress {
            thread_id: job.thread.clone(),
            path: file.path.to_string(),
            done: file.size,
            total: file.size,
            verified: true,
        });
    }
    if missed.is_empty() {
        let (root, parts) = (root.clone(), parts_of(&job.run));
        blocking(move || download::clear(&root, &parts))
            .await?
            .map_err(storage)?;
    }
    Ok(Outcome {
        receipt,
        ..outcome(placed, missed, listed.omitted)
    })
}

/// What is not here and cannot be fetched any more, in one line.
fn gone(items: &[ArtifactItem], present: &BTreeMap<ArtifactPath, SyncedFile>) -> Vec<Missed> {
    let mut absent = items
        .iter()
        .filter(|item| !present.contains_key(&item.artifact.path));
    let Some(first) = absent.next() else {
        return Vec::new();
    };
    let (path, were) = match absent.count() {
        0 => (first.artifact.path.to_string(), "was"),
        more => (format!("{} files", more + 1), "were"),
    };
    vec![Missed {
        path,
        code: Code::ArtifactsRemoved,
        why: format!(
            "{were} removed from the bridge to make room, and cannot be fetched any more."
        ),
    }]
}

async fn fetch(
    job: &Arc<Job>,
    root: &Root,
    items: &Arc<Vec<ArtifactItem>>,
    present: &BTreeMap<ArtifactPath, SyncedFile>,
) -> Result<(Vec<Fetched>, Vec<Missed>), Fault> {
    let parts = {
        let (root, parts) = (root.clone(), parts_of(&job.run));
        blocking(move || root.create_dir_all(parts, Access::Shared))
            .await?
            .map_err(storage)?
    };
    let fetcher = Arc::new(Fetcher {
        bridge: job.bridge.clone(),
        thread: job.thread.clone(),
        parts,
        folder: parts_of(&job.run),
        links: Links::new(job.clone()),
        progress: job.progress.clone(),
    });
    let absent = |item: &ArtifactItem| !present.contains_key(&item.artifact.path);
    let wanted: Vec<usize> = (0..items.len())
        .filter(|n| items.get(*n).is_some_and(absent))
        .collect();
    // Each begins when its turn comes: a download that waits costs next to nothing.
    let items = Arc::clone(items);
    let fetch_one = move |n: usize| {
        let (fetcher, item) = (fetcher.clone(), items.get(n).cloned());
        async move { Some(fetcher.fetch(item?).await) }
    };
    let mut done = stream::iter(wanted)
        .map(fetch_one)
        .buffer_unordered(job.downloads.max(1));
    let mut fetched = Vec::new();
    let mut missed = Vec::new();
    while let Some(one) = done.next().await {
        match one {
            Some(Ok(file)) => fetched.push(file),
            Some(Err(miss)) => missed.push(miss),
            None => {}
        }
    }
    fetched.sort_by(|a, b| a.item.artifact.path.cmp(&b.item.artifact.path));
    Ok((fetched, missed))
}

fn outcome(placed: Placed, mut missed: Vec<Missed>, omitted: Vec<Omitted>) -> Outcome {
    missed.sort_by(|a, b| a.path.cmp(&b.path));
    let status = match (placed.files.is_empty(), missed.is_empty()) {
        (_, true) => SyncStatus::Synced,
        (false, false) => SyncStatus::Partial,
        (true, false) => SyncStatus::Failed,
    };
    let mut lines: Vec<String> = missed
        .iter()
        .map(|m| format!("{}: {} {}", m.code, m.path, m.why))
        .collect();
    lines.extend(placed.notes);
    let more = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    if more > 0 {
        lines.push(format!("… and {more} more."));
    }
    Outcome {
        status,
        detail: Some(lines.join("\n")).filter(|d| !d.is_empty()),
        files: placed.files,
        omitted,
        receipt: None,
    }
}

/// The folder among our notes that has one for each run.
const RUNS: &str = "runs";
/// The folder of a run with its files that moved out of the open.
const FILES: &str = "files";
/// Where the files of a run lie that moved out of the open when a later run delivered.
pub(crate) fn moved_folder(run: &RunId) -> String {
    format!("{}/{FILES}", run_folder(run))
}

/// The folder of a run with its unfinished downloads.
const PARTS: &str = "parts";

/// Where the unfinished downloads of a run lie.
fn parts_of(run: &RunId) -> String {
    format!("{}/{PARTS}", run_folder(run))
}

/// Our notes about a run.
fn run_folder(run: &RunId) -> String {
    let segment = scope::segment(run.as_str());
    format!("{}/{RUNS}/{segment}", workspace::NOTES)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(internal)
}
