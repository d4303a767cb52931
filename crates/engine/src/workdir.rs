//! Which folders count as a user's own working directory.

use std::path::{Path, PathBuf};

use threadline_contract::{Code, Fault};
use threadline_files::{Protected, Reason, Root};

use crate::EngineConfig;

/// The user's own folder, or none. App-scoped hints (`/owners/…`) and a thread's local folder are
/// references of the app, never places to work in.
pub(crate) fn check(asked: Option<&str>, config: &EngineConfig) -> Result<Option<PathBuf>, Fault> {
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
    let real = path
        .canonicalize()
        .map_err(|e| refused(&format!("cannot be used: {e}")))?;
    if !real.is_dir() {
        return Err(refused("is not a folder"));
    }
    // Our own folders hold the token and every account's files. Told by what they are: a folder can have
    // several paths.
    let ours = config.protected.iter().chain([&config.data]);
    let ours = Protected::new(ours.map(PathBuf::as_path), []);
    let ours = ours.and_folders_with(&threadline_artifacts::DATA_FOLDER_MARK);
    match Root::open(&real).and_then(|root| root.avoiding(&ours)) {
        Ok(_) => {}
        Err(e) if e.reason() == Reason::Protected => {
            return Err(refused("is Threadline's own. Choose another folder"));
        }
        Err(e) => return Err(refused(&format!("cannot be used: {e}"))),
    }
    let roots = config
        .work_roots
        .iter()
        .filter_map(|r| r.canonicalize().ok());
    if !roots.into_iter().any(|root| real.starts_with(root)) {
        return Err(refused("lies beneath none of the allowed `work_roots`"));
    }
    Ok(Some(real))
}

#[cfg(test)]
#[path = "workdir_tests.rs"]
mod tests;
