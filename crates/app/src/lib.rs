//! The user's side: TaskThreads, local lane and queue, transport with recovery, artifact sync.
//!
//! It talks to a bridge only over HTTP, also when both live in one process.

pub mod api;
