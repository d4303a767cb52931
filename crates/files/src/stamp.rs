//! What a file looked like at one moment.

use std::os::fd::AsFd;

use rustix::{
    fs::{FileType, fstat},
    io::Errno,
};
use serde::{Deserialize, Serialize};

/// Tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The device it lies on.
    pub dev: u64,
    /// Its number there.
    pub ino: u64,
    /// Its length in bytes.
    pub size: u64,
    /// When its bytes last changed, in nanoseconds since 1970 (as far as the file system counts).
    pub mtime_ns: i64,
    /// When its bytes or its attributes last changed. Unlike the time above, nobody can set it.
    pub ctime_ns: i64,
}

impl Stamp {
    /// The stamp of an open file.
    pub fn of(file: impl AsFd) -> std::io::Result<Self> {
        Ok(Self::from_stat(&retried(|| fstat(&file))?))
    }

    /// The later of the two times: when it last changed in any way.
    pub fn changed_ns(&self) -> i64 {
        self.mtime_ns.max(self.ctime_ns)
    }

    pub(crate) fn from_stat(st: &rustix::fs::Stat) -> Self {
        Self {
            dev: st.st_dev,
            ino: st.st_ino,
            size: u64::try_from(st.st_size).unwrap_or(0),
            mtime_ns: nanos(st.st_mtime.into(), st.st_mtime_nsec.into()),
            ctime_ns: nanos(st.st_ctime.into(), st.st_ctime_nsec.into()),
        }
    }
}

/// A file can claim any year; ours end in 2262, and later ones stand still there.
fn nanos(seconds: i128, nanos: i128) -> i64 {
    let exact = seconds * 1_000_000_000 + nanos;
    i64::try_from(exact).unwrap_or(if exact < 0 { i64::MIN } else { i64::MAX })
}

/// What stands under a name. A symlink is a symlink, whatever it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device.
    Special,
}

impl FileKind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Symlink,
            _ => Self::Special,
        }
    }
}

/// Facts about a name, without following it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: FileKind,
    /// Its stamp.
    pub stamp: Stamp,
    /// Its permission bits.
    pub mode: u32,
    /// Who owns it.
    pub uid: u32,
    /// How many names it has.
    pub links: u64,
}

impl Stat {
    pub(crate) fn from_stat(st: &rustix::fs::Stat) -> Self {
        Self {
            kind: FileKind::of(FileType::from_raw_mode(st.st_mode)),
            stamp: Stamp::from_stat(st),
            mode: st.st_mode & 0o7777,
            uid: st.st_uid,
            links: st.st_nlink,
        }
    }
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
