//! Deleting a thread for good: here, in its workspace, and at its bridge.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use threadline_contract::{
    Code, Fault,
    method::{self, SessionParams},
    thread::{Lifecycle, TaskThread},
};
use threadline_retry::{Backoff, table};

use super::{App, Core};
use crate::{
    api::{DeleteParams, Deleted, DeletionPreview},
    bridge::trouble::Trouble,
    deletions::Deletion,
    fault::storage,
    records::lock,
    sync::own_files::{self, OwnFiles},
    workspace,
};

/// How long a deletion waits for a sync to end.
const SYNC_ENDS_WITHIN: Duration = Duration::from_secs(1);

impl App {
    /// What [`delete`](Self::delete) would remove, and which files are the user's own.
    pub async fn delete_preview(&self, thread: &str) -> Result<DeletionPreview, Fault> {
        let core = &self.core;
        let key = core.find(thread)?;
        let record = core.records.read(&key).await?;
        let deletion = core.deletion_of(&record, false);
        let found = core.own_files(&deletion).await?;
        let folder = found
            .is_some()
            .then(|| deletion.folder.display().to_string());
        let found = found.unwrap_or_default();
        Ok(DeletionPreview {
            thread_id: key,
            name: record.name,
            folder,
            delivered: found.delivered,
            yours: found.own,
            yours_total: found.own_total,
            yours_digest: found.own_digest,
        })
    }

    /// Removes an archived thread: its record, its workspace if we made it, and what its bridge holds
    /// of it. Files that the user made or edited stay where they are, unless they shall go too. What
    /// cannot be removed now is removed later, also after a crash.
    pub async fn delete(&self, params: DeleteParams) -> Result<Deleted, Fault> {
        let core = &self.core;
        let key = core.find(&params.thread)?;
        let record = core.records.read(&key).await?;
        if record.lifecycle_state.status != Lifecycle::Archived {
            return Err(Fault::invalid(
                "Only an archived thread can be deleted. Archive it first.",
            ));
        }
        // Files that are still on their way must not come back after the folder is gone. A sync whose
        // result is told already has only to put its tools away.
        let turn = lock(&core.syncs).get(&key).cloned();
        let held = match &turn {
            Some(turn) => {
                let held = tokio::time::timeout(SYNC_ENDS_WITHIN, turn.lock()).await;
                Some(held.map_err(|_| {
                    Fault::new(
                        Code::ThreadBusy,
                        "The thread's files are still being synced. Try again in a moment.",
                    )
                })?)
            }
            None => None,
        };
        let deletion = core.deletion_of(&record, params.with_my_files);
        if let Some(shown) = params.yours_digest.filter(|_| params.with_my_files) {
            let found = core.own_files(&deletion).await?.unwrap_or_default();
            if found.own_digest != shown {
                return Err(Fault::new(
                    Code::Conflict,
                    "Your files in the thread's folder are not the same any more as those you were shown. Nothing was deleted. Look at the list again, then delete.",
                ));
            }
        }
        core.note_deletion(&deletion).await?;
        let removed = core.delete_here(&deletion).await?;
        drop(held);
        lock(&core.syncs).remove(&key);
        let pending = core.delete_at_bridge(&deletion).await?;
        if pending.is_some() {
            core.delete_later(deletion.clone());
        }
        let folder = deletion.folder.display().to_string();
        let (removed_folder, kept_folder, kept) = match removed {
            Removed::Nothing => (None, None, OwnFiles::default()),
            Removed::Whole => (Some(folder), None, OwnFiles::default()),
            Removed::AllBut(kept) => (None, Some(folder), kept),
        };
        Ok(Deleted {
            thread_id: key,
            name: record.name,
            removed_folder,
            kept_folder,
            kept: kept.own,
            kept_total: kept.own_total,
            pending,
        })
    }
}

/// What became of a thread's folder.
enum Removed {
    /// It is not ours.
    Nothing,
    /// It is gone.
    Whole,
    /// It stays with these files of the user.
    AllBut(OwnFiles),
}

impl Core {
    fn deletion_of(&self, record: &TaskThread, with_own_files: bool) -> Deletion {
        let last = record.context_state.task_association.as_ref();
        Deletion {
            thread_id: record.thread_id.clone(),
            endpoint_id: record.execution_binding.endpoint_id.clone(),
            folder: workspace::path_of(&self.config.workspaces, record),
            requests: last.map(|a| a.request_id.clone()).into_iter().collect(),
            with_own_files,
        }
    }

    /// The user's own files in the folder of a thread; nothing where the folder is not ours.
    async fn own_files(&self, deletion: &Deletion) -> Result<Option<OwnFiles>, Fault> {
        let (base, deletion) = (self.config.workspaces.clone(), deletion.clone());
        let look = move || {
            let (folder, thread) = (&deletion.folder, &deletion.thread_id);
            let made = workspace::made_for(&base, folder, thread).map_err(storage)?;
            made.map(|root| own_files::find(&root)).transpose()
        };
        self.blocking(look).await?
    }

