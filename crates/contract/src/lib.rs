//! Every word of the wire: ids, keys, requests, snapshots, events and codes.
//!
//! This crate does no I/O. Server, app, command line and pages all speak through it, so a word is
//! spelled in exactly one place. The JSON Schema of each wire type and the code list are exported
//! from here ([`schema`]), and a test fails when the exported files drift.

pub mod amounts;
pub mod artifact;
mod base64;
pub mod canonical;
pub mod code;
pub mod context;
pub mod event;
pub mod fault;
pub mod ids;
pub mod lane;
mod letters;
pub mod method;
pub mod operator;
pub mod owner;
mod places;
pub mod plugin;
pub mod policy;
pub mod principal;
pub mod question;
pub mod receipt;
pub mod routing;
pub mod rpc;
pub mod schema;
pub mod scope;
mod secrets;
pub mod snapshot;
pub mod sse;
pub mod thread;
pub mod tool;
pub mod turn;
mod twins;
pub mod url;

pub use self::base64::Base64;
pub use artifact::{
    Artifact, ArtifactItem, ArtifactPath, ArtifactSet, BadGlob, Deliverable, EmptyReason, Missing,
    OmitReason, Omitted, Removed, RemovedFor, Sha256, shown_name,
};
pub use code::{Code, ResultCode, SetBy};
pub use event::{EVENTS, SessionUpdate, Step, StepState, UpdateKind, Usage, round_usd};
pub use fault::Fault;
pub use ids::{
    AccountId, AgentId, AppThreadKey, BadId, BuildId, Millis, PersonId, QuestionId, RequestId,
    RunId, SessionKey, TaskId, TokenId, gateway_agent,
};
pub use letters::misleads;
pub use owner::{BadOwner, NewKey, Owner};
pub use places::without_places;
pub use policy::{BadPolicy, PermissionLevel, PermissionPolicy, Rule, ToolKind};
pub use principal::{Actor, Principal, Scope, Scopes, UnknownScope, Who};
pub use question::{Answer, Question, QuestionKind, QuestionOption, QuestionState};
pub use receipt::{BadReceipt, MAX_RECEIPT_BYTES, Receipt, ReceiptText};
pub use routing::{Routing, RuntimeId};
pub use scope::ArtifactScope;
pub use secrets::without_secrets;
pub use snapshot::{
    LoadClass, Progress, QueuePlace, RunStatus, RunWarning, Snapshot, Source, Stage,
};
pub use tool::{ToolCall, ToolDefinition, ToolResult};
pub use twins::{Twins, warnings_about_twins};
