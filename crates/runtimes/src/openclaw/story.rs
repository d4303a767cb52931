//! What a run's events tell, turned into what a person sees. Pure: events in, updates out.
//!
//! The gateway's events are shown as they come but prove nothing; how a run ended is asked (see
//! `evidence`). Texts come cumulative, so one that was missed costs nothing.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use threadline_contract::{QuestionId, Step, StepState, Usage};

use super::{
    asks::{Approval, Named, Prompt},
    messages::Messages,
    reply::Reply,
    waiting::Waiting,
    words::{sentence, texts},
};
use crate::{Ask, Update};

/// Tool calls whose arguments are remembered until their results come.
const CALLS: usize = 256;
/// Files that are remembered as written.
const FILES: usize = 10_000;

/// What is known of a run from its events.
#[derive(Default)]
pub(super) struct Story {
    messages: Messages,
    waiting: Waiting,
    calls: HashMap<String, String>,
    wrote: Vec<String>,
    output_tokens: Option<u64>,
    last_failure: Option<String>,
    began: bool,
    /// What people are asked now.
    asked: Vec<QuestionId>,
    last_word: Option<LastWord>,
}

/// The terminal `chat` event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastWord {
    pub(super) state: LastState,
    /// The gateway names the model or its provider as the cause.
    pub(super) of_model: bool,
    /// Why it failed.
    pub(super) message: Option<String>,
    /// What it answered.
    pub(super) reply: Option<Reply>,
    /// Why it was stopped, in the gateway's word.
    pub(super) stop_reason: Option<String>,
}

/// How a terminal `chat` event ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastState {
    /// It answered.
    Final,
    /// It failed.
    Error,
    /// It was stopped.
    Aborted,
}

#[derive(Deserialize)]
struct AgentEvent {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChatEvent {
    #[serde(default)]
    state: String,
    #[serde(default)]
    error_message: Option<String>,
    #[serde(default)]
    error_detail: Option<Value>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    message: Value,
}

/// The end of a question, by the gateway's id.
#[derive(Deserialize)]
struct Resolved {
    id: String,
}

impl Story {
    /// The story of a run that was told before; the log has this text of it.
    pub(super) fn again(logged: String) -> Self {
        Self {
            messages: Messages::logged(logged),
            ..Self::default()
        }
    }

    /// Takes an event in. `true` when there is something new to tell.
    pub(super) fn hear(&mut self, event: &str, payload: &str) -> bool {
        match event {
            "agent" => {
                if let Ok(event) = serde_json::from_str::<AgentEvent>(payload) {
                    self.agent(&event.stream, &event.data);
                }
            }
            "chat" => {
                if let Ok(event) = serde_json::from_str::<ChatEvent>(payload) {
                    self.chat(event);
                }
            }
            "question.requested" => {
                if let Ok(prompt) = serde_json::from_str::<Prompt>(payload) {
                    self.prompted(&prompt);
                }
            }
            "exec.approval.requested" => {
                if let Ok(approval) = serde_json::from_str::<Approval>(payload) {
                    self.ask(approval.ask());
                }
            }
            "question.resolved" | "exec.approval.resolved" => {
                if let Ok(Resolved { id }) = serde_json::from_str(payload) {
                    self.unask(|asked| asked.whole() == id);
                }
            }
            _ => {}
        }
        !self.waiting.is_empty() || self.last_word.is_some()
    }

