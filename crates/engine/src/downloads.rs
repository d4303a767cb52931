//! Files that a remote runtime holds: read with patience, held against their digest on the way, and
//! kept on this disk by what they contain, so that the next reader does not need the runtime.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use threadline_artifacts::content_type;
use threadline_contract::{Artifact, Code, Fault};
use threadline_files::{Access, Durability, FileKind, Root, Staged, atomic, is_temporary};
use threadline_runtimes::{Body, Identity, Pending, ReadAt, Runtime};
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};
use tracing::{debug, warn};

/// How long a runtime that cannot be reached is waited for before its caller is asked to come back.
const OPENING: Duration = Duration::from_secs(8);
/// How long, once bytes have been handed over: whoever has half a file would begin anew.
const GOING_ON: Duration = Duration::from_secs(60);
/// The first pause before trying again; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Bytes of a kept file that one reading gives at most.
const CHUNK: usize = 256 << 10;
/// Bytes that tell what a file is, where its name does not.
const HEAD: usize = 512;
/// Pieces on their way to the disk.
const PIECES: usize = 4;

/// What is kept of remote files.
#[derive(Clone)]
pub(crate) struct Downloads(Arc<Kept>);

struct Kept {
    root: Option<Root>,
    limit: u64,
    /// Held while room is made, so that two do not remove for the same bytes.
    making_room: Mutex<()>,
}

impl Downloads {
    /// Keeps up to `limit` bytes in a folder; nothing, when that is zero or the folder cannot be had.
    pub(crate) fn open(folder: &Path, limit: u64) -> Self {
        let root = (limit > 0).then(|| atomic::create_dir_all(folder, Access::Private));
        let root = match root.transpose() {
            Ok(root) => root,
            Err(e) => {
                warn!(error = %e, "Downloads are not kept: {e}");
                None
            }
        };
        let kept = Kept {
            root,
            limit,
            making_room: Mutex::default(),
        };
        Self(Arc::new(kept))
    }

    /// Opens an artifact: as it is kept here, or at its runtime.
    pub(crate) async fn body(
        &self,
        runtime: &dyn Runtime,
        artifact: &Identity,
    ) -> Result<Body, Fault> {
        if let Some(body) = self.kept(artifact).await {
            return Ok(body);
        }
        let mut again = Again::within(OPENING);
        let body = loop {
            match runtime.open(artifact).await {
                Ok(body) => break body,
                Err(fault) => again.after(fault).await?,
            }
        };
        let reader = Remote {
            inner: body.reader,
            artifact: artifact.clone(),
            downloads: self.clone(),
            passing: AsyncMutex::default(),
        };
        Ok(Body {
            reader: Box::new(reader),
            ..body
        })
    }

    /// Forgets everything: what was deleted elsewhere shall not live on here.
    pub(crate) async fn clear(&self) {
        let kept = self.0.clone();
        let cleared = spawn_blocking(move || kept.shrink_to(0)).await;
        if let Ok(Err(e)) = cleared {
            warn!(error = %e, "Kept downloads were not removed: {e}");
        }
    }

    async fn kept(&self, artifact: &Identity) -> Option<Body> {
        let (kept, wanted) = (self.0.clone(), artifact.clone());
        let found = spawn_blocking(move || {
            let file = kept.root.as_ref()?.open_file(name(&wanted)).ok()?;
            let whole = file.metadata().ok()?.len() == wanted.size;
            // What was used last goes last.
            let _ = file.set_modified(SystemTime::now());
            let content_type = content_type(&wanted, &file)?;
            whole.then_some((file, content_type))
        });
        let (file, content_type) = found.await.ok()??;
        Some(Body {
            artifact: Artifact {
                path: artifact.path.clone(),
                size: artifact.size,
                sha256: artifact.sha256,
                content_type: content_type.into(),
            },
            reader: Box::new(OnDisk(Arc::new(file))),
        })
    }
}

impl Kept {
    /// Gives a whole file its name, and makes room for it.
    fn keep(&self, staged: Staged, artifact: &Identity) -> threadline_files::Result<()> {
        let Some(root) = &self.root else {
            return Ok(());
        };
        let written = staged.written();
        if written.size != artifact.size || written.sha256 != artifact.sha256.0 {
            return Ok(());
        }
        self.shrink_to(self.limit.saturating_sub(artifact.size))?;
        staged.publish(root, name(artifact)).map(drop)
    }

    /// Removes what was not used for longest, until so many bytes are left.
    fn shrink_to(&self, limit: u64) -> threadline_files::Result<()> {
        let Some(root) = &self.root else {
            return Ok(());
        };
        let _alone = self
            .making_room
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut files = vec![];
        for entry in root.entries("")? {
            if entry.kind != FileKind::File || is_temporary(&entry.name) {
                continue;
            }
            if let Ok(file) = root.open_file(&entry.name)
                && let Ok(about) = file.metadata()
            {
                let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((used, about.len(), entry.name));
            }
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, name) in files {
            if bytes <= limit {
                break;
            }
            root.remove_file(&name)?;
            bytes -= size;
        }
        Ok(())
    }
}

