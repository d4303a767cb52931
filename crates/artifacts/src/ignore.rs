//! `artifact-ignore.md`: what its author does not want delivered.
//!
//! If the file has fenced blocks whose info string is exactly `artifact-ignore`, the lines in them
//! are rules; otherwise every line is one. Blank lines and lines that begin with `#` are not. A rule
//! is `folder/` (everything beneath it), `path` (that file), `*suffix` (files of the root that end
//! so) or `**/*suffix` (files anywhere). Everything is compared byte by byte. What is not understood
//! is said and has no effect: a rule that was guessed could leave out a deliverable.

use std::collections::HashSet;

use threadline_files::{Reason, Root};

use crate::Error;

/// The ignore file's name, in the root of what is walked.
pub(crate) const IGNORE_FILE: &str = "artifact-ignore.md";
/// What the info string of a fenced block with rules is.
const FENCE: &str = "artifact-ignore";
/// More than anybody writes by hand.
const FILE_BYTES: u64 = 256 * 1024;
/// Complaints about rules that are told one by one.
const WARNINGS: usize = 20;

/// Rules about paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ignore {
    folders: Vec<String>,
    files: HashSet<String>,
    /// Suffixes of files of the root.
    here: Vec<String>,
    /// Suffixes of files anywhere.
    anywhere: Vec<String>,
    /// What was not understood.
    pub warnings: Vec<String>,
}

impl Ignore {
    /// The rules of a folder. No ignore file, no rules; one that cannot be read is a warning.
    pub(crate) fn of(folder: &Root) -> Result<Self, Error> {
        let why = match folder.read_limited(IGNORE_FILE, FILE_BYTES) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => return Ok(Self::parse(&text)),
                Err(_) => "is not text",
            },
            Err(e) => match e.reason() {
                Reason::NotFound => return Ok(Self::default()),
                Reason::TooLarge => "is too large",
                Reason::Symlink => "is a symbolic link",
                Reason::NotRegular | Reason::HardLinked => "is not a plain file",
                Reason::Protected => "is a file of Threadline's own",
                _ => return Err(e.into()),
            },
        };
        Ok(Self {
            warnings: vec![format!(
                "{IGNORE_FILE} {why}, so its rules were not applied."
            )],
            ..Self::default()
        })
    }

    /// Reads rules.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let fenced = fenced(text);
        let mut out = Self::default();
        let mut more = 0;
        let lines: Vec<&str> = fenced.unwrap_or_else(|| text.lines().collect());
        for line in lines {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(why) = out.add(line) {
                if out.warnings.len() < WARNINGS {
                    out.warnings.push(format!(
                        "{IGNORE_FILE}: the rule `{line}` {why}, so it has no effect."
                    ));
                } else {
                    more += 1;
                }
            }
        }
        if more > 0 {
            out.warnings
                .push(format!("{IGNORE_FILE}: {more} more rules have no effect."));
        }
        out
    }

    fn add(&mut self, rule: &str) -> Result<(), &'static str> {
        let (list, text) = if let Some(suffix) = rule.strip_prefix("**/*") {
            (&mut self.anywhere, suffix)
        } else if let Some(suffix) = rule.strip_prefix('*') {
            (&mut self.here, suffix)
        } else {
            let (path, folder) = match rule.strip_suffix('/') {
                Some(path) => (path, true),
                None => (rule, false),
            };
            plain(path)?;
            if folder {
                self.folders.push(rule.to_owned());
            } else {
                self.files.insert(rule.to_owned());
            }
            return Ok(());
        };
        if text.contains('/') {
            return Err("is a pattern of a kind that is not known");
        }
        // `*` alone is every file.
        if !text.is_empty() {
            plain_part(text)?;
        }
        list.push(text.to_owned());
        Ok(())
    }

    /// Whether a file is left out. The ignore file itself always is.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let here = !path.contains('/');
        path == IGNORE_FILE
            || self.files.contains(path)
            || self.folders.iter().any(|folder| path.starts_with(folder))
            || (here && self.here.iter().any(|suffix| path.ends_with(suffix)))
            || self.anywhere.iter().any(|suffix| path.ends_with(suffix))
    }
}

/// A path that is spelled in the one way that a file has.
fn plain(path: &str) -> Result<(), &'static str> {
    if path.starts_with('/') {
        return Err("is absolute");
    }
    path.split('/').try_for_each(plain_part)
}

fn plain_part(part: &str) -> Result<(), &'static str> {
    match part {
        "." | ".." => Err("leads out of the folder"),
        "" => Err("has an empty part"),
        _ if part.contains('\0') => Err("holds a NUL character"),
        _ if part.contains('\\') => Err("holds a backslash; folders are separated by `/`"),
        _ if part.contains(['*', '?', '[', ']', '{', '}']) => {
            Err("is a pattern of a kind that is not known")
        }
        _ => Ok(()),
    }
}

/// The lines of all blocks that hold rules; `None` if there is no such block.
fn fenced(text: &str) -> Option<Vec<&str>> {
    let mut found = None;
    let mut open: Option<(char, usize, bool)> = None;
    for line in text.lines() {
        let fence = fence(line);
        match (open, fence) {
            (None, Some((mark, length, info))) => {
                let rules = info == FENCE;
                if rules {
                    found.get_or_insert_with(Vec::new);
                }
                open = Some((mark, length, rules));
            }
            (Some((mark, length, _)), Some((m, l, ""))) if m == mark && l >= length => open = None,
            (Some((_, _, true)), _) => found.get_or_insert_with(Vec::new).push(line),
            _ => {}
        }
    }
    found
}

/// A line that opens or closes a block: its mark, how often, and what stands behind.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let line = line.trim();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = line.trim_start_matches(mark);
    let length = line.len() - rest.len();
    let info = rest.trim();
    // Markdown: three or more, not indented like code, and no backtick in what follows backticks.
    let is_fence = length >= 3 && indent <= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then_some((mark, length, info))
}

#[cfg(test)]
#[path = "ignore_tests.rs"]
mod tests;