    fn agent(&mut self, stream: &str, data: &Value) {
        let text = |name: &str| data.get(name).and_then(Value::as_str);
        match stream {
            "assistant" => {
                if let Some(said) = text("text") {
                    self.say(text("itemId").unwrap_or_default(), said);
                }
            }
            "item" => self.step(data),
            "tool" => self.tool(data),
            "usage" => {
                if let Some(tokens) = data.get("outputTokens").and_then(Value::as_u64) {
                    self.output_tokens = Some(tokens.max(self.output_tokens.unwrap_or(0)));
                }
            }
            "lifecycle" => match text("phase") {
                Some("start") => {
                    self.began = true;
                    self.messages.attempt_began();
                }
                // Only an attempt ended; the gateway may try again.
                Some("finishing") => {
                    if let Some(error) = text("error") {
                        self.attempt_failed(error);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn chat(&mut self, event: ChatEvent) {
        let state = match event.state.as_str() {
            "final" => LastState::Final,
            "error" => LastState::Error,
            "aborted" => LastState::Aborted,
            _ => return,
        };
        // The first stands: a failed run may be told twice, in more words.
        self.last_word.get_or_insert(LastWord {
            state,
            of_model: event.error_detail.is_some(),
            message: event.error_message,
            reply: texts(&event.message["content"])
                .filter(|_| state == LastState::Final)
                .map(Reply::of_event),
            stop_reason: event.stop_reason,
        });
    }

    fn prompted(&mut self, prompt: &Prompt) {
        if prompt.is_secret() {
            let note = "The agent asks for a secret. It can be given at the gateway alone.";
            self.waiting.push(Update::Note(note.into()));
            return;
        }
        self.ask(prompt.asks());
    }

    fn ask(&mut self, asks: impl IntoIterator<Item = Ask>) {
        for ask in asks {
            if !self.asked.contains(&ask.id) {
                self.asked.push(ask.id.clone());
                self.waiting.push(Update::Asked(ask));
            }
        }
    }

    fn unask(&mut self, which: impl Fn(Named<'_>) -> bool) {
        let gone = |id: &QuestionId| Named::read(id).is_some_and(&which);
        let (gone, asked): (Vec<_>, _) = self.asked.drain(..).partition(gone);
        self.asked = asked;
        for id in gone {
            self.waiting.push(Update::Unasked(id));
        }
    }

    /// What people are asked now, when it was missed how it came about.
    pub(super) fn asks(&mut self, open: Vec<Ask>) {
        let open_ids: Vec<_> = open.iter().filter_map(|ask| Named::read(&ask.id)).collect();
        self.unask(|asked| !open_ids.contains(&asked));
        self.ask(open);
    }

    /// A message of the model, as far as it is.
    fn say(&mut self, item: &str, text: &str) {
        self.messages.say(item, text, &mut self.waiting);
    }

    /// The messages that the transcript has of this run, to their ends: what was missed of them is said,
    /// and what is not in it yet stays behind them.
    pub(super) fn recall(&mut self, rows: Vec<(String, String)>) {
        self.messages.recall(rows, &mut self.waiting);
    }

    /// The gateway took the run up after a restart: what it had not written down is said anew.
    pub(super) fn taken_up(&mut self) {
        self.messages.taken_up(&mut self.waiting);
    }

    fn attempt_failed(&mut self, error: &str) {
        self.messages.attempt_failed(&mut self.waiting);
        let error = sentence(error);
        if self.last_failure.as_deref() != Some(&error) {
            self.waiting
                .push(Update::Note(format!("An attempt failed: {error}")));
            self.last_failure = Some(error);
        }
    }

    fn step(&mut self, data: &Value) {
        let text = |name: &str| data.get(name).and_then(Value::as_str);
        let (Some(id), Some(phase)) = (text("itemId"), text("phase")) else {
            return;
        };
        let state = match (phase, text("status")) {
            ("end", Some("completed") | None) => StepState::Done,
            ("end", Some(_)) => StepState::Failed,
            ("start", _) => StepState::Running,
            _ => return,
        };
        let at = |name: &str| data.get(name).and_then(Value::as_i64);
        let duration_ms = match (at("startedAt"), at("endedAt")) {
            (Some(start), Some(end)) => Some(end.saturating_sub(start).max(0)),
            _ => None,
        };
        let name = text("name");
        self.waiting.push(Update::Step(Step {
            step_id: id.to_owned(),
            title: text("title").or(name).unwrap_or(id).to_owned(),
            tool: name.map(str::to_owned),
            state,
            detail: None,
            duration_ms,
        }));
    }

    /// A tool that writes a file names it: evidence of whose the file is.
    fn tool(&mut self, data: &Value) {
        let text = |name: &str| data.get(name).and_then(Value::as_str);
        let (Some(call), Some(name)) = (text("toolCallId"), text("name")) else {
            return;
        };
        match text("phase") {
            Some("start") if matches!(name, "write" | "edit") => {
                let args = data.get("args");
                let path = ["path", "file_path", "filePath"]
                    .iter()
                    .find_map(|key| args?.get(key)?.as_str());
                if let Some(path) = path
                    && self.calls.len() < CALLS
                {
                    self.calls.insert(call.to_owned(), path.to_owned());
                }
            }
            Some("result") => {
                let failed = data.get("isError").and_then(Value::as_bool);
                if let Some(path) = self.calls.remove(call)
                    && failed != Some(true)
                    && !self.wrote.contains(&path)
                    && self.wrote.len() < FILES
                {
                    self.wrote.push(path);
                }
            }
            _ => {}
        }
    }

    /// What is to be told, taken away.
    pub(super) fn take(&mut self) -> Vec<Update> {
        self.waiting.take()
    }

    /// The final text, when the registry told it: shown too, if the events did not.
    pub(super) fn settle(&mut self, text: Option<&str>) {
        if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
            self.messages.settle(text, &mut self.waiting);
        }
    }

    /// The whole of an answer that begins so, if the events told it to its end.
    pub(super) fn whole(&self, beginning: &str) -> Option<String> {
        let word = self.last_word.as_ref();
        let word = word.filter(|word| word.state == LastState::Final)?;
        let ended = word.reply.as_ref()?;
        let whole = match ended.is_cut {
            false => ended.text.as_str(),
            // The event tells only its end.
            true => {
                let heard = self.messages.last().map(str::trim_end);
                heard.filter(|heard| heard.ends_with(ended.text.trim_end()))?
            }
        };
        let begins = whole.trim_start().starts_with(beginning.trim_start());
        begins.then(|| whole.to_owned())
    }

    /// Something to be said beside what the run says.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.waiting.push(Update::Note(text.into()));
    }

    /// The last message, as far as it was heard.
    pub(super) fn last_message(&self) -> Option<&str> {
        self.messages.last()
    }

    /// Everything that is shown.
    pub(super) fn text(&self) -> Option<String> {
        let shown = self.messages.shown();
        (!shown.trim().is_empty()).then(|| shown.to_owned())
    }

    /// Whether it was heard to be worked on.
    pub(super) fn began(&self) -> bool {
        self.began
    }

    /// The terminal event, if it came.
    pub(super) fn last_word(&self) -> Option<&LastWord> {
        self.last_word.as_ref()
    }

    /// Files that tools of this run wrote.
    pub(super) fn wrote(&self) -> &[String] {
        &self.wrote
    }

    /// What was used, as far as it was told.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.output_tokens.map(|tokens| Usage {
            output_tokens: Some(tokens),
            ..Usage::default()
        })
    }
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
