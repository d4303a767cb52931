//! Who says how a run stands. Pure: what the gateway answered, in; a ruling, out.
//!
//! In this order: `agent.wait`, the native task record, the transcript. A `chat` terminal is asked
//! about before it counts. After the gateway restarted, only what it keeps on disk counts, and a turn
//! that it took up again goes on under a new name.

use std::time::Duration;

use serde::Deserialize;

use super::{
    ends::{cancelled, completed, failed, lost},
    transcript::History,
};
use crate::End;

/// A gateway that has been answering us for so long has taken up every turn that it will take up. On a
/// busy machine that took half a minute.
const RESUMED_BY: Duration = Duration::from_secs(60);
/// The same, while the session still says that it works: broken-off turns are taken up one after the
/// other, and the last of many waits for those before it.
const SURELY_RESUMED_BY: Duration = Duration::from_secs(900);
/// One that started so many times as long ago surely has, although we came only now: how long it took
/// to start counts as up.
const LONG_UP: u32 = 5;
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

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
