//! Folders of the workspace where a run is expected to leave files.

use threadline_contract::{ArtifactPath, plugin::DirStatus};
use threadline_files::{FileKind, Root};

use crate::Error;

/// Whether a path of the workspace is never looked at: it lies among runs' own folders, or what apps
/// keep for their threads.
pub(crate) fn not_output(path: &str) -> bool {
    matches!(path.split('/').next(), Some("tasks" | "owners"))
}

/// Expected folders, each once, in the order they were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpectedDirs(Vec<ArtifactPath>);

impl ExpectedDirs {
    /// Reads folders as callers write them: `\` separates too, empty parts are dropped. One that is
    /// absolute or climbs makes the whole request bad.
    pub(crate) fn new(named: &[String]) -> Result<Self, Error> {
        let mut out = Vec::new();
        for text in named {
            let bad = |why| Error::BadExpectedDir {
                folder: text.clone(),
                why,
            };
            let mut letters = text.chars();
            let drive = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
                && letters.next() == Some(':');
            if drive || text.starts_with(['/', '\\']) {
                return Err(bad("it is absolute"));
            }
            let slashed = text.replace('\\', "/");
            let parts: Vec<&str> = slashed.split('/').filter(|p| !p.is_empty()).collect();
            if parts.is_empty() {
                continue;
            }
            let folder = ArtifactPath::new(parts.join("/"))
                .map_err(|_| bad("it has a `.` or `..` part, or a NUL character"))?;
            if !out.contains(&folder) {
                out.push(folder);
            }
        }
        Ok(Self(out))
    }

    /// The folders that may be looked at, with a warning for each that may not.
    pub(crate) fn usable<'a>(&'a self, warnings: &mut Vec<String>) -> Vec<&'a ArtifactPath> {
        let mut out = Vec::new();
        for folder in &self.0 {
            if not_output(folder.as_str()) {
                warnings.push(format!(
                    "`{folder}/` is not a place for output; it was not looked at."
                ));
            } else {
                out.push(folder);
            }
        }
        out
    }

    /// Whether a file lies in one of the folders that may be looked at.
    pub(crate) fn hold(&self, path: &str) -> bool {
        let inside = |dir: &&ArtifactPath| {
            let rest = path.strip_prefix(dir.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        self.usable(&mut Vec::new()).iter().any(inside)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The folders as they are told, with a slash at the end.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|folder| format!("{folder}/")).collect()
    }

    /// Which of them are there. A link is not.
    pub(crate) fn status(&self, workspace: &Root) -> Vec<DirStatus> {
        let exists = |folder: &ArtifactPath| {
            let stat = workspace.stat(folder.as_str());
            stat.is_ok_and(|stat| stat.kind == FileKind::Dir)
        };
        let status = |folder: &ArtifactPath| DirStatus {
            relative_path: format!("{folder}/"),
            exists: exists(folder),
        };
        self.0.iter().map(status).collect()
    }
}

#[cfg(test)]
#[path = "dirs_tests.rs"]
mod tests;
