//! The service over real pipes, as the gateway's plugin uses it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod bad_input;
mod documentation;
mod flow;
mod hostile;
mod methods;
mod sharing;
mod wire;
