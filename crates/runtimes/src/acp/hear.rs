//! What an entry of the host's journal means for a run. Decides, and does nothing.

use serde_json::Value;
use threadline_contract::{QuestionId, QuestionKind, QuestionOption, ToolKind, Usage};
use threadline_host::{Entry, Id, Kind, Stray, StrayReason, What};

use super::{
    end,
    past::{Asked, Bound, Fact, Heard, Past, Permission},
    steps::{self, Tool},
    wire::{AgentFacts, NO_ID, PERMISSION, RpcError, Said, at, each, text},
};
use crate::{Ask, Frame, Update};

/// Permissions in the order in which a person is offered them, whatever the agent's order is.
const KINDS: [&str; 4] = ["allow_once", "allow_always", "reject_once", "reject_always"];

/// Lines that cannot be read of which a run tells each.
const NOTES: u32 = 5;

/// Takes in an entry.
pub(super) fn hear(past: &Past, entry: &Entry) -> Heard {
    let mut heard = Hearing {
        past,
        at: entry.at,
        out: Heard {
            no: entry.no,
            at: entry.at,
            ..Heard::default()
        },
    };
    let Some(bound) = &past.bound else {
        return heard.out;
    };
    match &entry.what {
        What::Said(frame) => {
            if let Some(said) = Said::parse(frame) {
                heard.said(bound, said);
            }
        }
        What::Sent { key, .. } => heard.sent(key),
        What::Stray(stray) => heard.not_read(bound, stray),
        What::Ended(ended) => heard.out.end = Some(end::gone(past, ended)),
    }
    if heard.out.end.is_some() {
        heard.close_tools();
    }
    heard.out
}

struct Hearing<'a> {
    past: &'a Past,
    at: i64,
    out: Heard,
}

