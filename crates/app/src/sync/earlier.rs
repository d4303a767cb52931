//! What earlier runs delivered and is still here: out of the open where a later run delivered, in the
//! open otherwise. Blocks.

use std::{collections::BTreeMap, path::Path};

use threadline_contract::{RunId, thread::TaskThread};
use threadline_files::{FileKind, Root};

use super::{FILES, ledger::Ledger, run_folder};
use crate::{api::EarlierRun, workspace};

/// Runs that are looked for, the newest.
const RUNS: usize = 20;
/// Files of a run that are named.
const NAMED: usize = 100;
/// Files of a run that are counted; a folder is not walked without end.
const COUNTED: u32 = 10_000;

/// The earlier runs of a thread with files, newest first. What cannot be looked at is left out: the
/// folder is the user's to tidy up.
pub(crate) fn runs(record: &TaskThread) -> Vec<EarlierRun> {
    let folder = Path::new(&record.workspace_binding.workspace_path);
    let Ok(root) = workspace::existing(folder) else {
        return Vec::new();
    };
    let mut open = in_the_open(&root, record);
    let mut found = Vec::new();
    for run in newest_first(record) {
        let apart = format!("{}/{FILES}", run_folder(run));
        let moved = walked(&root, run, &apart);
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

/// What we put into the open and is not of the current run.
fn in_the_open(root: &Root, record: &TaskThread) -> BTreeMap<RunId, EarlierRun> {
    let current = &record.context_state.last_artifacts;
    let mut runs = BTreeMap::new();
    let Ok(ledger) = Ledger::read(root) else {
        return runs;
    };
    for (path, ours) in ledger.files {
        let here = root.stat(path.as_str());
        let is_ours = here.is_ok_and(|s| s.kind == FileKind::File && s.stamp.size == ours.size);
        if is_ours && !current.iter().any(|file| file.path == path) {
            let run = runs
                .entry(ours.run_id.clone())
                .or_insert_with(|| none(&ours.run_id, root.path()));
            add(run, path.to_string(), ours.size);
        }
    }
    runs
}

/// What was moved out of the open.
fn walked(root: &Root, run: &RunId, apart: &str) -> Option<EarlierRun> {
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
                    add(&mut found, path, size);
                }
                _ => {}
            }
        }
    }
    found.paths.sort_unstable();
    Some(found).filter(|found| found.files > 0)
}

fn none(run: &RunId, folder: &Path) -> EarlierRun {
    EarlierRun {
        run_id: run.clone(),
        folder: folder.display().to_string(),
        files: 0,
        bytes: 0,
        paths: Vec::new(),
    }
}

fn add(run: &mut EarlierRun, path: String, size: u64) {
    run.files += 1;
    run.bytes += size;
    if run.paths.len() < NAMED {
        run.paths.push(path);
    }
}
