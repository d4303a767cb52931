//! The app's TaskThread: a user's conversation with one runtime, with a local workspace.

use serde::{Deserialize, Serialize};

use crate::{
    AppThreadKey, ArtifactPath, ArtifactScope, Code, Deliverable, Fault, LoadClass, Millis,
    Missing, Omitted, PermissionPolicy, Question, RequestId, ResultCode, RunId, RunWarning,
    RuntimeId, SessionKey, Sha256, Usage,
};

/// The record's version, as existing apps write it.
pub const SCHEMA_VERSION: u32 = 20_260_411;

/// `lifecycleStatus`: these values and no others. `ready` does not mean success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Lifecycle {
    /// No run is going on.
    Ready,
    /// A turn waits for a place in the lane.
    Queued,
    /// A run is going on.
    Running,
    /// Put away.
    Archived,
}

/// `lastArtifactSyncStatus`: these values and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncStatus {
    /// The turn waits.
    Queued,
    /// The run goes on.
    Running,
    /// The run ended; its files are on their way.
    Syncing,
    /// Every file is here and verified.
    Synced,
    /// Some files are here.
    Partial,
    /// No file could be brought, or the run failed.
    Failed,
    /// The run ended without success and had nothing to fetch.
    NoArtifacts,
    /// The run succeeded without files.
    NoExportedArtifacts,
}

/// What can happen to a thread's lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A turn was accepted and the lane is free.
    Start,
    /// A turn was accepted and the lane is busy.
    Wait,
    /// The turn's run ended, was stopped, or its result was given up on.
    End,
    /// The user puts the thread away.
    Archive,
    /// The user brings it back.
    Restore,
}

impl Lifecycle {
    /// The only way a lifecycle moves.
    pub fn after(self, step: Move) -> Result<Self, Fault> {
        use {Lifecycle::*, Move::*};
        match (self, step) {
            (Ready | Queued, Start) => Ok(Running),
            (Ready, Wait) => Ok(Queued),
            (Queued | Running, End) => Ok(Ready),
            (Ready, Archive) => Ok(Archived),
            (Archived, Restore) => Ok(Ready),
            (Archived, _) => Err(Fault::new(
                Code::ThreadArchived,
                "The thread is archived. Restore it first.",
            )),
            (Running | Queued, Start | Wait | Archive) => Err(Fault::new(
                Code::ThreadBusy,
                "The thread has a run. Wait for its end or cancel it first.",
            )),
            (Ready | Queued | Running, Restore) | (Ready, End) => {
                Err(Fault::invalid("The thread is not in a state for that."))
            }
        }
    }
}

/// One thread, one record, one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskThread {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Its key: `sessionKey` and `appThreadKey` are the same value.
    pub thread_id: AppThreadKey,
    /// A name people can type.
    pub name: String,
    /// What it is about: the first line of the first message, at most 200 characters of it.
    pub title: String,
    /// Where its files land.
    pub workspace_binding: WorkspaceBinding,
    /// Where its turns run.
    pub execution_binding: ExecutionBinding,
    /// What was said, and what came of it.
    pub context_state: ContextState,
    /// Where it stands.
    pub lifecycle_state: LifecycleState,
    /// When it was made.
    pub created_at_ms: Millis,
    /// When it last changed.
    pub updated_at_ms: Millis,
}

/// The local workspace of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceBinding {
    /// `localFs`.
    pub workspace_kind: String,
    /// The folder that files are synced into.
    pub workspace_path: String,
    /// The user's own folder, in which the agent works, when one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
}

/// Where a thread's turns run. Fixed at its first turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionBinding {
    /// `agent` or `gateway`.
    pub execution_mode: ExecutionMode,
    /// The runtime, once the bridge has chosen one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeId>,
    /// The bridge.
    pub endpoint_id: String,
}

/// The two execution targets. A record with the older `auto` is refused, alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionMode {
    /// An agent, builtin or over ACP.
    Agent,
    /// A gateway.
    Gateway,
}

/// What was said, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextState {
    /// The transcript: the user's own words and the runtime's, nothing that machines added.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// Turns that wait for the one before them, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued_turns: Vec<QueuedTurn>,
    /// The run that goes on, or the last one.
    #[serde(
        default,
        alias = "openClawTaskAssociation",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_association: Option<TaskAssociation>,
    /// What becomes of the permissions that its agents ask for; the bridge's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_policy: Option<PermissionPolicy>,
    /// How the last sync ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_artifact_sync_status: Option<SyncStatus>,
    /// More about it: a code and a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_artifact_sync_detail: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_artifact_sync_at_ms: Option<Millis>,
    /// The files of the current run, and no others.
    #[serde(default)]
    pub last_task_artifact_relative_paths: Vec<ArtifactPath>,
    /// The same files with size and digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_artifacts: Vec<SyncedFile>,
    /// The digest of the current run's receipt, which lies in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_receipt: Option<Sha256>,
    /// Files that were seen at the runtime and not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_omitted: Vec<Omitted>,
    /// What the run had to deliver and did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_missing: Vec<Missing>,
    /// Questions of its runs that were answered or ended otherwise, oldest first: the last
    /// [`CLOSED_QUESTIONS`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed_questions: Vec<Question>,
}

/// How many closed questions a thread keeps.
pub const CLOSED_QUESTIONS: usize = 200;

