//! Turns that wait, and what a person does with one of them.

use threadline_contract::{
    Code, Fault, Millis, RequestId,
    thread::{Lifecycle, Message, Role, TaskThread, TurnState},
};

use super::{leave, mark, stopped, title};

/// Drops one turn that waits. The run that goes on, and the turns beside it, are not touched.
pub(crate) fn drop_turn(
    record: &mut TaskThread,
    request: &RequestId,
    now: Millis,
) -> Result<(), Fault> {
    let at = position(record, request)?;
    record.context_state.queued_turns.remove(at);
    mark(record, request, TurnState::Dropped);
    let last = record.context_state.queued_turns.is_empty();
    if record.lifecycle_state.status == Lifecycle::Queued && last {
        stopped(record)?;
        leave(record, None, &[], now);
    }
    Ok(())
}

/// Gives one turn that waits other words.
pub(crate) fn edit_turn(
    record: &mut TaskThread,
    request: &RequestId,
    prompt: &str,
) -> Result<(), Fault> {
    let at = position(record, request)?;
    let context = &mut record.context_state;
    prompt.clone_into(&mut context.queued_turns[at].prompt);
    let own = |m: &Message| m.role == Role::User && m.request_id.as_ref() == Some(request);
    let Some(place) = context.messages.iter().rposition(own) else {
        return Ok(());
    };
    prompt.clone_into(&mut context.messages[place].text);
    let first = context.messages.iter().position(|m| m.role == Role::User);
    if first == Some(place) {
        record.title = title(prompt);
    }
    Ok(())
}

/// Drops every turn that waits.
pub(super) fn drop_all(record: &mut TaskThread) {
    let context = &mut record.context_state;
    context.queued_turns.clear();
    for message in &mut context.messages {
        if message.state == Some(TurnState::Queued) {
            message.state = Some(TurnState::Dropped);
        }
    }
}

fn position(record: &TaskThread, request: &RequestId) -> Result<usize, Fault> {
    let mut turns = record.context_state.queued_turns.iter();
    turns
        .position(|turn| turn.request_id == *request)
        .ok_or_else(|| Fault::new(Code::TurnNotWaiting, Code::TurnNotWaiting.advice()))
}
