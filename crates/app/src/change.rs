//! Every change of a thread's record, as a function of the record. Decides; does nothing.
//!
//! What concerns a run names the request that it was sent with: an answer that comes after the
//! thread has moved on, or after the user stopped the run, changes nothing.

pub(crate) mod result;
mod transcript;
mod waiting;

use threadline_contract::{
    ArtifactScope, Code, Fault, Millis, Omitted, Question, QuestionState, RequestId, ResultCode,
    RunId, RunStatus,
    thread::{
        CLOSED_QUESTIONS, ExecutionMode, Lifecycle, Message, Move, QueuedTurn, Role, SyncStatus,
        TaskAssociation, TaskThread, TurnResult, TurnState,
    },
};

use crate::{
    bridge::{snapshot::Snapshot, trouble::Trouble},
    lane::Place,
    sync::Outcome,
    verdict::{self, Verdict},
};

pub(crate) use self::waiting::{drop_turn, edit_turn};
use self::{
    result::put_usage,
    transcript::{answer, ask, is_cut, mark, message, of_run, said, settle, state_of},
};

/// What becomes of the turns that wait when the run before them is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// They are dropped as well.
    Dropped,
    /// They go on.
    Kept,
}

/// Characters of a title.
const TITLE: usize = 200;

/// The first line of a message, as the thread's title. Whoever shows it cuts it to their own size.
pub(crate) fn title(prompt: &str) -> String {
    let line = prompt.lines().find(|line| !line.trim().is_empty());
    let words = line.unwrap_or_default().split_whitespace();
    let line = words.collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(TITLE).collect();
    if short.len() < line.len() {
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
    ask(record, &turn, TurnState::Queued);
    record.context_state.queued_turns.push(turn);
    if place == Place::Wait && record.lifecycle_state.status == Lifecycle::Ready {
        wait(record)?;
    }
    Ok(())
}

/// The lane and its queue are full: the turn is not taken, and the thread says so, so that it can be
/// tried again. `false`: the thread is busy, goes on as it is, and knows nothing of it.
pub(crate) fn turned_away(record: &mut TaskThread, turn: &QueuedTurn, fault: &Fault) -> bool {
    if record.lifecycle_state.status != Lifecycle::Ready {
        return false;
    }
    ask(record, turn, TurnState::Failed);
    associate(record, &turn.request_id, turn.queued_at_ms);
    fail(record, &turn.request_id, fault);
    true
}

/// The thread's current request is this one now; no run is known yet.
fn associate(record: &mut TaskThread, request: &RequestId, now: Millis) {
    let context = &mut record.context_state;
    // The session is the runtime's; a new run on it changes neither it nor where it works.
    let before = context.task_association.take();
    let (session_key, remote_working_directory) = before
        .map(|a| (a.session_key, a.remote_working_directory))
        .unwrap_or_default();
    context.task_association = Some(TaskAssociation {
        app_thread_key: record.thread_id.clone(),
        request_id: request.clone(),
        run_id: None,
        session_key,
        remote_working_directory,
        artifact_scope: None,
        started_at_ms: now,
        last_event_id: 0,
        cancel_requested: false,
        usage: None,
        wall_ms: None,
        waited_ms: None,
    });
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
    associate(record, request, now);
    record.lifecycle_state.last_run_at_ms = Some(now);
    mark(record, request, TurnState::Running);
    unsettle(record, SyncStatus::Running);
    Ok(Some(turn))
}

/// The run was announced: it can be asked for by these from now on.
pub(crate) fn announced(
    record: &mut TaskThread,
    request: &RequestId,
    run: &RunId,
    scope: Option<&ArtifactScope>,
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
    if let Some(message) = result::message_of(record, request) {
        message.run_id = Some(run.clone());
    }
}

/// A running handle: what it says about the run, and nothing about its end.
pub(crate) fn handle(record: &mut TaskThread, request: &RequestId, snapshot: &Snapshot) {
    let scope = snapshot.artifact_scope.as_ref();
    announced(record, request, &snapshot.run_id, scope);
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
    if stopping(record) {
        return stopped(record);
    }
    let code = verdict::code(status, code);
    settle(record, code);
    end(record)?;
    // What became of its files, also of those that are not taken, is known with the result.
    result::set(record, request, |result| {
        result.result_code = Some(code);
        result.artifact_sync_status = Some(SyncStatus::Syncing);
    });
    Ok(())
}

/// What a run that succeeded answered, while its files are still being looked at.
pub(crate) fn answered(
    record: &mut TaskThread,
    request: &RequestId,
    snapshot: &Snapshot,
    now: Millis,
) {
    let own = current(record, request).is_some_and(|a| !a.cancel_requested);
    let text = snapshot
        .text
        .as_deref()
        .filter(|text| !text.trim().is_empty());
    if let Some(text) = text.filter(|_| own && snapshot.status == RunStatus::Completed) {
        answer(record, of_run(request, &snapshot.run_id, text, now));
    }
}

/// The result of a run. `false`: it does not concern the thread any more.
pub(crate) fn ended(
    record: &mut TaskThread,
    request: &RequestId,
    snapshot: &Snapshot,
    verdict: &Verdict,
    now: Millis,
) -> Result<bool, Fault> {
    if current(record, request).is_none() {
        return Ok(false);
    }
    if current(record, request).is_some_and(|a| a.cancel_requested) {
        // Its words are kept as far as they came. What one that went on to its end said is not wanted.
        if is_cut(snapshot) {
            said(record, request, snapshot, verdict, now);
        }
        if stopping(record) {
            stopped(record)?;
        }
        result::set_in_message(record, request, |result| put_usage(result, snapshot));
        leave(record, Some(request), &not_brought(snapshot, verdict), now);
        return Ok(false);
    }
    handle(record, request, snapshot);
    mark(record, request, state_of(verdict.code));
    settle(record, verdict.code);
    said(record, request, snapshot, verdict, now);
    if let Some(error) = &verdict.error {
        let error = Message {
            error: true,
            ..of_run(request, &snapshot.run_id, error, now)
        };
        answer(record, error);
    }
    end(record)?;
    result::set(record, request, |result| {
        result.result_code = Some(verdict.code);
        result.artifact_sync_status = Some(verdict.sync);
        result.artifact_sync_detail.clone_from(&verdict.detail);
        result.missing.clone_from(&snapshot.missing);
        put_usage(result, snapshot);
        if verdict.sync != SyncStatus::Syncing {
            result.artifact_sync_at_ms = Some(now);
            result::put_files(result, &[]);
            result.receipt = None;
            result.omitted = not_brought(snapshot, verdict);
        }
    });
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
    if current(record, request).is_none() {
        return Ok(());
    }
    if current(record, request).is_some_and(|a| a.cancel_requested) {
        // Nobody will hear that it stopped. The user does not want it either way.
        if stopping(record) {
            stopped(record)?;
        }
        leave(record, Some(request), &[], now);
        return Ok(());
    }
    let run = current(record, request).and_then(|a| a.run_id.clone());
    record.context_state.messages.push(Message {
        run_id: run,
        error: true,
        ..message(Role::Assistant, request, &trouble.message, now)
    });
    settle(record, trouble.code);
    end(record)?;
    result::set(record, request, |result| {
        result.result_code = Some(trouble.code);
        result.artifact_sync_status = Some(SyncStatus::Failed);
        result.artifact_sync_detail = Some(format!("{}: {}", trouble.code, trouble.message));
        result.artifact_sync_at_ms = Some(now);
    });
    Ok(())
}

/// A turn that could not even be sent.
pub(crate) fn unsent(
    record: &mut TaskThread,
    request: &RequestId,
    fault: &Fault,
) -> Result<(), Fault> {
    let turns = &mut record.context_state.queued_turns;
    let at = turns.iter().position(|t| t.request_id == *request);
    if let Some(turn) = at.map(|at| turns.remove(at)) {
        mark(record, request, TurnState::Failed);
        associate(record, request, turn.queued_at_ms);
    }
    settle(record, ResultCode::Code(fault.code));
    if matches!(
        record.lifecycle_state.status,
        Lifecycle::Running | Lifecycle::Queued
    ) {
        record.lifecycle_state.status = record.lifecycle_state.status.after(Move::End)?;
    }
    fail(record, request, fault);
    if !record.context_state.queued_turns.is_empty() {
        wait(record)?;
    }
    Ok(())
}

/// The user wants the run to stop, and its bridge can be asked: the run goes on until it is known to
/// have stopped.
pub(crate) fn stop_asked(record: &mut TaskThread, waiting: Waiting) {
    if waiting == Waiting::Dropped {
        waiting::drop_all(record);
    }
    if let Some(association) = record.context_state.task_association.as_mut() {
        association.cancel_requested = true;
    }
}

/// The user stops the thread, and its bridge cannot be asked now or has nothing to stop. Tells whether a
/// run must be stopped at the bridge.
pub(crate) fn aborted(
    record: &mut TaskThread,
    waiting: Waiting,
    now: Millis,
) -> Result<bool, Fault> {
    let status = record.lifecycle_state.status;
    if status == Lifecycle::Ready {
        return Err(Fault::invalid("The thread has no run to cancel."));
    }
    if waiting == Waiting::Dropped {
        waiting::drop_all(record);
    }
    let running = status == Lifecycle::Running;
    if running {
        stop_asked(record, waiting);
    }
    let request = current_request(record).filter(|_| running);
    stopped(record)?;
    leave(record, request.as_ref(), &[], now);
    Ok(running)
}

/// The run that was to stop is over. What it did until then is nobody's result, and what it left is
/// known when its result is; turns that were asked for since go on.
fn stopped(record: &mut TaskThread) -> Result<(), Fault> {
    let running = record.lifecycle_state.status == Lifecycle::Running;
    let request = current_request(record).filter(|_| running);
    record.lifecycle_state.status = record.lifecycle_state.status.after(Move::End)?;
    settle(record, ResultCode::Aborted);
    let aborted = TurnResult {
        result_code: Some(ResultCode::Aborted),
        artifact_sync_status: Some(SyncStatus::Syncing),
        ..TurnResult::default()
    };
    if let Some(request) = request {
        result::set_in_message(record, &request, |result| *result = aborted.clone());
    }
    result::set_in_thread(record, |result| {
        *result = TurnResult {
            artifact_sync_at_ms: result.artifact_sync_at_ms,
            ..aborted
        };
    });
    match record.context_state.queued_turns.is_empty() {
        true => Ok(()),
        false => wait(record),
    }
}

/// What a run that was stopped left, if it is asked for still: it is named, and none of it is brought.
fn leave(record: &mut TaskThread, request: Option<&RequestId>, left: &[Omitted], now: Millis) {
    let leave = |result: &mut TurnResult| {
        if result.artifact_sync_status == Some(SyncStatus::Syncing) {
            result.artifact_sync_status = Some(SyncStatus::NoArtifacts);
            result.artifact_sync_at_ms = Some(now);
            result.omitted = left.to_vec();
        }
    };
    if let Some(request) = request {
        result::set_in_message(record, request, leave);
    }
    result::set_in_thread(record, leave);
}

/// What a run that was cancelled left, as its bridge says now.
pub(crate) fn left(record: &mut TaskThread, request: &RequestId, left: Vec<Omitted>, now: Millis) {
    let at_rest = record.lifecycle_state.status == Lifecycle::Ready;
    if at_rest && current(record, request).is_some_and(|a| a.cancel_requested) {
        result::set(record, request, |result| {
            result.artifact_sync_status = Some(SyncStatus::NoArtifacts);
            if result.omitted != left {
                result.artifact_sync_at_ms = Some(now);
                result.omitted.clone_from(&left);
            }
        });
    }
}

/// What there is of a run of which nothing is brought.
pub(crate) fn left_of(told: &verdict::Told) -> Vec<Omitted> {
    not_brought(&told.snapshot, &verdict::verdict(told))
}

/// What the bridge did not take of a run's files, and what is not brought of those that it took.
fn not_brought(snapshot: &Snapshot, verdict: &Verdict) -> Vec<Omitted> {
    let omitted = snapshot.artifacts.iter().flat_map(|set| &set.omitted);
    omitted.chain(&verdict.left).cloned().collect()
}

/// The thread goes on with the run that it had given up on.
pub(crate) fn resumed(record: &mut TaskThread, request: &RequestId) -> Result<(), Fault> {
    if current(record, request).is_none_or(|a| a.cancel_requested) {
        return Err(Fault::invalid("The thread has another run by now."));
    }
    record.lifecycle_state.status = record.lifecycle_state.status.after(Move::Start)?;
    mark(record, request, TurnState::Running);
    unsettle(record, SyncStatus::Running);
    Ok(())
}

/// A question of a run was answered or ended otherwise. It stays in the record, once.
pub(crate) fn question_closed(record: &mut TaskThread, question: &Question) {
    let closed = &mut record.context_state.closed_questions;
    let known = closed.iter().any(|q| q.question_id == question.question_id);
    if question.state == QuestionState::Open || known {
        return;
    }
    closed.push(question.clone());
    let more = closed.len().saturating_sub(CLOSED_QUESTIONS);
    closed.drain(..more);
}

/// The files of a run are being brought again.
pub(crate) fn syncing(record: &mut TaskThread, request: &RequestId) {
    if !is_cancelled(record, request) {
        result::set(record, request, |result| {
            result.artifact_sync_status = Some(SyncStatus::Syncing);
            result.artifact_sync_detail = None;
        });
    }
}

/// What came of bringing a run's files, also where the thread has another run by now. `false`: nobody wants
/// to know any more.
pub(crate) fn synced(
    record: &mut TaskThread,
    request: &RequestId,
    outcome: &Outcome,
    now: Millis,
) -> bool {
    if is_cancelled(record, request) {
        return false;
    }
    result::set(record, request, |result| {
        result.artifact_sync_status = Some(outcome.status);
        result.artifact_sync_detail.clone_from(&outcome.detail);
        result.artifact_sync_at_ms = Some(now);
        result::put_files(result, &outcome.files);
        result.receipt = outcome.receipt;
        result.omitted.clone_from(&outcome.omitted);
    })
}

/// Whether a result or a sync of a turn brought anything that the thread did not have: asking again does not
/// move a thread in lists.
pub(crate) fn is_news(before: &TaskThread, after: &TaskThread, request: &RequestId) -> bool {
    let lasting = |record: &TaskThread| {
        let mut result = record.result_of(request).cloned().unwrap_or_default();
        let trouble = matches!(
            result.artifact_sync_status,
            Some(SyncStatus::Partial | SyncStatus::Failed)
        );
        // What was told while nothing was missing is told again by every sync.
        result.artifact_sync_detail = result.artifact_sync_detail.filter(|_| trouble);
        result.artifact_sync_status = None;
        result.artifact_sync_at_ms = None;
        (
            record.lifecycle_state.clone(),
            record.context_state.messages.len(),
            record.context_state.last_artifacts.len(),
            result,
        )
    };
    lasting(before) != lasting(after)
}

/// The next turn begins a new session.
pub(crate) fn forget_session(record: &mut TaskThread) {
    record.context_state.task_association = None;
}

fn current<'a>(record: &'a mut TaskThread, request: &RequestId) -> Option<&'a mut TaskAssociation> {
    let association = record.context_state.task_association.as_mut();
    association.filter(|a| a.request_id == *request)
}

