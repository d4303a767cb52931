//! Putting threads away, bringing them back, removing them; and reading their files.

use std::{fs::File, sync::Arc};

use threadline_contract::{
    AppThreadKey, ArtifactPath, Code, Fault, method,
    thread::{Lifecycle, Move, SyncedFile},
};
use threadline_files::{Reason, Root};

use super::{App, Core};
use crate::{
    api::{Deleted, ThreadView},
    fault::storage,
    records::lock,
    request::Session,
    workspace,
};

impl App {
    /// Puts a thread away and lets its session go.
    pub async fn archive(&self, thread: &str) -> Result<ThreadView, Fault> {
        let key = self.core.shift(thread, Move::Archive).await?;
        self.core.close_session(&key).await?;
        self.core.view(&key).await
    }

    /// Brings a thread back.
    pub async fn restore(&self, thread: &str) -> Result<ThreadView, Fault> {
        let key = self.core.shift(thread, Move::Restore).await?;
        self.core.view(&key).await
    }

    /// Removes an archived thread: its record, and its workspace if we made it.
    pub async fn delete(&self, thread: &str) -> Result<Deleted, Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let record = core.records.read(&key).await?;
        if record.lifecycle_state.status != Lifecycle::Archived {
            return Err(Fault::invalid(
                "Only an archived thread can be deleted. Archive it first.",
            ));
        }
        // Files that are still on their way must not come back after the folder is gone.
        let turn = lock(&core.syncs).get(&key).cloned();
        let held = match &turn {
            Some(turn) => Some(turn.try_lock().map_err(|_| {
                Fault::new(
                    Code::ThreadBusy,
                    "The thread's files are still being fetched. Try again in a moment.",
                )
            })?),
            None => None,
        };
        let path = workspace::path_of(&core.config.workspaces, &record);
        let removed = {
            let (base, path, key) = (core.config.workspaces.clone(), path.clone(), key.clone());
            core.blocking(move || workspace::remove(&base, &path, &key))
                .await?
                .map_err(storage)?
        };
        core.records.remove(&key).await?;
        if let Some(last) = record.context_state.task_association {
            core.outbox(move |outbox| outbox.remove(&last.request_id))
                .await?;
        }
        drop(held);
        lock(&core.syncs).remove(&key);
        Ok(Deleted {
            thread_id: key,
            name: record.name,
            removed_folder: removed.then(|| path.display().to_string()),
        })
    }

    /// Opens a file of the thread's current run, and of no other: the name must be one of
    /// `lastTaskArtifactRelativePaths`, and no link is followed.
    pub async fn file(&self, thread: &str, path: &str) -> Result<(File, SyncedFile), Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let record = core.records.read(&key).await?;
        let missing = || {
            Fault::new(
                Code::ArtifactNotFound,
                format!("`{path}` is not a file of this thread's last run."),
            )
        };
        let wanted = ArtifactPath::new(path).map_err(|_| missing())?;
        let files = &record.context_state.last_artifacts;
        let known = files
            .iter()
            .find(|f| f.path == wanted)
            .cloned()
            .ok_or_else(missing)?;
        let folder = workspace::path_of(&core.config.workspaces, &record);
        let opened = core
            .blocking(move || Root::open(folder)?.open_file(wanted.as_str()))
            .await?;
        match opened {
            Ok(file) => Ok((file, known)),
            Err(e) if matches!(e.reason(), Reason::NoSpace | Reason::Io) => Err(storage(e)),
            Err(_) => Err(missing()),
        }
    }
}

impl Core {
    async fn shift(&self, thread: &str, step: Move) -> Result<AppThreadKey, Fault> {
        let key = self.find(thread)?;
        self.records
            .update(&key, |record| {
                record.lifecycle_state.status = record.lifecycle_state.status.after(step)?;
                Ok(())
            })
            .await?;
        Ok(key)
    }

    /// Tells the bridge that the session is not needed; it may well be away.
    async fn close_session(self: &Arc<Self>, key: &AppThreadKey) -> Result<(), Fault> {
        let record = self.records.read(key).await?;
        if Session::of(&record) == Session::New {
            return Ok(());
        }
        let bridge = self
            .endpoints
            .bridge(&record.execution_binding.endpoint_id)?;
        let key = key.clone();
        self.spawn(async move {
            let params = method::SessionParams {
                session_id: key.clone(),
            };
            let closed = bridge.call_value(method::CLOSE, &params).await;
            if let Err(trouble) = closed {
                tracing::info!(thread = %key, "The session of {key} was not closed: {}", trouble.message);
            }
        });
        Ok(())
    }
}
