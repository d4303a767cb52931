//! From what a runtime did to what the log says.

use std::time::Duration;

use threadline_contract::{Fault, Millis, QuestionState, QueuePlace, SessionUpdate, UpdateKind};
use threadline_runtimes::{Ask, Frame, Update};
use threadline_store::{NewEvent, Run, StoredQuestion};

use super::wording;
use crate::wire;

/// Somebody asked the run to stop.
pub(crate) const CANCEL_REQUESTED: &str = "task.cancel_requested";
/// A question got its end.
pub(crate) const QUESTION_CLOSED: &str = "task.question_closed";
/// A question was asked.
pub(crate) const QUESTION_ASKED: &str = "task.question_asked";

/// An update as the log keeps it. `frame` is the runtime's number, by which a driver re-attaches.
pub(crate) fn logged(update: &SessionUpdate, frame: Option<i64>) -> Result<NewEvent, Fault> {
    let body = serde_json::to_string(update).map_err(|e| {
        tracing::error!(error = %e, "An update could not be written as JSON");
        Fault::internal()
    })?;
    Ok(NewEvent {
        run: Some(update.run_id.clone()),
        frame,
        kind: update.event.as_str().into(),
        body: body.into(),
        at: update.at,
    })
}

/// Goes on with a run's text by a logged `delta` or `delta.reset`.
pub(crate) fn add_text(said: &mut String, body: &str) -> Result<(), Fault> {
    let update: SessionUpdate = serde_json::from_str(body).map_err(|e| {
        tracing::error!(error = %e, "A stored event is not an update");
        Fault::internal()
    })?;
    if let Some(keep) = update.keep {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let cut = said.char_indices().nth(keep).map(|(at, _)| at);
        said.truncate(cut.unwrap_or(said.len()));
    }
    said.push_str(&update.text.unwrap_or_default());
    Ok(())
}

/// The update that a frame becomes. A question or a tool call is more than an update and is handled by itself.
pub(crate) fn of_frame(frame: &Frame, run: &Run) -> Option<SessionUpdate> {
    let make = |kind, event| wire::update(&run.owner, &run.id, kind, event, Millis::now());
    Some(match &frame.update {
        Update::Text(text) => SessionUpdate {
            text: Some(text.clone()),
            ..make(UpdateKind::Delta, "delta")
        },
        Update::Reset { keep } => SessionUpdate {
            keep: Some(*keep),
            ..make(UpdateKind::Delta, "delta.reset")
        },
        Update::Step(step) => SessionUpdate {
            step: Some(step.clone()),
            ..make(UpdateKind::Task, "task.step")
        },
        Update::Note(note) => SessionUpdate {
            message: Some(wording::for_account(&run.account, note)),
            ..make(UpdateKind::Task, "task.note")
        },
        Update::Usage(usage) => SessionUpdate {
            usage: Some(*usage),
            ..make(UpdateKind::Task, "task.usage")
        },
        Update::Asked(_) | Update::Unasked(_) | Update::ToolCall(_) => return None,
    })
}

/// The durable question that an ask becomes.
pub(crate) fn question(ask: &Ask, run: &Run) -> StoredQuestion {
    StoredQuestion {
        id: ask.id.clone(),
        owner: run.owner.clone(),
        run: run.id.clone(),
        kind: ask.kind,
        text: ask.text.clone(),
        options: ask.options.clone(),
        free_text: ask.free_text,
        tool: ask.tool,
        state: QuestionState::Open,
        asked_at: Millis::now(),
        closed_at: None,
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    }
}

/// A question's end as the log keeps it.
pub(crate) fn closed(question: &StoredQuestion, at: Millis) -> Result<NewEvent, Fault> {
    let mut update = wire::update(
        &question.owner,
        &question.run,
        UpdateKind::Task,
        QUESTION_CLOSED,
        at,
    );
    update.question = Some(wire::question(question));
    logged(&update, None)
}

/// A length of time as a person says it.
pub(crate) fn span(time: Duration) -> String {
    let (n, what) = match time.as_secs() {
        s if s >= 3600 && s % 3600 == 0 => (s / 3600, "hour"),
        s if s >= 60 && s % 60 == 0 => (s / 60, "minute"),
        s => (s, "second"),
    };
    let many = if n == 1 { "" } else { "s" };
    format!("{n} {what}{many}")
}

/// What a waiting person reads.
pub(crate) fn queue_sentence(place: QueuePlace) -> String {
    match place.position {
        1 => "Next in line.".to_owned(),
        n => format!("Number {n} of {} in line.", place.queued),
    }
}
