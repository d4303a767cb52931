//! The OpenClaw runtime against a scripted gateway: what a real one does rarely, or only when it breaks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod answers;
mod away;
mod caps;
mod cases;
mod files;
mod handshake;
mod once;
mod route;
mod schema;
mod script;
mod stopped;
mod stopping;
