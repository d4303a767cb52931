//! The transcript of a thread's record: what was asked and said, and how each turn stands.

use threadline_contract::{
    Millis, RequestId, ResultCode, RunId, RunStatus,
    thread::{Message, QueuedTurn, Role, TaskThread, TurnState},
};

use super::result;
use crate::{bridge::snapshot::Snapshot, verdict::Verdict};

pub(super) fn ask(record: &mut TaskThread, turn: &QueuedTurn, state: TurnState) {
    record.context_state.messages.push(Message {
        state: Some(state),
        ..message(
            Role::User,
            &turn.request_id,
            &turn.prompt,
            turn.queued_at_ms,
        )
    });
}

/// A turn stands so from here on; what came of one that begins anew is to be seen.
pub(super) fn mark(record: &mut TaskThread, request: &RequestId, state: TurnState) {
    if let Some(message) = result::message_of(record, request) {
        message.state = Some(state);
        if state == TurnState::Running {
            message.result = None;
        }
    }
}

/// What became of the turn that was running.
pub(super) fn settle(record: &mut TaskThread, code: ResultCode) {
    for message in &mut record.context_state.messages {
        if message.state == Some(TurnState::Running) {
            message.state = Some(state_of(code));
        }
    }
}

pub(super) fn state_of(code: ResultCode) -> TurnState {
    match code {
        ResultCode::Success => TurnState::Done,
        code if code.is_cancelled() => TurnState::Cancelled,
        _ => TurnState::Failed,
    }
}

/// What a run said goes into the transcript; a run that did not come to its end has said only a part.
pub(super) fn said(
    record: &mut TaskThread,
    request: &RequestId,
    snapshot: &Snapshot,
    verdict: &Verdict,
    now: Millis,
) {
    let text = match &verdict.text {
        Some(text) => text,
        // What is missing may be all of it.
        None if !snapshot.warnings.is_empty() => "",
        None => return,
    };
    let said = Message {
        unfinished: is_cut(snapshot),
        warnings: snapshot.warnings.clone(),
        ..of_run(request, &snapshot.run_id, text, now)
    };
    answer(record, said);
}

/// Whether a run ended before it came to its end.
pub(super) fn is_cut(snapshot: &Snapshot) -> bool {
    matches!(snapshot.status, RunStatus::Failed | RunStatus::Cancelled)
}

pub(super) fn of_run(request: &RequestId, run: &RunId, text: &str, now: Millis) -> Message {
    Message {
        run_id: Some(run.clone()),
        ..message(Role::Assistant, request, text, now)
    }
}

pub(super) fn message(role: Role, request: &RequestId, text: &str, now: Millis) -> Message {
    Message {
        role,
        text: text.to_owned(),
        timestamp_ms: now,
        run_id: None,
        error: false,
        unfinished: false,
        warnings: vec![],
        state: None,
        request_id: Some(request.clone()),
        result: None,
    }
}

/// A run's answer, once: the same result may be told again, early or after a restart.
pub(super) fn answer(record: &mut TaskThread, message: Message) {
    let messages = &mut record.context_state.messages;
    let told = messages.iter().any(|m| {
        m.role == message.role
            && m.run_id == message.run_id
            && m.error == message.error
            && m.text == message.text
    });
    if !told {
        messages.push(message);
    }
}
