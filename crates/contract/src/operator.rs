//! What an operator sees: runs, sessions, runtimes and the hosts of agents, each with the reason why it
//! stands as it does. Every account sees its own, and nothing of another.

use serde::{Deserialize, Serialize};

use crate::{
    Actor, AppThreadKey, Code, Millis, QueuePlace, RunId, RunStatus, RuntimeId, SessionKey, Stage,
    Usage, method::ProviderState,
};

/// Why something stands as it does, and what comes of it. Every sentence is for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Why it is so.
    pub why: String,
    /// Since when.
    pub since: Millis,
    /// How that is known.
    pub evidence: String,
    /// When that was last seen.
    pub seen_at: Millis,
    /// What happens next, by itself or by somebody's hand.
    pub next: String,
}

/// Result of `xworkmate.operator.status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorStatus {
    /// The server's version.
    pub version: String,
    /// When this was seen.
    pub at: Millis,
    /// How many of the account's runs have not ended.
    pub open: OpenRuns,
    /// How many questions of its runs wait.
    pub questions: u32,
    /// Where turns run.
    pub runtimes: Vec<RuntimeLine>,
    /// Processes that keep the agents of the account's sessions.
    pub hosts: Vec<HostLine>,
}

/// Runs that have not ended, or whose files are still being collected.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct OpenRuns {
    /// That wait for their turn.
    pub queued: u64,
    /// That run, or are about to.
    pub running: u64,
    /// That ended, and whose files are being collected.
    pub collecting: u64,
}

/// A runtime as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeLine {
    /// What to name it by.
    pub runtime: RuntimeId,
    /// Its lane, over all accounts, and whether it can take work.
    #[serde(flatten)]
    pub state: ProviderState,
    /// The last run of the account that failed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// Why it stands so.
    pub standing: Standing,
}

/// The last failure on a runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// The run.
    pub run_id: RunId,
    /// Its thread.
    pub thread_id: AppThreadKey,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The same, as a sentence.
    pub message: String,
    /// When it ended.
    pub at: Millis,
}

/// The process that keeps a session's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostLine {
    /// The session.
    pub session_key: SessionKey,
    /// Its thread.
    pub thread_id: AppThreadKey,
    /// The agent.
    pub runtime: RuntimeId,
    /// How it stands.
    pub state: HostState,
    /// The host's process.
    pub pid: u32,
    /// The agent's process.
    pub agent_pid: u32,
    /// When it began.
    pub started_at: Millis,
    /// Why it stands so.
    pub standing: Standing,
}

/// How a host stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// Its agent has something to do.
    Working,
    /// Its agent waits for an answer.
    Waiting,
    /// Its agent has nothing to do.
    Idle,
    /// It lives, and does not answer.
    Silent,
    /// It was killed.
    Lost,
}

impl HostState {
    /// The same, in a word or two.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Working => "at work",
            Self::Waiting => "waits for an answer",
            Self::Idle => "idle",
            Self::Silent => "does not answer",
            Self::Lost => "killed",
        }
    }
}

/// Which runs of the account are listed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WhichRuns {
    /// Every one.
    #[default]
    All,
    /// Those that have not ended, or whose files are being collected.
    Open,
    /// Those that failed, or did not deliver what they had to.
    Failed,
}

/// Parameters of `xworkmate.operator.runs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunsParams {
    /// Which (all, when not said).
    #[serde(default)]
    pub which: WhichRuns,
    /// How many a page has (50, when not said; at most 200).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Goes on where a page ended: its `nextCursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `xworkmate.operator.runs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunsPage {
    /// Newest first.
    pub runs: Vec<RunLine>,
    /// There are more: ask with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLine {
    /// The run.
    pub run_id: RunId,
    /// Its thread.
    pub thread_id: AppThreadKey,
    /// Where it runs.
    pub runtime: RuntimeId,
    /// The session that it is a turn of.
    pub session_key: SessionKey,
    /// How it stands.
    pub status: RunStatus,
    /// What it is doing, while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Its place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePlace>,
    /// Somebody asked for it to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_requested: bool,
    /// Who asked; absent where it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_by: Option<Actor>,
    /// Who began it; absent where it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<Actor>,
    /// When it was accepted.
    pub created_at: Millis,
    /// When the runtime began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// What it used, as far as the runtime reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it stands so.
    pub standing: Standing,
}

impl RunLine {
    /// How it stands, in a word or two.
    pub fn word(&self) -> &'static str {
        match (self.status, self.stage) {
            (RunStatus::Running, _) if self.cancel_requested => "cancelling",
            (RunStatus::Running, Some(Stage::Queued)) => "queued",
            (RunStatus::Running, Some(Stage::Preparing)) => "getting ready",
            (RunStatus::Running, Some(Stage::Waiting)) => "waits for an answer",
            (RunStatus::Running, Some(Stage::Verifying)) => "looking for its files",
            (RunStatus::Running, _) => "working",
            (_, Some(_)) => "collecting its files",
            (RunStatus::Completed, None) => "done",
            (RunStatus::Failed, None) => "failed",
            (RunStatus::ArtifactMissing, None) => "not delivered",
            (RunStatus::Cancelled, None) => "cancelled",
        }
    }
}

/// Parameters of `xworkmate.operator.sessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsParams {
    /// How many a page has (50, when not said; at most 200).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Goes on where a page ended: its `nextCursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `xworkmate.operator.sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsPage {
    /// Newest first.
    pub sessions: Vec<SessionLine>,
    /// There are more: ask with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session with the thread that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionLine {
    /// The thread.
    pub thread_id: AppThreadKey,
    /// Where it runs.
    pub runtime: RuntimeId,
    /// Its name there.
    pub session_key: SessionKey,
    /// It takes turns.
    pub open: bool,
    /// Who closed it; absent where it is open, or it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<Actor>,
    /// The user's own folder, when it works there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// The session's page in the gateway's own interface, as the server reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
    /// When it was made.
    pub created_at: Millis,
    /// Why it stands so.
    pub standing: Standing,
}
