//! Owners and questions in the shapes of the wire, where everything is named as threads are.

use threadline_contract::{
    AppThreadKey, Millis, Owner, Question, RunId, SessionUpdate, UpdateKind,
};
use threadline_store::StoredQuestion;

/// The name of an owner.
pub(crate) fn name(owner: &Owner) -> AppThreadKey {
    owner.app_thread_key()
}

/// An owner in the middle of a sentence.
pub(crate) fn called(owner: &Owner) -> String {
    match owner.thread() {
        Some(thread) => format!("thread `{thread}`"),
        None => format!("`{owner}`"),
    }
}

/// An owner at the beginning of a sentence.
pub(crate) fn at_beginning(owner: &Owner) -> String {
    match owner.thread() {
        Some(thread) => format!("Thread `{thread}`"),
        None => format!("`{owner}`"),
    }
}

/// An update of a run that says only that something happened.
pub(crate) fn update(
    owner: &Owner,
    run: &RunId,
    kind: UpdateKind,
    event: &str,
    at: Millis,
) -> SessionUpdate {
    SessionUpdate::new(&name(owner), run, kind, event, at)
}

/// A question.
pub(crate) fn question(question: &StoredQuestion) -> Question {
    let question = question.clone();
    Question {
        question_id: question.id,
        thread_id: name(&question.owner),
        run_id: question.run,
        kind: question.kind,
        text: question.text,
        options: question.options,
        free_text: question.free_text,
        tool: question.tool,
        state: question.state,
        asked_at: question.asked_at,
        closed_at: question.closed_at,
        answer: question.answer,
        closed_by: question.closed_by,
        closed_by_principal: question.closed_by_principal,
    }
}
