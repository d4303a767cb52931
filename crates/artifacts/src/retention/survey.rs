//! Looking at every scope of a workspace.

use std::time::{SystemTime, UNIX_EPOCH};

use threadline_contract::{
    ArtifactScope, RunId, SessionKey,
    scope::{NOTES, WORK, segment},
};
use threadline_files::{FileKind, Reason, Root, tree};

use super::{
    IsLive, IsWanted, Retention, ScopeFacts,
    plan::{RemovalPlan, Surveyed, decide},
    remove::TRASH,
    tombstone,
};
use crate::{Error, Workspace, outputs::prepared_ns, workspace::Owner};

/// Deeper than any path can be.
const DEPTH: usize = 4_096;
const SECOND_NS: i64 = 1_000_000_000;

/// Seconds since 1970.
pub(super) fn seconds(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Workspace {
    /// What [`remove`](Self::remove) would remove now, and nothing else. Touches nothing.
    pub fn plan_removal(
        &self,
        retention: &Retention,
        now: SystemTime,
        is_live: &IsLive<'_>,
    ) -> Result<RemovalPlan, Error> {
        self.plan_removal_of(retention, now, is_live, &|_, _| true)
    }

    /// The same for some runs only: those of others are neither counted nor told.
    pub fn plan_removal_of(
        &self,
        retention: &Retention,
        now: SystemTime,
        is_live: &IsLive<'_>,
        is_wanted: &IsWanted<'_>,
    ) -> Result<RemovalPlan, Error> {
        let mut scopes = Vec::new();
        let mut unknown = Vec::new();
        for session in folders(&self.root, "tasks")? {
            let folder = format!("tasks/{session}");
            for run in folders(&self.root, &folder)? {
                if run == WORK || run == NOTES {
                    continue;
                }
                let scope = format!("{folder}/{run}");
                match self.survey(&scope, is_live)? {
                    Some(surveyed) => scopes.push(surveyed),
                    None => unknown.push(scope),
                }
            }
            scopes.extend(self.leftovers(&folder)?);
        }
        scopes.retain(|s| is_wanted(&s.facts.session_key, &s.facts.run_id));
        let mut plan = decide(scopes, retention, seconds(now));
        plan.unknown = unknown;
        Ok(plan)
    }

    /// Every run whose scope is here, and when that was prepared.
    pub(crate) fn prepared_runs(&self) -> Result<Vec<(SessionKey, RunId, i64)>, Error> {
        let mut runs = Vec::new();
        for session in folders(&self.root, "tasks")? {
            let folder = format!("tasks/{session}");
            for run in folders(&self.root, &folder)? {
                let scope = format!("{folder}/{run}");
                let Some(dir) = opened(&self.root, &scope)? else {
                    continue;
                };
                let Ok(Some(owner)) = Owner::of_scope(&dir, &scope) else {
                    continue;
                };
                if let Some((session, run)) = owner.of_run() {
                    runs.push((session, run, prepared_ns(&dir)?));
                }
            }
        }
        Ok(runs)
    }

    /// A scope with its stamp; `None` if it is not ours to judge.
    pub(super) fn survey(
        &self,
        scope: &str,
        is_live: &IsLive<'_>,
    ) -> Result<Option<Surveyed>, Error> {
        let Some(dir) = opened(&self.root, scope)? else {
            return Ok(None);
        };
        let Ok(Some(owner)) = Owner::of_scope(&dir, scope) else {
            return Ok(None);
        };
        let Some((session_key, run_id)) = owner.of_run() else {
            return Ok(None);
        };
        // A stamp that was copied into another folder speaks for that one, not for this.
        match ArtifactScope::of(&session_key, &run_id) {
            Ok(own) if own.as_str() == scope => {}
            _ => return Ok(None),
        }
        let notes = self.notes(&session_key, &run_id)?;
        let (held_until, unfinished) = match &notes {
            Some(notes) => (tombstone::held_until(notes)?, tombstone::is_removed(notes)?),
            None => (None, false),
        };
        let live = !unfinished && is_live(&session_key, &run_id);
        Ok(Some(Surveyed {
            facts: facts(&dir, session_key, run_id)?,
            live,
            held_until,
            unfinished,
        }))
    }

    /// What an interrupted removal had already moved out of the way.
    fn leftovers(&self, session: &str) -> Result<Vec<Surveyed>, Error> {
        let trash = format!("{session}/{TRASH}");
        let mut found = Vec::new();
        for run in folders(&self.root, &trash)? {
            let Some(dir) = opened(&self.root, &format!("{trash}/{run}"))? else {
                continue;
            };
            let Some(notes) = opened(&self.root, &format!("{session}/{NOTES}/runs/{run}"))? else {
                continue;
            };
            let Ok(Some(stone)) = tombstone::read(&notes) else {
                continue;
            };
            if segment(stone.run_id.as_str()) != run {
                continue;
            }
            found.push(Surveyed {
                facts: facts(&dir, stone.session_key, stone.run_id)?,
                live: false,
                held_until: None,
                unfinished: true,
            });
        }
        Ok(found)
    }
}

fn facts(dir: &Root, session_key: SessionKey, run_id: RunId) -> Result<ScopeFacts, Error> {
    let scope = ArtifactScope::of(&session_key, &run_id)?;
    let tree = tree::list(dir, DEPTH, |_| true);
    let sizes = tree.files.iter().map(|(_, stamp)| stamp.size);
    // The time that nobody can set: an agent cannot make its files look old, or young for ever.
    let changed = tree.files.iter().map(|(_, stamp)| stamp.ctime_ns).max();
    let changed = changed.unwrap_or(dir.stat("")?.stamp.ctime_ns);
    Ok(ScopeFacts {
        session_key,
        run_id,
        scope,
        files: tree.files.len() as u64,
        bytes: sizes.fold(0, u64::saturating_add),
        changed_at: changed.div_euclid(SECOND_NS),
    })
}

/// The folders in a folder, by name. One that is not there has none; links are not entered.
fn folders(root: &Root, folder: &str) -> Result<Vec<String>, Error> {
    let entries = match root.entries(folder) {
        Ok(entries) => entries,
        Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(Error::folder(e, folder)),
    };
    let dirs = entries.into_iter().filter(|e| e.kind == FileKind::Dir);
    Ok(dirs.filter_map(|e| e.name.into_string().ok()).collect())
}

fn opened(root: &Root, folder: &str) -> Result<Option<Root>, Error> {
    match root.open_dir(folder) {
        Ok(dir) => Ok(Some(dir)),
        Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => Ok(None),
        Err(e) => Err(Error::folder(e, folder)),
    }
}
