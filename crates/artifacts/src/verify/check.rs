//! Holding what is there against what should be.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rayon::prelude::*;
use threadline_contract::{Artifact, RunId, Sha256, scope::NOTES};
use threadline_files::{
    FileKind, Root, Stat,
    hash::{self, Hashed},
    tree,
    walk::{Found as Walked, Problem},
};

use super::{
    Checked, Finding, Progress, Report, VerifyOptions, What,
    find::{Found, Sourced},
};
use crate::Error;

/// A folder of ours has no limit on depth; paths that are longer than the system takes show up as
/// unreadable.
const DEPTH: usize = 4_096;

/// What stands under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    File { size: u64 },
    Other,
    Unreadable,
}

/// A file that a receipt names.
struct Claim<'a> {
    /// Which receipt.
    by: usize,
    run: &'a RunId,
    file: &'a Artifact,
}

/// Everything in a folder.
#[derive(Default)]
struct Contents {
    /// In the open and in the archives, by its path in the folder.
    there: BTreeMap<String, There>,
    /// Where the archives have a file that was delivered under a path.
    archived: HashMap<String, Vec<String>>,
}

/// What reading a file came to: `None` if it could not be read.
type Digests = HashMap<String, Option<Sha256>>;

pub(super) fn check(
    root: &Root,
    found: Found,
    options: &VerifyOptions,
    tell: &(dyn Fn(Progress) + Sync),
) -> Result<Report, Error> {
    let Contents {
        mut there,
        archived,
    } = look(root, &found, options);
    let mut claims: BTreeMap<String, Vec<Claim<'_>>> = BTreeMap::new();
    for (by, sourced) in found.receipts.iter().enumerate() {
        for file in sourced.receipt.files() {
            let path = place(sourced, file, &there);
            let run = &sourced.receipt.run_id;
            claims
                .entry(path)
                .or_default()
                .push(Claim { by, run, file });
        }
    }
    for path in claims.keys() {
        // A listing names files; a folder in the place of one shows only when it is asked for.
        let is_folder = |stat: Stat| stat.kind == FileKind::Dir;
        if !there.contains_key(path) && root.stat(path).is_ok_and(is_folder) {
            there.insert(path.clone(), There::Other);
        }
    }
    // A copy of an archived file in the open is no extra file if it is the same file.
    let copies: HashMap<&str, Vec<&Artifact>> = copies(&found.receipts, &claims, &there);
    let wanted = wanted(&claims, &copies, &there, &archived);
    let (digests, bytes_read) = read(root, wanted, tell);

    let mut intact = vec![0; found.receipts.len()];
    let mut findings = Vec::new();
    for (path, claims) in &claims {
        let archived = archived.get(path).map(Vec::as_slice).unwrap_or_default();
        let is_archived = |file: &Artifact| {
            let mut digests = archived.iter().filter_map(|path| digests.get(path));
            digests.any(|digest| *digest == Some(file.sha256))
        };
        let judged = judge(path, claims, &there, &digests, &is_archived);
        for (claim, what) in claims.iter().zip(judged) {
            match (what, intact.get_mut(claim.by)) {
                (None, Some(count)) => *count += 1,
                (None, None) => {}
                (Some(what), _) => findings.push(Finding {
                    path: path.clone(),
                    run_id: Some(claim.run.clone()),
                    what,
                }),
            }
        }
    }
    if options.run.is_none() {
        for (path, what) in &there {
            let same = |file: &&Artifact| digests.get(path) == Some(&Some(file.sha256));
            let copy = copies
                .get(path.as_str())
                .is_some_and(|c| c.iter().any(same));
            if !claims.contains_key(path) && !copy {
                let what = match what {
                    There::Unreadable => What::Unreadable,
                    // A receipt that cannot be used may name it.
                    There::File { .. } if !found.refused.is_empty() => What::Unchecked,
                    There::Other => What::Extra { file: false },
                    There::File { .. } => What::Extra { file: true },
                };
                findings.push(Finding {
                    path: path.clone(),
                    run_id: None,
                    what,
                });
            }
        }
    }
    findings.sort_by(|a, b| {
        let key = |f: &Finding| (f.path.clone(), f.run_id.as_ref().map(ToString::to_string));
        key(a).cmp(&key(b))
    });
    let receipts = found.receipts.iter().zip(intact).map(|(sourced, intact)| {
        let receipt = &sourced.receipt;
        Checked {
            session_key: receipt.session_key.clone(),
            run_id: receipt.run_id.clone(),
            scope: receipt.scope.clone(),
            digest: receipt.digest(),
            files: receipt.files().len() as u64,
            bytes: receipt.bytes(),
            intact,
            on_record: options
                .known
                .iter()
                .any(|known| known.run == receipt.run_id),
        }
    });
    Ok(Report {
        receipts: receipts.collect(),
        refused: found.refused,
        findings,
        bytes_read,
    })
}