    async fn note_deletion(&self, deletion: &Deletion) -> Result<(), Fault> {
        let (notes, deletion) = (self.deletions.clone(), deletion.clone());
        self.blocking(move || notes.note(&deletion)).await?
    }

    /// Finishes what was begun before the app last ended: here at once, at the bridges when they
    /// answer.
    pub(crate) async fn resume_deletions(self: &Arc<Self>) -> Result<(), Fault> {
        let notes = self.deletions.clone();
        for deletion in self.blocking(move || notes.all()).await?? {
            match self.delete_here(&deletion).await {
                Ok(_) => self.delete_later(deletion),
                Err(fault) => {
                    let key = &deletion.thread_id;
                    tracing::error!(thread = %key, "{key} cannot be deleted yet: {fault}");
                }
            }
        }
        Ok(())
    }

    /// Removes what lies here. Tells what became of the folder. Can be repeated.
    async fn delete_here(&self, deletion: &Deletion) -> Result<Removed, Fault> {
        let removed = {
            let (base, deletion) = (self.config.workspaces.clone(), deletion.clone());
            self.blocking(move || remove_folder(&base, &deletion))
                .await??
        };
        self.records.remove(&deletion.thread_id).await?;
        let requests = deletion.requests.clone();
        self.outbox(move |outbox| requests.iter().try_for_each(|r| outbox.remove(r)))
            .await?;
        lock(&self.live).remove(&deletion.thread_id);
        self.verified.forget(&deletion.thread_id);
        Ok(removed)
    }

    /// Tells the bridge, once. A sentence says what is not done yet.
    async fn delete_at_bridge(&self, deletion: &Deletion) -> Result<Option<String>, Fault> {
        let key = &deletion.thread_id;
        let params = SessionParams {
            session_id: key.clone(),
        };
        let told = match self.endpoints.bridge(&deletion.endpoint_id) {
            Ok(bridge) => bridge.call_value(method::DELETE, &params).await,
            Err(fault) => Err(Trouble::from(fault)),
        };
        let (done, pending) = match told {
            // It has written down what it has to do, and does it without us.
            Ok(receipt) if receipt.get("deleted") == Some(&Value::Bool(false)) => (
                true,
                Some("A run of it is still being stopped; what its bridge holds goes with it.".to_owned()),
            ),
            Ok(_) => (true, None),
            Err(trouble) if is_unknown(&trouble) => (
                true,
                Some("Its bridge is of an older version and cannot delete; what it holds of the thread stays there.".to_owned()),
            ),
            Err(trouble) => (
                false,
                Some(format!(
                    "What its bridge holds of it goes when the bridge can be told. {}",
                    trouble.message
                )),
            ),
        };
        if done {
            let (notes, key) = (self.deletions.clone(), key.clone());
            self.blocking(move || notes.done(&key)).await??;
        }
        Ok(pending)
    }

    /// Tells the bridge until it has heard; the next start goes on with it.
    fn delete_later(self: &Arc<Self>, deletion: Deletion) {
        let core = self.clone();
        self.spawn(async move {
            let key = &deletion.thread_id;
            let backoff = Backoff {
                first: core.config.timings.backoff.first,
                ..table::DELETION_AT_BRIDGE
            };
            let mut pauses = backoff.pauses();
            loop {
                match core.delete_at_bridge(&deletion).await {
                    Ok(_) if !core.is_noted(&deletion).await => return,
                    Ok(why) => {
                        tracing::info!(thread = %key, "{key} is not deleted at its bridge yet: {}", why.unwrap_or_default());
                    }
                    Err(fault) => tracing::warn!(thread = %key, "The deletion of {key} was not noted: {fault}"),
                }
                tokio::time::sleep(pauses.next_pause()).await;
            }
        });
    }

    async fn is_noted(&self, deletion: &Deletion) -> bool {
        let (notes, wanted) = (self.deletions.clone(), deletion.clone());
        let all = self.blocking(move || notes.all()).await;
        !matches!(all, Ok(Ok(all)) if !all.contains(&wanted))
    }
}

fn remove_folder(base: &Path, deletion: &Deletion) -> Result<Removed, Fault> {
    let (folder, thread) = (&deletion.folder, &deletion.thread_id);
    if deletion.with_own_files {
        let removed = workspace::remove(base, folder, thread).map_err(storage)?;
        return Ok(match removed {
            true => Removed::Whole,
            false => Removed::Nothing,
        });
    }
    let Some(root) = workspace::made_for(base, folder, thread).map_err(storage)? else {
        return Ok(Removed::Nothing);
    };
    let kept = own_files::remove_the_rest(&root)?;
    match workspace::remove_empty(base, folder).map_err(storage)? {
        true => Ok(Removed::Whole),
        false => Ok(Removed::AllBut(kept)),
    }
}

fn is_unknown(trouble: &Trouble) -> bool {
    let fault = trouble.fault.as_ref();
    fault.is_some_and(|fault| fault.code == Code::MethodNotFound)
}
