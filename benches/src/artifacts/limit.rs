//! The same trees by the plainest parallel program there is: no checks, no order, no references.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    time::Instant,
};

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::Taken;
use crate::process::peak;

/// Times of which the best counts; the first ones warm the caches.
const TIMES: usize = 4;

/// Walk, read, hash.
pub(super) fn hash(scope: &Path) -> anyhow::Result<Taken> {
    best(|| {
        let files = walk(scope, &|entry| Ok(entry.path()))?;
        let digests: Vec<[u8; 32]> = files
            .par_iter()
            .map_init(|| vec![0; 128 * 1024], |buffer, path| digest(path, buffer))
            .collect::<std::io::Result<_>>()?;
        Ok(digests.len())
    })
}

/// Walk, stat.
pub(super) fn stat(scope: &Path) -> anyhow::Result<Taken> {
    best(|| {
        let files = walk(scope, &|entry| Ok((entry.path(), entry.metadata()?.len())))?;
        Ok(files.len())
    })
}

pub(super) fn best(work: impl Fn() -> anyhow::Result<usize>) -> anyhow::Result<Taken> {
    best_after(|| Ok(()), work)
}

/// The same, with something to do before each time that does not count.
pub(super) fn best_after(
    before: impl Fn() -> anyhow::Result<()>,
    work: impl Fn() -> anyhow::Result<usize>,
) -> anyhow::Result<Taken> {
    let mut seconds = f64::MAX;
    for _ in 0..TIMES {
        before()?;
        let begun = Instant::now();
        let count = work()?;
        anyhow::ensure!(count > 0, "the tree is empty");
        seconds = seconds.min(begun.elapsed().as_secs_f64());
    }
    Ok(Taken {
        seconds,
        peak: peak()?,
        read: 0,
    })
}

fn digest(path: &PathBuf, buffer: &mut [u8]) -> std::io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    loop {
        let got = file.read(buffer)?;
        if got == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&buffer[..got]);
    }
}

fn walk<T: Send>(
    folder: &Path,
    take: &(impl Fn(&fs::DirEntry) -> std::io::Result<T> + Sync),
) -> std::io::Result<Vec<T>> {
    let mut folders = Vec::new();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            // Our own notes are no part of the task.
            if entry.file_name() != ".xworkmate" {
                folders.push(entry.path());
            }
        } else {
            found.push(take(&entry)?);
        }
    }
    let below: Vec<Vec<T>> = folders
        .par_iter()
        .map(|folder| walk(folder, take))
        .collect::<std::io::Result<_>>()?;
    found.extend(below.into_iter().flatten());
    Ok(found)
}
