//! The only door to the disk: open beneath a held root, write atomically, hash, journal.
//!
//! Everything here but [`read_held_at`] blocks; callers on an async runtime use its blocking threads.
//!
//! - [`Root`] is a folder held open. What is opened, made or removed through it lies beneath it and
//!   was reached without following a single symlink, whatever others do to the tree meanwhile.
//! - [`Protected`] places are never reached through a root that avoids them, by whatever name.
//! - [`walk`](mod@walk) lists a tree in one fixed order and names what it could not take.
//! - [`tree`] lists one at once, by several threads, for callers that need all of it.
//! - [`hash`] gives size, digest and stamp of the same bytes, or says that they changed.
//! - [`atomic`] reads and writes our own files, whose paths nobody else chooses.
//! - [`Journal`] is an append-only record that survives a kill at any instruction.
//! - [`lines`] cuts what others send into lines of a limited length.
//! - [`Lock`] gives a folder one owner.
//! - [`complain!`] writes a line to standard error, and lets go of it on a full disk.
//!
//! **Invariant**: a check is made on the open descriptor that is then used, never on a name.

pub mod atomic;
mod error;
pub mod hash;
mod held;
pub mod journal;
pub mod lines;
mod links;
mod lock;
mod protected;
mod rel;
mod remove;
mod resolve;
mod root;
mod stage;
mod stamp;
pub mod tree;
pub mod walk;

pub use error::{Error, Reason, Result};
pub use held::read_held_at;
pub use journal::{Journal, JournalError, JournalReader};
pub use lock::{Lock, LockError};
pub use protected::Protected;
pub use resolve::Resolver;
pub use root::{Entry, FolderGuard, Root};
pub use stage::{Staged, Staging, Unnamed, Written, is_temporary};
pub use stamp::{FileKind, Stamp, Stat};

/// The number of the user that this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Writes a line to standard error, as `eprintln!` does, for processes that live on: their standard error is a
/// file as a rule, which may lie on a full disk, and nothing may break because its complaint cannot be written.
#[macro_export]
macro_rules! complain {
    ($($what:tt)*) => {{
        use ::std::io::Write as _;
        let mut line = ::std::format!($($what)*);
        line.push('\n');
        // Nobody is left who could be told.
        let _ = ::std::io::stderr().write_all(line.as_bytes());
    }};
}

/// When a write must have reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the call returns.
    Now,
    /// With the next write that asks for `Now`, or with a `sync`. A power loss before that may
    /// lose it; the end of our process does not.
    Later,
}

/// Who may look at what we create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner alone: 0600 for files, 0700 for folders.
    Private,
    /// Whatever the process's umask leaves.
    Shared,
}

impl Access {
    pub(crate) fn file(self) -> rustix::fs::Mode {
        rustix::fs::Mode::from_raw_mode(match self {
            Self::Private => 0o600,
            Self::Shared => 0o666,
        })
    }

    pub(crate) fn dir(self) -> rustix::fs::Mode {
        rustix::fs::Mode::from_raw_mode(match self {
            Self::Private => 0o700,
            Self::Shared => 0o777,
        })
    }
}
