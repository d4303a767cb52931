//! TaskThread records: one JSON file per thread, and an index that can be rebuilt from them.
//!
//! A record file is `<base64url(threadId)>.json` and is written as a whole, so that a torn write or
//! a corrupt record costs at most itself. In memory lies only the index (what a list shows); records
//! are read when somebody wants them.
//!
//! `index.json` is a cache. Every entry carries the stamp of the record it was made from; at start
//! each record whose stamp differs, or that has no entry, is read again. So it may be written late,
//! and a lost or corrupt one costs a scan.
//!
//! **Invariant**: the record on disk is the truth; all changes go through [`Records::update`].

mod entry;
mod index;
mod open;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use threadline_contract::{AppThreadKey, Code, Fault, Millis, thread::TaskThread};
use threadline_files::{Access, Reason, Root};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

pub(crate) use self::{
    entry::Entry,
    index::{Change, Index, cursor_of},
};
use crate::{
    api::Problem,
    fault::{internal, storage},
};

/// More than any conversation; a larger file is not a record of ours.
const RECORD_BYTES: u64 = 1 << 30;
const INDEX: &str = "index.json";

/// The stored threads.
pub(crate) struct Records {
    root: Root,
    index: Mutex<Index>,
    /// Rings with the revision of the last change.
    bell: watch::Sender<u64>,
    /// One writer per record at a time.
    writers: Mutex<HashMap<AppThreadKey, Arc<tokio::sync::Mutex<()>>>>,
    tasks: TaskTracker,
}

/// Whether followers hear of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loud {
    Yes,
    No,
}

/// The file of a thread.
pub(crate) fn file_name(thread: &AppThreadKey) -> String {
    format!("{}.json", URL_SAFE_NO_PAD.encode(thread.as_str()))
}

