//! Opening beneath a directory without following a symlink, in two ways that answer alike.
//!
//! Linux resolves the whole path in one `openat2` call, so there is nothing to race. Where that
//! call is missing (other systems, old kernels, strict seccomp profiles) the path is walked one
//! component at a time, each opened relative to the directory already held.
//!
//! Both report a symlink anywhere in the path as `ELOOP`.

use std::{
    ffi::OsStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

/// How paths beneath a root are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// One system call (Linux 5.6 and later).
    Kernel,
    /// One `openat` per component; any Unix.
    StepByStep,
}

/// A directory that is only passed through: needs no read permission where the system allows that.
#[cfg(target_os = "linux")]
pub(crate) const THROUGH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(crate) const THROUGH: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Opens `parts` (never empty) beneath `dir`.
pub(crate) fn open(
    resolver: Resolver,
    dir: BorrowedFd<'_>,
    parts: &[&OsStr],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    match resolver {
        Resolver::Kernel => kernel::open(dir, parts, flags, mode),
        Resolver::StepByStep => step_by_step(dir, parts, flags, mode),
    }
}

/// Asks once whether the kernel resolves for us here.
pub(crate) fn probe(dir: BorrowedFd<'_>) -> Resolver {
    match kernel::open(dir, &[OsStr::new(".")], THROUGH, Mode::empty()) {
        Ok(_) if cfg!(target_os = "linux") => Resolver::Kernel,
        _ => Resolver::StepByStep,
    }
}

fn step_by_step(
    dir: BorrowedFd<'_>,
    parts: &[&OsStr],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let Some((last, parents)) = parts.split_last() else {
        return Err(Errno::INVAL);
    };
    let mut held: Option<OwnedFd> = None;
    for part in parents {
        let at = held.as_ref().map_or(dir, |d| d.as_fd());
        let next = one_step(at, part, THROUGH, Mode::empty())?;
        held = Some(next);
    }
    one_step(held.as_ref().map_or(dir, |d| d.as_fd()), last, flags, mode)
}

pub(crate) fn one_step(
    at: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    loop {
        match openat(at, name, flags | OFlags::NOFOLLOW, mode) {
            Err(Errno::INTR) => {}
            // O_DIRECTORY|O_NOFOLLOW says "not a directory" of a symlink. The open was refused
            // either way; asking again only makes the answer the same as the kernel resolver's.
            Err(Errno::NOTDIR) => return Err(why_not_a_directory(at, name)),
            done => return done,
        }
    }
}

fn why_not_a_directory(at: BorrowedFd<'_>, name: &OsStr) -> Errno {
    match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(st) if FileType::from_raw_mode(st.st_mode) == FileType::Symlink => Errno::LOOP,
        _ => Errno::NOTDIR,
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{ResolveFlags, openat2};

    use super::*;

    /// The kernel takes paths up to 4,095 bytes; a hostile tree can be deeper. Longer paths go in
    /// pieces, each beneath the directory that the piece before it led to.
    const LONGEST: usize = 3_500;

    pub(super) fn open(
        dir: BorrowedFd<'_>,
        parts: &[&OsStr],
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let mut held: Option<OwnedFd> = None;
        let mut rest = parts;
        loop {
            let (head, tail) = rest.split_at(fitting(rest));
            let at = held.as_ref().map_or(dir, |d| d.as_fd());
            let path = head.join(OsStr::new("/"));
            if tail.is_empty() {
                return ask(at, &path, flags, mode);
            }
            held = Some(ask(at, &path, THROUGH, Mode::empty())?);
            rest = tail;
        }
    }

    fn fitting(parts: &[&OsStr]) -> usize {
        let mut bytes = 0;
        let more = parts.iter().skip(1).take_while(|part| {
            bytes += part.as_bytes().len() + 1;
            bytes <= LONGEST
        });
        parts.len().min(1 + more.count())
    }

    fn ask(at: BorrowedFd<'_>, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            // No O_NOFOLLOW here: NO_SYMLINKS covers the last part too, and together they would
            // answer ENOTDIR for a symlink where a directory was asked for.
            match openat2(at, path, flags, mode, how) {
                // The kernel saw a rename during the walk and would rather be asked again.
                Err(Errno::AGAIN | Errno::INTR) if tries < 64 => tries += 1,
                Err(Errno::XDEV) => return Err(Errno::LOOP),
                done => return done,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::*;

    pub(super) fn open(
        dir: BorrowedFd<'_>,
        parts: &[&OsStr],
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        step_by_step(dir, parts, flags, mode)
    }
}
