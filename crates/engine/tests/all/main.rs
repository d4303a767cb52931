//! The engine's rules on the engine itself: commands in; calls to the runtime, records and the owner's log out.
//!
//! A *world* is a runtime in memory that outlives engines, a *life* is one engine from its opening to a kill.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod deletions;
mod files;
mod kills;
mod lanes;
mod life;
mod phases;
mod postgres_nodes;
mod question_properties;
mod questions;
mod requests;
mod stops;
mod told;
mod world;
