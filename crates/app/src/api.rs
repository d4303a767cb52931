//! The local API: what the command line and the pages say to the app.
//!
//! Requests come as JSON-RPC (`POST /app/rpc`, the envelopes of [`threadline_contract::rpc`]),
//! events go out as server-sent events (`GET /app/events`, [`AppEvent`]). The HTTP layer is a thin
//! shell around `App::dispatch`, `App::events` and `App::changes`.

mod deletion;
mod queue;
pub(crate) mod turn;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use threadline_contract::{
    AppThreadKey, Deliverable, LoadClass, Millis, PermissionPolicy, Progress, Question, QueuePlace,
    RequestId, ResultCode, RunId, RuntimeId, SessionUpdate,
    method::Gc,
    thread::{Lifecycle, SyncStatus, SyncedFile, TaskThread},
    turn::InlineAttachment,
};

pub use self::{
    deletion::{DeleteParams, Deleted, DeletionPreview, FileTotal, OwnFile},
    queue::{
        CancelParams, EditTurnParams, Queue, QueueParams, QueuedTurnView, TurnParams, WaitsFor,
    },
    turn::TurnView,
};

/// Sends a turn; makes the thread when none is named. [`SendParams`] → [`ThreadView`].
pub const SEND: &str = "app.send";
/// Sends the last turn again that was not dropped while it waited, as a new one. [`RetryParams`] → [`ThreadView`].
pub const RETRY: &str = "app.retry";
/// The threads, last changed first. [`ListParams`] → [`List`].
pub const LIST: &str = "app.list";
/// One thread with all of its state. [`ThreadParams`] → [`ThreadView`].
pub const SHOW: &str = "app.show";
/// One turn of a thread with what came of it, also after the thread has gone on. [`TurnParams`] → [`TurnView`].
pub const TURN: &str = "app.turn";
/// Stops the run and drops the turns that wait, or only one turn. [`CancelParams`] → [`ThreadView`].
pub const CANCEL: &str = "app.cancel";
/// The turns that wait here, in the order in which they start. [`QueueParams`] → [`Queue`].
pub const QUEUE_LIST: &str = "app.queue.list";
/// Drops one turn that waits, and nothing else. [`TurnParams`] → [`ThreadView`].
pub const QUEUE_DROP: &str = "app.queue.drop";
/// Gives one turn that waits other words. [`EditTurnParams`] → [`ThreadView`].
pub const QUEUE_EDIT: &str = "app.queue.edit";
/// Brings a result or files that are still missing here. [`ThreadParams`] → [`ThreadView`].
pub const SYNC: &str = "app.sync";
/// Puts a thread away. [`ThreadParams`] → [`ThreadView`].
pub const ARCHIVE: &str = "app.archive";
/// Brings it back. [`ThreadParams`] → [`ThreadView`].
pub const RESTORE: &str = "app.restore";
/// Removes an archived thread for good: its record, the files that were delivered to it, and everything
/// that its bridge holds of it. Files that the user made or edited stay unless told otherwise.
/// [`DeleteParams`] → [`Deleted`].
pub const DELETE: &str = "app.delete";
/// What a deletion would remove, and which files are the user's own. [`ThreadParams`] → [`DeletionPreview`].
pub const DELETE_PREVIEW: &str = "app.delete.preview";
/// Answers a question. [`AnswerParams`](threadline_contract::method::AnswerParams) → [`Question`].
pub const ANSWER: &str = "app.answer";
/// The questions that wait. No parameters → [`Asked`].
pub const QUESTIONS: &str = "app.questions";
/// The first page. No parameters → [`Home`].
pub const HOME: &str = "app.home";
/// Where turns can run. No parameters → [`Runtimes`].
pub const RUNTIMES: &str = "app.runtimes";
/// Removes the files of old runs from this machine's own bridge, or says which would go.
/// [`GcParams`](threadline_contract::method::GcParams) → [`GcView`].
pub const ARTIFACTS_GC: &str = "app.artifacts.gc";
/// How this machine's own bridge stands. No parameters → [`Named`] of
/// [`OperatorStatus`](threadline_contract::operator::OperatorStatus).
pub const OPERATOR_STATUS: &str = "app.operator.status";
/// Its runs, page by page. [`RunsParams`](threadline_contract::operator::RunsParams) → [`Named`] of
/// [`RunsPage`](threadline_contract::operator::RunsPage).
pub const OPERATOR_RUNS: &str = "app.operator.runs";
/// Its sessions, page by page. [`SessionsParams`](threadline_contract::operator::SessionsParams) → [`Named`]
/// of [`SessionsPage`](threadline_contract::operator::SessionsPage).
pub const OPERATOR_SESSIONS: &str = "app.operator.sessions";
/// Asks one of its runs to stop. [`CancelRunParams`] → [`Receipt`](threadline_contract::method::Receipt).
pub const OPERATOR_CANCEL: &str = "app.operator.cancel";
/// What is wrong with the stored threads. No parameters → [`Problems`].
pub const PROBLEMS: &str = "app.problems";

