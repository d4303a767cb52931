//! The methods of `/acp/rpc`: their names, parameters and results.

use serde::{Deserialize, Serialize};

use crate::{
    AppThreadKey, ArtifactScope, Deliverable, Millis, Question, QuestionId, RemovedFor, Routing,
    RunId, RuntimeId, SessionKey, turn::AttachmentOutline,
};

/// What is really installed and reachable.
pub const CAPABILITIES: &str = "acp.capabilities";
/// Starts a new session's first turn.
pub const START: &str = "session.start";
/// Goes on with a session.
pub const MESSAGE: &str = "session.message";
/// Asks the running turn of a session to stop.
pub const CANCEL: &str = "session.cancel";
/// Ends a session.
pub const CLOSE: &str = "session.close";
/// Removes everything that the bridge holds of a thread, for good.
pub const DELETE: &str = "session.delete";
/// Says where a turn would run.
pub const ROUTING_RESOLVE: &str = "xworkmate.routing.resolve";
/// Looks at the runtimes now, rather than saying what was seen a moment ago.
pub const PROVIDER_PROBE: &str = "xworkmate.provider.probe";
/// The snapshot of a run.
pub const TASKS_GET: &str = "xworkmate.tasks.get";
/// Asks a run to stop.
pub const TASKS_CANCEL: &str = "xworkmate.tasks.cancel";
/// Questions that wait.
pub const QUESTIONS_LIST: &str = "xworkmate.questions.list";
/// Answers one.
pub const QUESTIONS_ANSWER: &str = "xworkmate.questions.answer";
/// Permissions that wait: questions of that kind, under their older name.
pub const PERMISSIONS_LIST: &str = "xworkmate.permissions.list";
/// Answers one.
pub const PERMISSIONS_RESPOND: &str = "xworkmate.permissions.respond";
/// Removes the files of old runs, or says which would go.
pub const ARTIFACTS_GC: &str = "xworkmate.artifacts.gc";
/// How the server stands, for an operator.
pub const OPERATOR_STATUS: &str = "xworkmate.operator.status";
/// Every run of the account, page by page.
pub const OPERATOR_RUNS: &str = "xworkmate.operator.runs";
/// Every session of the account with its thread, page by page.
pub const OPERATOR_SESSIONS: &str = "xworkmate.operator.sessions";
/// The notification that carries every logged event.
pub const UPDATE: &str = "session.update";
/// The first notification of an event-stream answer.
pub const ACCEPTED: &str = "xworkmate.bridge.accepted";
/// Says that the stream lives.
pub const KEEPALIVE: &str = "xworkmate.bridge.keepalive";

/// Every request method, in the order of the documentation.
pub const ALL: [&str; 18] = [
    CAPABILITIES,
    START,
    MESSAGE,
    CANCEL,
    CLOSE,
    DELETE,
    ROUTING_RESOLVE,
    PROVIDER_PROBE,
    TASKS_GET,
    TASKS_CANCEL,
    QUESTIONS_LIST,
    QUESTIONS_ANSWER,
    PERMISSIONS_LIST,
    PERMISSIONS_RESPOND,
    ARTIFACTS_GC,
    OPERATOR_STATUS,
    OPERATOR_RUNS,
    OPERATOR_SESSIONS,
];

/// Parameters of `session.cancel`, `session.close` and `session.delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionParams {
    /// The thread.
    pub session_id: AppThreadKey,
}

/// Result of `session.cancel`, `session.close` and `xworkmate.tasks.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The request was taken. It is not proof that anything stopped.
    pub accepted: bool,
    /// The run that was asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// `session.close`: the session was open until now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
    /// The registry has confirmed that the run stopped.
    #[serde(default)]
    pub cancelled: bool,
    /// Why it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<crate::Code>,
    /// The same, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Result of `session.delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionDeleted {
    /// The thread.
    pub thread_id: AppThreadKey,
    /// Everything is gone. When false, it goes as soon as the runs that were asked to stop have
    /// stopped, also over a restart; asking again tells.
    pub deleted: bool,
}

