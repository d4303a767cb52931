//! The workspace: a folder with `tasks/` in it, and who owns what beneath.

use std::{path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use threadline_contract::{
    ArtifactScope, RunId, SessionKey,
    scope::{BadScope, segment, session_folder, work_folder},
};
use threadline_files::{Access, Protected, Reason, Resolver, Root};

use crate::{Error, ScopeStyle, skip::NOTES, verified::Verified};

/// An owner stamp has two keys of at most 512 characters.
const STAMP_BYTES: u64 = 64 * 1024;
/// What every data folder holds, also that of another installation: its owner's lock and its token.
pub const DATA_FOLDER_MARK: [&str; 2] = ["owner.lock", "token"];

/// A folder with `tasks/` in it, held open. Cloning is cheap and shares everything.
#[derive(Clone, Debug)]
pub struct Workspace {
    pub(crate) root: Root,
    /// Where it lies, for telling others.
    pub(crate) place: PathBuf,
    pub(crate) verified: Arc<Verified>,
    /// What else must not be reached from a folder that a turn works in.
    protected: Arc<[PathBuf]>,
}

/// What a run needs to know about its folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The scope, relative to the workspace.
    pub scope: ArtifactScope,
    /// The scope as an absolute path: where the agent may put files that shall leave.
    pub artifact_dir: PathBuf,
    /// The session's work folder as an absolute path.
    pub work_dir: PathBuf,
}

/// Whose folder it is. Lies in it, so that two keys whose folder names are the same (the rule that
/// makes names loses information) can never share one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    session_key: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
}

impl Owner {
    /// The stamp of a session's folder.
    pub(crate) fn session(session: &SessionKey) -> Self {
        Self {
            session_key: session.clone(),
            run_id: None,
        }
    }

    /// The stamp of a run's scope.
    pub(crate) fn scope(session: &SessionKey, run: &RunId) -> Self {
        Self {
            session_key: session.clone(),
            run_id: Some(run.clone()),
        }
    }

    /// Whose scope a folder is; `None` if it has no stamp.
    pub(crate) fn of_scope(dir: &Root, shown: &str) -> Result<Option<Self>, Error> {
        owner_of(dir, "scope.json", shown)
    }

    /// The run, if it is one's.
    pub(crate) fn of_run(self) -> Option<(SessionKey, RunId)> {
        self.run_id.map(|run| (self.session_key, run))
    }
}

