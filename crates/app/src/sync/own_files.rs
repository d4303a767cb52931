//! Which files in a thread's folder are the user's own: those that no run delivered, and those that
//! were changed since. Blocks.
//!
//! What was delivered and nobody touched is known by the ledger, and what was moved out of the open by
//! the receipt of its run. Where neither can be read, a file in the open counts as the user's.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use sha2::Digest as _;
use threadline_contract::{ArtifactPath, Fault, MAX_RECEIPT_BYTES, Receipt, Sha256};
use threadline_files::{Entry, FileKind, Reason, Root, Stamp, Stat, is_temporary, walk::escaped};

use super::{
    FILES, PARTS, RUNS,
    ledger::{LEDGER, Ledger},
    place::digest,
    receipt,
};
use crate::{
    api::{FileTotal, OwnFile},
    fault::storage,
    workspace::{NOTES, OWNER},
};

/// Files of the user that are named one by one.
const MAX_NAMED: usize = 200;
/// Folders that are entered one in another; what lies deeper is the user's.
const MAX_DEPTH: usize = 256;

/// What was found in a thread's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnFiles {
    /// The user's files; of many, the first.
    pub(crate) own: Vec<OwnFile>,
    /// How many there are.
    pub(crate) own_total: FileTotal,
    /// Stands for all of them, with their sizes: other files have another one.
    pub(crate) own_digest: String,
    /// Files that were delivered and are unchanged.
    pub(crate) delivered: FileTotal,
}

/// Looks which files are the user's own.
pub(crate) fn find(root: &Root) -> Result<OwnFiles, Fault> {
    Search::new(root, Delivered::Stay).run()
}

/// Removes everything but the user's own files, and tells which those are. Can be repeated.
pub(crate) fn remove_the_rest(root: &Root) -> Result<OwnFiles, Fault> {
    Search::new(root, Delivered::Go).run()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivered {
    Stay,
    Go,
}

/// What a file looked like when it was delivered.
struct AsDelivered {
    sha256: Sha256,
    size: u64,
    stamp: Option<Stamp>,
}

/// By which a file of a folder is told to be delivered.
enum Known {
    /// Files of these names and digests, and no others.
    These(BTreeMap<ArtifactPath, AsDelivered>),
    /// Everything: nothing says what was delivered, and only we put files there.
    Everything,
}

struct Search<'a> {
    root: &'a Root,
    delivered: Delivered,
    found: OwnFiles,
    /// One digest for each file of the user's: of its path and size.
    own: Vec<[u8; 32]>,
}

impl<'a> Search<'a> {
    fn new(root: &'a Root, delivered: Delivered) -> Self {
        Self {
            root,
            delivered,
            found: OwnFiles::default(),
            own: Vec::new(),
        }
    }

    fn run(mut self) -> Result<OwnFiles, Fault> {
        let ledger = Ledger::read(self.root)?;
        let known = ledger.files.into_iter().map(|(path, ours)| {
            let file = AsDelivered {
                sha256: ours.sha256,
                size: ours.size,
                stamp: ours.stamp,
            };
            (path, file)
        });
        self.folder(Path::new(""), Path::new(""), &Known::These(known.collect()))?;
        self.notes()?;
        self.found.own.sort_by(|a, b| a.path.cmp(&b.path));
        self.found.own.truncate(MAX_NAMED);
        // A folder tells its files in any order.
        self.own.sort_unstable();
        let all = sha2::Sha256::digest(self.own.concat());
        self.found.own_digest = Sha256(all.into()).to_hex();
        Ok(self.found)
    }

