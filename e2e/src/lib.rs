//! What end-to-end tests share: a world with the real binary in it, and a scripted model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

pub mod postgres;
pub mod scripted_model;
pub mod world;
