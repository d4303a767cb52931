//! The app against a scripted bridge that speaks the real protocol. Tests carry the id of the
//! conformance case that they hold.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    reason = "a test that cannot go on should say where"
)]

mod suite;
mod support;
