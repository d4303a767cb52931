//! The bridge on a real OpenClaw gateway, with its plugin and a scripted model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod afar;
mod answers;
mod asks;
mod bench;
mod others;
mod places;
mod restarts;
mod stops;
mod turns;
