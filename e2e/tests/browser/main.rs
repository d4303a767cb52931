//! The pages in a real browser, served by the real binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod deletion;
mod files;
mod keyboard;
mod lost;
mod operator;
mod runs;
mod sign_in;
mod sizes;
mod steady;
mod up;
mod window;
