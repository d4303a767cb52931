//! Which folders count as a user's own working directory.

use std::path::{Component, Path, PathBuf};

use threadline_contract::{Code, Fault, Principal};
use threadline_files::{Protected, Reason, Root};

use crate::EngineConfig;

/// What is said of every path outside, whether it exists or not.
const OUTSIDE: &str = "lies beneath none of the allowed `work_roots`";

/// The user's own folder, or none. App-scoped hints (`/owners/…`) and a thread's local folder are
/// references of the app, never places to work in.
///
/// Nobody learns what there is outside the roots: every path there is refused with the same sentence. For
/// an account other than the machine's own, Threadline's folders lie outside.
pub(crate) fn check(
    asked: Option<&str>,
    caller: &Principal,
    config: &EngineConfig,
) -> Result<Option<PathBuf>, Fault> {
    let Some(asked) = asked else { return Ok(None) };
    let path = Path::new(asked);
    if path.starts_with("/owners") || path.starts_with(&config.thread_folders) {
        return Ok(None);
    }
    let refused = |why: &str| {
        Fault::new(
            Code::WorkdirNotAllowed,
            format!("The working directory `{asked}` {why}."),
        )
    };
    if !path.is_absolute() {
        return Err(refused("must be an absolute path"));
    }
    // The names decide first: a path outside is not looked at, nor is a `..` followed through one.
    let path = without_dots(path);
    let roots: Vec<PathBuf> = config
        .work_roots
        .iter()
        .filter_map(|root| root.canonicalize().ok())
        .collect();
    let named = config.work_roots.iter().map(|root| without_dots(root));
    if !named
        .chain(roots.iter().cloned())
        .any(|root| path.starts_with(root))
    {
        return Err(refused(OUTSIDE));
    }
    // Then where it leads, as far as it exists: a link may lead outside.
    let there = path.ancestors().find(|p| p.symlink_metadata().is_ok());
    let Some(real) = there.and_then(|there| there.canonicalize().ok()) else {
        return Err(refused(OUTSIDE));
    };
    if !roots.iter().any(|root| real.starts_with(root)) {
        return Err(refused(OUTSIDE));
    }
    let is_folder = real.is_dir();
    let folder = match is_folder {
        true => real.as_path(),
        false => real.parent().unwrap_or(&real),
    };
    // Our own folders hold the token and every account's files. Told by what they are: a folder can have
    // several paths.
    let ours = config.protected.iter().chain([&config.data]);
    let ours = Protected::new(ours.map(PathBuf::as_path), []);
    let ours = ours.and_folders_with(&threadline_artifacts::DATA_FOLDER_MARK);
    match Root::open(folder).and_then(|root| root.avoiding(&ours)) {
        Ok(_) => {}
        Err(e) if e.reason() == Reason::Protected => {
            return Err(refused(match caller.is_operator() {
                true => "is Threadline's own. Choose another folder",
                false => OUTSIDE,
            }));
        }
        Err(e) => return Err(refused(&format!("cannot be used: {e}"))),
    }
    match (there == Some(path.as_path()), is_folder) {
        (true, true) => Ok(Some(real)),
        (true, false) => Err(refused("is not a folder")),
        (false, _) => Err(refused("cannot be used: there is no such folder")),
    }
}

/// The same path with each `.` left out and each `..` taken with the name before it.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
#[path = "workdir_tests.rs"]
mod tests;