/// Every method, in the order of the documentation.
pub const ALL: [&str; 24] = [
    SEND,
    RETRY,
    LIST,
    SHOW,
    TURN,
    CANCEL,
    QUEUE_LIST,
    QUEUE_DROP,
    QUEUE_EDIT,
    SYNC,
    ARCHIVE,
    RESTORE,
    DELETE,
    DELETE_PREVIEW,
    ANSWER,
    QUESTIONS,
    HOME,
    RUNTIMES,
    ARTIFACTS_GC,
    OPERATOR_STATUS,
    OPERATOR_RUNS,
    OPERATOR_SESSIONS,
    OPERATOR_CANCEL,
    PROBLEMS,
];

/// Parameters of [`SEND`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendParams {
    /// An existing thread: its name, an unambiguous beginning of it, or its key. A new one is made
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Makes the request repeatable: sent again with the same id, it is the same turn. Letters, digits,
    /// `-` and `_`; when absent, every request is a new turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// What to do, in the user's own words.
    pub prompt: String,
    /// `openclaw`, `builtin` or `acp:<agent>`; the thread's own, or the bridge's choice, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Files of this machine that go with it, by absolute path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<String>,
    /// Files that come inside this request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inline: Vec<InlineAttachment>,
    /// What must come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Deliverable>,
    /// The user's own folder, in which the agent shall work. Only for a new thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Another bridge than this machine's own. Only for a new thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeParams>,
    /// What becomes of the permissions that its agents ask for, in this turn and the thread's later
    /// ones; as before, or as the bridge does it, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionPolicy>,
    /// How long it may take; as the bridge has it, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_class: Option<LoadClass>,
    /// Begins a new session on the runtime, which knows nothing of what was said before: the way on
    /// when a session cannot be continued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_session: bool,
}

/// Another bridge.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BridgeParams {
    /// Its address, such as `https://bridge.example`.
    pub url: String,
    /// Its token; one that was given before is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}
impl std::fmt::Debug for BridgeParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeParams")
            .field("url", &self.url)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish()
    }
}

/// Parameters of [`RETRY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryParams {
    /// The thread: name, beginning of it, or key.
    pub thread: String,
    /// See [`SendParams::request_id`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// See [`SendParams::new_session`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_session: bool,
}

/// Parameters of everything that concerns one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadParams {
    /// The thread: name, beginning of it, or key.
    pub thread: String,
}

/// Parameters of [`LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListParams {
    /// The archived ones instead of the others.
    #[serde(default)]
    pub archived: bool,
    /// How many at most (50, when not said; at most 500).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Goes on where a list ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Only threads in which each of these words occurs, in whatever case: in the name, the title or
    /// anything that the user asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Parameters of the methods that take none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its key.
    pub thread_id: AppThreadKey,
    /// Its name.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Where it stands.
    pub lifecycle_status: Lifecycle,
    /// How the last run ended.
    pub last_result_code: Option<ResultCode>,
    /// How the last sync ended.
    pub last_artifact_sync_status: Option<SyncStatus>,
    /// Where it runs, once that is known.
    pub runtime: Option<RuntimeId>,
    /// When it last changed.
    pub updated_at_ms: Millis,
    /// When its last run began.
    pub last_run_at_ms: Option<Millis>,
    /// How many files its last run brought.
    pub files: u32,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many files its earlier runs brought.
    #[serde(default)]
    pub earlier_files: u64,
    /// How many bytes those have.
    #[serde(default)]
    pub earlier_bytes: u64,
    /// How the files of its last run are now; absent, where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_now: Option<FilesNow>,
    /// How many questions of it wait for an answer.
    #[serde(default)]
    pub open_questions: u32,
    /// How many turns of it wait.
    #[serde(default)]
    pub queued_turns: u32,
    /// Its turn was taken by its bridge, and waits there for a free place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePlace>,
    /// Why its last run did not succeed, as the thread was told; shortened where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its bridge has not said yet that it has the run, or cannot be heard just now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
}

