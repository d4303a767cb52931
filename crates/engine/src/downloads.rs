//! Files that a remote runtime holds: read with patience, held against their digest on the way, and
//! kept on this disk by what they contain, so that the next reader does not need the runtime.

use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use threadline_artifacts::content_type;
use threadline_contract::{Artifact, Code, Fault};
use threadline_files::{
    Access, Durability, FileKind, Root, Staging, atomic, is_temporary, read_held_at,
};
use threadline_retry::{Pauses, table};
use threadline_runtimes::{
    ArtifactIdentity, Body, Files, Pending, ReadAt,
    pieces::{self, Check, PIECE, Pieces, Source},
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

/// How long a runtime that cannot be reached is waited for before its caller is asked to come back.
const OPENING: Duration = Duration::from_secs(8);
/// How long, once bytes have been handed over: whoever has half a file would begin anew.
const GOING_ON: Duration = Duration::from_secs(60);
/// Bytes that tell what a file is, where its name does not.
const HEAD: usize = 512;

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
        runtime: &dyn Files,
        artifact: &ArtifactIdentity,
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
            kept: self.0.clone(),
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

    async fn kept(&self, artifact: &ArtifactIdentity) -> Option<Body> {
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
            reader: Box::new(OnDisk(Arc::new(Held(file)))),
        })
    }
}

impl Kept {
    /// Gives a whole file its name, and makes room for it.
    fn keep(&self, staging: Staging, artifact: &ArtifactIdentity) -> threadline_files::Result<()> {
        let Some(root) = &self.root else {
            return Ok(());
        };
        self.shrink_to(self.limit.saturating_sub(artifact.size))?;
        staging.publish(root, name(artifact))
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

fn content_type(artifact: &ArtifactIdentity, file: &File) -> Option<&'static str> {
    let by_name = content_type::of_name(artifact.path.file_name());
    if by_name.is_some() {
        return by_name;
    }
    let mut head = [0; HEAD];
    let got = file.read_at(&mut head, 0).ok()?;
    Some(content_type::of_head(&head[..got]))
}

fn name(artifact: &ArtifactIdentity) -> String {
    artifact.sha256.to_string()
}

/// Tries again while a runtime cannot be reached, for so long.
struct Again {
    until: Instant,
    pauses: Pauses,
}

impl Again {
    fn within(limit: Duration) -> Self {
        Self {
            until: Instant::now() + limit,
            pauses: table::READ_AT_RUNTIME.pauses(),
        }
    }

    /// Waits before the next try; or gives the fault back, when it is for good or the time is over.
    async fn after(&mut self, fault: Fault) -> Result<(), Fault> {
        let passing = matches!(
            fault.code,
            Code::ProviderUnavailable | Code::RuntimeReadFailed
        );
        let pause = self.pauses.next_pause();
        if !passing || Instant::now() + pause >= self.until {
            return Err(fault);
        }
        debug!(code = %fault.code, "A runtime's file is asked for again: {}", fault.message);
        sleep(pause).await;
        Ok(())
    }
}

/// A file at a runtime.
struct Remote {
    inner: Box<dyn ReadAt>,
    artifact: ArtifactIdentity,
    kept: Arc<Kept>,
}

impl ReadAt for Remote {
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>> {
        Box::pin(async move {
            let mut again = Again::within(GOING_ON);
            loop {
                match self.inner.read_at(offset, len).await {
                    Ok(bytes) => break Ok(bytes),
                    Err(fault) => again.after(fault).await?,
                }
            }
        })
    }

    /// Whoever wants parts has them as the runtime gives them, and nothing of them is kept.
    fn pieces(self: Box<Self>, range: Range<u64>) -> Pieces {
        let size = self.artifact.size;
        let passing = (range == (0..size)).then(|| Passing {
            digest: Sha256::new(),
            to_disk: ToDisk::NotYet,
            artifact: self.artifact.clone(),
            kept: self.kept.clone(),
        });
        let pieces = pieces::of_reader(self, range);
        match passing {
            Some(passing) => pieces::checked(pieces, size, passing),
            None => pieces,
        }
    }
}

/// Holds a whole file against its digest as it passes, and keeps it.
struct Passing {
    digest: Sha256,
    to_disk: ToDisk,
    artifact: ArtifactIdentity,
    kept: Arc<Kept>,
}

enum ToDisk {
    NotYet,
    Going(Staging),
    /// There is no room for it, or the disk refused.
    Not,
}

impl Passing {
    fn write(&mut self, bytes: &[u8]) -> threadline_files::Result<()> {
        if matches!(self.to_disk, ToDisk::NotYet) {
            self.to_disk = match &self.kept.root {
                Some(root) if self.artifact.size <= self.kept.limit => {
                    ToDisk::Going(root.begin(Access::Private, Durability::Later)?)
                }
                _ => ToDisk::Not,
            };
        }
        match &mut self.to_disk {
            ToDisk::Going(staging) => staging.write(bytes),
            _ => Ok(()),
        }
    }
}

impl Check for Passing {
    fn push(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        if let Err(e) = self.write(bytes) {
            warn!(error = %e, "A download is not kept: {e}");
            self.to_disk = ToDisk::Not;
        }
    }

    fn finish(self) -> Result<(), Fault> {
        let found: [u8; 32] = self.digest.finalize().into();
        if found != self.artifact.sha256.0 {
            return Err(Fault::new(
                Code::ArtifactHashMismatch,
                "The runtime handed over other bytes than the run delivered.",
            ));
        }
        // It is kept when the reader has it all: the next one finds it.
        if let ToDisk::Going(staging) = self.to_disk
            && let Err(e) = self.kept.keep(staging, &self.artifact)
        {
            warn!(error = %e, "A download was not kept: {e}");
        }
        Ok(())
    }
}

/// A file that is kept here.
struct OnDisk(Arc<Held>);

struct Held(File);

impl ReadAt for OnDisk {
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>> {
        let file = self.0.clone();
        Box::pin(async move {
            let read = spawn_blocking(move || {
                let mut buffer = vec![0; len.min(PIECE)];
                let got = file.read(&mut buffer, offset)?;
                buffer.truncate(got);
                Ok(Bytes::from(buffer))
            });
            read.await.unwrap_or_else(|_| Err(Fault::internal()))
        })
    }

    fn pieces(self: Box<Self>, range: Range<u64>) -> Pieces {
        pieces::of_source(self.0, range)
    }
}

impl Source for Held {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault> {
        self.0.read_at(buffer, offset).map_err(unreadable)
    }

    fn read_held(&self, buffer: &mut [u8], offset: u64) -> Result<Option<usize>, Fault> {
        read_held_at(&self.0, buffer, offset).map_err(unreadable)
    }
}

fn unreadable(e: io::Error) -> Fault {
    warn!(error = %e, "A kept download cannot be read: {e}");
    Fault::internal()
}
