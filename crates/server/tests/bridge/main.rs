//! The bridge as a client sees it: a real socket, a real store, the builtin runtime, and a
//! scripted model where words are needed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod accounts;
mod continuity;
mod deletions;
mod download;
mod full_disk;
mod gate;
mod hostile;
mod operator;
mod postgres_nodes;
mod principals;
mod remote;
mod room;
mod rpc;
mod runs;
mod sse;
mod stdio;
mod support;
mod ws;
