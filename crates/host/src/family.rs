//! Everybody who descends from a host, written down while it lives.
//!
//! A host is the parent of whatever its agent loses, so it can always tell who belongs to it. Once it is killed
//! nobody can: a process that has left the agent's session and cleared its environment looks like any other. So it
//! notes them again and again, and whoever sweeps after it finds those that are still there, and their children.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::procs::{Stat, stat};

/// Members that are noted at most, and bytes that their list can have.
const MAX_MEMBERS: usize = 4096;
const MAX_LIST_BYTES: u64 = 256 * 1024;

/// A process, told by its number and when it started.
pub(crate) type Member = (u32, u64);

/// The list of a host's family, in the host's folder.
pub(crate) struct FamilyList {
    path: PathBuf,
    noted: BTreeSet<Member>,
}

impl FamilyList {
    /// The list in this folder; nothing is noted yet.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join("family"),
            noted: BTreeSet::new(),
        }
    }

    /// Notes who descends from this process now. What cannot be written is tried again at the next look.
    pub(crate) fn note(&mut self) {
        let now = descendants(std::process::id());
        if now == self.noted {
            return;
        }
        let lines: String = now
            .iter()
            .map(|(pid, started)| format!("{pid} {started}\n"))
            .collect();
        // It need not outlive the system, so nothing waits for the disk.
        let fresh = self.path.with_extension("new");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .and_then(|mut file| file.write_all(lines.as_bytes()));
        if written.is_ok() && fs::rename(&fresh, &self.path).is_ok() {
            self.noted = now;
        }
    }

    /// Who was noted last.
    pub(crate) fn read(folder: &Path) -> BTreeSet<Member> {
        let path = Self::in_folder(folder).path;
        let Ok(bytes) = threadline_files::atomic::read_limited(path, MAX_LIST_BYTES) else {
            return BTreeSet::new();
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let member = |line: &str| {
            let (pid, started) = line.split_once(' ')?;
            Some((pid.parse().ok()?, started.parse().ok()?))
        };
        text.lines().filter_map(member).collect()
    }
}

/// Everybody who descends from a process, by what the system says about each one's children.
fn descendants(of: u32) -> BTreeSet<Member> {
    let mut found = BTreeSet::new();
    let mut open = vec![of];
    while let Some(parent) = open.pop() {
        for child in children(parent) {
            if let Some(stat) = stat(child)
                && found.len() < MAX_MEMBERS
                && found.insert((child, stat.started))
            {
                open.push(child);
            }
        }
    }
    found
}

fn children(of: u32) -> Vec<u32> {
    let tasks = Path::new("/proc").join(of.to_string()).join("task");
    let tasks = fs::read_dir(tasks).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| {
            let pids = text.split_ascii_whitespace().map(str::parse);
            pids.filter_map(Result::ok).collect::<Vec<u32>>()
        })
        .collect()
}

/// Which of these families a process belongs to: it, or one that it descends from, was noted there.
pub(crate) fn member_of(
    pid: u32,
    all: &HashMap<u32, Stat>,
    families: &HashMap<Member, usize>,
) -> Option<usize> {
    let mut at = pid;
    // No chain of parents is longer than there are processes.
    for _ in 0..all.len() {
        let stat = all.get(&at)?;
        if let Some(family) = families.get(&(at, stat.started)) {
            return Some(*family);
        }
        at = stat.parent;
    }
    None
}
