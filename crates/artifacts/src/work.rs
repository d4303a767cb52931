//! The folder that a session's agent works in.

use std::path::PathBuf;

use threadline_contract::{
    RunId, SessionKey,
    scope::{WORK, work_folder},
};
use threadline_files::{
    Reason, Root,
    walk::{Found, walk},
};

use crate::{
    Error, MAX_DEPTH, Workspace,
    skip::{CACHE_SIGNATURE, CACHE_TAG, collects_folder},
};

/// How many files of a user's own folder are looked at. It may be a whole home.
const USER_FILES: usize = 100_000;

/// Where a session's agent works, the same for every turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkFolder {
    /// `tasks/<session>/work`: ours, so everything that a turn changed in it is its output.
    Session,
    /// A folder that the user named, where others work too. Only what evidence names is taken.
    User(PathBuf),
}

/// A work folder held open.
pub(crate) struct Work {
    pub root: Root,
    pub user: bool,
}

impl Workspace {
    pub(crate) fn work(
        &self,
        session: &SessionKey,
        run: &RunId,
        folder: &WorkFolder,
    ) -> Result<Work, Error> {
        let root = match folder {
            WorkFolder::Session => {
                let path = work_folder(session);
                self.root
                    .open_dir(&path)
                    .map_err(|e| Error::folder(e, &path))?
            }
            WorkFolder::User(path) => Root::open(path).map_err(|e| match e.reason() {
                Reason::NotFound | Reason::NotDirectory => Error::NoWorkFolder {
                    folder: path.to_string_lossy().into_owned(),
                },
                _ => e.into(),
            })?,
        };
        // A user's folder may be above the workspace, where other sessions' files and our own lie.
        let root = root.avoiding(&self.protected(session, run)?).map_err(|e| {
            match (e.reason(), folder) {
                (Reason::Protected, WorkFolder::User(path)) => Error::ProtectedWorkFolder {
                    folder: path.to_string_lossy().into_owned(),
                },
                _ => e.into(),
            }
        })?;
        Ok(Work {
            root,
            user: *folder != WorkFolder::Session,
        })
    }
}

impl Work {
    /// Everything that may be collected, in byte order; folders that are never collected are named
    /// and not entered.
    pub(crate) fn walk(&self) -> impl Iterator<Item = Found> {
        walk(&self.root, MAX_DEPTH)
            .enter_if(move |path| collects_folder(path) && !self.is_cache(path))
    }

    /// Which folder it is: ours stays the same one when the whole workspace is moved.
    pub(crate) fn name(&self) -> String {
        if self.user {
            self.root.real_path().to_string_lossy().into_owned()
        } else {
            WORK.to_owned()
        }
    }

    /// How many files are looked at.
    pub(crate) fn limit(&self) -> usize {
        if self.user { USER_FILES } else { usize::MAX }
    }

    fn is_cache(&self, path: &str) -> bool {
        use std::io::Read as _;
        let Ok(tag) = self.root.open_file(format!("{path}/{CACHE_TAG}")) else {
            return false;
        };
        let mut head = Vec::new();
        let read = tag
            .take(CACHE_SIGNATURE.len() as u64)
            .read_to_end(&mut head);
        read.is_ok() && head == CACHE_SIGNATURE
    }
}
