//! How a turn ended, by everything that was heard of it. `end_turn` alone is not success.

use serde_json::Value;
use threadline_contract::{Code, StepState, Usage};
use threadline_host::{EndCause, Ended};

use super::{
    past::{Bound, Past},
    steps::Tool,
    terminal::last_words,
    wire::{AUTH_REQUIRED, AgentFacts, PROTOCOL, RpcError, at, text},
};
use crate::{End, EndStatus, LAST_WORDS};

/// How a step stands whose end the agent never told, in a turn that went well.
const UNTOLD: &str = "The agent did not say how this ended.";
/// How one stands that waited for a permission to the end.
const UNANSWERED: &str = "Nobody said whether it is allowed.";
/// What is told of a text for which the agent counted nothing.
const CUT: &str = "The agent said that it was done, but counted no tokens for its answer: its model may have broken off in the middle. Read the answer before you rely on it, and send the message again if a part is missing.";
/// Characters of an agent's last words that are told.
const LAST_WORDS_CHARS: usize = 300;

fn ended(past: &Past, status: EndStatus, fault: Option<(Code, String)>) -> End {
    let (code, message) = fault.unzip();
    let missing = match (status, past.not_read) {
        (EndStatus::Completed, 1..) => Some(
            "Something that the agent said could not be read and is missing from this result."
                .into(),
        ),
        _ => None,
    };
    let text = past.text.trim();
    End {
        status,
        code,
        message: message.or(missing),
        text: (!text.is_empty()).then(|| text.to_owned()),
        usage: past.usage(),
        wrote: wrote(past, status),
    }
}

/// The turn ended well, as far as the agent says.
fn completed(past: &Past, usage: Option<Usage>) -> End {
    let end = ended(past, EndStatus::Completed, None);
    // Agents that report no usage say nothing by it. One that counts none for a text that came has never
    // seen the end of its model's answer, where models tell the count.
    let is_cut = usage.and_then(|usage| usage.output_tokens) == Some(0) && end.text.is_some();
    let warning = is_cut.then(|| CUT.to_owned());
    End {
        message: warning.or(end.message),
        ..end
    }
}

/// The turn ended as it should not have.
pub(super) fn failed(past: &Past, code: Code, message: impl Into<String>) -> End {
    ended(past, EndStatus::Failed, Some((code, message.into())))
}

/// Somebody asked for the stop, and it is confirmed.
pub(super) fn cancelled(past: &Past) -> End {
    ended(past, EndStatus::Cancelled, None)
}

/// What the stop comes to that we asked for ourselves.
fn stopped(past: &Past) -> Option<End> {
    if past.run.cancel_asked {
        return Some(cancelled(past));
    }
    let message = "The turn used up its time and was stopped.";
    past.out_of_time
        .then(|| failed(past, Code::BudgetExceeded, message))
}

/// The answer to the prompt.
pub(super) fn answered(past: &Past, answer: Result<Value, RpcError>) -> End {
    let answer = match answer {
        Ok(answer) => answer,
        // Some agents answer our own cancel with an error.
        Err(error) => return stopped(past).unwrap_or_else(|| errored(past, &error)),
    };
    let usage = usage(past, &answer);
    let end = match text(&answer, &["stopReason"]) {
        // Whoever answers a stop at a question so has not gone on.
        Some("end_turn") if past.stopped_at_question => cancelled(past),
        Some("end_turn") => match model_failed(past, &answer) {
            true => failed(past, Code::ModelFailed, model_words(past)),
            false => match past.out_of_time {
                true => stopped(past).unwrap_or_else(|| completed(past, usage)),
                false => completed(past, usage),
            },
        },
        Some("cancelled") => stopped(past).unwrap_or_else(|| {
            failed(
                past,
                Code::TurnDeclined,
                match past.has_declined {
                    true => "The agent stopped, because a permission was declined.",
                    false => "The agent stopped by itself, although nobody asked it to.",
                },
            )
        }),
        Some("max_tokens") => failed(
            past,
            Code::BudgetExceeded,
            "The agent stopped, because its model's answer became too long.",
        ),
        Some("max_turn_requests") => failed(
            past,
            Code::BudgetExceeded,
            "The agent stopped, because it had asked its model as often as it may in one turn.",
        ),
        Some("refusal") => failed(
            past,
            Code::ExecutionFailed,
            "The agent's model refused to go on with this.",
        ),
        other => failed(
            past,
            Code::ExecutionFailed,
            format!(
                "The agent ended the turn in a way that is not known ({}).",
                other.unwrap_or("without a reason")
            ),
        ),
    };
    End { usage, ..end }
}

