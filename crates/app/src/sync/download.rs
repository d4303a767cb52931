//! One file: fetched with resume, hashed while it is written, checked before anybody sees it.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    time::{Duration, Instant},
};

use bytes::Bytes;
use reqwest::{Response, StatusCode, header::CONTENT_RANGE};
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{AppThreadKey, ArtifactItem, Code, Sha256};
use threadline_files::{Access, Reason, Result, Root};
use tokio::sync::{broadcast, mpsc};

use super::{Missed, list::Links, place::GONE};
use crate::{
    api::FileProgress,
    bridge::{Bridge, patience::Patience, trouble::Trouble},
};

/// Chunks between the network and the disk: the only bytes of a file that are ever in memory.
const BUFFERED: usize = 16;
/// How often a listener hears of a file that grows.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Fetches the files of one run.
pub(super) struct Fetcher {
    pub(super) bridge: Bridge,
    pub(super) thread: AppThreadKey,
    /// The folder of unfinished downloads, and its path in the workspace.
    pub(super) parts: Root,
    pub(super) folder: String,
    pub(super) links: Links,
    pub(super) progress: broadcast::Sender<FileProgress>,
}

/// A file that is whole, checked and on disk, under a temporary name.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) item: ArtifactItem,
    /// Where it lies in the workspace.
    pub(super) part: String,
}

