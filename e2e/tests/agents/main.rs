//! Real agents, offline, with the scripted model; and a scripted agent where the rate of its words counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod alone;
mod bridge;
mod crowd;
mod folder;
mod kill;
mod scripted;
