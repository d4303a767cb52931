//! The same trees through the artifact engine.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_artifacts::{ArtifactIdentity, ExportOptions, KeyRing, LINK_SECONDS, Workspace};
use threadline_contract::{Artifact, RunId, SessionKey};

use super::{
    Taken,
    limit::{best, best_after},
};
use crate::process::peak;

fn keys() -> anyhow::Result<(SessionKey, RunId)> {
    Ok((
        SessionKey::new("agent:main:draft:1")?,
        RunId::new("turn-1")?,
    ))
}

/// A workspace with one run whose scope is filled.
pub(super) fn world(
    place: &Path,
    fill: impl Fn(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(place)?;
    let (session, run) = keys()?;
    let prepared = Workspace::open(place)?.prepare(&session, &run)?;
    fill(&prepared.artifact_dir)?;
    Ok(place.to_owned())
}

pub(super) fn scope(place: &Path) -> PathBuf {
    place.join("tasks/agent-main-draft-1/turn-1")
}

/// Everything a run delivers for the first time, every time: metadata, digests, signed references.
pub(super) fn first(place: &Path) -> anyhow::Result<Taken> {
    let (session, run) = keys()?;
    let ring = KeyRing::generate(0);
    let forget = || Ok(Workspace::open(place)?.forget_digests(&session, &run)?);
    best_after(forget, || {
        let ws = Workspace::open(place)?;
        let export = ws.manifest(&session, &run)?;
        Ok(sign(&ring, &session, &run, &export.artifacts).len())
    })
}

/// The same again, by a process that has never seen the files; with references or without.
pub(super) fn again(place: &Path, signed: bool) -> anyhow::Result<Taken> {
    let (session, run) = keys()?;
    let ring = KeyRing::generate(0);
    let read = std::sync::atomic::AtomicU64::new(0);
    let mut taken = best(|| {
        let ws = Workspace::open(place)?;
        let export = ws.manifest(&session, &run)?;
        read.fetch_add(
            ws.content_bytes_read(),
            std::sync::atomic::Ordering::Relaxed,
        );
        Ok(if signed {
            sign(&ring, &session, &run, &export.artifacts).len()
        } else {
            export.artifacts.len()
        })
    })?;
    taken.read = read.into_inner();
    Ok(taken)
}

/// Everything that a run delivers, with its receipt, gone through as the record of it is written.
pub(super) fn deliver(place: &Path) -> anyhow::Result<Taken> {
    let (session, run) = keys()?;
    let begun = Instant::now();
    let ws = Workspace::open(place)?;
    let delivery = ws.deliver(&session, &run)?;
    for file in delivery.files.iter() {
        ensure!(file?.size > 0, "a file is empty");
    }
    Ok(Taken {
        seconds: begun.elapsed().as_secs_f64(),
        peak: peak()?,
        read: ws.content_bytes_read(),
    })
}

/// The first page of a list.
pub(super) fn page(place: &Path) -> anyhow::Result<Taken> {
    let (session, run) = keys()?;
    let begun = Instant::now();
    let ws = Workspace::open(place)?;
    let page = ws.export(&session, &run, &ExportOptions::default())?;
    ensure!(page.remaining > 0, "there are more pages");
    Ok(Taken {
        seconds: begun.elapsed().as_secs_f64(),
        peak: peak()?,
        read: ws.content_bytes_read(),
    })
}

fn sign(ring: &KeyRing, session: &SessionKey, run: &RunId, all: &[Artifact]) -> Vec<String> {
    let signer = ring.signer(session, run, LINK_SECONDS);
    all.par_iter().map(|a| signer.sign(a)).collect()
}

/// One file from beginning to end, as a download reads it: checked against its reference first,
/// and hashed once more by the one who receives it.
pub(super) fn read(place: &Path) -> anyhow::Result<Taken> {
    let (session, run) = keys()?;
    let artifact = Workspace::open(place)?
        .manifest(&session, &run)?
        .artifacts
        .pop()
        .context("the file is listed")?;
    let begun = Instant::now();
    // Another process than the one that listed it: nothing is known about the bytes yet.
    let ws = Workspace::open(place)?;
    let reader = ws.read(&ArtifactIdentity::of(&session, &run, &artifact))?;
    let mut hasher = Hasher::new();
    let mut at = 0;
    loop {
        let chunk = reader.read_range(at, 1024 * 1024)?;
        hasher.update(&chunk.bytes);
        at += chunk.bytes.len() as u64;
        if chunk.eof {
            break;
        }
    }
    ensure!(
        hasher.finalize()[..] == artifact.sha256.0 && at == artifact.size,
        "the bytes are others"
    );
    Ok(Taken {
        seconds: begun.elapsed().as_secs_f64(),
        peak: peak()?,
        read: at,
    })
}
