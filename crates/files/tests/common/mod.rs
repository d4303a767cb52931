//! What several test files need.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

pub(crate) mod nobody;

use std::path::Path;

use threadline_files::{Reason, Resolver, Root};

/// The same root, once per way of resolving.
pub(crate) fn both(path: &Path) -> [Root; 2] {
    [Resolver::Kernel, Resolver::StepByStep].map(|how| Root::open(path).unwrap().with_resolver(how))
}

/// The reason of a refusal.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(result: threadline_files::Result<T>) -> Reason {
    result.unwrap_err().reason()
}
