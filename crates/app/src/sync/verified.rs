//! Whether files that came home are still what was verified then. Blocks.
//!
//! The ledger knows what each file looked like when it was put in place; one that still looks so was
//! not touched, because nobody can set the time of a file's last change. Any other is read again,
//! once for every way it looks.

use std::{collections::HashMap, fs::File, path::Path, sync::Mutex};

use threadline_contract::{AppThreadKey, ArtifactPath, Fault, RunId, Sha256, thread::SyncedFile};
use threadline_files::{
    Error, FileKind, Reason, Root, Stamp,
    hash::{self, Hashed},
};

use super::{ledger::Ledger, moved_folder};
use crate::{api::FilesNow, records::lock, workspace};

/// Files whose digest is remembered at most.
const REMEMBERED: usize = 10_000;

/// What was found out by reading.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    read: Mutex<HashMap<AppThreadKey, Digests>>,
}

/// What each file looked like when it was read, and its digest then.
type Digests = HashMap<ArtifactPath, (Stamp, Sha256)>;

impl Verified {
    /// Marks the files that are not any more what was verified.
    /// Those of a run lie in the open, or where they moved when a later run delivered.
    pub(crate) fn mark(
        &self,
        folder: &Path,
        thread: &AppThreadKey,
        run: Option<&RunId>,
        files: &mut [SyncedFile],
    ) {
        let folder_gone = !folder.exists();
        let found = workspace::existing(folder).map_err(|_| ());
        let ledger = found.and_then(|root| {
            let ledger = Ledger::read(&root).map_err(|_| ())?;
            Ok((root, ledger))
        });
        let moved = run.zip(ledger.as_ref().ok());
        let moved = moved.and_then(|(run, (root, _))| root.open_dir(moved_folder(run)).ok());
        for file in files {
            let has_moved = moved.as_ref().is_some_and(|moved| {
                let stat = moved.stat(file.path.as_str());
                stat.is_ok_and(|s| s.kind == FileKind::File && s.stamp.size == file.size)
            });
            (file.changed, file.missing) = match &ledger {
                Ok(_) if has_moved => (false, false),
                Ok((root, ledger)) => (
                    !self.holds(root, ledger, thread, file),
                    is_gone(root.stat(file.path.as_str())),
                ),
                Err(()) => (true, folder_gone),
            };
        }
    }

    /// How the files are now, as far as that can be said while at most `bytes` are read, which become fewer.
    pub(crate) fn glance(
        &self,
        folder: &Path,
        thread: &AppThreadKey,
        files: &[SyncedFile],
        bytes: &mut u64,
    ) -> Option<FilesNow> {
        if !folder.exists() {
            return Some(FilesNow::Missing);
        }
        let Some((root, ledger)) = workspace::existing(folder)
            .ok()
            .and_then(|root| Ledger::read(&root).ok().map(|ledger| (root, ledger)))
        else {
            return Some(FilesNow::Changed);
        };
        let mut now = Some(FilesNow::AsDelivered);
        for file in files {
            let stat = root.stat(file.path.as_str());
            let known = match &stat {
                Ok(stat) if stat.kind == FileKind::File => {
                    self.known(&ledger, thread, file, stat.stamp)
                }
                Err(e) if gone(e) => return Some(FilesNow::Missing),
                _ => Some(false),
            };
            match known {
                Some(true) => {}
                Some(false) => now = Some(FilesNow::Changed),
                None if file.size <= *bytes => {
                    *bytes -= file.size;
                    if !self.holds(&root, &ledger, thread, file) {
                        now = Some(FilesNow::Changed);
                    }
                }
                None if now == Some(FilesNow::AsDelivered) => now = None,
                None => {}
            }
        }
        now
    }

    pub(super) fn holds(
        &self,
        root: &Root,
        ledger: &Ledger,
        thread: &AppThreadKey,
        file: &SyncedFile,
    ) -> bool {
        let path = file.path.as_str();
        let stamp = match root.stat(path) {
            Ok(stat) if stat.kind == FileKind::File => stat.stamp,
            _ => return false,
        };
        match self.known(ledger, thread, file, stamp) {
            Some(same) => same,
            None => root
                .open_file(path)
                .is_ok_and(|open| self.read(thread, file, &open)),
        }
    }

    /// Whether an open file is what was verified.
    pub(crate) fn open(
        &self,
        root: &Root,
        thread: &AppThreadKey,
        file: &SyncedFile,
        open: &File,
    ) -> Result<bool, Fault> {
        let ledger = Ledger::read(root)?;
        let known = Stamp::of(open)
            .ok()
            .and_then(|stamp| self.known(&ledger, thread, file, stamp));
        Ok(known.unwrap_or_else(|| self.read(thread, file, open)))
    }

    /// Nothing of this thread has to be remembered.
    pub(crate) fn forget(&self, thread: &AppThreadKey) {
        lock(&self.read).remove(thread);
    }

    /// What can be said without reading.
    fn known(
        &self,
        ledger: &Ledger,
        thread: &AppThreadKey,
        file: &SyncedFile,
        stamp: Stamp,
    ) -> Option<bool> {
        if stamp.size != file.size {
            return Some(false);
        }
        let ours = ledger.files.get(&file.path);
        if ours.is_some_and(|o| o.stamp == Some(stamp) && o.sha256 == file.sha256) {
            return Some(true);
        }
        let read = lock(&self.read);
        let (seen, sha256) = read.get(thread)?.get(&file.path)?;
        (*seen == stamp).then_some(*sha256 == file.sha256)
    }

    fn read(&self, thread: &AppThreadKey, file: &SyncedFile, open: &File) -> bool {
        let Ok(Hashed::Stable { sha256, stamp }) = hash::file(open) else {
            return false;
        };
        let mut read = lock(&self.read);
        if read.values().map(HashMap::len).sum::<usize>() >= REMEMBERED {
            read.clear();
        }
        let of_thread = read.entry(thread.clone()).or_default();
        of_thread.insert(file.path.clone(), (stamp, Sha256(sha256)));
        Sha256(sha256) == file.sha256
    }
}

/// Whether nothing stands under a name.
fn is_gone<T>(looked: Result<T, Error>) -> bool {
    looked.is_err_and(|e| gone(&e))
}

fn gone(e: &Error) -> bool {
    matches!(e.reason(), Reason::NotFound | Reason::NotDirectory)
}
