//! One owner per folder.

use std::{
    fs::File,
    io::Write as _,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock, ftruncate},
    io::Errno,
};

use crate::{Access, Error, Reason, Root, Stamp, atomic};

/// Why a lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("{}: held by {}", path.display(), pid.map_or("another process".to_owned(), |p| format!("process {p}")))]
    Held {
        /// The file that the lock lies on.
        path: PathBuf,
        /// Who has it, if it has said so yet.
        pid: Option<u32>,
    },
    /// The file could not be used.
    #[error(transparent)]
    Files(#[from] Error),
}

/// Held as long as it lives; the system lets go of it when the process ends in any way.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock on this file (made if needed), or says who has it. Does not wait.
    pub fn try_acquire(path: impl AsRef<Path>) -> Result<Self, LockError> {
        let path = path.as_ref();
        let (folder, name) = atomic::apart(path)?;
        loop {
            let file =
                atomic::open_own(path, OFlags::RDWR | OFlags::CREATE, Access::Private.file())?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {
                    return Err(LockError::Held {
                        path: path.to_owned(),
                        pid: read_pid(&file),
                    });
                }
                Err(e) => return Err(Error::os(e, path).into()),
            }
            // Between opening and locking the file may have been removed and made anew by another;
            // a lock on a file without a name would keep nobody out.
            let failed = |e| Error::io(e, path);
            let mine = Stamp::of(&file).map_err(failed)?;
            match Root::open(folder)?.stat(&name) {
                Ok(stat) if (stat.stamp.dev, stat.stamp.ino) == (mine.dev, mine.ino) => {}
                Ok(_) => continue,
                Err(e) if e.reason() == Reason::NotFound => continue,
                Err(e) => return Err(e.into()),
            }
            ftruncate(&file, 0).map_err(|e| Error::os(e, path))?;
            writeln!(&file, "{}", std::process::id()).map_err(failed)?;
            return Ok(Self { file });
        }
    }
}

/// For handing it on to a child: the lock is let go of when the last of those who hold it has ended.
impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only so that nobody reads a stale number; closing the file is what unlocks.
        let _ = ftruncate(&self.file, 0);
    }
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = [0; 16];
    let got = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..got)?)
        .ok()?
        .trim()
        .parse()
        .ok()
}