/// Parameters of `xworkmate.tasks.get` and `xworkmate.tasks.cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskParams {
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_thread_key: Option<AppThreadKey>,
    /// The session, where the runtime is OpenClaw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openclaw_session_key: Option<SessionKey>,
    /// The run; the thread's latest when absent.
    #[serde(default, alias = "taskId", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Whether the files are listed (yes, when not said).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
    /// Goes on with a list of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many files a page has (200, when not said; at most 1,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u32>,
    /// Checked against session and run when given; never enough to find a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_scope: Option<ArtifactScope>,
}

/// Parameters of `xworkmate.questions.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionsParams {
    /// Only those of this thread.
    #[serde(default, alias = "sessionId", skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<AppThreadKey>,
    /// Also those that ended.
    #[serde(default)]
    pub include_closed: bool,
}

/// Result of `xworkmate.questions.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Questions {
    /// Oldest first, at most 500.
    pub questions: Vec<Question>,
}

/// Parameters of `xworkmate.questions.answer`: an option, or own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerParams {
    /// Which question.
    pub question_id: QuestionId,
    /// The option chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// In own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Result of `xworkmate.permissions.list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Permissions {
    /// Oldest first, at most 500.
    pub permissions: Vec<Permission>,
}

/// A question that asks for leave, with the older names beside its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// The question's id.
    pub request_id: QuestionId,
    /// The thread.
    pub session_id: AppThreadKey,
    /// The run.
    pub turn_id: RunId,
    /// When it was asked.
    pub created_at: Millis,
    /// The question itself.
    #[serde(flatten)]
    pub question: Question,
}

impl From<Question> for Permission {
    fn from(question: Question) -> Self {
        Self {
            request_id: question.question_id.clone(),
            session_id: question.thread_id.clone(),
            turn_id: question.run_id.clone(),
            created_at: question.asked_at,
            question,
        }
    }
}

/// Parameters of `xworkmate.permissions.respond`: an option, or that none of them is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RespondParams {
    /// Which permission.
    #[serde(alias = "questionId")]
    pub request_id: QuestionId,
    /// The thread, checked when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AppThreadKey>,
    /// The option chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// `cancel`: none is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// What can be decided without an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// None is chosen; the agent hears that it was declined.
    Cancel,
}

/// Result of `xworkmate.permissions.respond`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Responded {
    /// It was taken.
    pub accepted: bool,
    /// What the agent hears.
    pub outcome: Outcome,
    /// The permission, closed.
    pub permission: Permission,
}

/// What an agent hears about a permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    tag = "outcome",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Outcome {
    /// An option was chosen.
    Selected {
        /// Which.
        option_id: String,
    },
    /// None was.
    Cancelled,
}

/// Parameters of `xworkmate.provider.probe`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeParams {
    /// Only this runtime: its name in routing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// Result of `xworkmate.provider.probe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Probed {
    /// One for each runtime that was looked at.
    pub providers: Vec<ProviderState>,
}

/// How a runtime stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderState {
    /// The runtime, and how many turns it takes.
    #[serde(flatten)]
    pub provider: Provider,
    /// It can take work.
    pub available: bool,
    /// How it stands, in a word: `ready`, `demonstration`, `restarting`, `unreachable`, `refused`,
    /// `not_installed` or `incomplete`.
    pub status: String,
    /// In words: what it is, with its version where that is known, or why it cannot.
    #[serde(default)]
    pub about: String,
    /// Why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_code: Option<crate::Code>,
    /// Turns that run.
    pub active: u32,
    /// Turns that wait.
    pub queued: u32,
    /// When this was seen.
    pub probed_at: Millis,
}

