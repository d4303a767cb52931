#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]
//! Hosts, bridges and agents as they are: processes that are started, stopped and killed.

mod alone;
mod bridges;
mod disk;
mod ends;
mod slow;
mod support;
mod talk;
