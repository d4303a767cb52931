//! Processes: telling one from another that got its number, ending it.

use std::{fs, path::Path, sync::LazyLock};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// The variable by which whatever an agent starts can be found, even after it has left the group.
pub(crate) const MARK: &str = "THREADLINE_AGENT_HOST";

/// A process that is not mistaken for a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since the system did.
    pub started: u64,
    /// Which start of the system that was.
    pub system: String,
}

impl ProcessId {
    /// A process that is there.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self {
            pid,
            started: stat(pid)?.started,
            system: system().to_owned(),
        })
    }

    /// Whether it is there and has not ended.
    pub fn is_alive(&self) -> bool {
        self.system == system()
            && stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_zombie())
    }

    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = pid(self.pid) else {
            return false;
        };
        // The descriptor holds on to the process, so that what is checked is what is signalled.
        #[cfg(target_os = "linux")]
        if let Ok(held) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            return self.is_alive() && rustix::process::pidfd_send_signal(held, signal).is_ok();
        }
        self.is_alive() && rustix::process::kill_process(pid, signal).is_ok()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    state: u8,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    pub(crate) started: u64,
}

impl Stat {
    pub(crate) fn is_zombie(self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

pub(crate) fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

/// What the system says about a process.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?)
}

fn parse(text: &[u8]) -> Option<Stat> {
    // The name in parentheses may hold anything, so what follows is counted from its end.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// All processes.
pub(crate) fn all() -> Vec<(u32, Stat)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return vec![];
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, stat(pid)?)))
        .collect()
}

/// Which start of the system this is.
pub(crate) fn system() -> &'static str {
    // A process lives in one; thousands of hosts are compared with it.
    static ID: LazyLock<String> = LazyLock::new(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    });
    &ID
}

/// Ends whatever descends from this process, which as a sub-reaper loses no descendant.
pub(crate) fn signal_descendants(signal: Signal) {
    let all = all();
    let mut family = vec![std::process::id()];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(
            all.iter()
                .filter(|(_, stat)| stat.parent == parent)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    for pid in family.into_iter().skip(1).filter_map(pid) {
        // One that has ended meanwhile cannot have been replaced: nobody but us takes it away.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(test)]
#[path = "procs_tests.rs"]
mod tests;
