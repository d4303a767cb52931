//! Our own files: paths that nobody else chooses, read whole and written whole.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, chmod},
    io::Errno,
};

use crate::{
    Access, Error, Reason, Result, Root, Written,
    root::{Refused, checked_regular},
    stamp::retried,
};

/// Writes a file as a whole: after a crash there is the old one or the new one, never a part. Its
/// folder must exist.
pub fn write(path: impl AsRef<Path>, bytes: &[u8], access: Access) -> Result<Written> {
    let (folder, name) = apart(path.as_ref())?;
    Root::open(folder)?.write_atomic(name, bytes, access)
}

/// As [`write`](fn@write), but refuses if the file is there: of two callers, one wins.
pub fn create(path: impl AsRef<Path>, bytes: &[u8], access: Access) -> Result<Written> {
    let (folder, name) = apart(path.as_ref())?;
    Root::open(folder)?.create_file(name, bytes, access)
}

/// Reads a file of at most `limit` bytes. The last name must not be a symlink.
pub fn read_limited(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let (folder, name) = apart(path.as_ref())?;
    Root::open(folder)?.read_limited(name, limit)
}

/// Makes a folder and those above it, as far as they are missing. A private folder that exists is
/// made private.
pub fn create_dir_all(path: impl AsRef<Path>, access: Access) -> Result<Root> {
    let path = path.as_ref();
    // Up to the first folder that is there, then down again by names.
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut above = path;
    let found = loop {
        match Root::open(above) {
            Ok(root) => break root,
            Err(e) if e.reason() == Reason::NotFound => {
                let (folder, name) = apart(above)?;
                missing.push(name);
                above = folder;
            }
            Err(e) => return Err(e),
        }
    };
    if missing.is_empty() {
        if access == Access::Private {
            chmod(path, access.dir()).map_err(|e| Error::os(e, path))?;
        }
        return Ok(found);
    }
    let below: PathBuf = missing.iter().rev().collect();
    found.create_dir_all(below, access)
}

/// Opens a file of ours. The last name must not be a symlink.
pub(crate) fn open_own(path: &Path, flags: OFlags, mode: Mode) -> Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let failed = |e: Errno| Error::os(e, path);
    let fd = retried(|| rustix::fs::open(path, flags, mode)).map_err(failed)?;
    let checked = checked_regular(fd).map_err(|refused| match refused {
        Refused::Os(e) => failed(e),
        Refused::For(reason) => Error::new(reason, path),
    });
    checked.map(|(file, _)| file)
}

/// The folder of a path and the name in it.
pub(crate) fn apart(path: &Path) -> Result<(&Path, PathBuf)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::new(Reason::NotRegular, path));
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    Ok((folder, PathBuf::from(name)))
}