impl Records {
    /// Looks at the index. Nothing that blocks may be done in `look`.
    pub(crate) fn index<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&lock(&self.index))
    }

    /// Wakes whoever shows this thread although its record did not change.
    pub(crate) fn touch(&self, thread: &AppThreadKey) {
        let revision = lock(&self.index).touch(thread);
        self.ring(revision);
    }

    /// Hears of changes: the revision of the last one.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// The record of a thread.
    pub(crate) async fn read(&self, thread: &AppThreadKey) -> Result<TaskThread, Fault> {
        if self.index(|i| i.get(thread).is_none()) {
            return Err(not_found(thread.as_str()));
        }
        let (root, key) = (self.root.clone(), thread.clone());
        let read = self
            .blocking(move || open::read_record(&root, &file_name(&key)))
            .await?;
        match read {
            Ok(record) => Ok(record),
            Err(open::Unread::Corrupt(why)) => {
                let problem = self.set_aside(thread, why).await?;
                Err(Fault::new(
                    Code::ThreadCorrupt,
                    format!("The thread's record could not be read: {}", problem.message),
                )
                .with("kept", problem.kept))
            }
            Err(open::Unread::Newer(why)) => Err(Fault::new(Code::ThreadCorrupt, why)),
            Err(open::Unread::Files(e)) if e.reason() == Reason::NotFound => {
                // Somebody removed the file under us: then the thread is gone.
                self.forget(thread);
                Err(not_found(thread.as_str()))
            }
            Err(open::Unread::Files(e)) => Err(storage(e)),
        }
    }

    /// Changes a record: `change` sees it as it is now, and what it leaves is on disk when this
    /// returns. A record that `change` did not change is not written. An error of `change` changes
    /// nothing.
    pub(crate) async fn update<T>(
        &self,
        thread: &AppThreadKey,
        change: impl FnOnce(&mut TaskThread) -> Result<T, Fault>,
    ) -> Result<(TaskThread, T), Fault> {
        self.update_as(thread, change, |_, _| true).await
    }

    /// As [`update`](Self::update), for a change that may bring nothing new: then the thread keeps its place
    /// in lists. `is_news` sees the record before and after.
    pub(crate) async fn update_as<T>(
        &self,
        thread: &AppThreadKey,
        change: impl FnOnce(&mut TaskThread) -> Result<T, Fault>,
        is_news: impl FnOnce(&TaskThread, &TaskThread) -> bool,
    ) -> Result<(TaskThread, T), Fault> {
        let writer = self.writer(thread);
        let guard = writer.lock().await;
        let done = self.change(thread, change, is_news, Loud::Yes).await;
        drop(guard);
        self.release(thread, writer);
        done
    }

    /// As [`update`](Self::update) for bookkeeping that nobody looks at: the thread does not count
    /// as changed.
    pub(crate) async fn note(
        &self,
        thread: &AppThreadKey,
        change: impl FnOnce(&mut TaskThread),
    ) -> Result<(), Fault> {
        let writer = self.writer(thread);
        let guard = writer.lock().await;
        let change = |record: &mut TaskThread| {
            change(record);
            Ok(())
        };
        let done = self.change(thread, change, |_, _| false, Loud::No).await;
        drop(guard);
        self.release(thread, writer);
        done.map(drop)
    }

    async fn change<T>(
        &self,
        thread: &AppThreadKey,
        change: impl FnOnce(&mut TaskThread) -> Result<T, Fault>,
        is_news: impl FnOnce(&TaskThread, &TaskThread) -> bool,
        loud: Loud,
    ) -> Result<(TaskThread, T), Fault> {
        let before = self.read(thread).await?;
        let mut record = before.clone();
        let out = change(&mut record)?;
        if record != before {
            if is_news(&before, &record) {
                record.updated_at_ms = Millis::now().max(before.updated_at_ms);
            }
            self.write(&record, loud).await?;
        }
        Ok((record, out))
    }

    /// Stores a new thread. `make` gets a name that nobody has.
    pub(crate) async fn create(
        &self,
        make: impl FnOnce(String) -> TaskThread,
    ) -> Result<TaskThread, Fault> {
        // The name is reserved until the record is stored, so that two threads made at the same
        // time cannot get the same.
        let name = lock(&self.index).reserve_name();
        let record = make(name.clone());
        let written = self.write(&record, Loud::Yes).await;
        lock(&self.index).release_name(&name);
        written.map(|()| record)
    }

    /// Removes a thread's record.
    pub(crate) async fn remove(&self, thread: &AppThreadKey) -> Result<(), Fault> {
        let writer = self.writer(thread);
        let guard = writer.lock().await;
        let (root, file) = (self.root.clone(), file_name(thread));
        let removed = self.blocking(move || root.remove_file(file)).await;
        drop(guard);
        self.release(thread, writer);
        match removed? {
            Err(e) if e.reason() != Reason::NotFound => return Err(storage(e)),
            _ => self.forget(thread),
        }
        Ok(())
    }

    /// Writes the index if it changed since it was last written.
    pub(crate) async fn save_index(&self) -> Result<(), Fault> {
        let Some((bytes, revision)) = lock(&self.index).unsaved() else {
            return Ok(());
        };
        let bytes = bytes.map_err(internal)?;
        let root = self.root.clone();
        self.blocking(move || root.write_atomic(INDEX, &bytes, Access::Private))
            .await?
            .map_err(storage)?;
        lock(&self.index).saved(revision);
        Ok(())
    }

    async fn write(&self, record: &TaskThread, loud: Loud) -> Result<(), Fault> {
        let bytes = serde_json::to_vec_pretty(record).map_err(internal)?;
        let (root, file) = (self.root.clone(), file_name(&record.thread_id));
        let stamp = self
            .blocking(move || {
                root.write_atomic(&file, &bytes, Access::Private)?;
                root.stat(&file).map(|stat| stat.stamp)
            })
            .await?
            .map_err(storage)?;
        let revision = lock(&self.index).put(Entry::of(record, stamp));
        if loud == Loud::Yes {
            self.ring(revision);
        }
        Ok(())
    }

    async fn set_aside(&self, thread: &AppThreadKey, why: String) -> Result<Problem, Fault> {
        let (root, file) = (self.root.clone(), file_name(thread));
        let problem = self
            .blocking(move || open::set_aside(&root, &file, why))
            .await?
            .map_err(storage)?;
        lock(&self.index).problems.push(problem.clone());
        self.forget(thread);
        Ok(problem)
    }

    fn forget(&self, thread: &AppThreadKey) {
        let revision = lock(&self.index).remove(thread);
        self.ring(revision);
    }

    fn ring(&self, revision: u64) {
        self.bell.send_modify(|last| *last = revision.max(*last));
    }

    fn writer(&self, thread: &AppThreadKey) -> Arc<tokio::sync::Mutex<()>> {
        lock(&self.writers)
            .entry(thread.clone())
            .or_default()
            .clone()
    }

    /// Forgets the writer's lock when nobody else has it.
    fn release(&self, thread: &AppThreadKey, writer: Arc<tokio::sync::Mutex<()>>) {
        let mut writers = lock(&self.writers);
        drop(writer);
        if writers
            .get(thread)
            .is_some_and(|w| Arc::strong_count(w) == 1)
        {
            writers.remove(thread);
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        self.tasks.spawn_blocking(work).await.map_err(internal)
    }
}

/// A thread that is not there.
pub(crate) fn not_found(text: &str) -> Fault {
    Fault::new(
        Code::ThreadNotFound,
        format!("There is no thread `{text}`. `threadline threads` lists them."),
    )
}

/// A panic elsewhere does not make the data wrong: every change under these locks is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
