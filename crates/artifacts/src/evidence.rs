//! What a runtime says that a turn wrote, and what the turn had to deliver.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use threadline_contract::{ArtifactPath, Deliverable, OmitReason};

use crate::{Error, Omissions, deliverables::Patterns};

/// What speaks for a file having been written by this turn, beside the file itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Paths that this turn's tool calls (or the runtime's own list) name as written: absolute, or
    /// relative to the work folder.
    pub written: Vec<String>,
    /// What the turn was declared to deliver.
    pub deliverables: Vec<Deliverable>,
}

/// Evidence as paths of the work folder.
#[derive(Debug)]
pub(crate) struct Named {
    /// Files that are named one by one.
    pub files: BTreeSet<String>,
    /// Patterns that were declared.
    pub patterns: Patterns,
}

impl Named {
    /// Sorts evidence by where it points: into the work folder, into the scope (nothing to do), or
    /// outside of both, which is reported so that the user knows.
    pub(crate) fn resolve(
        evidence: &Evidence,
        work: &[PathBuf],
        scope: &[PathBuf],
        omitted: &mut Omissions,
    ) -> Result<Self, Error> {
        let mut files = BTreeSet::new();
        for text in &evidence.written {
            match place(text, work, scope) {
                // Also one whose name is not safe: that is told of the file, by whoever comes upon it.
                Place::Work(path) => _ = files.insert(path),
                Place::Scope => {}
                Place::Outside => omitted.add(text, OmitReason::OutsideScope),
            }
        }
        // A declaration without wildcards names its file, like a tool call does.
        for declared in &evidence.deliverables {
            if let Ok(path) = ArtifactPath::new(&declared.glob)
                && !declared.glob.contains(['*', '?', '[', '{'])
            {
                files.insert(path.as_str().to_owned());
            }
        }
        Ok(Self {
            files,
            patterns: Patterns::new(&evidence.deliverables)?,
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Work(String),
    Scope,
    Outside,
}

fn place(text: &str, work: &[PathBuf], scope: &[PathBuf]) -> Place {
    let Some(path) = normal(Path::new(text)) else {
        return Place::Outside;
    };
    if !path.is_absolute() {
        return inside(&path);
    }
    if scope.iter().any(|folder| path.starts_with(folder)) {
        return Place::Scope;
    }
    let relative = work
        .iter()
        .find_map(|folder| path.strip_prefix(folder).ok());
    relative.map_or(Place::Outside, inside)
}

fn inside(relative: &Path) -> Place {
    match relative.to_str() {
        Some(text) if !text.is_empty() => Place::Work(text.to_owned()),
        _ => Place::Outside,
    }
}

/// Takes `.` and `..` out by their names. `None` if the path climbs out of where it begins.
pub(crate) fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            part => out.push(part),
        }
    }
    Some(out)
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
