//! Following symlinks beneath a root, for folders whose links are their owner's own.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt as _,
    path::{Component, Path, PathBuf},
};

use rustix::{fs::readlinkat, io::Errno};

use crate::{Error, Reason, Result, Root, rel::parts, resolve::THROUGH, stamp::retried};

/// Links on one path, as many as the system itself follows.
const MAX_LINKS: usize = 40;

impl Root {
    /// Where a path leads when its symlinks are followed: a plain path beneath this root, without any link.
    /// What need not exist yet stays as it is written. A link that leads out of the root is refused with
    /// [`Reason::Symlink`].
    ///
    /// Nothing is opened by this. Whoever opens the path it gives follows no link any more, so a folder that
    /// somebody replaces by a link in between is refused then, and never followed out of the root.
    pub fn follow(&self, rel: impl AsRef<Path>) -> Result<PathBuf> {
        let rel = rel.as_ref();
        let refused = |reason| Error::new(reason, self.path().join(rel));
        let plain = parts(rel).ok_or_else(|| refused(Reason::NotRelative))?;
        let mut left: VecDeque<OsString> = plain.into_iter().map(OsStr::to_owned).collect();
        let mut found = PathBuf::new();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            // Only the text of a link can have it; what was found has no link in it, so up is up.
            if part == ".." {
                if !found.pop() {
                    return Err(refused(Reason::Symlink));
                }
                continue;
            }
            found.push(&part);
            let Some(target) = self.link_text(&found)? else {
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(refused(Reason::Symlink));
            }
            found.pop();
            let target = match target.is_absolute() {
                false => target,
                true => {
                    found = PathBuf::new();
                    let beneath = |root: &Path| target.strip_prefix(root).map(Path::to_owned).ok();
                    beneath(self.path())
                        .or_else(|| beneath(&self.real_path()))
                        .ok_or_else(|| refused(Reason::Symlink))?
                }
            };
            for part in target.components().rev() {
                match part {
                    Component::Normal(_) | Component::ParentDir => {
                        left.push_front(part.as_os_str().to_owned());
                    }
                    Component::CurDir => {}
                    Component::RootDir | Component::Prefix(_) => {
                        return Err(refused(Reason::Symlink));
                    }
                }
            }
        }
        Ok(found)
    }

    /// What a symlink says; `None` if there is none under this name.
    fn link_text(&self, path: &Path) -> Result<Option<PathBuf>> {
        let (parent, name) = match self.parent(path, THROUGH) {
            Ok(found) => found,
            Err(e) if e.reason() == Reason::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        match retried(|| readlinkat(&parent, name, Vec::new())) {
            Ok(text) => Ok(Some(PathBuf::from(OsString::from_vec(text.into_bytes())))),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(e) => Err(self.failed(e, path)),
        }
    }
}
