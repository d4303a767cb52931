//! Giving verified files their names in the workspace. Blocks.

use std::{collections::BTreeMap, path::Path};

use threadline_contract::{
    ArtifactItem, ArtifactPath, Code, Fault, RunId, Sha256, thread::SyncedFile,
    warnings_about_twins,
};
use threadline_files::{Access, FileKind, Reason, Result, Root, hash};

use super::{
    FILES, Missed,
    download::Fetched,
    ledger::{Ledger, Ours},
    run_folder,
};
use crate::fault::storage;

/// What lies in the workspace now.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) files: Vec<SyncedFile>,
    pub(super) missed: Vec<Missed>,
    /// What the user should know.
    pub(super) notes: Vec<String>,
}

/// The files that are here already, byte for byte.
pub(super) fn present(
    root: &Root,
    items: &[ArtifactItem],
) -> Result<BTreeMap<ArtifactPath, SyncedFile>> {
    let mut out = BTreeMap::new();
    for item in items {
        let wanted = &item.artifact;
        let size = root.stat(wanted.path.as_str()).ok().map(|s| s.stamp.size);
        if size == Some(wanted.size) && digest(root, wanted.path.as_str())? == Some(wanted.sha256) {
            out.insert(wanted.path.clone(), synced(item));
        }
    }
    Ok(out)
}

/// Moves what is in the way aside and gives every fetched file its name.
pub(super) fn place(
    root: &Root,
    run: &RunId,
    items: &[ArtifactItem],
    present: &BTreeMap<ArtifactPath, SyncedFile>,
    fetched: Vec<Fetched>,
) -> Result<Placed, Fault> {
    let mut out = Placed::default();
    let mut ledger = Ledger::read(root)?;
    archive(root, run, &mut ledger, present, &mut out)?;
    // Before the renames: a crash between them leaves entries for files that are not there yet,
    // which the next sync puts in place, and never a file of ours that looks like the user's.
    let ours = |item: &ArtifactItem| Ours {
        run_id: run.clone(),
        size: item.artifact.size,
        sha256: item.artifact.sha256,
        stamp: None,
    };
    let here = items
        .iter()
        .filter(|item| present.contains_key(&item.artifact.path));
    for item in here.chain(fetched.iter().map(|f| &f.item)) {
        ledger.files.insert(item.artifact.path.clone(), ours(item));
    }
    ledger.write(root)?;
    out.files.extend(present.values().cloned());
    for file in fetched {
        let path = file.item.artifact.path.clone();
        match put(root, &file, &mut out.notes) {
            Ok(()) => out.files.push(synced(&file.item)),
            Err(e) => {
                ledger.files.remove(&path);
                let code = match e.reason() {
                    Reason::NoSpace => Code::StorageFull,
                    Reason::ReadOnly | Reason::Denied => Code::StorageReadOnly,
                    _ => Code::Conflict,
                };
                out.missed.push(Missed {
                    path: path.to_string(),
                    code,
                    why: format!("could not be put in place ({e})."),
                });
            }
        }
    }
    // What they look like now that they are in place: whoever asks later whether one was touched
    // need not read it.
    for file in &out.files {
        if let Some(ours) = ledger.files.get_mut(&file.path) {
            ours.stamp = root.stat(file.path.as_str()).ok().map(|stat| stat.stamp);
        }
    }
    ledger.write(root)?;
    out.files.sort_by(|a, b| a.path.cmp(&b.path));
    let paths = out.files.iter().map(|file| file.path.as_str());
    out.notes.extend(warnings_about_twins(paths));
    Ok(out)
}

