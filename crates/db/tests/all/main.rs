//! One suite, run on SQLite and on PostgreSQL. The PostgreSQL half has `postgres` in its names.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

mod world;

mod contention;
mod opening;
mod work;
