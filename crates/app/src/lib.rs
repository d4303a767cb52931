//! The user's side: TaskThreads, local lane and queue, transport with recovery, artifact sync.
//!
//! It talks to a bridge only over HTTP, also when both live in one process.
//!
//! - [`App`] is the whole of it; [`api`] is how the command line and the pages speak to it.
//! - `records` keeps the threads, `outbox` what is not done yet: together they survive a kill at any
//!   instruction.
//! - `change`, `lane`, `verdict` and `request` decide; they do no I/O.
//! - `bridge` and `follow` hear a run to its end; `sync` brings its files.
//!
//! **Invariants**: only a terminal snapshot ends a run; only its listed, verified files come home; the
//! transcript holds the user's words and the runtime's, and nothing that machines added.

pub mod api;
mod app;
mod bridge;
mod change;
mod config;
mod deletions;
mod dispatch;
mod endpoints;
mod fault;
mod follow;
mod lane;
mod names;
mod outbox;
mod records;
mod request;
mod sync;
mod verdict;
mod workspace;

pub use app::App;
pub use config::{Config, Endpoint, LaneSize, Timings};
pub use workspace::folder_name;