/// Parameters of `xworkmate.artifacts.gc`: which of the caller's own runs' files go.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GcParams {
    /// Those that did not change for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u64>,
    /// The oldest, while all together have more bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Say what would go, and touch nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Result of `xworkmate.artifacts.gc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gc {
    /// Nothing was touched.
    pub dry_run: bool,
    /// How many runs' files are gone, or would be.
    pub removed_runs: u64,
    /// How many bytes they had.
    pub freed_bytes: u64,
    /// How many bytes the caller's runs still have.
    pub bytes_after: u64,
    /// Whose files are gone, the oldest first: at most 1,000 of them.
    pub removed: Vec<GcRemoved>,
    /// How many stay although they are old, or large.
    pub kept_runs: u64,
    /// Which, and why: at most 1,000 of them.
    pub kept: Vec<GcKept>,
    /// Folders without a stamp of ours, which are never touched.
    pub unknown: u64,
    /// There is more to remove: ask again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A run whose files are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcRemoved {
    /// The thread.
    pub thread_id: AppThreadKey,
    /// The run.
    pub run_id: RunId,
    /// Where they lay.
    pub scope: ArtifactScope,
    /// How many files, the bridge's own notes included.
    pub files: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// When the last of them changed.
    pub changed_at: Millis,
    /// Why they are gone.
    pub why: RemovedFor,
}

/// A run whose files stay although a rule would have them go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcKept {
    /// Where they lie.
    pub scope: ArtifactScope,
    /// Why.
    pub why: KeptFor,
    /// `held`: links lead to them until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

/// Why files stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptFor {
    /// Their run has not ended.
    Live,
    /// Links lead to them.
    Held,
    /// They changed within the last day.
    Grace,
}

/// Parameters of `xworkmate.routing.resolve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolveParams {
    /// Where to run.
    pub routing: Routing,
    /// Checked when given, as the turn's own would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Checked when given, as the turn's own would be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliverables: Vec<Deliverable>,
    /// Files that would come with it: checked when given, as the turn's own would be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentOutline>,
}

/// Result of `xworkmate.routing.resolve`, and of a turn whose runtime cannot take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// False when the runtime cannot take work.
    pub success: bool,
    /// `available` or `unavailable`.
    pub status: String,
    /// `agent` or `gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_execution_target: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_provider_id: Option<String>,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_gateway_provider_id: Option<String>,
    /// The runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeId>,
    /// Why it cannot take work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_code: Option<crate::Code>,
    /// The same, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_message: Option<String>,
}

/// Result of `acp.capabilities`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Turns run on one agent.
    pub single_agent: bool,
    /// Turns run on several at once. Never.
    pub multi_agent: bool,
    /// `agent`, and `gateway` where one is configured.
    pub available_execution_targets: Vec<String>,
    /// The agents.
    pub provider_catalog: Vec<Provider>,
    /// The gateways.
    pub gateway_providers: Vec<Provider>,
    /// What is reachable, and why not.
    pub provider_probe_summary: Vec<Probe>,
    /// Every method that is answered.
    pub methods: Vec<String>,
    /// The server's version.
    pub version: String,
}

/// One runtime in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Its name in routing.
    pub provider_id: String,
    /// Its name for people.
    pub label: String,
    /// `agent` or `gateway`.
    pub targets: Vec<String>,
    /// How many of its turns run at once.
    pub max_active: u32,
    /// How many may wait.
    pub max_queued: u32,
}

/// The [`Probe::status`] of the builtin runtime while no model is configured: it can take work, but
/// only to demonstrate.
pub const DEMONSTRATION: &str = "demonstration only: no model configured";

/// Whether a runtime can take work now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The runtime's name in routing.
    pub provider_id: String,
    /// It can.
    pub available: bool,
    /// How it stands, in a word: `ready`, `demonstration`, `restarting`, `unreachable`, `refused`,
    /// `not_installed` or `incomplete`.
    pub status: String,
    /// In words: what it is, or why it cannot.
    #[serde(default)]
    pub about: String,
}
