//! Programs of this machine.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Whether a path can be run.
pub(crate) fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Where a program is: a path, or a name to be found on the `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}
