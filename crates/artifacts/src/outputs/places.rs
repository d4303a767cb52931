//! The folders that runs share, held open, and which of them a path lies in.

use std::path::{Path, PathBuf};

use threadline_files::{Reason, Root};

use super::OutputRoot;
use crate::{Error, Workspace, evidence::normal};

/// An output root that can be looked at.
pub(super) struct OpenRoot {
    pub name: String,
    pub root: Root,
    /// The ways in which its path is written.
    spellings: [PathBuf; 2],
}

/// Everything that is looked at.
pub(super) struct Places {
    pub roots: Vec<OpenRoot>,
    pub workspace: Root,
    spellings: [PathBuf; 2],
    /// The run's scope, relative to the workspace.
    scope: String,
}

/// Where a named file lies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// In the scope already.
    Scope,
    /// In an output root.
    Root(usize, String),
    /// In the workspace.
    Workspace(String),
    /// Somewhere else, or nowhere.
    Elsewhere,
}

impl Places {
    /// Opens them. A root that is not there, or not ours, is said and passed over.
    pub(super) fn open(
        workspace: &Workspace,
        scope: &str,
        roots: &[OutputRoot],
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let mut open = Vec::new();
        for root in roots {
            match open_root(root)? {
                Ok(held) => open.push(OpenRoot {
                    name: root.name.clone(),
                    spellings: [root.folder.clone(), held.real_path()],
                    root: held,
                }),
                Err(why) => warnings.push(format!(
                    "The output folder `{}` {why}, so nothing was collected from it.",
                    root.folder.display()
                )),
            }
        }
        Ok(Self {
            roots: open,
            workspace: workspace.root.clone(),
            spellings: [workspace.root.path().to_owned(), workspace.place.clone()],
            scope: scope.to_owned(),
        })
    }

    /// Where a path lies that is absolute, or relative to the workspace.
    pub(super) fn of(&self, text: &str) -> Where {
        let Some(path) = normal(Path::new(text)) else {
            return Where::Elsewhere;
        };
        let beneath = |spellings: &[PathBuf; 2]| {
            let inner = spellings.iter().find_map(|s| path.strip_prefix(s).ok())?;
            inner
                .to_str()
                .filter(|inner| !inner.is_empty())
                .map(str::to_owned)
        };
        for (i, root) in self.roots.iter().enumerate() {
            if let Some(inner) = beneath(&root.spellings) {
                return Where::Root(i, inner);
            }
        }
        let inner = if path.is_absolute() {
            beneath(&self.spellings)
        } else {
            path.to_str().map(str::to_owned)
        };
        match inner {
            Some(inner) if Path::new(&inner).starts_with(&self.scope) => Where::Scope,
            Some(inner) if !inner.is_empty() => Where::Workspace(inner),
            _ => Where::Elsewhere,
        }
    }
}

/// Opens an output root. One of them lies where every user may make names, so a link there is not
/// followed, and a folder of somebody else is not read.
fn open_root(root: &OutputRoot) -> Result<Result<Root, &'static str>, Error> {
    let (Some(above), Some(name)) = (root.folder.parent(), root.folder.file_name()) else {
        return Ok(Err("is not a folder in another one"));
    };
    match Root::open(above).and_then(|above| above.open_dir(name)) {
        Ok(held) if held.stat("")?.uid == threadline_files::user() => Ok(Ok(held)),
        Ok(_) => Ok(Err("belongs to another user")),
        Err(e) => match e.reason() {
            Reason::NotFound => Ok(Err("is not there")),
            Reason::NotDirectory => Ok(Err("is no folder")),
            Reason::Symlink => Ok(Err("is a symbolic link")),
            Reason::Denied => Ok(Err("cannot be read")),
            _ => Err(e.into()),
        },
    }
}
