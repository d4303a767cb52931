//! Our notes about a run, which must outlive its scope: `tasks/<session>/.xworkmate/runs/<run>`.
//!
//! Not in the scope itself, for three reasons. The scope is the folder that an agent is told to
//! write to, and what proves its work should not lie there. The scope is what retention removes, and
//! the notes are what stays. And nothing beneath a session's notes is ever walked, so no note can
//! become an artifact.

use threadline_contract::{
    RunId, SessionKey,
    scope::{NOTES, segment, session_folder},
};
use threadline_files::{Access, Reason, Root};

use crate::{Error, Workspace};

/// The notes about a run, relative to the workspace.
pub(crate) fn folder(session: &SessionKey, run: &RunId) -> String {
    let (session, run) = (session_folder(session), segment(run.as_str()));
    format!("{session}/{NOTES}/runs/{run}")
}

impl Workspace {
    /// The notes about a run, if there are any.
    pub(crate) fn notes(&self, session: &SessionKey, run: &RunId) -> Result<Option<Root>, Error> {
        let folder = folder(session, run);
        match self.root.open_dir(&folder) {
            Ok(notes) => Ok(Some(notes)),
            Err(e) if e.reason() == Reason::NotFound => Ok(None),
            Err(e) => Err(Error::folder(e, &folder)),
        }
    }

    /// The notes about a run, made if need be. Only for a run that was prepared: its stamp is what
    /// keeps another run with the same folder name out of them.
    pub(crate) fn make_notes(&self, session: &SessionKey, run: &RunId) -> Result<Root, Error> {
        let folder = folder(session, run);
        let made = self.root.create_dir_all(&folder, Access::Shared);
        made.map_err(|e| Error::folder(e, &folder))
    }
}

/// Reads a note of at most so many bytes; `None` if it is not there.
pub(crate) fn read(notes: &Root, name: &str, most: u64) -> Result<Option<Vec<u8>>, Error> {
    match notes.read_limited(name, most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.reason() == Reason::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}
