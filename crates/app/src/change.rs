//! Every change of a thread's record, as a function of the record. Decides; does nothing.
//!
//! What concerns a run names the request that it was sent with: an answer that comes after the
//! thread has moved on, or after the user stopped the run, changes nothing.

use threadline_contract::{
    ArtifactScope, Code, Fault, Millis, RequestId, ResultCode, RunId, RunStatus, Snapshot,
    thread::{
        ExecutionMode, Lifecycle, Message, Move, QueuedTurn, Role, SyncStatus, TaskAssociation,
        TaskThread,
    },
};

use crate::{
    bridge::trouble::Trouble,
    lane::Place,
    sync::Outcome,
    verdict::{self, Verdict},
};

/// Characters of a title.
const TITLE: usize = 32;

/// The first words of a message, as the thread's title.
pub(crate) fn title(prompt: &str) -> String {
    let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(TITLE).collect();
    if line.chars().count() > TITLE {
        short.truncate(short.trim_end().len());
        short.push('…');
    }
    short
}

/// Refuses what an archived thread does not take.
pub(crate) fn not_archived(record: &TaskThread) -> Result<(), Fault> {
    match record.lifecycle_state.status {
        Lifecycle::Archived => Lifecycle::Archived.after(Move::Wait).map(drop),
        _ => Ok(()),
    }
}

/// The user asked for a turn.
pub(crate) fn asked(record: &mut TaskThread, turn: QueuedTurn, place: Place) -> Result<(), Fault> {
    not_archived(record)?;
    say(record, Role::User, &turn.prompt, turn.queued_at_ms);
    record.context_state.queued_turns.push(turn);
    if place == Place::Wait && record.lifecycle_state.status == Lifecycle::Ready {
        wait(record)?;
    }
    Ok(())
}

/// The lane and its queue are full: the turn is not taken, and the thread says so. One that is busy
/// goes on as it is.
pub(crate) fn turned_away(record: &mut TaskThread, turn: &QueuedTurn, fault: &Fault) {
    if record.lifecycle_state.status != Lifecycle::Ready {
        return;
    }
    say(record, Role::User, &turn.prompt, turn.queued_at_ms);
    fail(record, ResultCode::Code(fault.code), &fault.message);
}

/// The turn starts. `None`: it was dropped meanwhile.
pub(crate) fn begin(
    record: &mut TaskThread,
    request: &RequestId,
    now: Millis,
) -> Result<Option<QueuedTurn>, Fault> {
    let context = &mut record.context_state;
    let Some(at) = context
        .queued_turns
        .iter()
        .position(|t| t.request_id == *request)
    else {
        return Ok(None);
    };
    record.lifecycle_state.status = record.lifecycle_state.status.after(Move::Start)?;
    let turn = context.queued_turns.remove(at);
    // The session is the runtime's; a new run on it does not change it.
    let session_key = context.task_association.take().and_then(|a| a.session_key);
    context.task_association = Some(TaskAssociation {
        app_thread_key: record.thread_id.clone(),
        request_id: request.clone(),
        run_id: None,
        session_key,
        artifact_scope: None,
        started_at_ms: now,
        last_event_id: 0,
        cancel_requested: false,
        usage: None,
    });
    record.lifecycle_state.last_run_at_ms = Some(now);
    unsettle(record, SyncStatus::Running);
    Ok(Some(turn))
}

/// The run was announced: it can be asked for by these from now on.
pub(crate) fn announced(
    record: &mut TaskThread,
    request: &RequestId,
    run: &RunId,
    scope: Option<&ArtifactScope>,
    asked_at: Millis,
) {
    let Some(association) = current(record, request) else {
        return;
    };
    if association.run_id.as_ref() != Some(run) {
        association.run_id = Some(run.clone());
        association.artifact_scope = None;
    }
    // The first word stands: a later one cannot move the run to another folder.
    if association.artifact_scope.is_none() {
        association.artifact_scope = scope.cloned();
    }
    let messages = record.context_state.messages.iter_mut().rev();
    let mut own = messages.filter(|m| m.role == Role::User && m.timestamp_ms == asked_at);
    if let Some(message) = own.next() {
        message.run_id = Some(run.clone());
    }
}

/// A running handle: what it says about the run, and nothing about its end.
pub(crate) fn handle(
    record: &mut TaskThread,
    request: &RequestId,
    snapshot: &Snapshot,
    asked_at: Millis,
) {
    let scope = Some(&snapshot.artifact_scope);
    announced(record, request, &snapshot.run_id, scope, asked_at);
    identify(record, request, snapshot);
}

/// How far the log was read.
pub(crate) fn heard_until(record: &mut TaskThread, request: &RequestId, id: i64) {
    if let Some(association) = current(record, request) {
        association.last_event_id = association.last_event_id.max(id);
    }
}