/// Everything in the open and in the archives.
fn look(root: &Root, found: &Found, options: &VerifyOptions) -> Contents {
    let mut contents = Contents::default();
    contents.add("", tree::list(root, DEPTH, |path| path != NOTES));
    let with_receipts = found.receipts.iter().filter_map(|r| r.folder.as_ref());
    let folders: BTreeSet<&String> = if options.receipts.is_empty() {
        found.folders.iter().chain(with_receipts).collect()
    } else {
        BTreeSet::new()
    };
    for folder in folders {
        let archive = format!("{folder}/files");
        // Most runs have none.
        if let Ok(dir) = root.open_dir(&archive) {
            contents.add(&format!("{archive}/"), tree::list(&dir, DEPTH, |_| true));
        }
    }
    contents
}

impl Contents {
    /// Adds what lies in a folder: the open one (`prefix` is empty), or an archive.
    fn add(&mut self, prefix: &str, tree: tree::Tree) {
        for (path, stamp) in tree.files {
            let full = format!("{prefix}{path}");
            let file = There::File { size: stamp.size };
            self.there.insert(full.clone(), file);
            if !prefix.is_empty() {
                self.archived.entry(path).or_default().push(full);
            }
        }
        for other in tree.others {
            let what = match &other {
                Walked::NotEntered { .. } | Walked::File { .. } => continue,
                Walked::Problem { problem, .. } => match problem {
                    Problem::Unreadable | Problem::TooDeep | Problem::Protected => {
                        There::Unreadable
                    }
                    Problem::Symlink | Problem::Special | Problem::NameNotUtf8 => There::Other,
                },
            };
            self.there.insert(format!("{prefix}{}", other.path()), what);
        }
    }
}

/// Where a receipt's file is to be looked for.
fn place(sourced: &Sourced, file: &Artifact, there: &BTreeMap<String, There>) -> String {
    if let Some(folder) = &sourced.folder {
        let archived = format!("{folder}/files/{}", file.path);
        if there.contains_key(&archived) {
            return archived;
        }
    }
    file.path.to_string()
}

/// What archived files would be called in the open, where nobody else expects a file.
fn copies<'a>(
    receipts: &'a [Sourced],
    claims: &BTreeMap<String, Vec<Claim<'_>>>,
    there: &BTreeMap<String, There>,
) -> HashMap<&'a str, Vec<&'a Artifact>> {
    let mut copies: HashMap<&str, Vec<&Artifact>> = HashMap::new();
    for file in receipts.iter().flat_map(|r| r.receipt.files()) {
        let path = file.path.as_str();
        if !claims.contains_key(path) && there.contains_key(path) {
            copies.entry(path).or_default().push(file);
        }
    }
    copies
}

