//! The folder in which a thread's files land: `$HOME/.xworkmate/threads/<name>`.
//!
//! The name is made from the key and loses information, so two keys can want the same folder. Each
//! folder carries the key of its owner (`.xworkmate/owner.json`); who finds another's takes
//! `<name>-2`, and so on. The path is kept in the record and never made again from the key.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use threadline_contract::{AppThreadKey, Code, Fault, thread::TaskThread};
use threadline_files::{Access, Error, Reason, Result, Root, atomic};

use crate::fault::storage;

/// Our own notes inside a workspace.
pub(crate) const NOTES: &str = ".xworkmate";
pub(crate) const OWNER: &str = ".xworkmate/owner.json";
const OWNER_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    app_thread_key: AppThreadKey,
}

/// The folder name of a key: what is not a plain letter, digit, `.`, `_` or `-` becomes `-`.
pub fn folder_name(thread: &AppThreadKey) -> String {
    let mut out = String::new();
    for c in thread.as_str().chars() {
        let c = match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') => c,
            _ => '-',
        };
        if c != '-' || !out.ends_with('-') {
            out.push(c);
        }
    }
    // A key may be longer than a file name can be; what is cut off is told apart by the owner.
    out.truncate(200);
    let trimmed = out.trim_matches(['-', '.']);
    if trimmed.is_empty() {
        "thread".into()
    } else {
        trimmed.into()
    }
}

/// Makes the folder of a new thread, or finds it again. Blocks.
pub(crate) fn claim(base: &Path, thread: &AppThreadKey) -> Result<PathBuf> {
    let base = atomic::create_dir_all(base, Access::Shared)?;
    let name = folder_name(thread);
    let mut n = 1;
    loop {
        let name = if n == 1 {
            name.clone()
        } else {
            format!("{name}-{n}")
        };
        n += 1;
        let folder = match base.create_dir_all(&name, Access::Shared) {
            Ok(folder) => folder,
            // A file or a link in its place: not ours to use.
            Err(e) if matches!(e.reason(), Reason::NotDirectory | Reason::Symlink) => continue,
            Err(e) => return Err(e),
        };
        if own(&folder, thread)? {
            return Ok(base.path().join(name));
        }
    }
}

/// Opens a thread's workspace; one that was removed by hand is made again. A link in its place is not
/// followed: whoever put it there would choose where files go. Blocks.
pub(crate) fn open(path: &Path, thread: &AppThreadKey) -> Result<Root, Fault> {
    let (above, name) = apart(path)?;
    let above = atomic::create_dir_all(above, Access::Shared).map_err(storage)?;
    let folder = above
        .create_dir_all(name, Access::Shared)
        .map_err(|e| not_a_folder(e, path))?;
    if own(&folder, thread).map_err(storage)? {
        return Ok(folder);
    }
    Err(Fault::new(
        Code::Conflict,
        format!(
            "The folder {} belongs to another thread (its `{OWNER}` says so). Nothing was changed.",
            path.display()
        ),
    ))
}

/// Opens a workspace that must be there, without following a link in its place. Blocks.
pub(crate) fn existing(path: &Path) -> Result<Root, Fault> {
    let (above, name) = apart(path)?;
    let above = Root::open(above).map_err(storage)?;
    above.open_dir(name).map_err(|e| not_a_folder(e, path))
}

fn apart(path: &Path) -> Result<(&Path, &OsStr), Fault> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| Fault::new(Code::Conflict, "The thread's folder has no name."))
}

fn not_a_folder(e: Error, path: &Path) -> Fault {
    match e.reason() {
        Reason::Symlink | Reason::NotDirectory => Fault::new(
            Code::Conflict,
            format!(
                "{} is a link or a file where the thread's folder should be, and was not followed. Move it away and sync again.",
                path.display()
            ),
        ),
        _ => storage(e),
    }
}

/// Where a record's workspace lies now. A managed folder moves with the base (another home, a
/// restored backup); a folder that the user chose does not.
pub(crate) fn path_of(base: &Path, record: &TaskThread) -> PathBuf {
    let path = PathBuf::from(&record.workspace_binding.workspace_path);
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent != base && parent.ends_with(".xworkmate/threads") => {
            base.join(name)
        }
        _ => path,
    }
}

/// Opens a workspace that we made for this thread; nothing, when it is not ours to touch. Blocks.
pub(crate) fn made_for(base: &Path, path: &Path, thread: &AppThreadKey) -> Result<Option<Root>> {
    let Some(name) = path.file_name().filter(|_| path.parent() == Some(base)) else {
        return Ok(None);
    };
    let absent = |e: &Error| {
        matches!(
            e.reason(),
            Reason::NotFound | Reason::NotDirectory | Reason::Symlink
        )
    };
    let folder = match Root::open(base).and_then(|base| base.open_dir(name)) {
        Ok(folder) => folder,
        Err(e) if absent(&e) => return Ok(None),
        Err(e) => return Err(e),
    };
    let ours = owner(&folder)?.as_deref() == Some(thread.as_str());
    Ok(ours.then_some(folder))
}

/// Removes a workspace that we made, with everything in it. `false`: it is not ours to remove. Blocks.
pub(crate) fn remove(base: &Path, path: &Path, thread: &AppThreadKey) -> Result<bool> {
    let (Some(_), Some(name)) = (made_for(base, path, thread)?, path.file_name()) else {
        return Ok(false);
    };
    Root::open(base)?.remove_dir_all(name)?;
    Ok(true)
}

/// Removes a workspace that we made if nothing is in it. Blocks.
pub(crate) fn remove_empty(base: &Path, path: &Path) -> Result<bool> {
    match path.file_name() {
        Some(name) => Root::open(base)?.remove_empty_dir(name),
        None => Ok(false),
    }
}

/// Stamps a folder with its owner. `false`: another thread has it.
fn own(folder: &Root, thread: &AppThreadKey) -> Result<bool> {
    if let Some(owner) = owner(folder)? {
        return Ok(owner == thread.as_str());
    }
    folder.create_dir_all(NOTES, Access::Shared)?;
    let stamp = serde_json::json!({"appThreadKey": thread}).to_string();
    match folder.create_file(OWNER, stamp.as_bytes(), Access::Shared) {
        Ok(_) => Ok(true),
        Err(e) if e.reason() == Reason::AlreadyExists => {
            Ok(owner(folder)?.as_deref() == Some(thread.as_str()))
        }
        Err(e) => Err(e),
    }
}

/// The key of the thread that a folder belongs to. A stamp that cannot be read says that the folder
/// is somebody's, and gives a key that no thread has.
fn owner(folder: &Root) -> Result<Option<String>> {
    use std::io::Read as _;
    let file = match folder.open_file(OWNER) {
        Ok(file) => file,
        Err(e) if e.reason() == Reason::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut text = String::new();
    let read = file.take(OWNER_BYTES).read_to_string(&mut text);
    let stamp = read
        .ok()
        .and_then(|_| serde_json::from_str::<Owner>(&text).ok());
    Ok(Some(
        stamp
            .map(|o| o.app_thread_key.to_string())
            .unwrap_or_default(),
    ))
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
