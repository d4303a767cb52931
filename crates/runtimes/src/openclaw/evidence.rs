//! Who says how a run stands. Pure: what the gateway answered, in; a ruling, out.
//!
//! In this order: `agent.wait`, the native task record, the transcript. A `chat` terminal is asked
//! about before it counts. After the gateway restarted, only what it keeps on disk counts, and a turn
//! that it took up again goes on under a new name.

use std::time::Duration;

use serde::Deserialize;

use super::{
    ends::{BROKEN_OFF, DELETED, Stop, Told, cancelled, completed, failed, lost, stopped},
    reply::Reply,
    transcript::History,
};
use crate::EndStatus;

/// A gateway that has been answering us for so long has taken up every turn that it will take up. On a
/// busy machine that took half a minute.
const RESUMED_BY: Duration = Duration::from_secs(60);
/// The same, while the session still says that it works: broken-off turns are taken up one after the
/// other, and the last of many waits for those before it.
const SURELY_RESUMED_BY: Duration = Duration::from_secs(900);
/// One that started so many times as long ago surely has, although we came only now: how long it took
/// to start counts as up.
const LONG_UP: u32 = 5;
/// What the gateway itself writes as the reason when nobody gave one.
const NO_REASON: &str = "Cancelled by operator";

/// `agent.wait`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wait {
    #[serde(default)]
    status: String,
    #[serde(default)]
    ended_at: Option<i64>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    terminal_reply: Option<TerminalReply>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct TerminalReply {
    #[serde(default)]
    text: Option<String>,
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
    terminal_summary: Option<String>,
    #[serde(default)]
    ended_at: Option<i64>,
}

impl Tasks {
    fn of(&self, run: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.run_id == run)
    }

    /// Whether the record of a run says that it is over.
    pub(super) fn is_over(&self, run: &str) -> bool {
        let open = |task: &Task| matches!(task.status.as_str(), "queued" | "running");
        self.of(run).is_some_and(|task| !open(task))
    }

    /// The reason that somebody gave who cancelled a run: what the record calls an error and the run
    /// itself did not say.
    pub(super) fn reason(&self, run: &str) -> Option<String> {
        let task = self.of(run).filter(|task| task.status == "cancelled")?;
        let reason = task.error.as_deref().map(str::trim)?;
        let own = task.terminal_summary.as_deref().map(str::trim);
        let is_given = reason.trim_end_matches('.') != NO_REASON && own != Some(reason);
        (!reason.is_empty() && is_given).then(|| reason.to_owned())
    }
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
    /// It ended.
    Ended(Told),
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
    pub(super) fn end(&self) -> Option<Told> {
        let text = self.terminal_reply.as_ref().and_then(|r| r.text.as_deref());
        let reply = text.filter(|t| !t.trim().is_empty()).map(Reply::of_wait);
        let why = self
            .error
            .as_deref()
            .unwrap_or("The gateway gives no reason.");
        let aborted = matches!(
            self.stop_reason.as_deref(),
            Some("rpc" | "aborted" | "cancelled" | "user" | "stop-command")
        ) || self.error.as_deref() == Some("aborted");
        let deleted = self.stop_reason.as_deref() == Some(DELETED);
        let told = match self.status.as_str() {
            "ok" => Some(completed(reply)),
            "error" | "timeout" if deleted => Some(stopped(Stop::Deleted)),
            "error" if aborted => Some(cancelled()),
            "error" => Some(failed(why)),
            "timeout" if self.ended_at.is_some() && aborted => Some(cancelled()),
            "timeout" if self.ended_at.is_some() => {
                Some(failed("The gateway's own time limit for a run passed."))
            }
            _ => None,
        };
        told.map(|told| told.at(self.ended_at))
    }

    /// The gateway broke it off, because it stops or because the session was reset.
    pub(super) fn is_broken_off(&self) -> bool {
        self.status != "ok" && self.stop_reason.as_deref() == Some(BROKEN_OFF)
    }

    /// It waits behind another turn.
    fn is_queued(&self) -> bool {
        self.status == "pending"
    }
}

/// Rules on the evidence.
pub(super) fn rule(seen: &Evidence<'_>) -> Ruling {
    match stands(seen) {
        // Deleting a session stops what it works on, and that is all the gateway says of it afterwards.
        Ruling::Ended(told)
            if told.end.status == EndStatus::Cancelled
                && told.stop.is_none()
                && seen.history.is_gone() =>
        {
            Ruling::Ended(Told {
                stop: Some(Stop::Deleted),
                ..told
            })
        }
        ruling => ruling,
    }
}

fn stands(seen: &Evidence<'_>) -> Ruling {
    let run = seen.name;
    // A gateway that stops answers no questions, so this one does not.
    if seen.same_boot && seen.wait.is_broken_off() {
        return Ruling::Ended(stopped(Stop::Reset).at(seen.wait.ended_at));
    }
    if let Some(told) = seen.wait.end() {
        return Ruling::Ended(told);
    }
    if seen.wait.is_queued() || seen.history.is_active(run) {
        return Ruling::Running;
    }
    if !seen.same_boot
        && let Some(name) = seen.history.taken_up_as(run)
    {
        return Ruling::Renamed(name);
    }
    let task = seen.tasks.of(run);
    if let Some(task) = task {
        let why = task.error.as_deref().unwrap_or_default();
        match task.status.as_str() {
            "completed" | "succeeded" => {
                return Ruling::Ended(completed(seen.history.answer(run)).at(task.ended_at));
            }
            // It was not broken off but ended, so the gateway does not take it up by itself.
            "failed" if !seen.same_boot && seen.history.is_given_back(run) => {
                return Ruling::GivenBack;
            }
            "failed" | "timed_out" => return Ruling::Ended(failed(why).at(task.ended_at)),
            // The gateway cancels the tasks of a process that is gone, and may take them up afterwards.
            "cancelled"
                if seen.same_boot || seen.history.says("killed") || seen.history.is_gone() =>
            {
                return Ruling::Ended(cancelled().at(task.ended_at));
            }
            "queued" | "running" if seen.same_boot => return Ruling::Running,
            _ => {}
        }
    }
    if let Some(told) = seen.history.end(run) {
        return Ruling::Ended(told);
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
        true => Ruling::Ended(cancelled()),
        false => Ruling::Ended(lost()),
    }
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
