//! What earlier runs delivered and is still here: out of the open where a later run delivered, in the
//! open otherwise. Blocks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use threadline_contract::{
    Artifact, ArtifactPath, RunId, Sha256,
    thread::{SyncedFile, TaskThread},
};
use threadline_files::{FileKind, Root};

use super::{Verified, ledger::Ledger, moved_folder, place::digest};
use crate::{api::EarlierRun, workspace};

/// Runs that are looked for, the newest.
const RUNS: usize = 1000;
/// Files of a run that are named.
const NAMED: usize = 100;
/// Files of a run that are counted; a folder is not walked without end.
const COUNTED: u32 = 10_000;
/// A receipt that is read for a list has so many bytes at most, and a file that is hashed for one.
const RECEIPT_BYTES: u64 = 4 << 20;
const READ_BYTES: u64 = 1 << 20;

/// The earlier runs of a thread with files, newest first. What cannot be looked at is left out: the
/// folder is the user's to tidy up.
pub(crate) fn runs(record: &TaskThread, verified: &Verified) -> Vec<EarlierRun> {
    let folder = Path::new(&record.workspace_binding.workspace_path);
    let Ok(root) = workspace::existing(folder) else {
        return Vec::new();
    };
    let mut open = in_the_open(&root, record, verified);
    let mut found = Vec::new();
    for run in newest_first(record) {
        let moved = walked(&root, run, &moved_folder(run));
        found.extend(open.remove(run).into_iter().chain(moved));
    }
    found
}

/// The runs that the transcript knows.
fn newest_first(record: &TaskThread) -> Vec<&RunId> {
    let mut runs: Vec<&RunId> = Vec::new();
    let told = record.context_state.messages.iter().rev();
    for run in told.filter_map(|message| message.run_id.as_ref()) {
        if !runs.contains(&run) {
            runs.push(run);
        }
        if runs.len() == RUNS {
            break;
        }
    }
    runs
}

/// What earlier runs put into the open and still lies there, also where somebody edited it.
fn in_the_open(
    root: &Root,
    record: &TaskThread,
    verified: &Verified,
) -> BTreeMap<RunId, EarlierRun> {
    let mut runs = BTreeMap::new();
    let Ok(ledger) = Ledger::read(root) else {
        return runs;
    };
    let current = &record.context_state.last_artifacts;
    let mut told: BTreeSet<&ArtifactPath> = current.iter().map(|file| &file.path).collect();
    for (path, ours) in &ledger.files {
        let delivered = SyncedFile {
            path: path.clone(),
            size: ours.size,
            sha256: ours.sha256,
            content_type: String::new(),
            changed: false,
            missing: false,
        };
        if told.insert(path)
            && let Some(size) = size_of(root, path)
        {
            let same = verified.holds(root, &ledger, &record.thread_id, &delivered);
            put(&mut runs, root, &ours.run_id, path, size, !same);
        }
    }
    // One that was edited is the user's once a later run delivered, and stands in no ledger.
    for message in record.context_state.messages.iter().rev() {
        let (Some(run), Some(result)) = (&message.run_id, &message.result) else {
            continue;
        };
        let moved = root.open_dir(moved_folder(run)).ok();
        for file in &result.artifacts {
            let has_moved = moved
                .as_ref()
                .is_some_and(|moved| moved.stat(file.path.as_str()).is_ok());
            if told.insert(&file.path)
                && !has_moved
                && let Some(size) = size_of(root, &file.path)
            {
                put(&mut runs, root, run, &file.path, size, true);
            }
        }
    }
    runs
}

fn size_of(root: &Root, path: &ArtifactPath) -> Option<u64> {
    let found = root.stat(path.as_str()).ok();
    found
        .filter(|stat| stat.kind == FileKind::File)
        .map(|stat| stat.stamp.size)
}

fn put(
    runs: &mut BTreeMap<RunId, EarlierRun>,
    root: &Root,
    run: &RunId,
    path: &ArtifactPath,
    size: u64,
    edited: bool,
) {
    let found = runs
        .entry(run.clone())
        .or_insert_with(|| none(run, root.path()));
    add(found, path.to_string(), size);
    if edited && found.edited.len() < NAMED {
        found.edited.push(path.to_string());
    }
}

/// What was moved out of the open, as far as the run's receipt names it: the rest is the user's.
fn walked(root: &Root, run: &RunId, apart: &str) -> Option<EarlierRun> {
    let delivered = delivered(root, run);
    let root = root.open_dir(apart).ok()?;
    let mut found = none(run, root.path());
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in root.entries(&folder).unwrap_or_default() {
            // We gave them their names, and those are text.
            let Some(name) = entry.name.to_str() else {
                continue;
            };
            let path = match folder.as_str() {
                "" => name.to_owned(),
                folder => format!("{folder}/{name}"),
            };
            match entry.kind {
                FileKind::Dir => folders.push(path),
                FileKind::File if found.files < COUNTED => {
                    let size = root.stat(&path).map_or(0, |stat| stat.stamp.size);
                    let was = delivered.as_ref().map(|files| files.get(path.as_str()));
                    let edited = match was {
                        Some(None) => continue,
                        Some(Some(was)) => was.0 != size || !is_same(&root, &path, was),
                        // Without a receipt nobody knows.
                        None => false,
                    };
                    if edited && found.edited.len() < NAMED {
                        found.edited.push(path.clone());
                    }
                    add(&mut found, path, size);
                }
                _ => {}
            }
        }
    }
    found.paths.sort_unstable();
    Some(found).filter(|found| found.files > 0)
}

/// What a run delivered, by its receipt. A very long one is not read for a list.
fn delivered(root: &Root, run: &RunId) -> Option<HashMap<String, (u64, Sha256)>> {
    let receipt = super::receipt::listed(root, run, RECEIPT_BYTES)?;
    let file = |file: &Artifact| (file.path.to_string(), (file.size, file.sha256));
    Some(receipt.files().iter().map(file).collect())
}

/// Whether a file is as it was delivered. A large one of the same size is taken for the same: a list reads no
/// gigabytes.
fn is_same(root: &Root, path: &str, was: &(u64, Sha256)) -> bool {
    was.0 > READ_BYTES || digest(root, path).is_ok_and(|sha256| sha256 == Some(was.1))
}

fn none(run: &RunId, folder: &Path) -> EarlierRun {
    EarlierRun {
        run_id: run.clone(),
        folder: folder.display().to_string(),
        files: 0,
        bytes: 0,
        paths: Vec::new(),
        edited: Vec::new(),
    }
}

fn add(run: &mut EarlierRun, path: String, size: u64) {
    run.files += 1;
    run.bytes += size;
    if run.paths.len() < NAMED {
        run.paths.push(path);
    }
}
