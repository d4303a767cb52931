//! A session's transcript, as `chat.history` tells it, and what it says about a run.

use serde::Deserialize;
use serde_json::Value;
use threadline_contract::Usage;

use super::{
    ends::{Told, cancelled, completed, failed},
    reply::Reply,
    used::Used,
    words::{GAP, texts},
};

/// How the gateway marks the message with which it takes up a turn.
pub(super) const RECOVERY: &str = "main_session_restart_recovery";

/// `chat.history`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct History {
    #[serde(default)]
    messages: Vec<Row>,
    #[serde(default)]
    session_info: Option<Info>,
    #[serde(default)]
    in_flight_run: Option<InFlight>,
    #[serde(default)]
    pending_inputs: PendingInputs,
}

/// What the gateway accepted and has not put into the transcript.
#[derive(Clone, Debug, Default, Deserialize)]
struct PendingInputs {
    #[serde(default)]
    items: Vec<PendingInput>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingInput {
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    state: String,
}

/// One row: a message, or something that happened to the session.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    error_message: Option<String>,
    #[serde(default)]
    idempotency_key: Option<String>,
    #[serde(default)]
    provenance: Option<Provenance>,
    #[serde(default)]
    usage: Option<Used>,
    #[serde(default, rename = "__openclaw")]
    own: Own,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Own {
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    idempotency_key: Option<String>,
    /// The text is not all of it.
    #[serde(default)]
    truncated: bool,
    /// What happened to the session.
    #[serde(default)]
    kind: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provenance {
    #[serde(default)]
    source_tool: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    has_active_run: bool,
    #[serde(default)]
    active_run_ids: Option<Vec<String>>,
    /// When the session last changed; nothing if the gateway has no such session.
    #[serde(default)]
    updated_at: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InFlight {
    #[serde(default)]
    run_id: String,
}

impl Row {
    fn key(&self) -> Option<&str> {
        let key = self.idempotency_key.as_deref();
        key.or(self.own.idempotency_key.as_deref())
    }
    fn is_of(&self, run: &str) -> bool {
        self.own.run_id.as_deref() == Some(run)
    }
    fn is_recovery(&self) -> bool {
        let tool = self
            .provenance
            .as_ref()
            .and_then(|p| p.source_tool.as_deref());
        tool == Some(RECOVERY)
    }
    fn reply(&self) -> Option<Reply> {
        texts(&self.content).map(|text| Reply::of_row(text, self.own.truncated))
    }
    fn is_said_by(&self, run: &str) -> bool {
        self.role == "assistant" && self.is_of(run)
    }
}

/// Something that a transcript tells of the time before a run.
pub(super) enum Before<'a> {
    /// The session was reset, so the model knows nothing of what was before.
    Reset,
    /// A turn of this name.
    Turn(&'a str),
}

impl History {
    /// What was before a run, the newest first.
    pub(super) fn before<'a>(&'a self, run: &'a str) -> impl Iterator<Item = Before<'a>> {
        let rows = self.messages.iter().rev();
        rows.filter_map(move |row| match row.own.kind.as_deref() {
            Some("reset") => Some(Before::Reset),
            _ => {
                let name = row.key()?.strip_suffix(":user")?;
                (name != run).then_some(Before::Turn(name))
            }
        })
    }

    /// Whether nothing is in it but what belongs to a run.
    pub(super) fn is_empty_but_for(&self, run: &str) -> bool {
        let user = format!("{run}:user");
        let own = |row: &Row| row.is_of(run) || row.key() == Some(&user);
        self.messages.iter().all(own)
    }

    pub(super) fn user_row(&self, run: &str) -> Option<usize> {
        let key = format!("{run}:user");
        self.messages
            .iter()
            .rposition(|row| row.key() == Some(&key))
    }

    /// The name under which the gateway took the turn up, if it did: the message that says so follows
    /// the turn's own, before anybody else's.
    pub(super) fn taken_up_as(&self, run: &str) -> Option<String> {
        let after = self.messages.get(self.user_row(run)? + 1..)?;
        let next = after.iter().find(|row| row.role == "user")?;
        let name = next.key()?.strip_suffix(":user")?;
        (next.is_recovery() && name != run).then(|| name.to_owned())
    }

    /// What the transcript says about the run's end.
    pub(super) fn end(&self, run: &str) -> Option<Told> {
        let error = format!("{run}:terminal-error");
        let rows = || self.messages.iter().filter(|row| row.role == "assistant");
        if let Some(row) = rows().rfind(|row| row.key() == Some(&error)) {
            let text = row.reply();
            let text = text.as_ref().map(|reply| reply.text.as_str());
            let why = row.error_message.as_deref().or(text);
            return Some(failed(why.unwrap_or_default()));
        }
        // Its last word must be an answer: after a tool call it was still at work.
        let of_run = |row: &&Row| row.is_of(run) && row.role != "user";
        let last = self.messages.iter().rfind(of_run)?;
        match (last.role.as_str(), last.stop_reason.as_deref()) {
            ("assistant", Some("stop" | "end_turn" | "length")) => Some(completed(last.reply())),
            ("assistant", Some("aborted")) => Some(cancelled()),
            _ => None,
        }
    }

    /// The text of the run's last answer.
    pub(super) fn answer(&self, run: &str) -> Option<Reply> {
        let answers = |row: &&Row| row.is_said_by(run);
        self.messages.iter().rfind(answers).and_then(Row::reply)
    }

    /// The names that a run had, from one on: the gateway gives it another when it takes it up after a
    /// restart. The present one alone, where the transcript does not go back so far.
    fn names(&self, first: &str, present: &str) -> Vec<String> {
        let mut names = vec![first.to_owned()];
        while let Some(last) = names.last().filter(|last| *last != present) {
            match self.taken_up_as(last) {
                Some(next) if !names.contains(&next) => names.push(next),
                _ => return vec![present.to_owned()],
            }
        }
        names
    }

    /// The ids of the run's messages of which not all is here.
    pub(super) fn cut_messages(&self, first: &str, present: &str) -> Vec<String> {
        let names = self.names(first, present);
        let is_own = |row: &Row| names.iter().any(|name| row.is_said_by(name));
        let cut = |row: &&Row| is_own(row) && row.reply().is_some_and(|r| r.is_cut);
        let rows = self.messages.iter().filter(cut);
        rows.filter_map(|row| row.own.id.clone()).collect()
    }

    /// Puts a message into the place of what is here of it.
    pub(super) fn put(&mut self, id: &str, whole: Row) {
        let same = |row: &&mut Row| row.own.id.as_deref() == Some(id);
        if let Some(row) = self.messages.iter_mut().find(same) {
            row.content = whole.content;
            row.own.truncated = whole.own.truncated;
        }
    }

    /// The run's messages so far, with their ids, under all names that it had.
    pub(super) fn said(&self, first: &str, present: &str) -> Vec<(String, String)> {
        let names = self.names(first, present);
        let mut said: Vec<(String, String)> = vec![];
        for row in &self.messages {
            let Some(name) = names.iter().find(|name| row.is_said_by(name)) else {
                continue;
            };
            let id = row.own.id.clone();
            let text = row
                .reply()
                .filter(|_| row.stop_reason.as_deref() != Some("error"));
            let (Some(id), Some(text)) = (id, text.map(Reply::shown)) else {
                continue;
            };
            // A run that is stopped leaves everything that it said in one more row.
            let whole = row.key().and_then(|key| key.strip_suffix(":assistant")) == Some(name);
            let before: Vec<&str> = said.iter().map(|(_, text)| text.as_str()).collect();
            let before = before.join(GAP);
            let text = match text.strip_prefix(&before).filter(|_| whole) {
                Some(rest) if !before.is_empty() => match rest.strip_prefix(GAP) {
                    Some(rest) => rest.to_owned(),
                    None if rest.is_empty() => continue,
                    None => text,
                },
                _ => text,
            };
            said.push((id, text));
        }
        said
    }

    /// What the run's model calls used, when all of them are in view.
    pub(super) fn usage(&self, run: &str) -> Option<Usage> {
        self.user_row(run)?;
        let of_run = self.messages.iter().filter(|row| row.is_of(run));
        Used::total(of_run.filter_map(|row| row.usage.as_ref()))
    }

    /// The gateway accepted the run, and stopped before it put it into the transcript.
    pub(super) fn is_given_back(&self, run: &str) -> bool {
        let mut inputs = self.pending_inputs.items.iter();
        self.user_row(run).is_none()
            && inputs.any(|i| i.run_id.as_deref() == Some(run) && i.state == "interrupted")
    }

    pub(super) fn is_active(&self, run: &str) -> bool {
        let listed = self
            .session_info
            .as_ref()
            .and_then(|i| i.active_run_ids.as_ref());
        self.in_flight_run.as_ref().is_some_and(|r| r.run_id == run)
            || listed.is_some_and(|ids| ids.iter().any(|id| id == run))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.in_flight_run.is_some() || self.session_info.as_ref().is_some_and(|i| i.has_active_run)
    }

    /// Whether the gateway no longer has the session.
    pub(super) fn is_gone(&self) -> bool {
        let none = |info: &Info| info.updated_at.is_none();
        self.messages.is_empty() && self.session_info.as_ref().is_some_and(none)
    }

    /// How the session says that it stands.
    pub(super) fn says(&self, status: &str) -> bool {
        let said = self.session_info.as_ref().and_then(|i| i.status.as_deref());
        said == Some(status)
    }
}
