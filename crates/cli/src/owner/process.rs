//! Whether an owner's process can answer at all.

use std::path::Path;

use threadline_contract::{Code, Fault};

/// Whether a process is stopped (SIGSTOP, or Ctrl-Z of a debugger): it is there, holds its lock and
/// its socket, and does nothing until somebody lets it go on. Where this cannot be told, `false`.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    // The name in parentheses may hold anything, so what follows is counted from its end.
    let state = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(')')?;
        rest.trim_start().chars().next()
    });
    matches!(state, Some('T' | 't'))
}

/// Says that an owner is stopped, and what to do.
pub(crate) fn stopped(pid: u32) -> Fault {
    Fault::new(
        Code::OwnerUnreachable,
        format!(
            "The process that owns the data folder ({pid}) does not answer, because it is stopped. `kill -CONT {pid}` lets it go on; `kill -9 {pid}` ends it, and runs go on at the next start."
        ),
    )
}

/// Says that an owner does not answer, and what to do.
pub(crate) fn silent(pid: u32, log: &Path) -> Fault {
    Fault::new(
        Code::OwnerUnreachable,
        format!(
            "The process that owns the data folder ({pid}) does not answer. {} may say why; `kill -9 {pid}` ends it, and runs go on at the next start.",
            log.display()
        ),
    )
}
