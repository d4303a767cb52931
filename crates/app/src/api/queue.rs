//! Turns that wait: seeing, dropping and editing them one by one.

use serde::{Deserialize, Serialize};
use threadline_contract::{AppThreadKey, Deliverable, Millis, RequestId};

/// Parameters of [`CANCEL`](super::CANCEL).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelParams {
    /// The thread: name, beginning of it, or key.
    pub thread: String,
    /// Only the turn that was sent with this id: it is dropped if it waits and stopped if it runs, and the
    /// thread's other turns go on. Everything of the thread, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// Parameters of [`QUEUE_LIST`](super::QUEUE_LIST).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueParams {
    /// Only the turns of this thread: name, beginning of it, or key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// Parameters of [`QUEUE_DROP`](super::QUEUE_DROP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnParams {
    /// The thread: name, beginning of it, or key.
    pub thread: String,
    /// The turn: the id that it was sent with.
    pub request_id: RequestId,
}

/// Parameters of [`QUEUE_EDIT`](super::QUEUE_EDIT).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditTurnParams {
    /// The thread: name, beginning of it, or key.
    pub thread: String,
    /// The turn: the id that it was sent with.
    pub request_id: RequestId,
    /// What to do instead. Its files, its declarations and its place stay.
    pub prompt: String,
}

/// Result of [`QUEUE_LIST`](super::QUEUE_LIST).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// In the order in which they were asked for, lane by lane.
    pub turns: Vec<QueuedTurnView>,
    /// How many turns their bridges have taken that wait there for a free place. They cannot be edited any
    /// more, and are cancelled like runs.
    #[serde(default)]
    pub queued_at_bridge: u32,
}

/// What a turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// The turn before it in its own thread.
    OwnThread,
    /// A free place of its gateway.
    Place,
}

/// A turn that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurnView {
    /// Its thread.
    pub thread_id: AppThreadKey,
    /// The thread's name.
    pub thread_name: String,
    /// The id that it was sent with.
    pub request_id: RequestId,
    /// What to do.
    pub prompt: String,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// Its place among the turns of its lane that wait; 1 is the first.
    pub position: u32,
    /// How many turns of its lane wait.
    pub queued: u32,
    /// How many files go with it.
    pub attachments: u32,
    /// What must come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Deliverable>,
    /// When it was asked for.
    pub queued_at_ms: Millis,
}