/// How the files of a thread's last run are now, beside what was verified when they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesNow {
    /// They are what came.
    AsDelivered,
    /// None is missing, and some are not what came.
    Changed,
    /// Some are missing here.
    Missing,
}

impl FilesNow {
    /// Of files that were looked at one by one.
    pub fn of(files: &[SyncedFile]) -> Self {
        match files {
            files if files.iter().any(|f| f.missing) => Self::Missing,
            files if files.iter().any(|f| f.changed) => Self::Changed,
            _ => Self::AsDelivered,
        }
    }
}

/// Result of [`LIST`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// Last changed first.
    pub threads: Vec<Summary>,
    /// There are more: ask with `before` set to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Stored threads that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// Something wrong with the stored threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub message: String,
    /// Where its bytes were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// When it was found.
    pub at_ms: Millis,
}

/// Result of [`PROBLEMS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problems {
    /// Oldest first.
    pub problems: Vec<Problem>,
}

/// One thread with all of its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadView {
    /// The record.
    pub thread: TaskThread,
    /// Its open questions.
    #[serde(default)]
    pub questions: Vec<Question>,
    /// What its run is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Its place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePlace>,
    /// Its run goes on, but its bridge cannot be heard just now: what is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<Away>,
    /// Something to tell the user about what was just asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// What earlier runs delivered and is still in the thread's folder, newest first. Only [`SHOW`]
    /// looks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRun>,
}

/// The files of an earlier run that are still here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierRun {
    /// The run.
    pub run_id: RunId,
    /// The folder in which they lie.
    pub folder: String,
    /// How many there are.
    pub files: u32,
    /// How many bytes they have.
    pub bytes: u64,
    /// Their paths in the folder; of many, the first.
    pub paths: Vec<String>,
    /// Those of these paths that are not any more what was delivered: somebody edited or replaced them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<String>,
}

/// A bridge that cannot be heard, and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Away {
    /// What the thread's result will be if it does not come back.
    pub code: ResultCode,
    /// Why it cannot be heard, in a sentence.
    pub message: String,
    /// Since when.
    pub since_ms: Millis,
    /// Until when it is tried again at least.
    pub gives_up_at_ms: Millis,
}

/// A question together with the thread that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedQuestion {
    /// The question.
    #[serde(flatten)]
    pub question: Question,
    /// The thread's name; absent when the thread is not one of this app's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_name: Option<String>,
    /// What the thread is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_title: Option<String>,
}

/// Result of [`QUESTIONS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Oldest first.
    pub questions: Vec<AskedQuestion>,
}

/// Result of [`HOME`]: what needs the user, what goes on, what was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Home {
    /// Questions that wait, oldest first.
    pub questions: Vec<AskedQuestion>,
    /// Threads whose last run did not succeed, last changed first.
    pub failed: Vec<Summary>,
    /// Threads that run or wait, last changed first.
    pub working: Vec<Summary>,
    /// Threads that succeeded since midnight, last changed first.
    pub done_today: Vec<Summary>,
    /// How many files they brought.
    pub files_today: u32,
    /// How many threads there are of each list, which holds only the newest of them.
    #[serde(default)]
    pub totals: Totals,
    /// A bridge did not answer, so that the questions may be incomplete: why, in a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<String>,
    /// Stored threads that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// How many threads the lists of [`Home`] stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Whose last run did not succeed.
    pub failed: usize,
    /// That run or wait.
    pub working: usize,
    /// That succeeded since midnight.
    pub done_today: usize,
}

/// Result of [`RUNTIMES`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtimes {
    /// The bridge's version.
    pub version: String,
    /// What it offers.
    pub runtimes: Vec<RuntimeView>,
}

