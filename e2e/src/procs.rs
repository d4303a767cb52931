//! Processes, as `/proc` shows them.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

/// Every process beneath this one.
pub fn descendants(of: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all()
        .into_iter()
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything; the parent is the second word after it.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
            Some((pid, parent.parse().ok()?))
        })
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = parents.iter().filter(|(_, of)| *of == parent);
        found.extend(children.map(|(pid, _)| *pid));
    }
    found.split_off(1)
}

/// Processes whose working folder is this one or beneath it, with their command lines.
pub fn working_in(folder: &Path) -> Vec<(u32, String)> {
    all()
        .into_iter()
        .filter(|pid| {
            let place = fs::read_link(format!("/proc/{pid}/cwd"));
            place.is_ok_and(|place| place.starts_with(folder))
        })
        .map(|pid| (pid, command_of(pid)))
        .collect()
}

/// Processes whose command lines name all of these.
pub fn named(words: &[&str]) -> Vec<u32> {
    let names = |pid: &u32| {
        let command = command_of(*pid);
        words.iter().all(|word| command.contains(word))
    };
    all().into_iter().filter(names).collect()
}

fn command_of(pid: u32) -> String {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).replace('\0', " ")
}

/// Ends a process without a word. It may be gone already.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
