//! Who says how a run stands. Pure: what the gateway answered, in; a ruling, out.
//!
//! In this order: `agent.wait`, the native task record, the transcript. A `chat` terminal is asked
//! about before it counts. After the gateway restarted, only what it keeps on disk counts, and a turn
//! that it took up again goes on under a new name.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use threadline_contract::{Code, Usage};

use super::{
    story::{sentence, texts},
    used::Used,
};
use crate::{End, EndStatus};

/// A gateway that has been answering us for so long has taken up every turn that it will take up. On a
/// busy machine that took half a minute.
const RESUMED_BY: Duration = Duration::from_secs(60);
/// The same, while the session still says that it works: broken-off turns are taken up one after the
/// other, and the last of many waits for those before it.
const SURELY_RESUMED_BY: Duration = Duration::from_secs(900);
/// One that started so many times as long ago surely has, although we came only now: how long it took
/// to start counts as up.
const LONG_UP: u32 = 5;
/// How the gateway marks the message with which it takes up a turn.
const RECOVERY: &str = "main_session_restart_recovery";

/// `agent.wait`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wait {
    #[serde(default)]
    status: String,
    #[serde(default)]
    pub(super) ended_at: Option<i64>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    terminal_reply: Option<Reply>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Reply {
    #[serde(default)]
    text: Option<String>,
}

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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
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
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InFlight {
    #[serde(default)]
    run_id: String,
}

/// `tasks.list`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Tasks {
    #[serde(default)]
    tasks: Vec<Task>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    ended_at: Option<i64>,
}

/// Everything that is known about a run.
#[derive(Clone, Debug)]
pub(super) struct Evidence<'a> {
    /// The name under which the gateway has the run now.
    pub(super) name: &'a str,
    /// The gateway did not restart since the run began under this name.
    pub(super) same_boot: bool,
    /// Somebody asked the run to stop.
    pub(super) cancel_asked: bool,
    /// How long the gateway has been answering us.
    pub(super) heard: Duration,
    /// How long it has been up.
    pub(super) uptime: Duration,
    pub(super) wait: Wait,
    pub(super) history: History,
    pub(super) tasks: Tasks,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ruling {
    /// It goes on.
    Running,
    /// It goes on under this name.
    Renamed(String),
    /// It ended, at this time of the gateway's clock.
    Ended(End, Option<i64>),
    /// Nobody can tell yet: the gateway may still take it up.
    Unclear,
    /// The gateway accepted it, and gave it back before it worked on it, because it was stopping. It
    /// wants such a turn anew, under another name.
    GivenBack,
    /// The gateway never had it.
    NoRecord,
}

impl Wait {
    /// The end, if this tells one. `timeout` alone means "not known".
    pub(super) fn end(&self) -> Option<End> {
        let text = self.terminal_reply.as_ref().and_then(|r| r.text.clone());
        let text = text.filter(|t| !t.trim().is_empty());
        let why = self
            .error
            .as_deref()
            .unwrap_or("The gateway gives no reason.");
        let aborted = matches!(
            self.stop_reason.as_deref(),
            Some("rpc" | "aborted" | "cancelled" | "user" | "stop-command")
        ) || self.error.as_deref() == Some("aborted");
        match self.status.as_str() {
            "ok" => Some(completed(text)),
            "error" if aborted => Some(cancelled()),
            "error" => Some(failed(why)),
            "timeout" if self.ended_at.is_some() && aborted => Some(cancelled()),
            "timeout" if self.ended_at.is_some() => {
                Some(failed("The gateway's own time limit for a run passed."))
            }
            _ => None,
        }
    }

    /// It waits behind another turn.
    fn is_queued(&self) -> bool {
        self.status == "pending"
    }
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
    fn text(&self) -> Option<String> {
        texts(&self.content)
    }
}

impl History {
    fn user_row(&self, run: &str) -> Option<usize> {
        let key = format!("{run}:user");
        self.messages
            .iter()
            .rposition(|row| row.key() == Some(&key))
    }

    /// The name under which the gateway took the turn up, if it did: the message that says so follows
    /// the turn's own, before anybody else's.
    fn taken_up_as(&self, run: &str) -> Option<String> {
        let after = self.messages.get(self.user_row(run)? + 1..)?;
        let next = after.iter().find(|row| row.role == "user")?;
        let name = next.key()?.strip_suffix(":user")?;
        (next.is_recovery() && name != run).then(|| name.to_owned())
    }

    /// What the transcript says about the run's end.
    fn end(&self, run: &str) -> Option<End> {
        let error = format!("{run}:terminal-error");
        let rows = || self.messages.iter().filter(|row| row.role == "assistant");
        if let Some(row) = rows().rfind(|row| row.key() == Some(&error)) {
            let text = row.text();
            let why = row.error_message.as_deref().or(text.as_deref());
            return Some(failed(why.unwrap_or_default()));
        }
        // Its last word must be an answer: after a tool call it was still at work.
        let of_run = |row: &&Row| row.is_of(run) && row.role != "user";
        let last = self.messages.iter().rfind(of_run)?;
        match (last.role.as_str(), last.stop_reason.as_deref()) {
            ("assistant", Some("stop" | "end_turn" | "length")) => Some(completed(last.text())),
            ("assistant", Some("aborted")) => Some(cancelled()),
            _ => None,
        }
    }