impl Hearing<'_> {
    fn show(&mut self, update: Update) {
        let no = self.past.run.frames + 1 + self.out.frames.len() as i64;
        self.out.frames.push(Frame { no, update });
    }

    fn know(&mut self, fact: Fact) {
        self.out.facts.push(fact);
    }

    fn said(&mut self, bound: &Bound, said: Said) {
        match said {
            Said::Answered { id, answer } => self.answered(bound, &id, answer),
            Said::Asked { id, method, params } => self.asked(bound, &id, method, &params),
            Said::Told { method, params } => match method.as_str() {
                "session/update" => self.update(bound, &params),
                "$/cancel_request" => self.unasked(at(&params, &["requestId"])),
                PERMISSION => self.asked_without_id(method, &params),
                // Agents tell more than the protocol knows; none of it decides anything here.
                _ => {}
            },
        }
    }

    fn answered(&mut self, bound: &Bound, id: &Id, answer: Result<Value, RpcError>) {
        // What is known already was answered already: a second answer decides nothing.
        let past = self.past;
        match id.number().and_then(|id| id.checked_sub(bound.base)) {
            Some(0) if past.agent.is_none() => self.initialized(bound, answer),
            Some(1) if past.session.is_none() => self.opened(bound, answer),
            Some(2) if past.prompted.is_some() => self.prompt_answered(bound, answer),
            // A late one of an earlier turn, or one too many.
            _ => tracing::warn!(id = id.json(), "an agent answered what was not asked"),
        }
    }

    fn prompt_answered(&mut self, bound: &Bound, answer: Result<Value, RpcError>) {
        let past = self.past;
        let goes_on = past.agent.as_ref().is_some_and(|a| a.resumes || a.loads);
        if let Err(error) = &answer
            && !past.stops()
            && goes_on
        {
            let is_gone = error.is_session_gone();
            // The agent had the session before, and nothing of this turn was done: it can begin anew.
            if is_gone && past.is_untouched() && bound.session.is_some() && !past.is_restarted {
                self.show(Update::Note(
                    "The agent had lost this session. It is started again and goes on with it."
                        .into(),
                ));
                return self.know(Fact::SessionGone);
            }
            if is_gone || past.is_untouched() && end::is_agents_own(error) {
                self.know(Fact::Broken);
            }
        }
        self.out.end = Some(end::answered(past, answer));
    }

    /// A line that is not a frame. One that was never meant to be a message, such as a line of a log, is left
    /// alone; of any other something is missing, and everybody is told.
    fn not_read(&mut self, bound: &Bound, stray: &Stray) {
        tracing::debug!(reason = ?stray.reason, bytes = stray.bytes, "an agent wrote a line that is not a frame");
        let is_long = stray.reason == StrayReason::TooLong;
        if stray.meant.is_none() && !is_long {
            return;
        }
        if self.past.not_read < NOTES {
            let why = match is_long {
                true => format!("it is too long ({} MB)", stray.bytes / 1_000_000),
                false => "it is no message of its protocol".into(),
            };
            let last = match self.past.not_read + 1 == NOTES {
                true => " Further ones are not shown.",
                false => "",
            };
            self.show(Update::Note(format!(
                "A line of the agent could not be read, and is missing here: {why}.{last}"
            )));
        }
        let is_unclear = matches!(stray.meant, None | Some(Kind::Other));
        self.know(Fact::NotRead { is_unclear });
        match &stray.meant {
            Some(Kind::Request { id, method }) => self.know(Fact::Asked(Asked {
                no: self.out.no,
                id: id.json(),
                method: method.clone(),
                question: None,
                is_read: false,
            })),
            Some(Kind::Response { id }) => {
                let error = RpcError {
                    message: "its answer could not be read".into(),
                    ..RpcError::default()
                };
                self.answered(bound, id, Err(error));
            }
            _ => {}
        }
    }

    fn sent(&mut self, key: &str) {
        let no = key.strip_prefix("reply:").and_then(|no| no.parse().ok());
        if let Some(waiting) = no.and_then(|no: u64| self.past.requests.get(&no))
            && let Some(permission) = &waiting.asked.question
            && waiting.answer.is_none()
        {
            self.show(Update::Unasked(permission.id.clone()));
        }
        self.know(Fact::Sent(key.to_owned()));
    }

    fn initialized(&mut self, bound: &Bound, answer: Result<Value, RpcError>) {
        match answer {
            Ok(answer) => match end::cannot_begin(bound, &answer) {
                Some(end) => self.out.end = Some(end),
                None => self.know(Fact::Agent(AgentFacts::of(&answer))),
            },
            Err(error) => self.out.end = Some(end::not_initialized(&error)),
        }
    }

    fn opened(&mut self, bound: &Bound, answer: Result<Value, RpcError>) {
        let named = |answer: &Value| text(answer, &["sessionId"]).map(str::to_owned);
        match (answer, &bound.resume) {
            // Going on with a session gives it no new name.
            (Ok(_), Some(session)) => self.know(Fact::Session(session.clone())),
            (Ok(answer), None) => match named(&answer) {
                Some(session) => self.know(Fact::Session(session)),
                None => {
                    let error = RpcError {
                        message: "it named no session".into(),
                        ..RpcError::default()
                    };
                    self.out.end = Some(end::not_opened(bound, &error));
                }
            },
            (Err(error), _) => self.out.end = Some(end::not_opened(bound, &error)),
        }
    }

    fn asked(&mut self, bound: &Bound, id: &Id, method: String, params: &Value) {
        let no = self.out.no;
        let question = match (method == PERMISSION, self.past.prompted) {
            (true, Some(_)) => self.permission(bound, params),
            (true, None) => {
                self.declined(params, "no turn was open, so nobody could be asked");
                None
            }
            (false, _) => None,
        };
        self.know(Fact::Asked(Asked {
            no,
            id: id.json(),
            method,
            question,
            is_read: true,
        }));
    }

    /// It asks in a way that cannot be answered.
    fn asked_without_id(&mut self, method: String, params: &Value) {
        self.declined(
            params,
            "the request has no id under which it could be answered",
        );
        self.know(Fact::Asked(Asked {
            no: self.out.no,
            id: NO_ID.to_owned(),
            method,
            question: None,
            is_read: true,
        }));
    }

    /// What is declined in a person's name, the person is told.
    fn declined(&mut self, params: &Value, why: &str) {
        let call = at(params, &["toolCall"]);
        let what = text(call, &["title"]).or_else(|| text(call, &["kind"]));
        let what = what.unwrap_or("use a tool");
        self.show(Update::Note(format!(
            "The agent was not allowed this, because {why}: {what}"
        )));
    }

    fn permission(&mut self, bound: &Bound, params: &Value) -> Option<Permission> {
        let id = QuestionId::new(format!("q-{}-{}", bound.boot, self.out.no)).ok()?;
        let mut options: Vec<QuestionOption> = each(params, "options")
            .filter_map(|option| {
                let option_id = text(option, &["optionId"])?;
                let kind = text(option, &["kind"]);
                let names = [text(option, &["name"]), Some(option_id), kind];
                let mut names = names.into_iter().flatten();
                let label = names.find(|name| !name.trim().is_empty());
                Some(QuestionOption {
                    option_id: option_id.to_owned(),
                    label: label.unwrap_or("(an option without a name)").to_owned(),
                    kind: kind.map(str::to_owned),
                })
            })
            .collect();
        let place = |o: &QuestionOption| KINDS.iter().position(|k| o.kind.as_deref() == Some(k));
        options.sort_by_key(|o| place(o).unwrap_or(KINDS.len()));
        // An answer comes back as the words of an option, so each has its own.
        for at in 1..options.len() {
            let (before, rest) = options.split_at_mut(at);
            if let Some(option) = rest.first_mut()
                && before.iter().any(|o| o.label == option.label)
            {
                option.label = format!("{} ({})", option.label, option.option_id);
            }
        }
        let call = at(params, &["toolCall"]);
        // A sub-agent's session tells its own steps, which are none of this run's.
        let is_ours = self.is_ours(params);
        let tool = match is_ours {
            true => self.tool(bound, call),
            false => Tool::after(None, call, &bound.folders, self.at),
        };
        // Without an id there is no step, but what is asked for is said all the same.
        let known = tool.as_ref();
        let kind = known.map_or_else(|| text(call, &["kind"]), |t| t.kind.as_deref());
        let title = known
            .map(|t| t.title.as_str())
            .or_else(|| text(call, &["title"]));
        let title = title.or(kind).unwrap_or("use a tool");
        let mut asked = format!("Allow this? {title}");
        if let Some(detail) = tool.as_ref().and_then(|t| t.detail.as_deref()) {
            asked.push_str(&format!("\n\n{detail}"));
        }
        if !is_ours {
            asked.push_str("\n\nAsked in another session of the agent.");
        }
        self.show(Update::Asked(Ask {
            id: id.clone(),
            kind: QuestionKind::Permission,
            text: asked,
            options: options.clone(),
            free_text: false,
            tool: Some(kind.map_or(ToolKind::Other, ToolKind::of)),
        }));
        Some(Permission {
            id,
            tool: tool.filter(|_| is_ours).map(|t| t.id),
            options,
        })
    }

    /// The agent takes a request back.
    fn unasked(&mut self, id: &Value) {
        let is_it =
            |asked: &Asked| serde_json::from_str(&asked.id).is_ok_and(|it: Value| it == *id);
        let mut requests = self.past.requests.values();
        let Some(waiting) = requests.find(|w| is_it(&w.asked)) else {
            return;
        };
        if let Some(permission) = &waiting.asked.question
            && waiting.answer.is_none()
        {
            self.show(Update::Unasked(permission.id.clone()));
        }
        self.know(Fact::Unasked(waiting.asked.no));
    }

    fn is_ours(&self, params: &Value) -> bool {
        text(params, &["sessionId"]).is_none_or(|id| self.past.session.as_deref() == Some(id))
    }

    fn update(&mut self, bound: &Bound, params: &Value) {
        self.cost_before(bound, params);
        // What comes before the prompt is another turn's, or what a loaded session tells again.
        if self.past.prompted.is_none() || !self.is_ours(params) {
            return;
        }
        let update = at(params, &["update"]);
        if text(update, &["_meta", "codex", "threadStatus", "type"]) == Some("systemError") {
            self.know(Fact::ModelFailed);
        }
        match text(update, &["sessionUpdate"]) {
            Some("agent_message_chunk") => self.text(update),
            Some("tool_call" | "tool_call_update") => _ = self.tool(bound, update),
            Some("plan") => self.show(steps::plan(update)),
            Some("usage_update") => self.usage(update),
            _ => {}
        }
    }

    fn text(&mut self, update: &Value) {
        let content = at(update, &["content"]);
        let said = match text(content, &["type"]) {
            Some("text") => text(content, &["text"]).unwrap_or_default().to_owned(),
            Some("resource_link") => {
                let uri = text(content, &["uri"]).unwrap_or_default();
                format!("[{}]({uri})", text(content, &["name"]).unwrap_or(uri))
            }
            Some("resource") => text(content, &["resource", "text"])
                .unwrap_or_default()
                .to_owned(),
            Some(other) => {
                return self.show(Update::Note(format!(
                    "The agent sent something that is not text: {other}."
                )));
            }
            None => return,
        };
        if said.is_empty() {
            return;
        }
        let message = text(update, &["messageId"]).map(str::to_owned);
        let past = self.past;
        let begins = past.apart || (message.is_some() && message != past.message);
        let gap = match begins && !past.text.is_empty() {
            true if past.text.ends_with("\n\n") => "",
            true if past.text.ends_with('\n') => "\n",
            true => "\n\n",
            false => "",
        };
        if message != past.message {
            self.know(Fact::Message(message));
        }
        self.show(Update::Text(format!("{gap}{said}")));
    }

    fn usage(&mut self, update: &Value) {
        let Some(amount) = cost(update) else {
            return;
        };
        self.know(Fact::Cost(amount));
        // Tokens are told with the turn's end alone: what an update calls `used` is how full the
        // model's context is, and not what was read.
        let since = self.past.since(amount);
        if self.past.cost != Some(amount) && since.is_some() {
            self.show(Update::Usage(Usage {
                cost_usd: since,
                ..Usage::default()
            }));
        }
    }

    /// An agent that was started anew may tell what the session has cost, before it is given the prompt.
    fn cost_before(&mut self, bound: &Bound, params: &Value) {
        let update = at(params, &["update"]);
        let is_resumed =
            bound.resume.is_some() && text(params, &["sessionId"]) == bound.resume.as_deref();
        if self.past.prompted.is_none()
            && is_resumed
            && text(update, &["sessionUpdate"]) == Some("usage_update")
            && let Some(amount) = cost(update)
        {
            self.know(Fact::CostBefore(amount));
        }
    }

    fn tool(&mut self, bound: &Bound, update: &Value) -> Option<Tool> {
        let id = text(update, &["toolCallId"])?;
        let before = self.past.tools.get(id);
        let tool = Tool::after(before, update, &bound.folders, self.at)?;
        let tool = tool.answered(&self.past.declined);
        if before.map(Tool::step) != Some(tool.step()) {
            self.show(tool.step());
        }
        if before != Some(&tool) {
            self.know(Fact::Tool(tool.clone()));
        }
        Some(tool)
    }

    /// A call that the agent never told the end of has ended with the turn.
    fn close_tools(&mut self) {
        let open: Vec<Tool> = end::closed_tools(self.past, self.out.end.as_ref(), self.at);
        for tool in open {
            self.show(tool.step());
            self.know(Fact::Tool(tool));
        }
    }
}

/// What a session has cost so far, in US dollars.
fn cost(update: &Value) -> Option<f64> {
    let amount = at(update, &["cost", "amount"]).as_f64()?;
    (text(update, &["cost", "currency"]) == Some("USD")).then_some(amount)
}

#[cfg(test)]
#[path = "hear_tests.rs"]
mod tests;