fn current_request(record: &TaskThread) -> Option<RequestId> {
    let association = record.context_state.task_association.as_ref();
    association.map(|a| a.request_id.clone())
}

/// Whether this is the thread's last request, and the user stopped it.
pub(crate) fn was_cancelled(record: &TaskThread, request: &RequestId) -> bool {
    let association = record.context_state.task_association.as_ref();
    association.is_some_and(|a| a.request_id == *request && a.cancel_requested)
}

/// Whether the user stopped a turn.
fn is_cancelled(record: &TaskThread, request: &RequestId) -> bool {
    let state = record.turn(request).and_then(|message| message.state);
    was_cancelled(record, request) || state == Some(TurnState::Cancelled)
}

/// Whether nothing more is wanted of the thread's last request: it ended well with all of its files, or
/// the user stopped it.
pub(crate) fn is_done_with(record: &TaskThread, request: &RequestId) -> bool {
    let association = record.context_state.task_association.as_ref();
    let well = record.result_of(request).is_some_and(|result| {
        let all_here = matches!(
            result.artifact_sync_status,
            Some(SyncStatus::Synced | SyncStatus::NoExportedArtifacts)
        );
        result.result_code == Some(ResultCode::Success) && all_here
    });
    association.is_some_and(|a| a.request_id == *request && (a.cancel_requested || well))
}

