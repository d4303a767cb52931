//! Deleting an owner: everything that this server holds of it goes, for good.
//!
//! The wish is on the disk before a record is removed, and is forgotten with the last row. So a
//! deletion that a crash cut short is finished at the next start. On a full disk this server remembers the
//! wish, removes the files, which makes room, and writes the wish down as soon as it can; one that is cut
//! short before that must be asked for again. Where several servers share a database, each removes what it
//! has of the owner, and the last of them the records.

use std::{
    collections::HashSet,
    sync::{MutexGuard, PoisonError},
};

use threadline_contract::{AccountId, Code, Fault, Millis, Owner, Principal, RunId};
use threadline_retry::table;
use threadline_store::{Deletion, Phase, Run, Session};
use tracing::{info, warn};

use crate::{Engine, attachments};

/// Runs that are looked at together.
const PAGE: u32 = 200;

/// Whether it is on the disk that an owner is to go. On a full one it cannot be, until something has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Stored,
    Unstored,
}

/// How far an owner's removal has come at this server.
enum Removal {
    /// Nothing of it is left anywhere.
    Done,
    /// A run goes on.
    Waits,
    /// Nothing is left here; other servers have to remove their parts.
    OthersRemain,
}

impl Engine {
    /// Removes an owner: its runs are asked to stop, and when they have stopped, their folders,
    /// records and logs go. A folder of the user's own stays as it is. Asking again changes nothing;
    /// of an owner that is not there, nothing is left either. `false`: a run takes its time to stop.
    pub async fn delete(&self, caller: &Principal, owner: &Owner) -> Result<bool, Fault> {
        let deletion = Deletion {
            account: caller.account.clone(),
            owner: owner.clone(),
            node: self.0.config.node.clone(),
            asked_by: Some(caller.actor()),
        };
        let store = &self.0.store;
        let sessions = store
            .sessions_of_owner(&caller.account, &deletion.owner)
            .await?;
        if sessions.is_empty() && !self.is_wished(&deletion).await? {
            return Ok(true);
        }
        let wish = match store.ask_deletion(&deletion, Millis::now()).await {
            Ok(_) => Wish::Stored,
            Err(e) => match Fault::from(e) {
                // What goes makes room.
                full if full.code == Code::StorageFull => Wish::Unstored,
                other => return Err(other),
            },
        };
        if !sessions.is_empty() {
            match wish {
                Wish::Unstored => drop(self.cancel_runs(caller, owner).await?),
                Wish::Stored => drop(self.close_sessions(caller, owner).await?),
            }
        }
        self.begin_removing(deletion.clone(), wish);
        // A run may take its time to stop; the deletion goes on without a listener.
        let removed = tokio::time::timeout(self.0.config.result_wait, self.removed(&deletion));
        match removed.await {
            Ok(removed) => removed,
            Err(_) => Ok(false),
        }
    }

    /// Goes on with the deletions that are under way and in which this server has a part, or which wait
    /// for nobody any more.
    pub(crate) async fn take_up_deletions(&self) -> Result<(), Fault> {
        for deletion in self.0.store.deletions().await? {
            self.begin_removing(deletion, Wish::Stored);
        }
        Ok(())
    }

    async fn is_wished(&self, deletion: &Deletion) -> Result<bool, Fault> {
        let wishes = self.0.store.deletions().await?;
        let same = |w: &Deletion| w.account == deletion.account && w.owner == deletion.owner;
        Ok(wishes.iter().any(same))
    }

