//! Memory that a small process needed only to start.
//!
//! A program as large as ours, made so that it can lie at any address, reads a megabyte of notes about
//! itself when it starts, and code that it never runs again. One process does not care; a host for each
//! agent and a sidecar beside each gateway do.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
};

use rustix::mm::{Advice, madvise};

/// Gives back what was read of the program's files so far. Whatever is needed again is read again, from
/// the system's cache as a rule. To be called once, when a process that will live long has started.
pub fn give_back_start() -> io::Result<()> {
    let maps = clean(BufReader::new(File::open("/proc/self/smaps")?))?;
    for Mapping { from, length } in maps {
        give_back(from, length)?;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "only here; see below why it changes nothing")]
fn give_back(from: usize, length: usize) -> io::Result<()> {
    let start = std::ptr::with_exposed_provenance_mut(from);
    // SAFETY: The mapping is of a file, cannot be written to, and holds no page of its own (`clean`
    // has looked). So each of its pages is as the file has it, now and when it is read again.
    unsafe { madvise(start, length, Advice::LinuxDontNeed) }?;
    Ok(())
}

/// Addresses that a file was mapped to.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    from: usize,
    length: usize,
}

/// The mappings of files that nothing was written to, and nothing can be.
fn clean(smaps: impl BufRead) -> io::Result<Vec<Mapping>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        let line = line?;
        if let Some(mapping) = heading(&line) {
            current = mapping;
        } else if let Some(own) = line.strip_prefix("Anonymous:")
            && let Some(mapping) = current.take()
            && own.trim() == "0 kB"
        {
            found.push(mapping);
        }
    }
    Ok(found)
}

/// A line that begins a mapping, and the mapping if it is of a file, for reading alone.
fn heading(line: &str) -> Option<Option<Mapping>> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let address = |hex| usize::from_str_radix(hex, 16).ok();
    let (from, to) = (address(from)?, address(to)?);
    let rights = words.next()?;
    // Offset, device and inode come between.
    let path = words.nth(3).unwrap_or_default();
    let is_file = path.starts_with('/') && matches!(rights, "r--p" | "r-xp");
    Some(is_file.then(|| Mapping {
        from,
        length: to.saturating_sub(from),
    }))
}

#[cfg(test)]
#[path = "lean_tests.rs"]
mod tests;