/// Whether somebody waits for the thread's run to stop.
pub(crate) fn stopping(record: &TaskThread) -> bool {
    let association = record.context_state.task_association.as_ref();
    record.lifecycle_state.status == Lifecycle::Running
        && association.is_some_and(|a| a.cancel_requested)
}

fn going_on(record: &mut TaskThread, request: &RequestId) -> bool {
    record.lifecycle_state.status == Lifecycle::Running && current(record, request).is_some()
}

fn identify(record: &mut TaskThread, request: &RequestId, snapshot: &Snapshot) {
    let Some(association) = current(record, request) else {
        return;
    };
    if let Some(session) = &snapshot.session_key {
        association.session_key = Some(session.clone());
    }
    if let Some(folder) = snapshot.session_folder() {
        association.remote_working_directory = Some(folder);
    }
    if let Some(usage) = snapshot.usage {
        association.usage = Some(usage);
    }
    if let (Some(began), Some(ended)) = (snapshot.started_at, snapshot.ended_at) {
        association.wall_ms = Some(ended.since(began));
        association.waited_ms = snapshot.waited_ms.filter(|ms| *ms > 0);
    }
    // A bridge that does not say where it runs leaves it as the thread has it.
    let Some(runtime) = &snapshot.runtime else {
        return;
    };
    record.execution_binding.execution_mode = match runtime.target() {
        "gateway" => ExecutionMode::Gateway,
        _ => ExecutionMode::Agent,
    };
    record.execution_binding.runtime = Some(runtime.clone());
}