/// The files whose bytes decide something: those with a size that somebody expects.
fn wanted(
    claims: &BTreeMap<String, Vec<Claim<'_>>>,
    copies: &HashMap<&str, Vec<&Artifact>>,
    there: &BTreeMap<String, There>,
    archived: &HashMap<String, Vec<String>>,
) -> Vec<(String, u64)> {
    let sized = |path: &str, mut sizes: &mut dyn Iterator<Item = u64>| match there.get(path) {
        Some(There::File { size }) if (&mut sizes).any(|s| s == *size) => {
            Some((path.to_owned(), *size))
        }
        _ => None,
    };
    let expected = claims
        .iter()
        .filter_map(|(path, all)| sized(path, &mut all.iter().map(|c| c.file.size)));
    let extra = copies
        .iter()
        .filter_map(|(path, all)| sized(path, &mut all.iter().map(|f| f.size)));
    // What a run expects in the open may lie in the archive of a later one.
    let elsewhere = claims.iter().flat_map(|(path, all)| {
        let places = archived.get(path).map(Vec::as_slice).unwrap_or_default();
        places
            .iter()
            .filter_map(move |place| sized(place, &mut all.iter().map(|c| c.file.size)))
    });
    // Each once: most files of an archive are also expected there.
    let all: BTreeMap<String, u64> = expected.chain(extra).chain(elsewhere).collect();
    all.into_iter().collect()
}

/// Reads files, several at a time, none of them whole in memory.
fn read(
    root: &Root,
    files: Vec<(String, u64)>,
    tell: &(dyn Fn(Progress) + Sync),
) -> (Digests, u64) {
    let (done, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let total_files = files.len() as u64;
    let total_bytes = files
        .iter()
        .fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
    // One at a time, so that whoever listens never hears of less than before.
    let told = Mutex::new(());
    let say = || {
        let _turn = told.lock().unwrap_or_else(PoisonError::into_inner);
        tell(Progress {
            files: done.load(Relaxed),
            total_files,
            bytes: bytes.load(Relaxed),
            total_bytes,
        });
    };
    say();
    let digests = files
        .into_par_iter()
        .map(|(path, _)| {
            let hashed = root.open_stamped(&path).ok().and_then(|(file, stamp)| {
                let see = |part: &[u8]| {
                    bytes.fetch_add(part.len() as u64, Relaxed);
                    say();
                };
                hash::file_with(&file, stamp, see).ok()
            });
            done.fetch_add(1, Relaxed);
            say();
            let digest = match hashed {
                Some(Hashed::Stable { sha256, .. }) => Some(Sha256(sha256)),
                Some(Hashed::Changed) | None => None,
            };
            (path, digest)
        })
        .collect();
    (digests, bytes.into_inner())
}

/// Judges one path for all who expect a file there: what is the matter for each of them, if anything.
fn judge(
    path: &str,
    claims: &[Claim<'_>],
    there: &BTreeMap<String, There>,
    digests: &Digests,
    is_archived: &dyn Fn(&Artifact) -> bool,
) -> Vec<Option<What>> {
    let digest = digests.get(path).copied();
    let right = |claim: &Claim<'_>| match (there.get(path), digest) {
        (Some(There::File { size }), Some(Some(found))) => {
            *size == claim.file.size && found == claim.file.sha256
        }
        _ => false,
    };
    let somebodys = claims.iter().any(right);
    let wrong = |claim: &Claim<'_>| match there.get(path) {
        // Another run's file has taken the place.
        _ if somebodys => What::Missing,
        Some(There::File { size }) => match digest {
            Some(None) => What::Unreadable,
            digest => What::Differs {
                size: claim.file.size,
                found_size: *size,
                sha256: claim.file.sha256,
                found_sha256: digest.flatten(),
            },
        },
        Some(There::Other) => What::NotAFile,
        Some(There::Unreadable) => What::Unreadable,
        None => absent(path, there),
    };
    claims
        .iter()
        .map(|claim| (!right(claim) && !is_archived(claim.file)).then(|| wrong(claim)))
        .collect()
}

/// A file that the listing did not come upon: not there, or behind a folder that cannot be listed.
fn absent(path: &str, there: &BTreeMap<String, There>) -> What {
    let mut above = path;
    while let Some((folder, _)) = above.rsplit_once('/') {
        if there.get(folder) == Some(&There::Unreadable) {
            return What::Unreadable;
        }
        above = folder;
    }
    What::Missing
}
