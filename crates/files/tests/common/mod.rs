//! What several test files need.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

use std::{os::unix::process::CommandExt as _, path::Path, process::Command};

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

/// Runs the named test again as a user without privileges, if this one is root: root may do
/// everything, and would hide what a refusal looks like. True if that has been done.
pub(crate) fn handed_to_nobody(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    // The build folder need not be open to others; a copy beside the system's temporary files is.
    let place = tempfile::tempdir().unwrap();
    open_to_all(place.path());
    let program = place.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open_to_all(&program);
    let out = Command::new(&program)
        .args([test, "--exact", "--nocapture"])
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.contains("1 passed"),
        "as nobody: {text}"
    );
    true
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
