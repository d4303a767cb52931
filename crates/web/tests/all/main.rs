//! The routes, through the public surface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod api;
mod away;
mod callers;
mod files;
mod operator;
mod outcomes;
mod pages;
mod scripted;
mod sign_in;
mod world;