    /// Goes through a folder at `at`, which stands for `within` among the files that are known.
    fn folder(&mut self, at: &Path, within: &Path, known: &Known) -> Result<(), Fault> {
        for entry in self.entries(at)? {
            if at.as_os_str().is_empty() && entry.name == OsStr::new(NOTES) {
                continue;
            }
            let (path, within) = (at.join(&entry.name), within.join(&entry.name));
            if entry.kind == FileKind::Dir && within.components().count() < MAX_DEPTH {
                self.folder(&path, &within, known)?;
                if self.delivered == Delivered::Go {
                    self.root.remove_empty_dir(&path).map_err(storage)?;
                }
            } else {
                self.file(&path, &within, known)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, within: &Path, known: &Known) -> Result<(), Fault> {
        let stat = match self.root.stat(path) {
            Ok(stat) => stat,
            Err(e) if e.reason() == Reason::NotFound => return Ok(()),
            Err(e) => return Err(storage(e)),
        };
        let size = stat.stamp.size;
        let was = match known {
            Known::Everything => None,
            Known::These(files) => {
                let name = within
                    .to_str()
                    .and_then(|text| ArtifactPath::new(text).ok());
                Some(name.and_then(|name| files.get(&name)))
            }
        };
        let own = match was {
            None => stat.kind != FileKind::File,
            Some(None) => true,
            Some(Some(was)) => !self.is_same(path, &stat, was),
        };
        if own {
            self.found.own_total.add(size);
            let name = sha2::Sha256::new().chain_update(size.to_be_bytes());
            let name = name.chain_update(path.as_os_str().as_bytes());
            self.own.push(name.finalize().into());
            self.found.own.push(OwnFile {
                path: escaped(path.as_os_str().as_bytes()),
                size,
                edited: matches!(was, Some(Some(_))),
            });
            // Of many, the first: the list is cut now and then, so that it stays small.
            if self.found.own.len() >= 4 * MAX_NAMED {
                self.found.own.sort_by(|a, b| a.path.cmp(&b.path));
                self.found.own.truncate(MAX_NAMED);
            }
            return Ok(());
        }
        self.found.delivered.add(size);
        match self.delivered {
            Delivered::Stay => Ok(()),
            Delivered::Go => self.root.remove_file(path).map_err(storage),
        }
    }

    fn is_same(&self, path: &Path, stat: &Stat, was: &AsDelivered) -> bool {
        if stat.kind != FileKind::File || stat.stamp.size != was.size {
            return false;
        }
        if was.stamp == Some(stat.stamp) {
            return true;
        }
        digest(self.root, path).is_ok_and(|sha256| sha256 == Some(was.sha256))
    }

    /// Goes through our notes: the files of earlier runs, what the user put among them, and then the notes
    /// themselves.
    fn notes(&mut self) -> Result<(), Fault> {
        let before = self.found.own_total.files;
        for entry in self.entries(Path::new(NOTES))? {
            let path = Path::new(NOTES).join(&entry.name);
            let is_note = [OWNER, LEDGER].map(Path::new).contains(&path.as_path());
            match entry.kind {
                FileKind::Dir if entry.name == OsStr::new(RUNS) => self.runs(&path)?,
                FileKind::File if is_note => {}
                _ => self.among_notes(&path, &entry)?,
            }
        }
        let nothing_own = self.found.own_total.files == before;
        if self.delivered == Delivered::Go && nothing_own {
            return match self.root.remove_dir_all(NOTES) {
                Err(e) if e.reason() != Reason::NotFound => Err(storage(e)),
                _ => Ok(()),
            };
        }
        Ok(())
    }

    /// Goes through our notes of runs.
    fn runs(&mut self, runs: &Path) -> Result<(), Fault> {
        for entry in self.entries(runs)? {
            let run = runs.join(&entry.name);
            if entry.kind != FileKind::Dir {
                self.among_notes(&run, &entry)?;
                continue;
            }
            let own = self.found.own_total.files;
            for entry in self.entries(&run)? {
                let path = run.join(&entry.name);
                match (entry.kind, entry.name.to_str()) {
                    (FileKind::Dir, Some(FILES)) => {
                        let known = self.receipt(&run);
                        self.folder(&path, Path::new(""), &known)?;
                    }
                    // Downloads that are not finished are nobody's.
                    (FileKind::Dir, Some(PARTS)) | (FileKind::File, Some(receipt::NAME)) => {}
                    _ => self.among_notes(&path, &entry)?,
                }
            }
            if self.delivered == Delivered::Go && self.found.own_total.files == own {
                self.root.remove_dir_all(&run).map_err(storage)?;
            }
        }
        Ok(())
    }

    /// Something among our notes that is none of them: the user's, unless a write of ours was cut short.
    fn among_notes(&mut self, path: &Path, entry: &Entry) -> Result<(), Fault> {
        let nothing_known = Known::These(BTreeMap::new());
        match entry.kind {
            FileKind::Dir => self.folder(path, Path::new(""), &nothing_known),
            FileKind::File if is_temporary(&entry.name) => Ok(()),
            _ => self.file(path, Path::new(""), &nothing_known),
        }
    }

    fn entries(&self, folder: &Path) -> Result<Vec<Entry>, Fault> {
        match self.root.entries(folder) {
            Ok(entries) => Ok(entries),
            Err(e) if e.reason() == Reason::NotFound => Ok(Vec::new()),
            Err(e) => Err(storage(e)),
        }
    }

    fn receipt(&self, run: &Path) -> Known {
        let path: PathBuf = run.join(receipt::NAME);
        let receipt = match self.root.read_limited(&path, MAX_RECEIPT_BYTES) {
            Ok(bytes) => Receipt::from_bytes(&bytes).ok(),
            Err(e) if e.reason() == Reason::NotFound => return Known::Everything,
            Err(_) => None,
        };
        // One that cannot be read proves nothing, so nothing goes.
        let files = receipt.iter().flat_map(Receipt::files).map(|file| {
            let was = AsDelivered {
                sha256: file.sha256,
                size: file.size,
                stamp: None,
            };
            (file.path.clone(), was)
        });
        Known::These(files.collect())
    }
}