fn errored(past: &Past, error: &RpcError) -> End {
    let words = error.words();
    if error.is_session_gone() {
        let goes_on = past.agent.as_ref().is_some_and(|a| a.resumes || a.loads);
        let (code, what) = match goes_on {
            true => (
                Code::AgentLost,
                "Send the message again: the agent is started anew and goes on with the session.",
            ),
            false => (
                Code::ContinuationUnavailable,
                "It cannot take an earlier one up again. Start a new one.",
            ),
        };
        let message = format!("The agent has lost the session: {words}. {what}");
        return failed(past, code, message);
    }
    failed(past, code_of(error), format!("The agent failed: {words}"))
}

fn code_of(error: &RpcError) -> Code {
    // A model's refusal comes as its HTTP status, or by the name of the error.
    let name = error.data.as_ref().and_then(|d| text(d, &["errorName"]));
    match error.code {
        400..=599 => Code::ModelFailed,
        _ if name == Some("APIError") => Code::ModelFailed,
        AUTH_REQUIRED => Code::ProviderUnavailable,
        _ => Code::ExecutionFailed,
    }
}

/// Whether an error is of the agent itself, rather than of its model or of who should log in.
pub(super) fn is_agents_own(error: &RpcError) -> bool {
    code_of(error) == Code::ExecutionFailed
}

/// A model call that failed, as some agents tell it: in the structure, with `end_turn`.
fn model_failed(past: &Past, answer: &Value) -> bool {
    let name = past.agent.as_ref().map_or("", |agent| agent.name.as_str());
    let usage = answer.get("usage");
    past.model_failed
        || (name.contains("codex") && usage == Some(&Value::Null))
        || (name.contains("hermes") && usage.is_none())
}

fn model_words(past: &Past) -> String {
    match past.text.trim() {
        "" => "The agent's model failed.".into(),
        said => format!("The agent's model failed: {said}"),
    }
}

fn usage(past: &Past, answer: &Value) -> Option<Usage> {
    let number = |path: &[&str]| at(answer, path).as_u64();
    let quota = |name| number(&["_meta", "quota", "token_count", name]);
    let usage = Usage {
        input_tokens: number(&["usage", "inputTokens"]).or_else(|| quota("input_tokens")),
        output_tokens: number(&["usage", "outputTokens"]).or_else(|| quota("output_tokens")),
        cost_usd: past.cost(),
    };
    (usage != Usage::default()).then_some(usage)
}

/// The agent is gone.
pub(super) fn gone(past: &Past, how: &Ended) -> End {
    if let Some(end) = stopped(past) {
        return end;
    }
    let why = match (how.cause, how.signal, how.status) {
        (EndCause::Exited, Some(signal), _) => format!("it was ended by signal {signal}"),
        (EndCause::Exited, None, Some(status)) => format!("it ended with status {status}"),
        (EndCause::Exited, None, None) => "it ended".into(),
        (EndCause::Stopped, ..) => "it was stopped".into(),
        (EndCause::Terminated, ..) => "its host was told to end".into(),
        (EndCause::Idle, ..) => "nobody needed it for so long".into(),
        (EndCause::Abandoned, ..) => "the folder of its host went away".into(),
        (EndCause::JournalFailed, ..) => "what it said could not be written down".into(),
        (EndCause::Broken, ..) => "its host broke".into(),
        (EndCause::Mute, ..) => {
            "it closed its output, and nothing could come from it any more".into()
        }
    };
    let last: String = last_words(&how.stderr)
        .chars()
        .take(LAST_WORDS_CHARS)
        .collect();
    let words = match last.is_empty() {
        true => String::new(),
        false => format!(" {LAST_WORDS} {last}"),
    };
    match past.session {
        Some(_) => failed(
            past,
            Code::AgentLost,
            format!("The agent is gone: {why}.{words}"),
        ),
        None => failed(
            past,
            Code::ProviderUnavailable,
            format!("The agent did not start: {why}.{words}"),
        ),
    }
}

