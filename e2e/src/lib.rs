//! What end-to-end tests share: a world with the real binary in it, a scripted model, real agents and a
//! real gateway.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

pub mod agents;
pub mod direct;
pub mod gateway;
pub mod peers;
pub mod postgres;
pub mod procs;
pub mod scripted_agent;
pub mod scripted_model;
pub mod small_disk;
pub mod tls;
pub mod world;