    /// Waits until nothing is left of an owner. `false`: the server stops first.
    async fn removed(&self, deletion: &Deletion) -> Result<bool, Fault> {
        let mut pauses = table::AWAIT_REMOVAL.pauses();
        let name = (deletion.account.clone(), deletion.owner.clone());
        while self.is_wished(deletion).await? || self.removing().contains(&name) {
            if self.pause(&mut pauses).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes this server's part of an owner in the background, unless that is under way.
    fn begin_removing(&self, deletion: Deletion, wish: Wish) {
        let name = (deletion.account.clone(), deletion.owner.clone());
        if !self.removing().insert(name.clone()) {
            return;
        }
        let engine = self.clone();
        self.0.tasks.spawn(async move {
            // One that a stop cuts short stays under way for whoever waits for it: it is not done.
            if engine.remove(&deletion, wish).await {
                engine.removing().remove(&name);
            }
        });
    }

    /// Whether this server is removing an owner.
    pub(crate) fn is_being_removed(&self, account: &AccountId, owner: &Owner) -> bool {
        let name = (account.clone(), owner.clone());
        self.removing().contains(&name)
    }

    fn removing(&self) -> MutexGuard<'_, HashSet<(AccountId, Owner)>> {
        let removing = self.0.removing.lock();
        removing.unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what this server has of an owner as soon as its runs here have stopped. `false`: the
    /// server stops first.
    async fn remove(&self, deletion: &Deletion, mut wish: Wish) -> bool {
        let mut pauses = table::REMOVE_THREAD.pauses();
        loop {
            if wish == Wish::Unstored {
                let asked = self.0.store.ask_deletion(deletion, Millis::now());
                if asked.await.is_ok() {
                    wish = Wish::Stored;
                }
            }
            match self.try_remove(deletion, wish).await {
                Ok(Removal::Done | Removal::OthersRemain) => return true,
                Ok(Removal::Waits) => {}
                Err(fault) => {
                    warn!(owner = %deletion.owner, code = %fault.code, "{} cannot be deleted yet: {}", deletion.owner, fault.message);
                }
            }
            if self.pause(&mut pauses).await.is_err() {
                return false;
            }
        }
    }

    async fn try_remove(&self, deletion: &Deletion, wish: Wish) -> Result<Removal, Fault> {
        let Deletion { account, owner, .. } = deletion;
        let store = &self.0.store;
        let mut runs: Vec<Run> = Vec::new();
        loop {
            let last = runs.last().map(|r| &r.id);
            let page = store.runs_of_owner(account, owner, last, PAGE).await?;
            if page.is_empty() {
                break;
            }
            runs.extend(page);
        }
        let sessions = store.sessions_of_owner(account, owner).await?;
        let (sessions, theirs): (Vec<Session>, Vec<Session>) = sessions
            .into_iter()
            .partition(|s| self.is_mine(s.node.as_deref()));
        let (runs, driven_elsewhere): (Vec<Run>, Vec<Run>) = runs
            .into_iter()
            .partition(|r| self.is_mine(r.lease_owner.as_deref()));
        // One of a runtime that is not there any more can neither stop nor be heard.
        let goes_on = |r: &Run| r.phase != Phase::Closed && self.lane(&r.runtime).is_some();
        if runs.iter().any(goes_on) {
            return Ok(Removal::Waits);
        }
        for session in sessions {
            let own = runs.iter().filter(|r| r.session_key == session.session_key);
            let own: Vec<RunId> = own.map(|r| r.id.clone()).collect();
            match self.lane(&session.runtime) {
                Some(lane) => {
                    lane.runtime.forget(&session.session_key, &own).await?;
                    if !lane.runtime.keeps_sessions() {
                        self.0.downloads.clear().await;
                    }
                }
                None => {
                    warn!(owner = %owner, runtime = %session.runtime, "What {} holds of {owner} stays there: it is not configured", session.runtime);
                }
            }
        }
        for run in &runs {
            attachments::forget(&self.0.config.attachments, &run.id);
        }
        // Records go only by a wish that is on the disk: without it nothing of them would be removed, and
        // no other server would know of it. The files that went have made room for it.
        if wish == Wish::Unstored {
            store.ask_deletion(deletion, Millis::now()).await?;
        }
        if !self.is_sole() {
            store.leave_owner(account, owner, self.node_name()).await?;
        }
        if !theirs.is_empty() || !driven_elsewhere.is_empty() {
            return Ok(Removal::OthersRemain);
        }
        store.delete_owner(deletion).await?;
        info!(owner = %owner, "Deleted {owner}");
        Ok(Removal::Done)
    }

    /// Whether what this server is noted with, or nobody, is ours to remove.
    fn is_mine(&self, node: Option<&str>) -> bool {
        self.is_sole() || node.is_none_or(|node| node == self.node_name())
    }
}
