//! Removing a tree, however deep it is.

use std::{collections::VecDeque, ffi::OsString, path::Path};

use rustix::{
    fs::{AtFlags, Mode, fchmod, fstat, renameat, unlinkat},
    io::Errno,
};

use crate::{Error, FileKind, Reason, Result, Root, stage::fresh_name};

/// Passes over a tree that somebody keeps writing into, before we say that it cannot be emptied.
const PASSES: usize = 16;

impl Root {
    /// Removes a folder and everything in it. Symlinks are removed, never followed. Something that
    /// is not a folder is refused.
    ///
    /// A tree can be deeper than any path or stack. So each folder found is moved up beside the
    /// others before it is emptied: two descriptors are enough for any depth.
    pub fn remove_dir_all(&self, rel: impl AsRef<Path>) -> Result<()> {
        let rel = rel.as_ref();
        let (parent, name) = self.parent_to_write(rel)?;
        let top = self.open_dir(rel)?;
        for _ in 0..PASSES {
            empty(&top)?;
            match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => return self.sync_parent(&parent, rel),
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(e) => return Err(self.failed(e, rel)),
            }
        }
        Err(self.failed(Errno::NOTEMPTY, rel))
    }

    /// Removes a folder in which nothing is. `false`: something is in it, and it stays.
    pub fn remove_empty_dir(&self, rel: impl AsRef<Path>) -> Result<bool> {
        let rel = rel.as_ref();
        let (parent, name) = self.parent_to_write(rel)?;
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) => self.sync_parent(&parent, rel).map(|()| true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(e) => Err(self.failed(e, rel)),
        }
    }
}

/// Empties a held folder once; what others add meanwhile may remain.
fn empty(top: &Root) -> Result<()> {
    make_writable(top)?;
    let mut folders: VecDeque<OsString> = VecDeque::new();
    for entry in top.entries("")? {
        if entry.kind == FileKind::Dir {
            folders.push_back(entry.name);
        } else {
            unlink(top, &entry.name)?;
        }
    }
    while let Some(name) = folders.pop_front() {
        let folder = match top.open_dir(&name) {
            Ok(folder) => folder,
            // Replaced or taken away since it was listed. A file in its place goes with the next
            // pass; either way it is not a folder of ours to enter.
            Err(e)
                if matches!(
                    e.reason(),
                    Reason::NotFound | Reason::Symlink | Reason::NotDirectory
                ) =>
            {
                continue;
            }
            Err(e) => return Err(e),
        };
        make_writable(&folder)?;
        for entry in folder.entries("")? {
            if entry.kind == FileKind::Dir {
                if let Some(moved) = hoist(&folder, &entry.name, top)? {
                    folders.push_back(moved);
                }
            } else {
                unlink(&folder, &entry.name)?;
            }
        }
        match unlinkat(top.fd(), &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(e) => return Err(Error::os(e, top.path().join(&name))),
        }
    }
    Ok(())
}

/// Moves a folder up to `top` under a fresh name. `None` if it is gone.
fn hoist(from: &Root, name: &OsString, top: &Root) -> Result<Option<OsString>> {
    // A folder can only be moved when it is itself writable: its `..` changes.
    match from.open_dir(name) {
        Ok(folder) => make_writable(&folder)?,
        Err(e)
            if matches!(
                e.reason(),
                Reason::NotFound | Reason::Symlink | Reason::NotDirectory
            ) =>
        {
            return Ok(None);
        }
        Err(e) => return Err(e),
    }
    loop {
        let fresh = OsString::from(fresh_name());
        match renameat(from.fd(), name, top.fd(), &fresh) {
            Ok(()) => return Ok(Some(fresh)),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            Err(e) => return Err(Error::os(e, from.path().join(name))),
        }
    }
}

/// Tools leave read-only folders behind (module caches do); their owner may still remove them.
fn make_writable(folder: &Root) -> Result<()> {
    let failed = |e| Error::os(e, folder.path());
    let st = fstat(folder.fd()).map_err(failed)?;
    let mode = Mode::from_raw_mode(st.st_mode);
    if mode.contains(Mode::RWXU) || st.st_uid != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    fchmod(folder.fd(), mode | Mode::RWXU).map_err(failed)
}

fn unlink(folder: &Root, name: &OsString) -> Result<()> {
    match unlinkat(folder.fd(), name, AtFlags::empty()) {
        // Gone already, or a folder by now: the next pass sees it.
        Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
        Err(e) => Err(Error::os(e, folder.path().join(name))),
    }
}
