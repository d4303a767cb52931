//! Agents over the Agent Client Protocol through the public surface: real folders, real processes, and an
//! agent that does what it is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod cancel;
mod failures;
mod odd;
mod permissions;
mod restart;
mod sessions;
mod turns;
mod versions;
mod world;