/// A file that came home and was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncedFile {
    /// Its path in the thread's workspace.
    pub path: ArtifactPath,
    /// Its length.
    pub size: u64,
    /// Its digest, computed from the bytes on this disk.
    pub sha256: Sha256,
    /// What it is.
    pub content_type: String,
    /// It is not any more what was verified: somebody edited, replaced or removed it. Looked at when
    /// it is asked for, and never stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// It is changed in that nothing stands under its name any more. Never stored either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// One message of the transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// `user` or `assistant`.
    pub role: Role,
    /// What was said.
    pub text: String,
    /// When.
    pub timestamp_ms: Millis,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// It is an error rather than an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
    /// It is what a run had said when it failed or was cancelled, and not all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// What a person should know of it although its run completed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<RunWarning>,
    /// What became of the turn that a message of the user asked for. Absent in answers, and in
    /// records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TurnState>,
    /// The turn that it belongs to: the idempotency key that the turn is sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// What came of the turn that a message of the user asked for, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<TurnResult>>,
}

/// What came of one turn. It stays with the turn's message when the thread goes on with the next one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnResult {
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_code: Option<ResultCode>,
    /// How its sync ended, or stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_sync_status: Option<SyncStatus>,
    /// More about it: a code and a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_sync_detail: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_sync_at_ms: Option<Millis>,
    /// How many files came.
    #[serde(default)]
    pub files: u64,
    /// How many bytes they have.
    #[serde(default)]
    pub bytes: u64,
    /// These files by path: in a stored record the first [`MAX_TURN_FILES`], and the rest stands in the run's
    /// receipt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<SyncedFile>,
    /// The digest of its run's receipt, which lies in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Sha256>,
    /// Files that were seen at the runtime and not taken: the first [`MAX_TURN_FILES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omitted>,
    /// What the run had to deliver and did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What it used, as far as the runtime reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How long the runtime worked on it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<i64>,
    /// How much of that a question was open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<i64>,
}

/// How many files of a turn its record names. A thread has many turns, and is written as a whole.
pub const MAX_TURN_FILES: usize = 200;

impl TurnResult {
    /// Whether it is known what became of its files, or that none will come.
    pub fn is_settled(&self) -> bool {
        let open = matches!(
            self.artifact_sync_status,
            None | Some(SyncStatus::Queued | SyncStatus::Running | SyncStatus::Syncing)
        );
        self.result_code.is_some() && !open
    }
}

impl TaskThread {
    /// The message that asked for a turn.
    pub fn turn(&self, request: &RequestId) -> Option<&Message> {
        let messages = self.context_state.messages.iter().rev();
        let mut own =
            messages.filter(|m| m.role == Role::User && m.request_id.as_ref() == Some(request));
        own.next()
    }

    /// What came of a turn, as its record says.
    pub fn result_of(&self, request: &RequestId) -> Option<&TurnResult> {
        self.turn(request)?.result.as_deref()
    }
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// It waits for the turn before it, or for a place in the lane.
    Queued,
    /// Its run goes on.
    Running,
    /// Its run succeeded.
    Done,
    /// Its run did not succeed, or it could not be sent.
    Failed,
    /// The user stopped its run.
    Cancelled,
    /// The user stopped the thread while it waited: it never ran.
    Dropped,
}

/// Who spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The runtime.
    Assistant,
}

/// A turn that waits; kept in the record, so that a restart does not lose it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurn {
    /// The idempotency key that it will be sent with.
    pub request_id: RequestId,
    /// What to do.
    pub prompt: String,
    /// What must come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliverables: Vec<Deliverable>,
    /// Files that go with it, by path on this machine, copied aside when it was queued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
    /// How long it may take; as the bridge has it, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_class: Option<LoadClass>,
    /// When it was asked for.
    pub queued_at_ms: Millis,
}

/// The run that a thread is waiting for, or the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskAssociation {
    /// The thread.
    pub app_thread_key: AppThreadKey,
    /// The idempotency key it was sent with.
    pub request_id: RequestId,
    /// The run, once the bridge has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The session on the runtime.
    #[serde(
        default,
        alias = "openclawSessionKey",
        skip_serializing_if = "Option::is_none"
    )]
    pub session_key: Option<SessionKey>,
    /// Where the session works on the runtime's host, as its bridge said. Told, never used for access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_working_directory: Option<String>,
    /// Its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_scope: Option<ArtifactScope>,
    /// When it was sent.
    pub started_at_ms: Millis,
    /// The last event of the thread's log that was seen.
    #[serde(default)]
    pub last_event_id: i64,
    /// The user asked to stop it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_requested: bool,
    /// What it used, as far as the runtime reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How long the runtime worked on it, in milliseconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<i64>,
    /// How much of that a question was open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<i64>,
}

/// Where a thread stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleState {
    /// The lifecycle.
    pub status: Lifecycle,
    /// When the last run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at_ms: Option<Millis>,
    /// How it ended; empty while queued or running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_result_code: Option<ResultCode>,
}

#[cfg(test)]
mod tests {
    use super::{Lifecycle::*, Move::*};

    #[test]
    fn every_pair_of_state_and_move_is_decided() {
        let table = [
            (
                Ready,
                [Some(Running), Some(Queued), None, Some(Archived), None],
            ),
            (Queued, [Some(Running), None, Some(Ready), None, None]),
            (Running, [None, None, Some(Ready), None, None]),
            (Archived, [None, None, None, None, Some(Ready)]),
        ];
        for (from, wants) in table {
            for (step, want) in [Start, Wait, End, Archive, Restore].into_iter().zip(wants) {
                assert_eq!(from.after(step).ok(), want, "{from:?} {step:?}");
            }
        }
    }
}