/// The registry has ended the run; its result follows. Execution is over with it.
pub(crate) fn ended_early(
    record: &mut TaskThread,
    request: &RequestId,
    status: RunStatus,
    code: Option<Code>,
) -> Result<(), Fault> {
    if !status.is_terminal() || !going_on(record, request) {
        return Ok(());
    }
    let sync = match status {
        RunStatus::Completed => SyncStatus::Syncing,
        other => verdict::without_success(other),
    };
    record.context_state.last_artifact_sync_status = Some(sync);
    end(record, verdict::code(status, code))
}

/// The result of a run. `false`: it does not concern the thread any more.
pub(crate) fn ended(
    record: &mut TaskThread,
    request: &RequestId,
    snapshot: &Snapshot,
    verdict: &Verdict,
    asked_at: Millis,
    now: Millis,
) -> Result<bool, Fault> {
    if current(record, request).is_none_or(|a| a.cancel_requested) {
        return Ok(false);
    }
    handle(record, request, snapshot, asked_at);
    for (text, error) in [(&verdict.text, false), (&verdict.error, true)] {
        if let Some(text) = text {
            answer(record, &snapshot.run_id, text, error, now);
        }
    }
    let context = &mut record.context_state;
    context.last_artifact_sync_status = Some(verdict.sync);
    context.last_artifact_sync_detail = verdict.detail.clone();
    if verdict.sync != SyncStatus::Syncing {
        context.last_artifact_sync_at_ms = Some(now);
        context.last_task_artifact_relative_paths.clear();
        context.last_artifacts.clear();
        context.last_omitted = snapshot
            .artifacts
            .as_ref()
            .map(|set| set.omitted.clone())
            .unwrap_or_default();
        context.last_omitted.extend(verdict.left.iter().cloned());
    }
    end(record, verdict.code)?;
    Ok(true)
}

/// The run can no longer be heard, or was refused. It is over for the thread; if it goes on at the
/// bridge, `sync` brings its result.
pub(crate) fn lost(
    record: &mut TaskThread,
    request: &RequestId,
    trouble: &Trouble,
    now: Millis,
) -> Result<(), Fault> {
    if current(record, request).is_none_or(|a| a.cancel_requested) {
        return Ok(());
    }
    let context = &mut record.context_state;
    context.last_artifact_sync_status = Some(SyncStatus::Failed);
    context.last_artifact_sync_detail = Some(format!("{}: {}", trouble.code, trouble.message));
    context.last_artifact_sync_at_ms = Some(now);
    let run = current(record, request).and_then(|a| a.run_id.clone());
    record.context_state.messages.push(Message {
        role: Role::Assistant,
        text: trouble.message.clone(),
        timestamp_ms: now,
        run_id: run,
        error: true,
    });
    end(record, trouble.code)
}

/// A turn that could not even be sent.
pub(crate) fn unsent(
    record: &mut TaskThread,
    request: &RequestId,
    fault: &Fault,
) -> Result<(), Fault> {
    record
        .context_state
        .queued_turns
        .retain(|t| t.request_id != *request);
    if matches!(
        record.lifecycle_state.status,
        Lifecycle::Running | Lifecycle::Queued
    ) {
        record.lifecycle_state.status = record.lifecycle_state.status.after(Move::End)?;
    }
    fail(record, ResultCode::Code(fault.code), &fault.message);
    if !record.context_state.queued_turns.is_empty() {
        wait(record)?;
    }
    Ok(())
}

/// The user stops the thread: the run that goes on, and every turn that waits. Tells whether a run
/// must be stopped at the bridge.
pub(crate) fn aborted(record: &mut TaskThread, now: Millis) -> Result<bool, Fault> {
    let status = record.lifecycle_state.status;
    if status == Lifecycle::Ready {
        return Err(Fault::invalid("The thread has no run to stop."));
    }
    record.lifecycle_state.status = status.after(Move::End)?;
    let context = &mut record.context_state;
    context.queued_turns.clear();
    let running = status == Lifecycle::Running;
    if let Some(association) = context.task_association.as_mut().filter(|_| running) {
        association.cancel_requested = true;
    }
    context.last_artifact_sync_status = Some(SyncStatus::NoArtifacts);
    context.last_artifact_sync_detail = None;
    context.last_artifact_sync_at_ms = Some(now);
    context.last_task_artifact_relative_paths.clear();
    context.last_artifacts.clear();
    context.last_omitted.clear();
    record.lifecycle_state.last_result_code = Some(ResultCode::Aborted);
    Ok(running)
}

/// The thread goes on with the run that it had given up on.
pub(crate) fn resumed(record: &mut TaskThread, request: &RequestId) -> Result<(), Fault> {
    if current(record, request).is_none_or(|a| a.cancel_requested) {
        return Err(Fault::invalid("The thread has another run by now."));
    }
    record.lifecycle_state.status = record.lifecycle_state.status.after(Move::Start)?;
    unsettle(record, SyncStatus::Running);
    Ok(())
}

