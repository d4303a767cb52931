//! The run engine and the rules of its doors.
//!
//! A rule that holds for every run (scope, identity, idempotency, terminal truth, artifact checks)
//! is written once, here. A door translates its own requests into runs and renders events; none
//! of them talks to a runtime, a file or a signature itself.

mod attachments;
mod capabilities;
mod claim;
mod counters;
mod downloads;
mod engine;
mod feed;
mod incarnation;
mod keys;
mod lanes;
mod links;
mod nodes;
mod operator;
mod passing;
mod questions;
mod room;
mod run;
mod sessions;
mod silence;
mod take_up;
mod threads;
mod tools;
mod turn;
mod wire;
mod workdir;

pub use attachments::InputFile;
pub use counters::Counted;
pub use engine::{Engine, EngineConfig, Rules};
pub use feed::{Feed, FeedItem};
pub use links::{Download, Opened};
pub use nodes::{Elsewhere, Node};
pub use passing::{FORWARDED_SCHEME, HELLO_PATH, Handed, Passed, SealedPass};
pub use questions::choose;
pub use room::Keep;
pub use run::Budgets;
pub use threadline_runtimes::pieces::Pieces;
pub use threads::{Accepted, TurnAnswer};
pub use tools::{CalledTool, ToolExecutor, ToolExecutors, TurnExtras};
pub use turn::{Begun, Destination, Here, NewTurn, SessionUse};