impl Workspace {
    /// Holds a workspace. The folder must exist; nothing is made above it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = Root::open(path.into())?;
        let place = root.real_path();
        Ok(Self {
            root,
            place,
            verified: Arc::default(),
            protected: Arc::default(),
        })
    }

    /// Keeps these folders and files too from being reached by a turn, whatever folder it works in. The
    /// workspace itself always is.
    #[must_use]
    pub fn protecting(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.protected = paths.into_iter().collect();
        self
    }

    /// What a turn must not reach: the workspace and everything else that is protected, except the folder
    /// that its session works in and its own scope.
    pub fn protected(&self, session: &SessionKey, run: &RunId) -> Result<Protected, Error> {
        // Also where somebody has moved it to.
        let here = self.root.real_path();
        let scope = ArtifactScope::of(session, run)?;
        let open = [here.join(work_folder(session)), here.join(scope.as_str())];
        let paths = self
            .protected
            .iter()
            .map(PathBuf::as_path)
            .chain([here.as_path()]);
        let ours = Protected::new(paths, open.iter().map(PathBuf::as_path));
        Ok(ours.and_folders_with(&DATA_FOLDER_MARK))
    }

    /// As [`open`](Self::open), sharing what was read already with other workspaces.
    pub(crate) fn open_with(
        path: impl Into<PathBuf>,
        verified: Arc<Verified>,
    ) -> Result<Self, Error> {
        Ok(Self {
            verified,
            ..Self::open(path)?
        })
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Whether a run could be prepared, without making anything.
    pub(crate) fn check(&self, session: &SessionKey, run: &RunId) -> Result<(), Error> {
        let folder = session_folder(session);
        match self.root.open_dir(&folder) {
            Ok(dir) => match owner_of(&dir, "session.json", &folder)? {
                Some(owner) if owner.session_key != *session => {
                    return Err(Error::SharedFolder { folder });
                }
                _ => {}
            },
            Err(e) if e.reason() == Reason::NotFound => {}
            Err(e) => return Err(Error::folder(e, &folder)),
        }
        self.scope(session, run).map(|_| ())
    }

    /// Chooses how paths are resolved. [`open`](Self::open) has already picked the best way; this is
    /// for holding the ways against each other.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.root = self.root.with_resolver(resolver);
        self
    }

    /// Where the workspace really lies, for telling others.
    pub fn path(&self) -> &std::path::Path {
        &self.place
    }

    /// Makes the scope of a run and the work folder of its session, and puts the owner's stamp in
    /// both. Doing it again for the same keys changes nothing; for other keys that would get the
    /// same folder it fails closed with [`Error::Conflict`].
    pub fn prepare(&self, session: &SessionKey, run: &RunId) -> Result<Prepared, Error> {
        let scope = ArtifactScope::of(session, run)?;
        if segment(run.as_str()) == NOTES {
            return Err(BadScope::ReservedRun(run.to_string()).into());
        }
        let folder = session_folder(session);
        let session_dir = self.folder(&folder)?;
        claim(
            &session_dir,
            "session.json",
            &Owner::session(session),
            &folder,
        )?;

        // Its tombstone keeps the name: what was removed does not come back, and no other run gets it.
        if self.is_removed(session, run)? {
            return Err(Error::Removed {
                scope: scope.to_string(),
            });
        }
        let scope_dir = self.folder(scope.as_str())?;
        let owner = Owner::scope(session, run);
        if owner_of(&scope_dir, "scope.json", scope.as_str())?.is_none() {
            // Files without an owner: somebody wrote here before this run was known. They are not
            // its output, and must not become so.
            if scope_dir
                .entries("")?
                .iter()
                .any(|entry| entry.name != NOTES)
            {
                let why = "it holds files but no owner's stamp";
                return Err(Error::Conflict {
                    folder: scope.to_string(),
                    why,
                });
            }
        }
        claim(&scope_dir, "scope.json", &owner, scope.as_str())?;

        let work = work_folder(session);
        self.folder(&work)?;
        let artifact_dir = self.place.join(scope.as_str());
        Ok(Prepared {
            scope,
            artifact_dir,
            work_dir: self.place.join(work),
        })
    }

    /// Makes a session's folder and puts its stamp in it, before its first run is taken: for another
    /// session that would get the same folder it fails closed with [`Error::Conflict`].
    pub fn reserve(&self, session: &SessionKey) -> Result<(), Error> {
        let folder = session_folder(session);
        let owner = Owner::session(session);
        claim(&self.folder(&folder)?, "session.json", &owner, &folder)
    }

    /// Whether a run of the session was ever prepared here. A folder that is only reserved has none.
    pub fn has(&self, session: &SessionKey) -> Result<bool, Error> {
        let folder = session_folder(session);
        let dir = match self.root.open_dir(&folder) {
            Ok(dir) => dir,
            Err(e) if e.reason() == Reason::NotFound => return Ok(false),
            Err(e) => return Err(Error::folder(e, &folder)),
        };
        let owner = owner_of(&dir, "session.json", &folder)?;
        if owner != Some(Owner::session(session)) {
            return Ok(false);
        }
        let work = work_folder(session);
        match self.root.open_dir(&work) {
            Ok(_) => Ok(true),
            Err(e) if e.reason() == Reason::NotFound => Ok(false),
            Err(e) => Err(Error::folder(e, &work)),
        }
    }

    /// Removes a session's folder with everything in it: work folder, scopes, notes. `false` when
    /// there is none, or when its stamp names another session.
    pub fn forget(&self, session: &SessionKey) -> Result<bool, Error> {
        let folder = session_folder(session);
        let dir = match self.root.open_dir(&folder) {
            Ok(dir) => dir,
            Err(e) if e.reason() == Reason::NotFound => return Ok(false),
            Err(e) => return Err(Error::folder(e, &folder)),
        };
        // Removing takes the stamp away at some point. A folder that nobody owns any more, and whose
        // session is being forgotten, is the rest of an earlier try.
        let owner = owner_of(&dir, "session.json", &folder)?;
        if owner.is_some_and(|owner| owner.session_key != *session) {
            return Ok(false);
        }
        self.root
            .remove_dir_all(&folder)
            .map_err(|e| Error::folder(e, &folder))?;
        Ok(true)
    }

    fn folder(&self, folder: &str) -> Result<Root, Error> {
        let made = self.root.create_dir_all(folder, Access::Shared);
        made.map_err(|e| Error::folder(e, folder))
    }

    /// The scope of a run, if it was prepared for exactly this session and run.
    pub(crate) fn scope(
        &self,
        session: &SessionKey,
        run: &RunId,
    ) -> Result<(ArtifactScope, Option<Root>), Error> {
        let scope = ArtifactScope::of(session, run)?;
        let dir = match self.root.open_dir(scope.as_str()) {
            Ok(dir) => dir,
            Err(e) if e.reason() == Reason::NotFound => return Ok((scope, None)),
            Err(e) => return Err(Error::folder(e, scope.as_str())),
        };
        match owner_of(&dir, "scope.json", scope.as_str())? {
            None => Ok((scope, None)),
            // A removal that was interrupted may have left all of it; it is gone all the same.
            Some(owner) if owner == Owner::scope(session, run) => {
                let removed = self.is_removed(session, run)?;
                Ok((scope, (!removed).then_some(dir)))
            }
            Some(owner) if owner.session_key != *session => Err(Error::SharedFolder {
                folder: session_folder(session),
            }),
            Some(_) => Err(Error::Conflict {
                folder: scope.to_string(),
                why: "its stamp names another",
            }),
        }
    }

    /// A scope to read from, in the named style.
    pub(crate) fn scope_in(
        &self,
        style: ScopeStyle,
        session: &SessionKey,
        run: &RunId,
    ) -> Result<(ArtifactScope, Option<Root>), Error> {
        match style {
            ScopeStyle::Own => self.scope(session, run),
            ScopeStyle::Peer => self.peer_scope(session, run),
        }
    }

    /// What the earlier plugin left for a run. It has no stamp; one that has a stamp is a folder of
    /// ours, and opens to its owner alone.
    pub(crate) fn peer_scope(
        &self,
        session: &SessionKey,
        run: &RunId,
    ) -> Result<(ArtifactScope, Option<Root>), Error> {
        let scope = ArtifactScope::peer(session, run);
        let mut dir = self.root.clone();
        let stamps = [None, Some("session.json"), Some("scope.json")];
        for (part, stamp) in scope.as_str().split('/').zip(stamps) {
            dir = match dir.open_dir(part) {
                Ok(dir) => dir,
                Err(e) if e.reason() == Reason::NotFound => return Ok((scope, None)),
                Err(e) => return Err(Error::folder(e, scope.as_str())),
            };
            let Some(name) = stamp else { continue };
            let theirs = match owner_of(&dir, name, scope.as_str())? {
                Some(owner) => {
                    owner.session_key != *session || owner.run_id.is_some_and(|owner| owner != *run)
                }
                None => false,
            };
            if theirs {
                return Err(Error::Conflict {
                    folder: scope.to_string(),
                    why: "its stamp names another",
                });
            }
        }
        Ok((scope, Some(dir)))
    }

    /// The scope of a run that must have been prepared.
    pub(crate) fn prepared(
        &self,
        session: &SessionKey,
        run: &RunId,
    ) -> Result<(ArtifactScope, Root), Error> {
        match self.scope(session, run)? {
            (scope, Some(dir)) => Ok((scope, dir)),
            (scope, None) if self.is_removed(session, run)? => Err(Error::Removed {
                scope: scope.to_string(),
            }),
            (scope, None) => Err(Error::NotPrepared {
                scope: scope.to_string(),
            }),
        }
    }
}

