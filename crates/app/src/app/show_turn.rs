//! One turn with all of its files, also after the thread has gone on.

use std::path::Path;

use threadline_contract::{
    Code, Fault, Receipt, RequestId, RunId,
    thread::{Message, Role, SyncedFile, TaskThread, TurnResult},
};
use threadline_files::Root;

use super::App;
use crate::{
    api::{
        TurnParams, TurnView,
        turn::{error, warnings},
    },
    sync, workspace,
};

impl App {
    /// One turn of a thread and what came of it, with all of its files as they are now.
    pub async fn turn(&self, params: &TurnParams) -> Result<TurnView, Fault> {
        let core = &self.core;
        let key = core.find(&params.thread)?;
        let record = core.records.read(&key).await?;
        let request = params.request_id.clone();
        let folder = workspace::path_of(&core.config.workspaces, &record);
        let verified = core.verified.clone();
        let look = move || {
            let mut view = recorded(&record, &request)?;
            let root = workspace::existing(&folder).ok();
            if let (Some(run), Some(root)) = (&view.run_id, &root) {
                complete(&mut view.result, &record, root, run);
            }
            let files = &mut view.result.artifacts;
            verified.mark(&folder, &key, view.run_id.as_ref(), files);
            view.folders = folders(&folder, root.as_ref(), view.run_id.as_ref());
            Ok(view)
        };
        core.blocking(look).await?
    }
}

/// What the record says of a turn.
fn recorded(record: &TaskThread, request: &RequestId) -> Result<TurnView, Fault> {
    let Some(asked) = record.turn(request) else {
        return Err(Fault::new(
            Code::TaskNotFound,
            format!("The thread has no turn `{request}`."),
        ));
    };
    let run = asked.run_id.as_ref();
    let own = |m: &&Message| {
        m.role == Role::Assistant
            && (m.request_id.as_ref() == Some(request)
                || m.request_id.is_none() && run.is_some() && m.run_id.as_ref() == run)
    };
    let answers: Vec<&Message> = record
        .context_state
        .messages
        .iter()
        .rev()
        .filter(own)
        .collect();
    Ok(TurnView {
        thread_id: record.thread_id.clone(),
        request_id: Some(request.clone()),
        run_id: asked.run_id.clone(),
        state: asked.state,
        result: asked.result.as_deref().cloned().unwrap_or_default(),
        error: error(&answers),
        warnings: warnings(&answers),
        folders: Vec::new(),
    })
}

/// The files that the turn's message does not name: the thread's own list has them while the turn is the
/// current one, and the run's receipt as long as it lies in the folder.
fn complete(result: &mut TurnResult, record: &TaskThread, root: &Root, run: &RunId) {
    if result.files <= result.artifacts.len() as u64 {
        return;
    }
    let context = &record.context_state;
    let current = context.task_association.as_ref();
    if current.is_some_and(|a| a.run_id.as_ref() == Some(run))
        && context.last_artifacts.len() as u64 == result.files
    {
        result.artifacts.clone_from(&context.last_artifacts);
        return;
    }
    let Some(receipt) = sync::receipt_of(root, run) else {
        return;
    };
    if Some(receipt.digest()) == result.receipt {
        result.artifacts = named_in(&receipt);
    }
}

fn named_in(receipt: &Receipt) -> Vec<SyncedFile> {
    let file = |artifact: &threadline_contract::Artifact| SyncedFile {
        path: artifact.path.clone(),
        size: artifact.size,
        sha256: artifact.sha256,
        content_type: artifact.content_type.clone().into_owned(),
        changed: false,
        missing: false,
    };
    receipt.files().iter().map(file).collect()
}

fn folders(folder: &Path, root: Option<&Root>, run: Option<&RunId>) -> Vec<String> {
    let moved = run.zip(root).and_then(|(run, root)| {
        let moved = root.open_dir(sync::moved_folder(run)).ok()?;
        Some(moved.path().display().to_string())
    });
    let mut folders = vec![folder.display().to_string()];
    folders.extend(moved);
    folders
}