/// The files of a run are being brought again.
pub(crate) fn syncing(record: &mut TaskThread, request: &RequestId) {
    if current(record, request).is_some() {
        record.context_state.last_artifact_sync_status = Some(SyncStatus::Syncing);
        record.context_state.last_artifact_sync_detail = None;
    }
}

/// What came of bringing a run's files. `false`: the thread has another run by now.
pub(crate) fn synced(
    record: &mut TaskThread,
    request: &RequestId,
    outcome: &Outcome,
    now: Millis,
) -> bool {
    if current(record, request).is_none_or(|a| a.cancel_requested) {
        return false;
    }
    let context = &mut record.context_state;
    context.last_artifact_sync_status = Some(outcome.status);
    context.last_artifact_sync_detail = outcome.detail.clone();
    context.last_artifact_sync_at_ms = Some(now);
    context.last_task_artifact_relative_paths =
        outcome.files.iter().map(|f| f.path.clone()).collect();
    context.last_artifacts = outcome.files.clone();
    context.last_omitted = outcome.omitted.clone();
    true
}

/// The next turn begins a new session.
pub(crate) fn forget_session(record: &mut TaskThread) {
    record.context_state.task_association = None;
}

fn current<'a>(record: &'a mut TaskThread, request: &RequestId) -> Option<&'a mut TaskAssociation> {
    let association = record.context_state.task_association.as_mut();
    association.filter(|a| a.request_id == *request)
}

fn going_on(record: &mut TaskThread, request: &RequestId) -> bool {
    record.lifecycle_state.status == Lifecycle::Running && current(record, request).is_some()
}

fn identify(record: &mut TaskThread, request: &RequestId, snapshot: &Snapshot) {
    let Some(association) = current(record, request) else {
        return;
    };
    association.session_key = Some(snapshot.session_key.clone());
    if let Some(usage) = snapshot.usage {
        association.usage = Some(usage.into());
    }
    record.execution_binding.execution_mode = match snapshot.runtime.target() {
        "gateway" => ExecutionMode::Gateway,
        _ => ExecutionMode::Agent,
    };
    record.execution_binding.runtime = Some(snapshot.runtime.clone());
}

/// Ends the run that goes on. A turn that waits behind it keeps the thread from being at rest.
fn end(record: &mut TaskThread, code: ResultCode) -> Result<(), Fault> {
    let state = &mut record.lifecycle_state;
    if state.status == Lifecycle::Running {
        state.status = state.status.after(Move::End)?;
        state.last_result_code = Some(code);
        if !record.context_state.queued_turns.is_empty() {
            return wait(record);
        }
    } else if state.status != Lifecycle::Queued {
        state.last_result_code = Some(code);
    }
    Ok(())
}

fn wait(record: &mut TaskThread) -> Result<(), Fault> {
    record.lifecycle_state.status = record.lifecycle_state.status.after(Move::Wait)?;
    unsettle(record, SyncStatus::Queued);
    Ok(())
}

/// What the last run left does not stand for the one that begins.
fn unsettle(record: &mut TaskThread, sync: SyncStatus) {
    record.lifecycle_state.last_result_code = None;
    let context = &mut record.context_state;
    context.last_artifact_sync_status = Some(sync);
    context.last_artifact_sync_detail = None;
    context.last_task_artifact_relative_paths.clear();
    context.last_artifacts.clear();
    context.last_omitted.clear();
}

fn fail(record: &mut TaskThread, code: ResultCode, message: &str) {
    let now = Millis::now();
    record.lifecycle_state.last_result_code = Some(code);
    let context = &mut record.context_state;
    context.last_artifact_sync_status = Some(SyncStatus::Failed);
    context.last_artifact_sync_detail = Some(format!("{code}: {message}"));
    context.last_artifact_sync_at_ms = Some(now);
    context.last_task_artifact_relative_paths.clear();
    context.last_artifacts.clear();
    context.last_omitted.clear();
    context.messages.push(Message {
        role: Role::Assistant,
        text: message.to_owned(),
        timestamp_ms: now,
        run_id: None,
        error: true,
    });
}

fn say(record: &mut TaskThread, role: Role, text: &str, at: Millis) {
    record.context_state.messages.push(Message {
        role,
        text: text.to_owned(),
        timestamp_ms: at,
        run_id: None,
        error: false,
    });
}

/// A run's answer, once: the same result may be told again after a restart.
fn answer(record: &mut TaskThread, run: &RunId, text: &str, error: bool, now: Millis) {
    let messages = &mut record.context_state.messages;
    let told = messages.iter().any(|m| {
        m.role == Role::Assistant
            && m.run_id.as_ref() == Some(run)
            && m.error == error
            && m.text == text
    });
    if !told {
        messages.push(Message {
            role: Role::Assistant,
            text: text.to_owned(),
            timestamp_ms: now,
            run_id: Some(run.clone()),
            error,
        });
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