/// Moves the files of earlier runs that nobody changed out of the open.
fn archive(
    root: &Root,
    run: &RunId,
    ledger: &mut Ledger,
    present: &BTreeMap<ArtifactPath, SyncedFile>,
    out: &mut Placed,
) -> Result<(), Fault> {
    let earlier: Vec<(ArtifactPath, Ours)> = ledger
        .files
        .iter()
        .filter(|(path, ours)| ours.run_id != *run && !present.contains_key(*path))
        .map(|(path, ours)| (path.clone(), ours.clone()))
        .collect();
    let mut moved = 0;
    for (path, ours) in earlier {
        // One that was changed is the user's from here on, and one that is gone is gone.
        ledger.files.remove(&path);
        if digest(root, path.as_str()).map_err(storage)? != Some(ours.sha256) {
            continue;
        }
        let to = format!("{}/{FILES}/{path}", run_folder(&ours.run_id));
        make_parent(root, &to).map_err(storage)?;
        root.rename(path.as_str(), &to).map_err(storage)?;
        moved += 1;
    }
    if moved > 0 {
        let s = if moved == 1 { "" } else { "s" };
        out.notes.push(format!(
            "{moved} file{s} of earlier runs moved to .xworkmate/runs."
        ));
    }
    Ok(())
}

fn put(root: &Root, file: &Fetched, notes: &mut Vec<String>) -> Result<()> {
    let path = &file.item.artifact.path;
    make_parent(root, path.as_str())?;
    match root.stat(path.as_str()) {
        Err(e) if e.reason() == Reason::NotFound => {}
        Err(e) => return Err(e),
        Ok(stat) => {
            // Whatever stands there is not ours: archive() has taken what was.
            let aside = beside(root, path)?;
            root.rename(path.as_str(), &aside)?;
            let what = match stat.kind {
                FileKind::File => "Your own",
                FileKind::Dir => "The folder",
                FileKind::Symlink | FileKind::Special => "What stood at",
            };
            notes.push(format!("{what} {path} was kept as {aside}."));
        }
    }
    root.rename(&file.part, path.as_str())
}

/// A free name beside a file: `report.yours.md`, `report.yours-2.md`, …
fn beside(root: &Root, path: &ArtifactPath) -> Result<String> {
    let name = path.file_name();
    let folder = path.as_str().strip_suffix(name).unwrap_or_default();
    let (stem, ext) = match name.rsplit_once('.') {
        Some((stem, ext)) if !stem.is_empty() => (stem, format!(".{ext}")),
        _ => (name, String::new()),
    };
    let mut n = 1;
    loop {
        let number = if n == 1 {
            String::new()
        } else {
            format!("-{n}")
        };
        let aside = format!("{folder}{stem}.yours{number}{ext}");
        match root.stat(&aside) {
            Err(e) if e.reason() == Reason::NotFound => return Ok(aside),
            Err(e) => return Err(e),
            Ok(_) => n += 1,
        }
    }
}

fn make_parent(root: &Root, path: &str) -> Result<()> {
    let parent = Path::new(path).parent().unwrap_or(Path::new(""));
    root.create_dir_all(parent, Access::Shared).map(drop)
}

/// The digest of a regular file; `None` for anything else, and for one that changes under us.
pub(super) fn digest(root: &Root, path: impl AsRef<Path>) -> Result<Option<Sha256>> {
    let file = match root.open_file(path) {
        Ok(file) => file,
        Err(e) if matches!(e.reason(), Reason::NoSpace | Reason::Io) => return Err(e),
        Err(_) => return Ok(None),
    };
    Ok(match hash::file(&file) {
        Ok(hash::Hashed::Stable { sha256, .. }) => Some(Sha256(sha256)),
        Ok(hash::Hashed::Changed) | Err(_) => None,
    })
}

fn synced(item: &ArtifactItem) -> SyncedFile {
    SyncedFile {
        path: item.artifact.path.clone(),
        size: item.artifact.size,
        sha256: item.artifact.sha256,
        content_type: item.artifact.content_type.clone().into_owned(),
        changed: false,
        missing: false,
    }
}

/// The code of a file that is listed and gone.
pub(super) const GONE: Code = Code::RequiredArtifactMissing;
