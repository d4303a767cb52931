//! The runtimes through their public surface, against real folders and a scripted model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod cancel;
mod demo;
mod failures;
mod model;
mod protected;
mod questions;
mod registry;
mod resume;
mod tools;
mod workspace;
mod world;
