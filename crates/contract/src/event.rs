//! `session.update`: what happens in a thread, as one ordered, durable, replayable log.

use serde::{Deserialize, Serialize};

use crate::{
    AppThreadKey, ArtifactScope, Code, Millis, Progress, Question, QueuePlace, RunId, RunStatus,
};

/// The coarse kind of an update, as existing apps read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpdateKind {
    /// The run moved.
    Status,
    /// Text to append.
    Delta,
    /// Something the run did or asks.
    Task,
}

/// Every name of an update, in the order in which a run mostly says them.
pub const EVENTS: [&str; 15] = [
    "queued",
    "started",
    "delta",
    "delta.reset",
    "task.step",
    "task.question_asked",
    "task.question_closed",
    "task.note",
    "task.usage",
    "task.progress",
    "task.deadline_exceeded",
    "task.cancel_requested",
    "task.verifying",
    "task.ended",
    "completed",
];

/// One logged notification. Its number in the thread's log is the SSE id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionUpdate {
    /// The thread.
    pub session_id: AppThreadKey,
    /// The thread, again: both names are in use.
    pub thread_id: AppThreadKey,
    /// The run.
    pub run_id: RunId,
    /// The run, under the app's name for it.
    pub turn_id: RunId,
    /// The coarse kind.
    #[serde(rename = "type")]
    pub kind: UpdateKind,
    /// What it tells: `queued`, `started`, `delta`, `delta.reset`, `task.step`, `task.question_asked`,
    /// `task.question_closed`, `task.note`, `task.usage`, `task.progress` (never logged), `task.deadline_exceeded`,
    /// `task.cancel_requested`, `task.verifying`, `task.ended` or `completed`.
    pub event: String,
    /// When it happened.
    pub at: Millis,
    /// The run's status at this point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Text to append (`delta`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How many characters (Unicode code points) of the text that this run's deltas added so far
    /// still stand; the rest is withdrawn and will be said anew (`delta.reset`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u64>,
    /// A sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The place in the queue (`queued`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePlace>,
    /// What is going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// A step that began, went on or ended (`task.step`); later ones replace earlier ones by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// A question that was asked or closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// Tokens and cost so far (`task.usage`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The run's scope (`started`): with `runId`, only good for asking again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_scope: Option<ArtifactScope>,
    /// The update was over 64 KiB and is shortened here; the log holds it whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Where to read the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_at: Option<String>,
}

impl SessionUpdate {
    /// An update that says only that something happened; the caller fills in the rest.
    pub fn new(
        thread: &AppThreadKey,
        run: &RunId,
        kind: UpdateKind,
        event: &str,
        at: Millis,
    ) -> Self {
        debug_assert!(EVENTS.contains(&event), "{event} is not in the list");
        Self {
            session_id: thread.clone(),
            thread_id: thread.clone(),
            run_id: run.clone(),
            turn_id: run.clone(),
            kind,
            event: event.to_owned(),
            at,
            status: None,
            text: None,
            keep: None,
            message: None,
            code: None,
            queue: None,
            progress: None,
            step: None,
            question: None,
            usage: None,
            artifact_scope: None,
            truncated: false,
            whole_at: None,
        }
    }
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It runs.
    Running,
    /// It worked.
    Done,
    /// It did not work.
    Failed,
}

/// One thing the runtime did: a tool call, a model call, a stage of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its id within the run.
    pub step_id: String,
    /// What it does, in words a person reads.
    pub title: String,
    /// The tool's name, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// How it stands.
    pub state: StepState,
    /// More, when somebody opens it (what failed, how many lines).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// What a run used. A number that the runtime did not report is absent, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read by the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written by the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Cost in US dollars.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "decimal_usd"
    )]
    pub cost_usd: Option<f64>,
}

/// An amount of money without the digits that sums of binary fractions leave: to a billionth of a dollar.
pub fn round_usd(amount: f64) -> f64 {
    (amount * 1e9).round() / 1e9
}

fn decimal_usd<S: serde::Serializer>(amount: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    amount.map(round_usd).serialize(to)
}

impl Usage {
    /// `8.4 k tokens read, 12 written, $0.031`; nothing, when nothing was reported.
    pub fn in_words(&self) -> Option<String> {
        let tokens = match (self.input_tokens, self.output_tokens) {
            (Some(read), Some(wrote)) => Some(format!(
                "{} tokens read, {} written",
                many(read),
                many(wrote)
            )),
            (Some(read), None) => Some(format!("{} tokens read", many(read))),
            (None, Some(wrote)) => Some(format!("{} tokens written", many(wrote))),
            (None, None) => None,
        };
        let cost = self.cost_usd.map(cost);
        let parts: Vec<String> = tokens.into_iter().chain(cost).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Digits behind the point of an amount of money that are shown at most.
const MAX_COST_DIGITS: usize = 9;

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn many(n: u64) -> String {
    match n {
        ..1000 => n.to_string(),
        1000..999_950 => format!("{:.1} k", n as f64 / 1e3),
        _ => format!("{:.1} M", n as f64 / 1e6),
    }
}

/// At least two digits that mean something, so that little is not told as nothing.
fn cost(usd: f64) -> String {
    let mut digits = 2;
    let mut shown = 0.1;
    while usd > 0.0 && usd < shown && digits < MAX_COST_DIGITS {
        digits += 1;
        shown /= 10.0;
    }
    format!("${usd:.digits$}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::Usage;

    #[test]
    fn only_what_was_reported_is_told() {
        let told = |input_tokens, output_tokens, cost_usd| {
            let usage = Usage {
                input_tokens,
                output_tokens,
                cost_usd,
            };
            usage.in_words()
        };
        let words = |text: &str| Some(text.to_owned());
        assert_eq!(told(None, None, None), None);
        assert_eq!(told(Some(0), None, None), words("0 tokens read"));
        assert_eq!(
            told(None, Some(999), Some(0.0)),
            words("999 tokens written, $0.00")
        );
        assert_eq!(
            told(Some(8449), Some(1_200_000), Some(1.302)),
            words("8.4 k tokens read, 1.2 M written, $1.30")
        );
        assert_eq!(told(None, None, Some(0.0213)), words("$0.021"));
        assert_eq!(told(None, None, Some(0.00213)), words("$0.0021"));
        assert_eq!(told(None, None, Some(0.000_042)), words("$0.000042"));
    }

    #[test]
    fn a_sum_is_written_without_the_digits_of_binary_fractions() {
        let usage = Usage {
            cost_usd: Some(0.1 + 0.2),
            ..Usage::default()
        };
        assert_ne!(usage.cost_usd, Some(0.3));
        let text = serde_json::to_string(&usage).unwrap();
        assert_eq!(text, "{\"costUsd\":0.3}");
        let none = serde_json::to_string(&Usage::default()).unwrap();
        assert_eq!(none, "{}");
    }
}