/// Ends the run that goes on. A turn that waits behind it keeps the thread from being at rest.
fn end(record: &mut TaskThread) -> Result<(), Fault> {
    let state = &mut record.lifecycle_state;
    if state.status == Lifecycle::Running {
        state.status = state.status.after(Move::End)?;
        if !record.context_state.queued_turns.is_empty() {
            return wait(record);
        }
    }
    Ok(())
}

fn wait(record: &mut TaskThread) -> Result<(), Fault> {
    record.lifecycle_state.status = record.lifecycle_state.status.after(Move::Wait)?;
    unsettle(record, SyncStatus::Queued);
    Ok(())
}

/// What the last run left does not stand for the one that begins; it stays with its own message.
fn unsettle(record: &mut TaskThread, sync: SyncStatus) {
    result::set_in_thread(record, |result| {
        *result = TurnResult {
            artifact_sync_status: Some(sync),
            artifact_sync_at_ms: result.artifact_sync_at_ms,
            ..TurnResult::default()
        };
    });
}

/// A turn that was not taken or not sent: the thread says why.
fn fail(record: &mut TaskThread, request: &RequestId, fault: &Fault) {
    let now = Millis::now();
    let code = ResultCode::Code(fault.code);
    let failed = TurnResult {
        result_code: Some(code),
        artifact_sync_status: Some(SyncStatus::Failed),
        artifact_sync_detail: Some(format!("{code}: {}", fault.message)),
        artifact_sync_at_ms: Some(now),
        ..TurnResult::default()
    };
    result::set_in_message(record, request, |result| *result = failed.clone());
    result::set_in_thread(record, |result| *result = failed);
    record.context_state.messages.push(Message {
        error: true,
        ..message(Role::Assistant, request, &fault.message, now)
    });
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
