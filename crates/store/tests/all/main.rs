//! One suite, run on SQLite and on PostgreSQL. The PostgreSQL half has `postgres` in its names.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod world;

mod accounts;
mod admission;
mod artifacts;
mod crash;
mod decisions;
mod deletions;
mod ends;
mod events;
mod follow;
mod idempotency;
mod lease_properties;
mod leases;
mod memory;
mod old_databases;
mod opening;
mod overview;
mod plans;
mod questions;
mod runs;
mod sessions;
mod tool_calls;