/// Removes the folder of unfinished downloads. Blocks.
pub(super) fn clear(root: &Root, parts: &str) -> Result<()> {
    match root.remove_dir_all(parts) {
        Err(e) if e.reason() != Reason::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// A part that is being written.
struct Part {
    file: File,
    hasher: Hasher,
    len: u64,
}

impl Part {
    /// Opens a part and hashes what an earlier try left. Blocks.
    fn open(parts: &Root, name: &str) -> io::Result<Self> {
        let file = parts
            .append_file(name, Access::Shared)
            .map_err(io::Error::other)?;
        let mut part = Self {
            file,
            hasher: Hasher::new(),
            len: 0,
        };
        let mut old = parts.open_file(name).map_err(io::Error::other)?;
        let mut buffer = vec![0; 128 << 10];
        loop {
            match old.read(&mut buffer) {
                Ok(0) => return Ok(part),
                Ok(got) => {
                    part.hasher.update(buffer.get(..got).unwrap_or_default());
                    part.len += got as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.hasher = Hasher::new();
        self.len = 0;
        Ok(())
    }

    fn write_all(mut self, mut chunks: mpsc::Receiver<Bytes>) -> io::Result<Self> {
        while let Some(chunk) = chunks.blocking_recv() {
            self.file.write_all(&chunk)?;
            self.hasher.update(&chunk);
            self.len += chunk.len() as u64;
        }
        Ok(self)
    }

    fn finish(self) -> io::Result<Sha256> {
        self.file.sync_all()?;
        Ok(Sha256(self.hasher.finalize().into()))
    }
}

/// What one answer brought.
enum Got {
    /// More bytes than there were; perhaps all.
    Progress(Part),
    /// The answer broke off.
    Cut(Part, Trouble),
    /// More bytes than the file has.
    TooMuch(Part),
}

impl Fetcher {
    /// Fetches one file.
    pub(super) async fn fetch(&self, item: ArtifactItem) -> Result<Fetched, Missed> {
        let name = part_name(&item);
        match self.bring(&item, &name).await {
            Ok(()) => Ok(Fetched {
                item,
                part: format!("{}/{name}", self.folder),
            }),
            Err((code, why)) => Err(Missed {
                path: item.artifact.path.to_string(),
                code,
                why,
            }),
        }
    }

    async fn bring(&self, item: &ArtifactItem, name: &str) -> Result<(), (Code, String)> {
        let size = item.artifact.size;
        let timings = self.bridge.timings;
        let mut link = item.url.clone();
        let mut renewed = false;
        let mut wrong = false;
        let mut patience = Patience::tries(timings.download_tries, &timings);
        let mut part = {
            let (parts, name) = (self.parts.clone(), name.to_owned());
            disk(move || Part::open(&parts, &name)).await?
        };
        // Only new ground counts: a file that is always cut at the same byte is given up.
        let mut furthest = part.len;
        loop {
            if part.len == size {
                let (parts, name) = (self.parts.clone(), name.to_owned());
                if disk(move || part.finish()).await? == item.artifact.sha256 {
                    return Ok(());
                }
                // Perhaps an earlier try left something; from the beginning, once more.
                part = disk(move || restarted(&parts, &name)).await?;
                if std::mem::replace(&mut wrong, true) {
                    return Err((
                        Code::BadBridgeAnswer,
                        "has another digest than the run's file.".into(),
                    ));
                }
            }
            let url = self.bridge.link(&link).map_err(|f| (f.code, f.message))?;
            let from = part.len;
            let trouble = match self.bridge.download(url, from).await {
                Err(trouble) if is_removed(&trouble) => return Err(removed()),
                Err(trouble) => match trouble.http() {
                    Some(410) if !renewed => {
                        renewed = true;
                        let fresh = self.links.fresh(&item.artifact.path).await;
                        let fresh = fresh.map_err(|f| (f.code, f.message))?;
                        link = fresh.ok_or_else(gone)?;
                        continue;
                    }
                    Some(404 | 410) => return Err(gone()),
                    Some(416) => {
                        part = disk(move || part.restart().map(|()| part)).await?;
                        Trouble::again(Code::RangeInvalid, "The bridge refused the range.")
                    }
                    _ if !trouble.again => return Err(said(&trouble)),
                    _ => trouble,
                },
                Ok(response) => {
                    if !continues(&response, from, size) {
                        part = disk(move || part.restart().map(|()| part)).await?;
                    }
                    match self.read(item, part, response).await? {
                        Got::Progress(grown) => {
                            part = grown;
                            if part.len == size {
                                continue;
                            }
                            Trouble::again(Code::ConnectionClosed, "The file broke off.")
                        }
                        Got::Cut(grown, trouble) => {
                            part = grown;
                            trouble
                        }
                        Got::TooMuch(grown) => {
                            part = disk(move || {
                                let mut part = grown;
                                part.restart().map(|()| part)
                            })
                            .await?;
                            if std::mem::replace(&mut wrong, true) {
                                return Err((
                                    Code::BadBridgeAnswer,
                                    "has another size than the run's file.".into(),
                                ));
                            }
                            continue;
                        }
                    }
                }
            };
            if part.len > furthest {
                furthest = part.len;
                patience.reset();
            }
            match patience.failed(Instant::now()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(said(&trouble)),
            }
        }
    }

    /// Writes one answer's bytes behind what is there.
    async fn read(
        &self,
        item: &ArtifactItem,
        part: Part,
        mut response: Response,
    ) -> Result<Got, (Code, String)> {
        let size = item.artifact.size;
        let mut done = part.len;
        let (send, chunks) = mpsc::channel(BUFFERED);
        let writer = tokio::task::spawn_blocking(move || part.write_all(chunks));
        let mut told: Option<Instant> = None;
        let mut too_much = false;
        let cut = loop {
            let chunk = tokio::time::timeout(self.bridge.timings.silence, response.chunk()).await;
            match chunk {
                Err(_) => {
                    break Some(Trouble::again(
                        Code::ConnectionClosed,
                        "The download fell silent.",
                    ));
                }
                Ok(Err(e)) => break Some(Trouble::cut(&e)),
                Ok(Ok(None)) => break None,
                Ok(Ok(Some(chunk))) => {
                    done += chunk.len() as u64;
                    too_much = done > size;
                    // A writer that is gone has an error to tell.
                    if too_much || send.send(chunk).await.is_err() {
                        break None;
                    }
                }
            }
            if told.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
                told = Some(Instant::now());
                self.tell(item, done);
            }
        };
        drop(send);
        let part = disk_error(writer.await)?;
        self.tell(item, part.len);
        Ok(match cut {
            _ if too_much => Got::TooMuch(part),
            Some(trouble) => Got::Cut(part, trouble),
            None => Got::Progress(part),
        })
    }

    fn tell(&self, item: &ArtifactItem, done: u64) {
        // Nobody may listen; progress is not a promise.
        let _ = self.progress.send(FileProgress {
            thread_id: self.thread.clone(),
            path: item.artifact.path.to_string(),
            done,
            total: item.artifact.size,
            verified: false,
        });
    }
}

/// Whether an answer goes on exactly where the part ends.
fn continues(response: &Response, from: u64, size: u64) -> bool {
    match response.status() {
        StatusCode::PARTIAL_CONTENT => response
            .headers()
            .get(CONTENT_RANGE)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.strip_prefix("bytes "))
            .is_some_and(|range| {
                let (span, total) = range.split_once('/').unwrap_or((range, ""));
                span.split('-').next().and_then(|n| n.parse().ok()) == Some(from)
                    && (total == "*" || total.parse() == Ok(size))
            }),
        _ => from == 0,
    }
}

fn restarted(parts: &Root, name: &str) -> io::Result<Part> {
    let mut part = Part::open(parts, name)?;
    part.restart()?;
    Ok(part)
}

/// One name per path: two files of a run never share a part, and a restart finds it again.
fn part_name(item: &ArtifactItem) -> String {
    let path = Hasher::digest(item.artifact.path.as_str().as_bytes());
    let short = path.get(..16).unwrap_or_default();
    let hex: String = short.iter().map(|b| format!("{b:02x}")).collect();
    format!("{hex}.part")
}

fn gone() -> (Code, String) {
    (GONE, "is listed, but no longer there.".into())
}

fn is_removed(trouble: &Trouble) -> bool {
    let fault = trouble.fault.as_ref();
    fault.is_some_and(|fault| fault.code == Code::ArtifactsRemoved)
}

fn removed() -> (Code, String) {
    (
        Code::ArtifactsRemoved,
        "was removed from the bridge to make room, and cannot be fetched any more.".into(),
    )
}

fn said(trouble: &Trouble) -> (Code, String) {
    let fault = threadline_contract::Fault::from(trouble.clone());
    (
        fault.code,
        format!("could not be fetched: {}", trouble.message),
    )
}

async fn disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, (Code, String)> {
    disk_error(tokio::task::spawn_blocking(work).await)
}

fn disk_error<T>(done: Result<io::Result<T>, tokio::task::JoinError>) -> Result<T, (Code, String)> {
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => {
            let code = match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::StorageFull,
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    Code::StorageReadOnly
                }
                _ => Code::Internal,
            };
            Err((code, format!("could not be written: {e}.")))
        }
        Err(e) => Err((Code::Internal, format!("could not be written: {e}."))),
    }
}
