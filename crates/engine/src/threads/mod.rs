//! The threads' door: an app's conversations with runtimes.

mod questions;
mod sessions;
mod tasks;
mod turns;

pub use turns::{Accepted, TurnAnswer};
