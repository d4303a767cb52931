//! The conversation, turn by turn: what was asked, a place for the steps, what was said.

use maud::{Markup, html};
use threadline_app::api::{self, ThreadView};
use threadline_contract::{
    Code, Question, QuestionState, RequestId, ResultCode, RunId,
    thread::{Lifecycle, Message, Role, SyncStatus, TaskThread, TurnResult, TurnState},
};

use super::{
    super::{act, ask, form},
    asked, said,
};
use crate::{shown, urls, words};

/// What belongs together: a message of the user and everything that came of it.
pub(super) struct Turn<'a> {
    /// Tells it apart from the others, also when the page is drawn again.
    key: String,
    /// The run, once it is known.
    pub(super) run: Option<&'a RunId>,
    /// It waits for the turn before it: the id that it will be sent with.
    pub(super) waits: Option<&'a RequestId>,
    /// What became of it, where the record says so.
    state: Option<TurnState>,
    /// What came of it, once it has ended.
    result: Option<&'a TurnResult>,
    messages: Vec<&'a Message>,
}

impl Turn<'_> {
    /// It runs or ran, or at least was tried.
    pub(super) fn was_taken(&self) -> bool {
        self.waits.is_none() && self.state != Some(TurnState::Dropped)
    }
}

/// The turns in the order in which they were asked for. What a run said goes to its own turn, also
/// when the user wrote something else meanwhile.
pub(super) fn of(record: &TaskThread) -> Vec<Turn<'_>> {
    let context = &record.context_state;
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (n, message) in context.messages.iter().enumerate() {
        let run = message.run_id.as_ref();
        let own = match (run, message.role) {
            (Some(run), _) => turns.iter().position(|t| t.run == Some(run)),
            (None, Role::Assistant) => {
                let request = message.request_id.as_ref();
                let asked = |t: &Turn<'_>| {
                    request.is_some() && t.messages[0].request_id.as_ref() == request
                };
                let own = turns.iter().rposition(asked);
                own.or_else(|| turns.iter().rposition(|t| t.waits.is_none()))
            }
            (None, Role::User) => None,
        };
        match own {
            Some(at) => turns[at].messages.push(message),
            None => {
                let mut queued = context.queued_turns.iter();
                let waits = queued
                    .find(|t| t.queued_at_ms == message.timestamp_ms)
                    .filter(|_| message.role == Role::User)
                    .map(|turn| &turn.request_id);
                turns.push(Turn {
                    key: format!("turn-{n}"),
                    run,
                    waits,
                    state: message.state,
                    result: message.result.as_deref(),
                    messages: vec![message],
                });
            }
        }
    }
    // The bridge has named the run, but the transcript has not caught up.
    let current = context
        .task_association
        .as_ref()
        .and_then(|a| a.run_id.as_ref());
    if let Some(run) = current.filter(|run| turns.iter().all(|t| t.run != Some(*run)))
        && let Some(turn) = turns
            .iter_mut()
            .rev()
            .find(|t| t.waits.is_none())
            .filter(|t| t.run.is_none())
    {
        turn.run = Some(run);
    }
    turns
}

pub(super) fn draw(view: &ThreadView, turn: &Turn<'_>, last: bool) -> Markup {
    let by = |role: Role| turn.messages.iter().filter(move |m| m.role == role);
    let result = view.thread.lifecycle_state.last_result_code;
    let ended = view.thread.lifecycle_state.status == Lifecycle::Ready;
    let done = turn.state == Some(TurnState::Done);
    let shows_outcome =
        last && ended && !done && result.is_some_and(|r| words::outcome(r).is_some());
    let dropped = turn.state == Some(TurnState::Dropped);
    let closed = view.thread.context_state.closed_questions.iter();
    let closed = closed.filter(|q| Some(&q.run_id) == turn.run);
    let questions = view
        .questions
        .iter()
        .filter(|q| Some(&q.run_id) == turn.run);
    if let Some(request) = turn.waits {
        return waiting(view, turn, request);
    }
    html! {
        section.turn #(turn.key) {
            @for message in by(Role::User) { div.you.later[dropped] { (message.text) } }
            (became(turn.state, shows_outcome))
            div.work data-own aria-live="off" data-run=[turn.run.map(RunId::as_str)] {}
            @for question in closed { (answered(question)) }
            @for message in by(Role::Assistant).filter(|m| !m.error) {
                (said(&message.text))
                @if message.unfinished {
                    p.small.muted.unfinished { "Unfinished: the run ended before it had said the rest." }
                }
                @for warning in &message.warnings {
                    p.note { b { "Warning: " } (words::ticked(&warning.message)) " " code { (warning.code.as_str()) } }
                }
            }
            @for open in questions { (question(view, open)) }
            @if shows_outcome { (outcome(view, turn)) } @else {
                @for message in by(Role::Assistant).filter(|m| m.error) {
                    p.note.bad { (words::ticked(&message.text)) }
                }
            }
            @if let Some(result) = turn.result.filter(|_| !last) { (delivered(result)) }
        }
    }
}

/// A turn that came to nothing says so beneath its message, unless its outcome is told in full.
fn became(state: Option<TurnState>, told: bool) -> Markup {
    let word = match state {
        Some(TurnState::Dropped) => "Dropped · it was cancelled before its turn came",
        Some(TurnState::Cancelled) if !told => "Cancelled",
        _ => return html! {},
    };
    html! { p.small.muted.aside-you { (word) } }
}

