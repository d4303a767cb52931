//! One error for everything that touches the disk: what a caller can act on, and the path.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for a caller that wants to act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Not a plain relative path: absolute, empty, or with an empty, `.`, `..` or NUL part.
    NotRelative,
    /// A symlink stands in the path.
    Symlink,
    /// There is something, but not a regular file.
    NotRegular,
    /// A part of the path is not a folder.
    NotDirectory,
    /// A file of another user that has more than one name: its bytes may belong elsewhere.
    HardLinked,
    /// A protected place, or something in one.
    Protected,
    /// Nothing is there.
    NotFound,
    /// Something is there already.
    AlreadyExists,
    /// The system takes no name that long.
    NameTooLong,
    /// The disk or the quota is full.
    NoSpace,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The system does not let us.
    Denied,
    /// More bytes than the caller wanted to take.
    TooLarge,
    /// The reader that a copy was made from failed.
    Source,
    /// Anything else; the cause says what.
    Io,
}

impl Reason {
    pub(crate) fn of(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Symlink,
            Errno::NOENT => Self::NotFound,
            Errno::EXIST => Self::AlreadyExists,
            Errno::NOTDIR => Self::NotDirectory,
            // A socket, or a device without a driver, cannot even be opened.
            Errno::ISDIR | Errno::NXIO | Errno::NODEV => Self::NotRegular,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            Errno::ROFS => Self::ReadOnly,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::FBIG => Self::TooLarge,
            _ => Self::Io,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::NotRelative => "not a plain relative path",
            Self::Symlink => "a symlink stands in the path",
            Self::NotRegular => "not a regular file",
            Self::NotDirectory => "a part of the path is not a folder",
            Self::HardLinked => "a hard link to a file of another user",
            Self::Protected => "a protected place",
            Self::NotFound => "not found",
            Self::AlreadyExists => "exists already",
            Self::NameTooLong => "the name is too long",
            Self::NoSpace => "no space left",
            Self::ReadOnly => "the file system is read-only",
            Self::Denied => "permission denied",
            Self::TooLarge => "larger than allowed",
            Self::Source => "the source of the copy failed",
            Self::Io => "input or output failed",
        }
    }
}

/// What went wrong, and where.
#[derive(Debug)]
pub struct Error {
    reason: Reason,
    path: PathBuf,
    cause: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(reason: Reason, path: impl Into<PathBuf>) -> Self {
        Self {
            reason,
            path: path.into(),
            cause: None,
        }
    }

    pub(crate) fn os(errno: Errno, path: impl Into<PathBuf>) -> Self {
        Self {
            reason: Reason::of(errno),
            path: path.into(),
            cause: Some(errno.into()),
        }
    }

    pub(crate) fn io(cause: io::Error, path: impl Into<PathBuf>) -> Self {
        let reason = Errno::from_io_error(&cause).map_or(Reason::Io, Reason::of);
        Self {
            reason,
            path: path.into(),
            cause: Some(cause),
        }
    }

    pub(crate) fn source(cause: io::Error, path: impl Into<PathBuf>) -> Self {
        Self {
            reason: Reason::Source,
            path: path.into(),
            cause: Some(cause),
        }
    }

    /// What a caller can act on.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Where it happened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason.sentence())?;
        match (&self.cause, self.reason) {
            (Some(cause), Reason::Io | Reason::Source) => write!(f, " ({cause})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|c| c as _)
    }
}
