//! What the log and the records say, in a form that a test can state as a whole. Times and random ids are left out.

use threadline_contract::{Answer, Code, Question, QuestionState, RunStatus, SessionUpdate};
use threadline_store::{ArtifactState, Phase, Run, StoredEvent};

/// One line for each event of a log.
pub(crate) fn lines(events: &[StoredEvent]) -> Vec<String> {
    events.iter().map(line).collect()
}

fn line(event: &StoredEvent) -> String {
    let update: SessionUpdate = serde_json::from_str(&event.body).unwrap();
    assert_eq!(update.event, *event.kind);
    let mut words = vec![update.event.clone()];
    if let Some(frame) = event.frame {
        words.push(format!("#{frame}"));
    }
    words.extend(update.text.map(|text| format!("{text:?}")));
    words.extend(update.keep.map(|keep| format!("keep {keep}")));
    words.extend(
        update
            .step
            .map(|step| format!("{} {:?}", step.step_id, step.state)),
    );
    words.extend(update.question.as_ref().map(question));
    words.extend(update.status.map(|status| status.as_str().to_owned()));
    words.extend(update.code.map(|code| code.to_string()));
    words.extend(update.queue.map(|q| format!("{}/{}", q.position, q.queued)));
    words.extend(
        update
            .usage
            .and_then(|u| u.output_tokens)
            .map(|n| format!("{n} tokens")),
    );
    let says = matches!(&*event.kind, "task.note" | "task.ended");
    words.extend(update.message.filter(|_| says).map(|m| format!("({m})")));
    words.join(" ")
}

/// A question as its record or an event tells it.
pub(crate) fn question(question: &Question) -> String {
    let answer = match &question.answer {
        Some(Answer::OptionId(id)) => format!(" {id}"),
        Some(Answer::Text(text)) => format!(" {text:?}"),
        None => String::new(),
    };
    let by = question.closed_by.as_deref().map(|by| format!(" by {by}"));
    let state = match question.state {
        QuestionState::Open => "open",
        QuestionState::Answered => "answered",
        QuestionState::Declined => "declined",
        QuestionState::Expired => "expired",
        QuestionState::Withdrawn => "withdrawn",
    };
    format!(
        "{} {state}{answer}{}",
        question.question_id,
        by.unwrap_or_default()
    )
}

/// What a run's record says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) phase: Phase,
    pub(crate) status: RunStatus,
    pub(crate) code: Option<Code>,
    pub(crate) message: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) files: ArtifactState,
    pub(crate) missing: Vec<String>,
    pub(crate) anomalies: usize,
    pub(crate) stop_asked: bool,
}

impl Record {
    pub(crate) fn of(run: &Run) -> Self {
        Self {
            phase: run.phase,
            status: run.status,
            code: run.code,
            message: run.message.clone(),
            text: run.text.clone(),
            files: run.artifact_state,
            missing: run
                .missing
                .iter()
                .map(|m| m.deliverable.glob.clone())
                .collect(),
            anomalies: run.anomalies.len(),
            stop_asked: run.cancel_requested_at.is_some(),
        }
    }

    /// A run that did what it was asked to.
    pub(crate) fn completed() -> Self {
        Self {
            phase: Phase::Closed,
            status: RunStatus::Completed,
            code: None,
            message: None,
            text: Some("All of it.".into()),
            files: ArtifactState::Done,
            missing: vec![],
            anomalies: 0,
            stop_asked: false,
        }
    }
}
