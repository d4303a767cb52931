//! Plain relative paths: the only ones that a [`Root`](crate::Root) takes.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

/// Takes a path apart, or `None` if it is not plain. The empty path has no parts and names the root
/// itself; whether that is meaningful is the caller's business.
///
/// Stricter than [`Path::components`], which forgives `a//b`, `a/./b` and `a/`: here a file has
/// one spelling, so that a path that was checked or signed is the path that is opened.
pub(crate) fn parts(path: &Path) -> Option<Vec<&OsStr>> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    bytes
        .split(|b| *b == b'/')
        .map(|part| {
            let plain = !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
            plain.then(|| OsStr::from_bytes(part))
        })
        .collect()
}

#[cfg(test)]
#[path = "rel_tests.rs"]
mod tests;
