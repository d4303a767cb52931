//! What we must remember of a run ourselves: that we sent it, to which start of the gateway, and under
//! which name the gateway has it now. One small file each, on the disk before the run is sent.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use threadline_contract::{
    Code, Fault, Millis, RunId, SessionKey,
    scope::{segment, session_segment},
};
use threadline_files::{Access, Reason, Root, atomic};
use tokio::task::spawn_blocking;

use crate::{End, RunRef, TurnPlan, local::storage_fault};

/// A note holds a final text at most.
const MOST: u64 = 64 * 1024 * 1024;

/// What is remembered of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) session: SessionKey,
    pub(super) run: RunId,
    /// The start of the gateway that has the run, under `name`.
    pub(super) boot: String,
    /// The gateway's name for it: the run's own id, or another after the gateway took it up.
    pub(super) name: String,
    /// When it was sent.
    pub(super) sent_at: Millis,
    /// What was sent, until it ends: a gateway that stopped before it worked on it gets it anew.
    #[serde(default)]
    pub(super) plan: Option<TurnPlan>,
    /// How often it was sent anew, each time under another name.
    #[serde(default)]
    pub(super) anew: u32,
    /// The gateway refused it, so it never began.
    #[serde(default)]
    pub(super) refused: bool,
    /// Somebody asked it to stop.
    #[serde(default)]
    pub(super) cancel_asked: bool,
    /// What is told in the run before anything else.
    #[serde(default)]
    pub(super) notice: Option<String>,
    /// How it ended.
    #[serde(default)]
    pub(super) end: Option<End>,
    /// When, by the gateway's clock.
    #[serde(default)]
    pub(super) ended_at: Option<i64>,
    /// When we heard of it.
    #[serde(default)]
    pub(super) heard_at: Option<Millis>,
}

impl Note {
    /// Of a turn that is about to be sent to this start of the gateway.
    pub(super) fn new(plan: &TurnPlan, boot: &str) -> Self {
        Self {
            session: plan.session.clone(),
            run: plan.run.clone(),
            boot: boot.to_owned(),
            name: plan.run.to_string(),
            sent_at: Millis::now(),
            plan: Some(plan.clone()),
            anew: 0,
            refused: false,
            cancel_asked: false,
            notice: None,
            end: None,
            ended_at: None,
            heard_at: None,
        }
    }

    /// The same turn, to be sent under another name: the gateway that had it gave it back, and takes
    /// no name twice.
    pub(super) fn sent_anew(mut self, boot: &str) -> Self {
        self.anew += 1;
        self.name = self.first_name();
        self.boot = boot.to_owned();
        self
    }

    /// The name under which it was last sent, which the gateway may have changed since.
    pub(super) fn first_name(&self) -> String {
        match self.anew {
            0 => self.run.to_string(),
            times => format!("{}.again-{times}", self.run),
        }
    }

    pub(super) fn run_ref(&self) -> RunRef {
        RunRef {
            session: self.session.clone(),
            run: self.run.clone(),
        }
    }
}

/// The notes of all runs.
#[derive(Clone)]
pub(super) struct Notes {
    folder: PathBuf,
}

impl Notes {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, session: &SessionKey, run: &RunId) -> PathBuf {
        let folder = self.folder.join(session_segment(session));
        folder.join(format!("{}.json", segment(run.as_str())))
    }

    /// What is remembered of a run. Another run whose names lead to the same file is not this run.
    pub(super) async fn read(&self, run: &RunRef) -> Result<Option<Note>, Fault> {
        let (path, run) = (self.path(&run.session, &run.run), run.clone());
        blocking(move || read(&path, &run)).await
    }

    /// Whether other runs of the session are remembered.
    pub(super) async fn has_others(&self, run: &RunRef) -> bool {
        let own = self.path(&run.session, &run.run);
        let listed = spawn_blocking(move || {
            let (folder, own) = (own.parent()?, own.file_name()?);
            let mut entries = Root::open(folder).ok()?.entries("").ok()?.into_iter();
            // Whatever is still being written is none yet.
            let is_note = |name: &Path| name.extension().is_some_and(|ext| ext == "json");
            Some(entries.any(|entry| entry.name != own && is_note(Path::new(&entry.name))))
        });
        listed.await.ok().flatten().unwrap_or(false)
    }

    /// Remembers, before anything is done about it.
    pub(super) async fn write(&self, note: &Note) -> Result<(), Fault> {
        let (path, note) = (self.path(&note.session, &note.run), note.clone());
        blocking(move || {
            if let Some(folder) = path.parent() {
                atomic::create_dir_all(folder, Access::Private).map_err(storage_fault)?;
            }
            let text = serde_json::to_vec(&note).map_err(|_| Fault::internal())?;
            atomic::write(&path, &text, Access::Private).map_err(storage_fault)?;
            Ok(())
        })
        .await
    }

    /// Forgets the runs of a session.
    pub(super) async fn forget(&self, session: &SessionKey, runs: &[RunId]) -> Result<(), Fault> {
        let paths: Vec<PathBuf> = runs.iter().map(|run| self.path(session, run)).collect();
        let folder = self.folder.join(session_segment(session));
        blocking(move || {
            for path in &paths {
                remove(path, |root, name| root.remove_file(name))?;
            }
            remove(&folder, |root, name| match root.entries(name)?.is_empty() {
                true => root.remove_dir_all(name),
                false => Ok(()),
            })
        })
        .await
    }
}

fn read(path: &Path, run: &RunRef) -> Result<Option<Note>, Fault> {
    let bytes = match atomic::read_limited(path, MOST) {
        Ok(bytes) => bytes,
        Err(e) if e.reason() == Reason::NotFound => return Ok(None),
        Err(e) => return Err(storage_fault(e)),
    };
    let note: Note = serde_json::from_slice(&bytes).map_err(|e| {
        tracing::error!(path = %path.display(), error = %e, "the note of a run is damaged");
        Fault::new(
            Code::RunLost,
            "What Threadline noted about this run is damaged, so it cannot be told from another. Send it again.",
        )
    })?;
    if note.session != run.session || note.run != run.run {
        return Err(Fault::new(
            Code::Conflict,
            "Another session or run has a key that leads to the same note. Use another key.",
        ));
    }
    Ok(Some(note))
}

fn remove(
    path: &Path,
    how: impl FnOnce(&Root, &std::ffi::OsStr) -> threadline_files::Result<()>,
) -> Result<(), Fault> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    match Root::open(above).and_then(|root| how(&root, name)) {
        Err(e) if e.reason() == Reason::NotFound => Ok(()),
        done => done.map_err(storage_fault),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "work on a run's note broke");
        Err(Fault::internal())
    })
}
