//! Where turns really run: what callers ask of a runtime, and three runtimes.
//!
//! A runtime is its runs' *registry*: the only voice that can say a run ended. The engine drives
//! every runtime the same way, through [`Runtime`]; what differs is answered by each of them.
//!
//! | | run id chosen by | where a turn works | after our crash |
//! | --- | --- | --- | --- |
//! | builtin | us | `tasks/<session>/work`, or the user's folder | resumed from its journal |
//! | ACP agent | us | the same, as the agent's `cwd` | re-attached to its agent host |
//! | OpenClaw | us, persisted before it is sent | the gateway's workspace | asked by `bootId` and history |

pub mod acp;
pub mod builtin;
mod journaled;
mod local;
pub mod openclaw;
pub mod pieces;
mod runtime;
mod stored_owner;

pub use local::LocalWorkspace;
pub use threadline_artifacts::ArtifactIdentity;

pub(crate) use runtime::takes_no_tools;
pub use runtime::{
    AgentHost, Ask, Attachment, Availability, Body, End, EndStatus, Files, Follow, Frame,
    HostCleanup, LAST_WORDS, LaneSize, Logged, Manifest, Pending, Places, ReadAt, Readiness,
    Registry, Room, RoomRules, RunRef, Runtime, RuntimeInfo, Sessions, Signal, Stands, TurnPlan,
    Turns, Update,
};