/// Result of [`ARTIFACTS_GC`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcView {
    /// What the bridge says.
    #[serde(flatten)]
    pub gc: Gc,
    /// The names of its threads that are this app's.
    pub names: BTreeMap<AppThreadKey, String>,
}

/// Parameters of [`OPERATOR_CANCEL`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRunParams {
    /// The run's thread, by its key: it may be another app's.
    pub thread_id: AppThreadKey,
    /// The run.
    pub run_id: RunId,
}

/// What the app adds to what this machine's own bridge says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The names of those threads that are this app's.
    pub names: BTreeMap<AppThreadKey, ThreadName>,
    /// How many turns wait here for a place, by runtime.
    pub waiting: HashMap<RuntimeId, u32>,
}

/// The questions of bridges other than this machine's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionsElsewhere {
    /// In no order.
    pub questions: Vec<Question>,
    /// A bridge did not answer: why, in a sentence each.
    pub unreachable: Vec<String>,
}

/// What the bridge says, with the names of those threads in it that are this app's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named<T> {
    /// What it says.
    #[serde(flatten)]
    pub of: T,
    /// The names.
    pub names: BTreeMap<AppThreadKey, ThreadName>,
}

/// A thread's name and what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadName {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub title: String,
}

/// A place where turns can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeView {
    /// What to send as `runtime`.
    pub runtime: RuntimeId,
    /// Its name for people.
    pub label: String,
    /// It can take work now.
    pub available: bool,
    /// What it is, or why it cannot.
    pub status: String,
    /// How many of its turns run at once.
    pub max_active: u32,
    /// How many may wait.
    pub max_queued: u32,
}

/// A file on its way here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileProgress {
    /// The thread.
    pub thread_id: AppThreadKey,
    /// The file's path in the thread's workspace.
    pub path: String,
    /// Bytes that are here.
    pub done: u64,
    /// Bytes that it has.
    pub total: u64,
    /// Size and digest were checked and the file is in place.
    pub verified: bool,
}

/// Where in a thread's log a listener begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// After this event; 0 for all of them.
    After(i64),
    /// With the last so many.
    Last(u32),
}

/// What goes out on `GET /app/events`.
#[derive(Clone, Debug, PartialEq)]
pub enum AppEvent {
    /// Something happened in a thread's run. The number is its place in the thread's log.
    Update(i64, Box<SessionUpdate>),
    /// The thread's record or its live state changed.
    Thread(Box<ThreadView>),
    /// A file came closer.
    File(FileProgress),
    /// A thread changed (stream of all threads).
    Changed(Summary),
    /// A thread is gone (stream of all threads, and the last event of its own).
    Removed(AppThreadKey),
}

impl AppEvent {
    /// The SSE event name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Update(..) => "update",
            Self::Thread(_) => "thread",
            Self::File(_) => "file",
            Self::Changed(_) => "changed",
            Self::Removed(_) => "removed",
        }
    }

    /// The SSE id: only updates can be resumed from, everything else is state.
    pub const fn id(&self) -> Option<i64> {
        match self {
            Self::Update(id, _) => Some(*id),
            _ => None,
        }
    }

    /// The SSE data.
    pub fn data(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Update(_, update) => serde_json::to_value(update),
            Self::Thread(view) => serde_json::to_value(view),
            Self::File(file) => serde_json::to_value(file),
            Self::Changed(summary) => serde_json::to_value(summary),
            Self::Removed(thread) => Ok(serde_json::json!({"threadId": thread})),
        }
    }

    /// Reads an event back: the client's side. `None` for a name that this version does not know.
    pub fn read(
        name: &str,
        id: Option<i64>,
        data: &str,
    ) -> Result<Option<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Gone {
            thread_id: AppThreadKey,
        }
        Ok(Some(match name {
            "update" => Self::Update(id.unwrap_or(0), serde_json::from_str(data)?),
            "thread" => Self::Thread(serde_json::from_str(data)?),
            "file" => Self::File(serde_json::from_str(data)?),
            "changed" => Self::Changed(serde_json::from_str(data)?),
            "removed" => Self::Removed(serde_json::from_str::<Gone>(data)?.thread_id),
            _ => return Ok(None),
        }))
    }
}
