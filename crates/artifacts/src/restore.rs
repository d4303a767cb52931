//! Putting back what a run took away from its own folder. Agents tidy up: `git clean -fdx` takes the
//! owner's stamp with it, and the run's files would be nobody's. Who prepared which folder is in the
//! ledger too, out of every agent's reach.

use threadline_contract::{ArtifactScope, RunId, SessionKey, scope::session_folder};
use threadline_files::{Access, Durability, Reason, Root};

use crate::{
    Error, Ledger, Workspace,
    claims::Claimant,
    skip::NOTES,
    workspace::{Owner, owner_of},
};

impl Workspace {
    /// Puts a run's stamp back where the ledger knows that it was, in the session's folder and in the
    /// run's own. Where nothing is amiss, or nothing is there, the ledger is not asked.
    pub(crate) fn restore(
        &self,
        session: &SessionKey,
        run: &RunId,
        ledger: &Ledger,
    ) -> Result<(), Error> {
        let scope = ArtifactScope::of(session, run)?;
        // A link, or something else that is no folder: who asks for it is told.
        let Ok(dir) = self.root.open_dir(scope.as_str()) else {
            return self.restore_session(session, run, ledger);
        };
        let stands = matches!(self.scope(session, run), Ok((_, Some(_))));
        if !stands && !self.is_removed(session, run)? {
            let prepared = self.book(ledger)?.prepared_at(&self.claimant(session, run));
            if let Some(prepared_ns) = prepared {
                stamp(&dir, "scope.json", &Owner::scope(session, run), prepared_ns)?;
            }
        }
        self.restore_session(session, run, ledger)
    }

    fn restore_session(
        &self,
        session: &SessionKey,
        run: &RunId,
        ledger: &Ledger,
    ) -> Result<(), Error> {
        let folder = session_folder(session);
        let Ok(dir) = self.root.open_dir(&folder) else {
            return Ok(());
        };
        let owner = Owner::session(session);
        match owner_of(&dir, "session.json", &folder) {
            Ok(None) => return Ok(()),
            Ok(Some(found)) if found == owner => return Ok(()),
            _ => {}
        }
        match self
            .book(ledger)?
            .session_since(&self.claimant(session, run))
        {
            Some(since_ns) => stamp(&dir, "session.json", &owner, since_ns),
            None => Ok(()),
        }
    }

    /// When a run was prepared whose folder is gone, though nobody removed it by our rules.
    pub(crate) fn gone(
        &self,
        session: &SessionKey,
        run: &RunId,
        ledger: &Ledger,
    ) -> Result<Option<i64>, Error> {
        let scope = ArtifactScope::of(session, run)?;
        match self.root.open_dir(scope.as_str()) {
            Err(e) if e.reason() == Reason::NotFound => {}
            _ => return Ok(None),
        }
        if self.is_removed(session, run)? {
            return Ok(None);
        }
        Ok(self.book(ledger)?.prepared_at(&self.claimant(session, run)))
    }

    /// Makes the folder of a run again that was prepared before.
    pub(crate) fn remake(
        &self,
        session: &SessionKey,
        run: &RunId,
        prepared_ns: i64,
    ) -> Result<(), Error> {
        self.prepare(session, run)?;
        let (_, dir) = self.prepared(session, run)?;
        restamp(&dir, "scope.json", &Owner::scope(session, run), prepared_ns)
    }
}

/// Whether two runs would have the same folder.
pub(crate) fn share_scope(one: &Claimant, other: &Claimant) -> bool {
    let scope = |by: &Claimant| ArtifactScope::of(&by.session, &by.run).ok();
    one.workspace == other.workspace && scope(one) == scope(other)
}

/// Whether two runs' sessions would have the same folder.
pub(crate) fn share_session(one: &Claimant, other: &Claimant) -> bool {
    one.workspace == other.workspace
        && session_folder(&one.session) == session_folder(&other.session)
}

/// Puts a stamp into a folder, unless the right one is there.
fn stamp(dir: &Root, name: &str, owner: &Owner, at_ns: i64) -> Result<(), Error> {
    match owner_of(dir, name, "") {
        Ok(Some(found)) if found == *owner => Ok(()),
        _ => restamp(dir, name, owner, at_ns),
    }
}

/// Writes a stamp, with the time at which the folder was prepared.
fn restamp(dir: &Root, name: &str, owner: &Owner, at_ns: i64) -> Result<(), Error> {
    let notes = match dir.create_dir_all(NOTES, Access::Shared) {
        Err(e) if matches!(e.reason(), Reason::NotDirectory | Reason::Symlink) => {
            dir.remove_file(NOTES)?;
            dir.create_dir_all(NOTES, Access::Shared)?
        }
        made => made?,
    };
    let text = serde_json::to_vec(owner).map_err(|_| Error::Conflict {
        folder: NOTES.to_owned(),
        why: "its stamp cannot be written",
    })?;
    let staged = notes.stage(&mut text.as_slice(), Access::Shared, Durability::Now)?;
    staged.set_modified(at_ns)?;
    staged.publish(&notes, name)?;
    Ok(())
}