/// Puts the owner's stamp into a folder, or finds that the right one is there. Of two callers at
/// the same time one writes it and the other compares.
fn claim(folder: &Root, name: &str, owner: &Owner, shown: &str) -> Result<(), Error> {
    let found = match owner_of(folder, name, shown)? {
        Some(found) => found,
        None => {
            let notes = folder
                .create_dir_all(NOTES, Access::Shared)
                .map_err(|e| Error::folder(e, shown))?;
            let stamp = serde_json::to_vec(owner).map_err(|_| Error::Conflict {
                folder: shown.to_owned(),
                why: "its stamp cannot be written",
            })?;
            match notes.create_file(name, &stamp, Access::Shared) {
                Ok(_) => return Ok(()),
                Err(e) if e.reason() == Reason::AlreadyExists => {
                    match owner_of(folder, name, shown)? {
                        Some(found) => found,
                        None => return Err(e.into()),
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
    };
    let folder = shown.to_owned();
    if found == *owner {
        Ok(())
    } else if found.session_key != owner.session_key {
        Err(Error::SharedFolder { folder })
    } else {
        Err(Error::Conflict {
            folder,
            why: "its stamp names another",
        })
    }
}

/// Who owns a folder. A stamp that cannot be read is nobody's: fail closed.
pub(crate) fn owner_of(folder: &Root, name: &str, shown: &str) -> Result<Option<Owner>, Error> {
    match folder.read_limited(format!("{NOTES}/{name}"), STAMP_BYTES) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(owner) => Ok(Some(owner)),
            Err(_) => Err(Error::Conflict {
                folder: shown.to_owned(),
                why: "its stamp cannot be read",
            }),
        },
        Err(e) if e.reason() == Reason::NotFound => Ok(None),
        Err(e) => Err(Error::folder(e, shown)),
    }
}