/// The agent's host was killed.
pub(super) fn lost(past: &Past) -> End {
    stopped(past).unwrap_or_else(|| {
        failed(
            past,
            Code::AgentLost,
            "The process that kept the agent was killed, and the agent is gone with it.",
        )
    })
}

/// Why nothing can be begun with an agent that says this about itself.
pub(super) fn cannot_begin(bound: &Bound, answer: &Value) -> Option<End> {
    let version = at(answer, &["protocolVersion"]);
    // Some languages write every number as a fraction.
    if version.as_f64() != Some(PROTOCOL as f64) {
        let message = format!(
            "The agent speaks version {version} of the Agent Client Protocol; version {PROTOCOL} is needed."
        );
        return Some(End::failed(Code::ProviderUnavailable, message));
    }
    let agent = AgentFacts::of(answer);
    if bound.resume.is_some() && !agent.resumes && !agent.loads {
        let message =
            "The agent was ended since, and cannot go on with an earlier session. Start a new one.";
        return Some(End::failed(Code::ContinuationUnavailable, message));
    }
    None
}

/// The agent did not take `initialize`.
pub(super) fn not_initialized(error: &RpcError) -> End {
    let message = format!("The agent did not start: {}", error.words());
    End::failed(Code::ProviderUnavailable, message)
}

/// The agent gave us no session.
pub(super) fn not_opened(bound: &Bound, error: &RpcError) -> End {
    let words = error.words();
    let (code, message) = match (&bound.resume, error.code) {
        (_, AUTH_REQUIRED) => (
            Code::ProviderUnavailable,
            format!("The agent wants somebody to log in: {words}"),
        ),
        (Some(_), _) => (
            Code::ContinuationUnavailable,
            format!("The agent cannot go on with the session: {words}"),
        ),
        (None, _) => (
            Code::ExecutionFailed,
            format!("The agent could not begin a session: {words}"),
        ),
    };
    End::failed(code, message)
}

/// Tool calls that are still open when the turn ends, as they stand then.
pub(super) fn closed_tools(past: &Past, end: Option<&End>, now: i64) -> Vec<Tool> {
    let worked = end.is_some_and(|end| end.status == EndStatus::Completed);
    let open = |tool: &&Tool| tool.state == StepState::Running;
    let closed = past.tools.values().filter(open).map(|tool| {
        let (state, detail) = match worked {
            true if past.declined.contains(&tool.id) => (StepState::Failed, None),
            true if past.not_permitted.contains(&tool.id) => (StepState::Failed, Some(UNANSWERED)),
            true => (StepState::Done, tool.detail.is_none().then_some(UNTOLD)),
            false => (StepState::Failed, None),
        };
        let tool = Tool {
            state,
            detail: detail.map(str::to_owned).or_else(|| tool.detail.clone()),
            took: Some((now - tool.began).max(0)),
            ..tool.clone()
        };
        tool.answered(&past.declined)
    });
    closed.collect()
}

/// Files that tool calls name as written. A call that failed or never ran wrote nothing: one that was
/// declined, one whose permission nobody gave, and one that still waited to begin when the turn was broken
/// off.
fn wrote(past: &Past, status: EndStatus) -> Vec<String> {
    let counts = |tool: &&Tool| match tool.state {
        _ if past.declined.contains(&tool.id) => false,
        StepState::Done => true,
        StepState::Failed => false,
        StepState::Running => {
            let never_began = tool.is_pending && status != EndStatus::Completed;
            !never_began && !past.not_permitted.contains(&tool.id)
        }
    };
    let mut all: Vec<String> = Vec::new();
    for path in past.tools.values().filter(counts).flat_map(|t| &t.wrote) {
        if !all.contains(path) {
            all.push(path.clone());
        }
    }
    all
}
