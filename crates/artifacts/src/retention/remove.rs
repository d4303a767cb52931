//! Doing what a plan says.

use std::time::SystemTime;

use threadline_contract::scope::{NOTES, segment, session_folder};
use threadline_files::{Access, Reason, tree};

use super::{
    IsLive, Kept, KeptFor, Removal, RemovalPlan, RemovedFor, Retention,
    survey::seconds,
    tombstone::{self, Tombstone},
};
use crate::{Error, Workspace, cache};

/// Where scopes are on their way out, beneath a session's folder.
pub(super) const TRASH: &str = ".xworkmate/trash";
/// Names that a tombstone without a receipt carries.
const NAMES: usize = 10_000;

impl Workspace {
    /// Removes what a plan lists; `done` hears of each scope that is gone. What has become protected
    /// since the plan was made stays, and is returned. A scope whose removal fails ends it with the
    /// error; repeating goes on there.
    pub fn remove(
        &self,
        plan: &RemovalPlan,
        retention: &Retention,
        now: SystemTime,
        is_live: &IsLive<'_>,
        done: &mut dyn FnMut(&Removal),
    ) -> Result<Vec<Kept>, Error> {
        let mut kept = Vec::new();
        for removal in &plan.remove {
            match self.remove_one(removal, retention, seconds(now), is_live)? {
                None => done(removal),
                Some(why) => kept.push(Kept {
                    scope: removal.scope.scope.clone(),
                    why,
                }),
            }
        }
        Ok(kept)
    }

    fn remove_one(
        &self,
        removal: &Removal,
        retention: &Retention,
        now: i64,
        is_live: &IsLive<'_>,
    ) -> Result<Option<KeptFor>, Error> {
        let (session, run) = (&removal.scope.session_key, &removal.scope.run_id);
        let notes = self.make_notes(session, run)?;
        {
            // From here to the tombstone nobody can begin to hold the scope.
            let _alone = notes.lock()?;
            cache::sweep(&notes)?;
            if !tombstone::is_removed(&notes)? {
                let Some(surveyed) = self.survey(removal.scope.scope.as_str(), is_live)? else {
                    // Somebody else has taken it away altogether.
                    return Ok(None);
                };
                if let Some(why) = surveyed.protected(retention, now) {
                    return Ok(Some(why));
                }
                let receipt = self.receipt(session, run);
                let receipt = receipt.ok().flatten().map(|receipt| receipt.digest());
                let names = match receipt {
                    Some(_) => Vec::new(),
                    None => self.names(removal)?,
                };
                let stone = Tombstone {
                    session_key: session.clone(),
                    run_id: run.clone(),
                    scope: removal.scope.scope.clone(),
                    removed_at: now,
                    why: removal.why,
                    files: surveyed.facts.files,
                    bytes: surveyed.facts.bytes,
                    receipt,
                    names,
                };
                debug_assert!(removal.why != RemovedFor::Unfinished);
                tombstone::write(&notes, &stone)?;
            }
        }
        self.clear(removal)?;
        self.forget_digests(session, run)?;
        tombstone::tidy(&notes)?;
        Ok(None)
    }

    /// Out of the way in one step, then away.
    fn clear(&self, removal: &Removal) -> Result<(), Error> {
        let session = session_folder(&removal.scope.session_key);
        let trash = format!("{session}/{TRASH}");
        let rest = format!("{trash}/{}", segment(removal.scope.run_id.as_str()));
        self.root
            .create_dir_all(&trash, Access::Private)
            .map_err(|e| Error::folder(e, &trash))?;
        self.remove_tree(&rest)?;
        match self.root.rename(removal.scope.scope.as_str(), &rest) {
            Ok(()) => {}
            Err(e) if e.reason() == Reason::NotFound => {}
            Err(e) => return Err(e.into()),
        }
        self.remove_tree(&rest)
    }

    fn remove_tree(&self, folder: &str) -> Result<(), Error> {
        match self.root.remove_dir_all(folder) {
            Err(e) if e.reason() != Reason::NotFound => Err(Error::folder(e, folder)),
            _ => Ok(()),
        }
    }

    fn names(&self, removal: &Removal) -> Result<Vec<String>, Error> {
        let dir = self.root.open_dir(removal.scope.scope.as_str())?;
        let tree = tree::list(&dir, crate::MAX_DEPTH, |path| path != NOTES);
        let mut names: Vec<String> = tree.files.into_iter().map(|(path, _)| path).collect();
        names.sort_unstable();
        names.truncate(NAMES);
        Ok(names)
    }
}
