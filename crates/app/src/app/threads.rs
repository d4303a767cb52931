//! Putting threads away and bringing them back; and reading their files.

use std::{fs::File, sync::Arc};

use threadline_contract::{
    AppThreadKey, ArtifactPath, Code, Fault, method,
    thread::{Lifecycle, Move, SyncedFile},
};
use threadline_files::Reason;

use super::{App, Core};
use crate::{api::ThreadView, fault::storage, request::Session, workspace};

impl App {
    /// Puts a thread away and lets its session go. One that was put away before stays so, and the
    /// answer says so.
    pub async fn archive(&self, thread: &str) -> Result<ThreadView, Fault> {
        let (key, moved) = self.core.shift(thread, Move::Archive).await?;
        if moved {
            self.core.close_session(&key).await?;
        }
        let said = "The thread was archived already; nothing changed.";
        self.core.view_saying(&key, (!moved).then_some(said)).await
    }

    /// Brings a thread back. One that is not archived stays as it is, and the answer says so.
    pub async fn restore(&self, thread: &str) -> Result<ThreadView, Fault> {
        let (key, moved) = self.core.shift(thread, Move::Restore).await?;
        let said = "The thread is not archived; nothing changed.";
        self.core.view_saying(&key, (!moved).then_some(said)).await
    }

    /// Opens a file of the thread's current run, and of no other: the name must be one of
    /// `lastTaskArtifactRelativePaths`, and no link is followed. It may have been edited since:
    /// [`SyncedFile::changed`] tells, of these very bytes.
    pub async fn file(&self, thread: &str, path: &str) -> Result<(File, SyncedFile), Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let record = core.records.read(&key).await?;
        let refused = |why: &str| Fault::new(Code::ArtifactNotFound, format!("`{path}` {why}"));
        let unknown = || refused("is not a file of this thread's last run.");
        let wanted = ArtifactPath::new(path).map_err(|_| unknown())?;
        let files = &record.context_state.last_artifacts;
        let known = files
            .iter()
            .find(|f| f.path == wanted)
            .cloned()
            .ok_or_else(unknown)?;
        let folder = workspace::path_of(&core.config.workspaces, &record);
        let verified = core.verified.clone();
        let opened = move || {
            let root = workspace::existing(&folder)?;
            let file = match root.open_file(wanted.as_str()) {
                Ok(file) => file,
                Err(e) if matches!(e.reason(), Reason::NoSpace | Reason::Io) => {
                    return Err(storage(e));
                }
                Err(e) => return Ok(Err(e.reason())),
            };
            let same = verified.open(&root, &key, &known, &file)?;
            let known = SyncedFile {
                changed: !same,
                ..known
            };
            Ok(Ok((file, known)))
        };
        core.blocking(opened)
            .await??
            .map_err(|reason| match reason {
                Reason::NotFound | Reason::NotDirectory => {
                    refused("is missing in the thread's folder. Sync brings it back.")
                }
                _ => refused(
                    "cannot be opened: something else stands in its place. Sync brings it back.",
                ),
            })
    }
}

impl Core {
    /// Puts a thread away or brings it back. `false`: it stands so already.
    async fn shift(&self, thread: &str, step: Move) -> Result<(AppThreadKey, bool), Fault> {
        let key = self.find(thread)?;
        let (_, moved) = self
            .records
            .update(&key, |record| {
                let status = record.lifecycle_state.status;
                let archived = status == Lifecycle::Archived;
                if archived == (step == Move::Archive) {
                    return Ok(false);
                }
                record.lifecycle_state.status = status.after(step)?;
                Ok(true)
            })
            .await?;
        Ok((key, moved))
    }

    async fn view_saying(
        &self,
        key: &AppThreadKey,
        notice: Option<&str>,
    ) -> Result<ThreadView, Fault> {
        let mut view = self.view(key).await?;
        view.notice = notice.map(str::to_owned);
        Ok(view)
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