    /// The text of the run's last answer.
    fn answer(&self, run: &str) -> Option<String> {
        let answers = |row: &&Row| row.role == "assistant" && row.is_of(run);
        self.messages.iter().rfind(answers).and_then(Row::text)
    }

    /// The run's messages so far, with their ids.
    pub(super) fn said(&self, run: &str) -> Vec<(String, String)> {
        let of_run = |row: &&Row| {
            row.role == "assistant" && row.is_of(run) && row.stop_reason.as_deref() != Some("error")
        };
        let rows = self.messages.iter().filter(of_run);
        rows.filter_map(|row| Some((row.own.id.clone()?, row.text()?)))
            .collect()
    }

    /// What the run's model calls used, when all of them are in view.
    pub(super) fn usage(&self, run: &str) -> Option<Usage> {
        self.user_row(run)?;
        let of_run = self.messages.iter().filter(|row| row.is_of(run));
        Used::total(of_run.filter_map(|row| row.usage.as_ref()))
    }

    /// The gateway accepted the run, and stopped before it put it into the transcript.
    fn is_given_back(&self, run: &str) -> bool {
        let mut inputs = self.pending_inputs.items.iter();
        self.user_row(run).is_none()
            && inputs.any(|i| i.run_id.as_deref() == Some(run) && i.state == "interrupted")
    }

    fn is_active(&self, run: &str) -> bool {
        let listed = self
            .session_info
            .as_ref()
            .and_then(|i| i.active_run_ids.as_ref());
        self.in_flight_run.as_ref().is_some_and(|r| r.run_id == run)
            || listed.is_some_and(|ids| ids.iter().any(|id| id == run))
    }

    fn is_busy(&self) -> bool {
        self.in_flight_run.is_some() || self.session_info.as_ref().is_some_and(|i| i.has_active_run)
    }

    /// How the session says that it stands.
    fn says(&self, status: &str) -> bool {
        let said = self.session_info.as_ref().and_then(|i| i.status.as_deref());
        said == Some(status)
    }
}

/// Rules on the evidence.
pub(super) fn rule(seen: &Evidence<'_>) -> Ruling {
    let run = seen.name;
    if let Some(end) = seen.wait.end() {
        return Ruling::Ended(end, seen.wait.ended_at);
    }
    if seen.wait.is_queued() || seen.history.is_active(run) {
        return Ruling::Running;
    }
    if !seen.same_boot
        && let Some(name) = seen.history.taken_up_as(run)
    {
        return Ruling::Renamed(name);
    }
    let task = seen.tasks.tasks.iter().find(|task| task.run_id == run);
    if let Some(task) = task {
        let why = task.error.as_deref().unwrap_or_default();
        match task.status.as_str() {
            "completed" | "succeeded" => {
                return Ruling::Ended(completed(seen.history.answer(run)), task.ended_at);
            }
            // It was not broken off but ended, so the gateway does not take it up by itself.
            "failed" if !seen.same_boot && seen.history.is_given_back(run) => {
                return Ruling::GivenBack;
            }
            "failed" | "timed_out" => return Ruling::Ended(failed(why), task.ended_at),
            // The gateway cancels the tasks of a process that is gone, and may take them up afterwards.
            "cancelled" if seen.same_boot || seen.history.says("killed") => {
                return Ruling::Ended(cancelled(), task.ended_at);
            }
            "queued" | "running" if seen.same_boot => return Ruling::Running,
            _ => {}
        }
    }
    if let Some(end) = seen.history.end(run) {
        return Ruling::Ended(end, None);
    }
    if task.is_none() && seen.history.user_row(run).is_none() {
        return Ruling::NoRecord;
    }
    if seen.same_boot || seen.history.is_busy() {
        return Ruling::Unclear;
    }
    let resumed_by = match seen.history.says("running") {
        true => SURELY_RESUMED_BY,
        false => RESUMED_BY,
    };
    if seen.heard.max(seen.uptime / LONG_UP) < resumed_by {
        return Ruling::Unclear;
    }
    match seen.cancel_asked {
        true => Ruling::Ended(cancelled(), None),
        false => Ruling::Ended(lost(), None),
    }
}

fn completed(text: Option<String>) -> End {
    End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text,
        usage: None,
        wrote: vec![],
    }
}

pub(super) fn cancelled() -> End {
    End {
        status: EndStatus::Cancelled,
        ..completed(None)
    }
}

fn failed(why: &str) -> End {
    End::failed(Code::ExecutionFailed, sentence(why))
}

/// The gateway restarted with the turn in its hands, and did not take it up.
pub(super) fn lost() -> End {
    End::failed(
        Code::RunLost,
        "The OpenClaw gateway restarted before it worked on this turn, and did not take it up again. Send it again.",
    )
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
