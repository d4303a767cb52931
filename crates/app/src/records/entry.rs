//! What the index knows about a thread: the fields of a list, and where its record stood.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use threadline_contract::{
    Millis, ResultCode,
    thread::{ExecutionMode, Lifecycle, SyncedFile, TaskThread},
};
use threadline_files::Stamp;

use crate::api::Summary;

/// Characters of a reason in a list.
const REASON: usize = 300;

/// One thread in the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// The bridge.
    pub(crate) endpoint: String,
    /// Agent or gateway.
    pub(crate) mode: ExecutionMode,
    /// When the last sync ended.
    pub(crate) synced_at_ms: Option<Millis>,
    /// The record that this was made from.
    pub(crate) stamp: Stamp,
}

impl Entry {
    /// Takes from a record what a list shows.
    pub(crate) fn of(record: &TaskThread, stamp: Stamp) -> Self {
        let context = &record.context_state;
        let (earlier_files, earlier_bytes) = earlier(record);
        Self {
            summary: Summary {
                thread_id: record.thread_id.clone(),
                name: record.name.clone(),
                title: record.title.clone(),
                lifecycle_status: record.lifecycle_state.status,
                last_result_code: record.lifecycle_state.last_result_code,
                last_artifact_sync_status: context.last_artifact_sync_status,
                runtime: record.execution_binding.runtime.clone(),
                updated_at_ms: record.updated_at_ms,
                last_run_at_ms: record.lifecycle_state.last_run_at_ms,
                files: u32::try_from(context.last_artifacts.len()).unwrap_or(u32::MAX),
                bytes: context.last_artifacts.iter().map(|f| f.size).sum(),
                earlier_files,
                earlier_bytes,
                files_now: None,
                open_questions: 0,
                queued_turns: u32::try_from(context.queued_turns.len()).unwrap_or(u32::MAX),
                queue: None,
                reason: reason(record),
                away: is_unheard(record),
            },
            endpoint: record.execution_binding.endpoint_id.clone(),
            mode: record.execution_binding.execution_mode,
            synced_at_ms: context.last_artifact_sync_at_ms,
            stamp,
        }
    }
}

/// How many files the turns delivered that the thread's own list is not of, and how many bytes. A file that a
/// later run delivered again, as it was, is one.
fn earlier(record: &TaskThread) -> (u64, u64) {
    let context = &record.context_state;
    let association = context.task_association.as_ref();
    let listed = association.filter(|_| !context.last_artifacts.is_empty());
    let others = context.messages.iter();
    let others = others.filter(|m| m.request_id.as_ref() != listed.map(|a| &a.request_id));
    let identity = |file: &SyncedFile| (file.path.clone(), file.sha256);
    let mut seen: HashSet<_> = context.last_artifacts.iter().map(identity).collect();
    let (mut files, mut bytes) = (0, 0);
    for result in others.filter_map(|m| m.result.as_ref()) {
        let again = result
            .artifacts
            .iter()
            .filter(|file| !seen.insert(identity(file)));
        let (again, again_bytes) =
            again.fold((0, 0), |(n, bytes), file| (n + 1, bytes + file.size));
        files += result.files.saturating_sub(again);
        bytes += result.bytes.saturating_sub(again_bytes);
    }
    (files, bytes)
}

/// Whether a run was handed over and its bridge has not said yet that it has it.
fn is_unheard(record: &TaskThread) -> bool {
    let task = record.context_state.task_association.as_ref();
    record.lifecycle_state.status == Lifecycle::Running && task.is_some_and(|t| t.run_id.is_none())
}

/// Why the last run did not succeed: what the transcript says last, where that is an error.
fn reason(record: &TaskThread) -> Option<String> {
    let code = record.lifecycle_state.last_result_code?;
    if matches!(code, ResultCode::Success | ResultCode::Aborted) {
        return None;
    }
    let last = record.context_state.messages.last()?;
    let text = last.text.trim();
    if !last.error || text.is_empty() {
        return None;
    }
    let mut short: String = text.chars().take(REASON).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    Some(short)
}
