//! The real program, in a home folder of its own, with real processes that are started, raced and
//! killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod agent_host;
mod bad_input;
mod first_run;
mod model;
mod owner;
mod pipes;
mod protected;
mod questions;
mod queue;
mod recovery;
mod room;
mod sidecar;
mod stdio;
mod support;
mod threads;
mod turns;
mod verify;
