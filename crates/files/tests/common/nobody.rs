//! Tests that root would pass without being tried.

use std::{os::unix::process::CommandExt as _, path::Path, process::Command};

/// Runs the named test again as a user without privileges, if this one is root: root may do
/// everything, and would hide what a refusal looks like. True if that has been done.
pub(crate) fn handed_over(test: &str) -> bool {
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
        "as nobody: {text}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    true
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
