//! The index in memory: finding threads by key, name or time, and telling what changed since when.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
};

use serde::{Deserialize, Serialize};
use threadline_contract::{AppThreadKey, Code, Fault, Millis, thread::Lifecycle};

use super::{entry::Entry, not_found};
use crate::{
    api::{Problem, Summary},
    names,
};

/// The version of `index.json`.
const VERSION: u32 = 3;
/// How many candidates an ambiguous name lists.
const CANDIDATES: usize = 8;
/// Removals that followers can still hear of.
const REMEMBERED: usize = 1_000;

/// `index.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct IndexFile {
    pub(super) version: u32,
    pub(super) threads: Vec<Entry>,
}
impl IndexFile {
    pub(super) fn known(&self) -> bool {
        self.version == VERSION
    }
}

/// A change since a revision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The thread is new or looks different.
    Put(AppThreadKey),
    /// The thread is gone.
    Removed(AppThreadKey),
}

#[derive(Default)]
pub(crate) struct Index {
    threads: HashMap<AppThreadKey, (Entry, u64)>,
    /// In the order in which threads came to be known; the order of the file.
    order: Vec<AppThreadKey>,
    names: BTreeMap<String, AppThreadKey>,
    reserved: HashSet<String>,
    recent: BTreeSet<(Reverse<Millis>, AppThreadKey)>,
    revisions: BTreeMap<u64, AppThreadKey>,
    removed: BTreeMap<u64, AppThreadKey>,
    revision: u64,
    /// The last revision that changed an entry, and the last that the file holds.
    stored: u64,
    saved: u64,
    /// Stored threads that could not be read.
    pub(crate) problems: Vec<Problem>,
}

impl Index {
    pub(crate) fn get(&self, thread: &AppThreadKey) -> Option<&Entry> {
        self.threads.get(thread).map(|(entry, _)| entry)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.order.iter().filter_map(|key| self.get(key))
    }

    /// The revision of a thread's last change; `None` when there is no such thread.
    pub(crate) fn revision_of(&self, thread: &AppThreadKey) -> Option<u64> {
        self.threads.get(thread).map(|(_, revision)| *revision)
    }

    /// The last revision.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Finds a thread by key, name or an unambiguous beginning of a name.
    pub(crate) fn find(&self, text: &str) -> Result<AppThreadKey, Fault> {
        let text = text.trim();
        if let Ok(key) = AppThreadKey::new(text)
            && self.threads.contains_key(&key)
        {
            return Ok(key);
        }
        let wanted = text.to_lowercase();
        if let Some(key) = self.names.get(&wanted) {
            return Ok(key.clone());
        }
        let mut found = self
            .names
            .range(wanted.clone()..)
            .take_while(|(name, _)| name.starts_with(&wanted))
            .filter(|_| !wanted.is_empty());
        match (found.next(), found.next()) {
            (Some((_, key)), None) => Ok(key.clone()),
            (None, _) => Err(not_found(text)),
            (Some((a, _)), Some((b, _))) => {
                let all: Vec<&str> = [a, b]
                    .into_iter()
                    .chain(found.map(|(name, _)| name))
                    .take(CANDIDATES)
                    .map(String::as_str)
                    .collect();
                let sentence = format!(
                    "Several threads begin with `{text}`: {}. Type more of the name.",
                    all.join(", ")
                );
                Err(Fault::new(Code::ThreadAmbiguous, sentence).with("candidates", all))
            }
        }
    }