fn content_type(artifact: &Identity, file: &File) -> Option<&'static str> {
    let by_name = content_type::of_name(artifact.path.file_name());
    if by_name.is_some() {
        return by_name;
    }
    let mut head = [0; HEAD];
    let got = file.read_at(&mut head, 0).ok()?;
    Some(content_type::of_head(&head[..got]))
}

fn name(artifact: &Identity) -> String {
    artifact.sha256.to_string()
}

/// Tries again while a runtime cannot be reached, for so long.
struct Again {
    until: Instant,
    pause: Duration,
}

impl Again {
    fn within(limit: Duration) -> Self {
        Self {
            until: Instant::now() + limit,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next try; or gives the fault back, when it is for good or the time is over.
    async fn after(&mut self, fault: Fault) -> Result<(), Fault> {
        let passing = matches!(
            fault.code,
            Code::ProviderUnavailable | Code::RuntimeReadFailed
        );
        if !passing || Instant::now() + self.pause >= self.until {
            return Err(fault);
        }
        debug!(code = %fault.code, "A runtime's file is asked for again: {}", fault.message);
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// A file at a runtime.
struct Remote {
    inner: Box<dyn ReadAt>,
    artifact: Identity,
    downloads: Downloads,
    passing: AsyncMutex<Passing>,
}

/// What passed through, from the first byte on without a gap. A reader that wants parts has none of it.
#[derive(Default)]
struct Passing {
    digest: Sha256,
    bytes: u64,
    to_disk: Option<ToDisk>,
}

struct ToDisk {
    pieces: mpsc::Sender<Bytes>,
    written: JoinHandle<()>,
}

impl ReadAt for Remote {
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>> {
        Box::pin(async move {
            let mut again = Again::within(GOING_ON);
            let bytes = loop {
                match self.inner.read_at(offset, len).await {
                    Ok(bytes) => break bytes,
                    Err(fault) => again.after(fault).await?,
                }
            };
            self.passed(offset, &bytes).await?;
            Ok(bytes)
        })
    }
}

impl Remote {
    /// Holds a whole file against its digest before its last bytes are handed over: a reader that got
    /// all of them got the right ones.
    async fn passed(&self, offset: u64, bytes: &Bytes) -> Result<(), Fault> {
        let mut passing = self.passing.lock().await;
        if offset != passing.bytes || bytes.is_empty() {
            return Ok(());
        }
        if offset == 0 {
            passing.to_disk = self.downloads.to_disk(&self.artifact);
        }
        passing.digest.update(bytes);
        passing.bytes += bytes.len() as u64;
        if let Some(to_disk) = &passing.to_disk
            && to_disk.pieces.send(bytes.clone()).await.is_err()
        {
            passing.to_disk = None;
        }
        if passing.bytes < self.artifact.size {
            return Ok(());
        }
        let found: [u8; 32] = std::mem::take(&mut passing.digest).finalize().into();
        let to_disk = passing.to_disk.take();
        drop(passing);
        if found != self.artifact.sha256.0 {
            return Err(Fault::new(
                Code::ArtifactHashMismatch,
                "The runtime handed over other bytes than the run delivered.",
            ));
        }
        if let Some(ToDisk { pieces, written }) = to_disk {
            drop(pieces);
            // It is kept when the reader has it all: the next one finds it.
            let _ = written.await;
        }
        Ok(())
    }
}

impl Downloads {
    fn to_disk(&self, artifact: &Identity) -> Option<ToDisk> {
        let root = self
            .0
            .root
            .clone()
            .filter(|_| artifact.size <= self.0.limit)?;
        let (pieces, source) = mpsc::channel(PIECES);
        let (kept, artifact) = (self.0.clone(), artifact.clone());
        let written = spawn_blocking(move || {
            let mut source = Pieces {
                source,
                piece: Bytes::new(),
            };
            let kept = root
                .stage(&mut source, Access::Private, Durability::Later)
                .and_then(|staged| kept.keep(staged, &artifact));
            if let Err(e) = kept {
                warn!(error = %e, "A download was not kept: {e}");
            }
        });
        Some(ToDisk { pieces, written })
    }
}

/// Pieces as they come, for who reads and blocks.
struct Pieces {
    source: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            match self.source.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let part = self.piece.split_to(self.piece.len().min(buffer.len()));
        buffer[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}

/// A file that is kept here.
struct OnDisk(Arc<File>);

impl ReadAt for OnDisk {
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>> {
        let file = self.0.clone();
        Box::pin(async move {
            let read = spawn_blocking(move || {
                let mut buffer = vec![0; len.min(CHUNK)];
                let got = file.read_at(&mut buffer, offset)?;
                buffer.truncate(got);
                Ok::<_, io::Error>(Bytes::from(buffer))
            });
            match read.await {
                Ok(Ok(bytes)) => Ok(bytes),
                Ok(Err(e)) => {
                    warn!(error = %e, "A kept download cannot be read: {e}");
                    Err(Fault::internal())
                }
                Err(_) => Err(Fault::internal()),
            }
        })
    }
}
