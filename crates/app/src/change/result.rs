//! What came of each turn: kept with its message, and in the thread's own fields while it is the thread's
//! current one and the thread is at rest.

use threadline_contract::{
    RequestId,
    thread::{Lifecycle, MAX_TURN_FILES, Message, Role, SyncedFile, TaskThread, TurnResult},
};

use crate::bridge::snapshot::Snapshot;

/// Changes what came of a turn, everywhere the record says it. `false`: the record knows no such turn.
pub(super) fn set(
    record: &mut TaskThread,
    request: &RequestId,
    change: impl Fn(&mut TurnResult),
) -> bool {
    let known = set_in_message(record, request, &change);
    let current = is_current_at_rest(record, request);
    if current {
        set_in_thread(record, change);
    }
    known || current
}

/// Changes what came of a turn in its message alone.
pub(super) fn set_in_message(
    record: &mut TaskThread,
    request: &RequestId,
    change: impl Fn(&mut TurnResult),
) -> bool {
    let Some(message) = message_of(record, request) else {
        return false;
    };
    let result = message.result.get_or_insert_default();
    change(result);
    result.artifacts.truncate(MAX_TURN_FILES);
    result.omitted.truncate(MAX_TURN_FILES);
    true
}

/// Changes what the thread's own fields say of its current turn.
pub(super) fn set_in_thread(record: &mut TaskThread, change: impl FnOnce(&mut TurnResult)) {
    let mut result = of_thread(record);
    change(&mut result);
    put_in_thread(record, result);
}

/// The files of a turn, with how many there are.
pub(super) fn put_files(result: &mut TurnResult, files: &[SyncedFile]) {
    result.files = files.len() as u64;
    result.bytes = files.iter().map(|file| file.size).sum();
    result.artifacts = files.to_vec();
}

/// What a run took, as far as its result says so.
pub(super) fn put_usage(result: &mut TurnResult, snapshot: &Snapshot) {
    result.usage = snapshot.usage.or(result.usage);
    if let (Some(began), Some(ended)) = (snapshot.started_at, snapshot.ended_at) {
        result.wall_ms = Some(ended.since(began));
        result.waited_ms = snapshot.waited_ms.filter(|ms| *ms > 0);
    }
}

/// The message that asked for a turn.
pub(super) fn message_of<'a>(
    record: &'a mut TaskThread,
    request: &RequestId,
) -> Option<&'a mut Message> {
    let messages = record.context_state.messages.iter_mut().rev();
    let mut own =
        messages.filter(|m| m.role == Role::User && m.request_id.as_ref() == Some(request));
    own.next()
}

fn is_current_at_rest(record: &TaskThread, request: &RequestId) -> bool {
    let association = record.context_state.task_association.as_ref();
    let at_rest = matches!(
        record.lifecycle_state.status,
        Lifecycle::Ready | Lifecycle::Archived
    );
    at_rest && association.is_some_and(|a| a.request_id == *request)
}

/// What the thread's own fields say.
pub(crate) fn of_thread(record: &TaskThread) -> TurnResult {
    let context = &record.context_state;
    let association = context.task_association.as_ref();
    TurnResult {
        result_code: record.lifecycle_state.last_result_code,
        artifact_sync_status: context.last_artifact_sync_status,
        artifact_sync_detail: context.last_artifact_sync_detail.clone(),
        artifact_sync_at_ms: context.last_artifact_sync_at_ms,
        files: context.last_artifacts.len() as u64,
        bytes: context.last_artifacts.iter().map(|file| file.size).sum(),
        artifacts: context.last_artifacts.clone(),
        receipt: context.last_receipt,
        omitted: context.last_omitted.clone(),
        missing: context.last_missing.clone(),
        usage: association.and_then(|a| a.usage),
        wall_ms: association.and_then(|a| a.wall_ms),
        waited_ms: association.and_then(|a| a.waited_ms),
    }
}

fn put_in_thread(record: &mut TaskThread, result: TurnResult) {
    record.lifecycle_state.last_result_code = result.result_code;
    let context = &mut record.context_state;
    context.last_artifact_sync_status = result.artifact_sync_status;
    context.last_artifact_sync_detail = result.artifact_sync_detail;
    context.last_artifact_sync_at_ms = result.artifact_sync_at_ms;
    let paths = result.artifacts.iter().map(|file| file.path.clone());
    context.last_task_artifact_relative_paths = paths.collect();
    context.last_artifacts = result.artifacts;
    context.last_receipt = result.receipt;
    context.last_omitted = result.omitted;
    context.last_missing = result.missing;
}

/// Gives the turns of a record that an older version wrote their ids, and the last one its result.
pub(crate) fn take_over(record: &mut TaskThread) {
    let waiting: Vec<_> = record
        .context_state
        .queued_turns
        .iter()
        .map(|turn| (turn.request_id.clone(), turn.queued_at_ms))
        .collect();
    for (request, asked_at) in waiting {
        let messages = record.context_state.messages.iter_mut().rev();
        let mut own = messages.filter(|m| m.role == Role::User && m.timestamp_ms == asked_at);
        if let Some(message) = own.next().filter(|m| m.request_id.is_none()) {
            message.request_id = Some(request);
        }
    }
    let Some(association) = &record.context_state.task_association else {
        return;
    };
    let (request, run) = (association.request_id.clone(), association.run_id.clone());
    if record.turn(&request).is_some() {
        return;
    }
    let result = record
        .lifecycle_state
        .last_result_code
        .map(|_| of_thread(record));
    let messages = record.context_state.messages.iter_mut().rev();
    let mut unknown = messages.filter(|m| m.role == Role::User && m.request_id.is_none());
    let own = unknown.find(|m| run.is_none() || m.run_id == run);
    if let Some(message) = own {
        message.request_id = Some(request.clone());
    }
    if let Some(result) = result {
        set_in_message(record, &request, |own| *own = result.clone());
    }
}