    /// Threads, last changed first, from after `before` on.
    pub(crate) fn recent<'a>(
        &'a self,
        archived: bool,
        before: Option<&str>,
    ) -> Result<impl Iterator<Item = &'a Summary> + use<'a>, Fault> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = match before {
            None => Unbounded,
            Some(text) => Excluded(
                cursor(text).ok_or_else(|| Fault::invalid("`before` is not the end of a list."))?,
            ),
        };
        let wanted = move |e: &&Summary| (e.lifecycle_status == Lifecycle::Archived) == archived;
        Ok(self
            .recent
            .range((from, Unbounded))
            .filter_map(|(_, key)| self.get(key).map(|e| &e.summary))
            .filter(wanted))
    }

    /// What changed after a revision, oldest first.
    pub(crate) fn since(&self, revision: u64) -> Vec<Change> {
        use std::ops::Bound::{Excluded, Unbounded};
        let range = (Excluded(revision), Unbounded);
        let mut all: Vec<(u64, Change)> = self
            .revisions
            .range(range)
            .map(|(r, key)| (*r, Change::Put(key.clone())))
            .collect();
        all.extend(
            self.removed
                .range(range)
                .map(|(r, key)| (*r, Change::Removed(key.clone()))),
        );
        all.sort_unstable_by_key(|(r, _)| *r);
        all.into_iter().map(|(_, change)| change).collect()
    }

    pub(super) fn put(&mut self, entry: Entry) -> u64 {
        let key = entry.summary.thread_id.clone();
        let revision = self.next();
        self.stored = revision;
        let when = (Reverse(entry.summary.updated_at_ms), key.clone());
        match self.threads.remove(&key) {
            Some((old, old_revision)) => {
                self.recent
                    .remove(&(Reverse(old.summary.updated_at_ms), key.clone()));
                self.revisions.remove(&old_revision);
                if old.summary.name != entry.summary.name {
                    self.names.remove(&old.summary.name);
                }
            }
            None => self.order.push(key.clone()),
        }
        self.recent.insert(when);
        self.names.insert(entry.summary.name.clone(), key.clone());
        self.revisions.insert(revision, key.clone());
        self.threads.insert(key, (entry, revision));
        revision
    }

    pub(super) fn touch(&mut self, thread: &AppThreadKey) -> u64 {
        let next = self.next();
        if let Some((_, revision)) = self.threads.get_mut(thread) {
            self.revisions.remove(revision);
            self.revisions.insert(next, thread.clone());
            *revision = next;
        }
        next
    }

    pub(super) fn remove(&mut self, thread: &AppThreadKey) -> u64 {
        let revision = self.next();
        self.stored = revision;
        if let Some((entry, old)) = self.threads.remove(thread) {
            self.order.retain(|key| key != thread);
            self.names.remove(&entry.summary.name);
            self.recent
                .remove(&(Reverse(entry.summary.updated_at_ms), thread.clone()));
            self.revisions.remove(&old);
            self.removed.insert(revision, thread.clone());
            while self.removed.len() > REMEMBERED {
                self.removed.pop_first();
            }
        }
        revision
    }

    pub(super) fn reserve_name(&mut self) -> String {
        let name =
            names::fresh(|name| self.names.contains_key(name) || self.reserved.contains(name));
        self.reserved.insert(name.clone());
        name
    }

    pub(super) fn release_name(&mut self, name: &str) {
        self.reserved.remove(name);
    }

    /// The bytes of `index.json` and the revision they stand for; `None` when it is up to date.
    pub(super) fn unsaved(&self) -> Option<(Result<Vec<u8>, serde_json::Error>, u64)> {
        if self.saved >= self.stored {
            return None;
        }
        let file = IndexFile {
            version: VERSION,
            threads: self.entries().cloned().collect(),
        };
        Some((serde_json::to_vec(&file), self.revision))
    }

    pub(super) fn saved(&mut self, revision: u64) {
        self.saved = self.saved.max(revision);
    }

    fn next(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }
}

/// Where a list ended, as its reader sends it back.
pub(crate) fn cursor_of(summary: &Summary) -> String {
    format!("{}.{}", summary.updated_at_ms.0, summary.thread_id)
}

fn cursor(text: &str) -> Option<(Reverse<Millis>, AppThreadKey)> {
    let (ms, key) = text.split_once('.')?;
    Some((
        Reverse(Millis(ms.parse().ok()?)),
        AppThreadKey::new(key).ok()?,
    ))
}