/// What an earlier turn delivered; the files of the last one stand beside the conversation.
fn delivered(result: &TurnResult) -> Markup {
    let trouble = matches!(
        result.artifact_sync_status,
        Some(SyncStatus::Partial | SyncStatus::Failed)
    );
    let trouble = trouble && result.result_code == Some(ResultCode::Success);
    html! {
        @if result.files > 0 {
            p.small.muted { "Delivered " (words::count(result.files, "file")) " · " (words::size(result.bytes)) }
        }
        @if result.artifact_sync_status == Some(SyncStatus::Syncing) {
            p.small.muted { "Its files are on their way." }
        }
        @if let Some(detail) = result.artifact_sync_detail.as_deref().filter(|_| trouble) {
            p.note.bad { (words::ticked(detail)) }
        }
    }
}

/// A question that waits no more, with what became of it.
fn answered(question: &Question) -> Markup {
    let (look, word) = match question.state {
        QuestionState::Open => ("state waiting", "It waits for an answer"),
        QuestionState::Answered if question.policy_rule().is_some() => {
            ("state done", "The thread’s policy answered")
        }
        QuestionState::Answered => ("state done", "You answered"),
        QuestionState::Declined => ("state", "You declined to answer"),
        QuestionState::Expired => ("state", "Its time ran out"),
        QuestionState::Withdrawn => ("state", "The run ended before you answered"),
    };
    html! {
        div.card.answered #(format!("closed-{}", question.question_id)) {
            (ask::text(question, None, None))
            p {
                span class=(look) { span.dot aria-hidden="true" {} (word) }
                @if let Some(answer) = question.answer_text() { " " b { (answer) } }
                @if let Some(rule) = question.policy_rule() { " " span.muted { "(" (rule) ")" } }
            }
        }
    }
}

/// A message that waits for its turn: it can be changed or dropped by itself.
fn waiting(view: &ThreadView, turn: &Turn<'_>, request: &RequestId) -> Markup {
    let name = &view.thread.name;
    let here = urls::thread(name);
    let in_line = view.thread.lifecycle_state.status == Lifecycle::Queued;
    html! {
        section.turn #(turn.key) {
            @for message in &turn.messages { div.you.later { (message.text) } }
            p.small.muted.aside-you {
                @match view.queue {
                    Some(place) if in_line => {
                        "Queued · number " (place.position) " of " (place.queued) " in line"
                    },
                    _ => "Waiting · goes out when the turn before it has ended",
                }
            }
            div.waits data-guard {
                details.edit {
                    summary.button.quiet { "Edit" }
                    @for message in &turn.messages {
                        (form(api::QUEUE_EDIT, name, &here, &html! {
                            input type="hidden" name="requestId" value=(request);
                            textarea name="prompt" rows="3" required aria-label="Message that waits" data-edit {
                                (shown::verbatim(&message.text))
                            }
                            button.button.primary type="submit" data-text { "Save" }
                        }))
                    }
                }
                (form(api::QUEUE_DROP, name, &here, &html! {
                    input type="hidden" name="requestId" value=(request);
                    button.button.quiet type="submit" { "Drop" }
                }))
            }
        }
    }
}

pub(super) fn question(view: &ThreadView, question: &Question) -> Markup {
    asked(question, &view.thread.name)
}

/// How the last run ended, when it did not end well, and what can be done about it.
fn outcome(view: &ThreadView, turn: &Turn<'_>) -> Markup {
    let record = &view.thread;
    let Some(result) = record.lifecycle_state.last_result_code else {
        return html! {};
    };
    let Some((title, advice)) = words::outcome(result) else {
        return html! {};
    };
    let told = turn
        .messages
        .iter()
        .rev()
        .find(|m| m.error)
        .map(|m| m.text.as_str());
    // What was told already is not said twice.
    let advice = match told {
        Some(told) if told.contains(advice.as_str()) => String::new(),
        Some(_) if names_what_is_missing(result) => String::new(),
        Some(_) => words::beside(&advice),
        None => advice,
    };
    let cancelled = result.is_cancelled();
    let run = record.context_state.task_association.as_ref();
    let began = run.is_some_and(|run| run.run_id.is_some());
    let here = urls::thread(&record.name);
    let look = if cancelled { "state" } else { "state failed" };
    let anew = html! {
        input type="hidden" name="newSession" value="1";
        button.button.primary type="submit" { "Retry in a new session" }
    };
    html! {
        div.card.outcome.quietly[cancelled] role="group" aria-label="How it ended" {
            p.what { span class=(look) { span.dot aria-hidden="true" {} } (title) }
            @if let Some(told) = told { p { (words::ticked(told)) } }
            @if !advice.is_empty() { p.muted.small { (words::ticked(&advice)) } }
            @if cancelled && record.workspace_binding.working_directory.is_some() {
                p.muted.small { "What it changed in your folder until then stays." }
            }
            @if result != ResultCode::Aborted { p.small.muted { code { (result) } } }
            div.buttons {
                @if began && words::may_be_synced(result) {
                    (act(api::SYNC, &record.name, &here, "button primary", "Sync"))
                }
                @if result == ResultCode::Code(Code::ContinuationUnavailable) {
                    (form(api::RETRY, &record.name, &here, &anew))
                } @else {
                    (act(api::RETRY, &record.name, &here, "button", "Retry"))
                }
            }
        }
    }
}

/// The sentence lists what was promised; the advice says no more.
fn names_what_is_missing(result: ResultCode) -> bool {
    let code = ResultCode::Code(Code::RequiredArtifactMissing);
    result == code || result == ResultCode::ArtifactMissing
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
