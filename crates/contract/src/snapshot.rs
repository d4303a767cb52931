//! The full state of a run as its registry tells it.

use serde::{Deserialize, Serialize};

use crate::{
    AppThreadKey, ArtifactScope, ArtifactSet, Code, Millis, Missing, PermissionPolicy, RunId,
    RuntimeId, SessionKey, Usage,
};

/// How a run stands. Everything but `running` is an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It works, or waits for its turn, or its files are being looked at.
    Running,
    /// The registry says it is done, and nothing declared is missing.
    Completed,
    /// The registry says it failed.
    Failed,
    /// The registry says it was stopped.
    #[serde(alias = "canceled")]
    Cancelled,
    /// Done, but a declared deliverable is missing.
    ArtifactMissing,
}

impl RunStatus {
    /// Whether the run has ended.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Running)
    }
    /// Its spelling on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::ArtifactMissing => "artifact_missing",
        }
    }
    /// Reads the spelling back.
    pub fn find(text: &str) -> Option<Self> {
        [
            Self::Running,
            Self::Completed,
            Self::Failed,
            Self::Cancelled,
            Self::ArtifactMissing,
        ]
        .into_iter()
        .find(|s| s.as_str() == text)
    }
}

/// What a running run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It waits for a place in the runtime's lane, or for the turn before it.
    Queued,
    /// Its folders are being made.
    Preparing,
    /// The runtime works.
    Working,
    /// A person is asked something.
    Waiting,
    /// It ended; declared deliverables are being looked for.
    Verifying,
    /// It ended; its files are being collected.
    Collecting,
    /// Something that this version does not know: another bridge says so.
    #[serde(other)]
    Unknown,
}

/// Where a run stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuePlace {
    /// 1 is next.
    pub position: u32,
    /// How many wait.
    pub queued: u32,
}

/// What is going on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// A sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when the run exists, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<i64>,
}

/// What a person should know of a run that completed all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunWarning {
    /// What it is, for programs.
    pub code: Code,
    /// The same, as a sentence.
    pub message: String,
}

/// How long a task may take, as its request says; nobody guesses it from its words.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LoadClass {
    /// A short one: 10 minutes unless configured otherwise.
    ShortTask,
    /// A long one: 30 minutes.
    #[default]
    LongTask,
    /// Many steps that build on each other: 60 minutes.
    ComplexChainTask,
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The registry was asked just now.
    Registry,
    /// The registry could not be asked; this is what it last said.
    Stored,
}

/// A run as its caller sees it: a running handle (only good for asking again), or a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// In a terminal snapshot: completed. In a running handle: accepted.
    pub success: bool,
    /// How the run stands.
    pub status: RunStatus,
    /// The thread.
    pub session_id: AppThreadKey,
    /// The thread, again.
    pub thread_id: AppThreadKey,
    /// The thread, under its typed name.
    pub app_thread_key: AppThreadKey,
    /// The run.
    pub run_id: RunId,
    /// The run, under the app's name.
    pub turn_id: RunId,
    /// The session on the runtime, from the durable mapping.
    pub session_key: SessionKey,
    /// The same, under its older name, where the runtime is OpenClaw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openclaw_session_key: Option<SessionKey>,
    /// Where it runs.
    pub runtime: RuntimeId,
    /// `gateway-chat` or `agent-chat`.
    pub mode: String,
    /// The final text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The same, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What a person should know of a run that completed all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RunWarning>,
    /// What is going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePlace>,
    /// The run's scope.
    pub artifact_scope: ArtifactScope,
    /// The scope's folder on the runtime's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_directory: Option<String>,
    /// The run's files, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<ArtifactSet>,
    /// The files are still being collected although the result is out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub artifacts_pending: bool,
    /// The files could not be collected: the sentence that says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_failed: Option<String>,
    /// Declared deliverables that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How long the runtime worked on it, or has so far, in milliseconds: from `startedAt` to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<i64>,
    /// How much of that a question was open: time that counts against no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<i64>,
    /// How long it may take, by class.
    #[serde(default)]
    pub task_load_class: LoadClass,
    /// The same in minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_budget_minutes: Option<u32>,
    /// When its time is over, once it has begun. It moves on while a question is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Millis>,
    /// What becomes of the permissions that its agent asks for.
    #[serde(default, skip_serializing_if = "PermissionPolicy::is_ask")]
    pub permission_policy: PermissionPolicy,
    /// When it was accepted.
    pub created_at: Millis,
    /// When the runtime began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Somebody asked for it to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_requested: bool,
    /// Its time is over, and the registry has not ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadline_exceeded: bool,
    /// The run goes on as far as anybody knows, but its runtime cannot be asked now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transport_degraded: bool,
    /// Why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_degraded_code: Option<Code>,
    /// Where this comes from.
    pub source: Source,
    /// When the registry said it.
    pub observed_at: Millis,
    /// `no_record` when the registry has since forgotten a run whose end was confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}
