//! The one writer of a run's journal, and what it has written so far.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use threadline_contract::{Code, Fault, Millis};
use threadline_files::{
    Access, Durability, Journal, JournalError, JournalReader, Reason, Root, atomic,
};
use threadline_retry::table;
use tokio::{sync::watch, task::spawn_blocking};

use super::Past;
use crate::local::storage_fault;

/// How long a journal that another writer is about to let go of is waited for.
const HANDOVER: Duration = Duration::from_secs(3);

/// A run's journal, open for writing.
pub(crate) struct Record<P> {
    path: PathBuf,
    inner: Mutex<Inner<P>>,
    /// Where the journal ends. Readers sleep on it; the journal itself is what they read.
    bell: watch::Sender<u64>,
    /// Since when a line waits for room.
    no_room: Mutex<Option<Millis>>,
}

struct Inner<P> {
    journal: Journal,
    past: P,
}

impl<P: Past> Record<P> {
    /// Opens a journal for writing, made if it is not there, and reads what it says. Blocks.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        if let Some(folder) = path.parent() {
            atomic::create_dir_all(folder, Access::Private)?;
        }
        let journal = open_patiently(path)?;
        if let Some(cut) = journal.cut() {
            tracing::warn!(path = %path.display(), bytes = cut.bytes, "cut a torn line off a run's journal");
        }
        let mut past = P::default();
        for record in journal.read_after::<P::Line>(0)? {
            past.apply(record?.value);
        }
        let (bell, _) = watch::channel(journal.end());
        Ok(Self {
            path: path.to_owned(),
            inner: Mutex::new(Inner { journal, past }),
            bell,
            no_room: Mutex::default(),
        })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Rings with every line.
    pub(crate) fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Looks at what was written so far.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&P) -> T) -> T {
        look(&self.lock().past)
    }

    /// Frames up to this one were handed over, also those that a power cut then took from the journal.
    pub(crate) fn told_until(&self, frame: i64) {
        self.lock().past.told_until(frame);
    }

    /// Since when a line waits for room on the disk.
    pub(crate) fn no_room_since(&self) -> Option<Millis> {
        *self.lock_no_room()
    }

    /// Writes one line, at once or not at all.
    pub(crate) async fn write(
        self: &Arc<Self>,
        line: P::Line,
        durability: Durability,
    ) -> Result<(), Fault> {
        self.decide_at_once(durability, |_| Ok(Some(line))).await
    }

    /// Writes the line that `decide` makes of the past, if any; nobody else writes in between.
    /// Readers hear of it when it is in the file. It happens on a thread of its own, so a caller
    /// that is dropped meanwhile leaves a whole line behind. Waits for room where the runtime's runs do.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        durability: Durability,
        decide: impl FnOnce(&P) -> Result<Option<P::Line>, Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        self.decide_each(durability, [decide], |past, decide| decide(past))
            .await
    }

    /// The same without waiting for room: for whoever is not the run itself.
    pub(crate) async fn decide_at_once(
        self: &Arc<Self>,
        durability: Durability,
        decide: impl FnOnce(&P) -> Result<Option<P::Line>, Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        let lines = Lines::new([decide], |past, decide| decide(past));
        self.try_to_write(durability, lines).await?.1
    }

    /// The same for each of several things, one after the other: each is decided by a past that holds
    /// the lines of those before it.
    pub(crate) async fn decide_each<T: Send + 'static>(
        self: &Arc<Self>,
        durability: Durability,
        things: impl IntoIterator<Item = T, IntoIter: Send + 'static>,
        decide: impl FnMut(&P, T) -> Result<Option<P::Line>, Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        let mut lines = Lines::new(things, decide);
        let mut pauses = table::JOURNAL_FULL.pauses();
        loop {
            let (left, tried) = self.try_to_write(durability, lines).await?;
            let waits = P::WAITS_FOR_ROOM && left.pending.is_some();
            match tried {
                Err(fault) if waits && fault.code == Code::StorageFull => {
                    self.lock_no_room().get_or_insert_with(Millis::now);
                }
                tried => {
                    *self.lock_no_room() = None;
                    return tried;
                }
            }
            lines = left;
            tokio::time::sleep(pauses.next_pause()).await;
        }
    }

    /// Writes the lines, and gives back those that could not be written.
    async fn try_to_write<L: LineSource<P>>(
        self: &Arc<Self>,
        durability: Durability,
        mut lines: L,
    ) -> Result<(L, Result<(), Fault>), Fault> {
        let record = Arc::clone(self);
        let tried = spawn_blocking(move || {
            let written = record.write_lines(durability, &mut lines);
            (lines, written)
        });
        tried.await.map_err(|e| {
            tracing::error!(error = %e, "writing a run's journal broke");
            Fault::internal()
        })
    }

    fn write_lines(
        &self,
        durability: Durability,
        lines: &mut impl LineSource<P>,
    ) -> Result<(), Fault> {
        let mut inner = self.lock();
        while let Some(line) = lines.next(&inner.past)? {
            // A task that was cancelled may have left a line behind that comes too late.
            if inner.past.run().ended.is_some() {
                return Err(Fault::new(Code::Conflict, "The run has ended already."));
            }
            match inner.journal.append(&line, durability) {
                Ok(end) => {
                    inner.past.apply(line);
                    // Under the lock, so that the bell never goes backwards.
                    self.bell.send_replace(end);
                }
                Err(e) => {
                    lines.put_back(line);
                    return Err(journal_fault(e));
                }
            }
        }
        Ok(())
    }

    fn lock_no_room(&self) -> MutexGuard<'_, Option<Millis>> {
        self.no_room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written reaches the disk.
    pub(crate) async fn sync(self: &Arc<Self>) -> Result<(), Fault> {
        let record = Arc::clone(self);
        let synced = spawn_blocking(move || record.lock().journal.sync().map_err(journal_fault));
        synced.await.unwrap_or_else(|_| Err(Fault::internal()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<P>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines that are made one by one, each from what is in the journal by then.
trait LineSource<P: Past>: Send + 'static {
    fn next(&mut self, past: &P) -> Result<Option<P::Line>, Fault>;
    /// A line that could not be written: it is the next one again.
    fn put_back(&mut self, line: P::Line);
}

struct Lines<P: Past, I, D> {
    things: I,
    decide: D,
    pending: Option<P::Line>,
}

impl<P, I, D> Lines<P, I, D>
where
    P: Past,
    I: Iterator,
    D: FnMut(&P, I::Item) -> Result<Option<P::Line>, Fault>,
{
    fn new(things: impl IntoIterator<Item = I::Item, IntoIter = I>, decide: D) -> Self {
        Self {
            things: things.into_iter(),
            decide,
            pending: None,
        }
    }
}

impl<P, T, I, D> LineSource<P> for Lines<P, I, D>
where
    P: Past,
    I: Iterator<Item = T> + Send + 'static,
    D: FnMut(&P, T) -> Result<Option<P::Line>, Fault> + Send + 'static,
{
    fn next(&mut self, past: &P) -> Result<Option<P::Line>, Fault> {
        if let Some(line) = self.pending.take() {
            return Ok(Some(line));
        }
        for thing in self.things.by_ref() {
            if let Some(line) = (self.decide)(past, thing)? {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn put_back(&mut self, line: P::Line) {
        self.pending = Some(line);
    }
}

/// Reads a journal that nobody here has open. `None` when there is none. Blocks.
pub(crate) fn read<P: Past>(path: &Path) -> Result<Option<P>, JournalError> {
    let reader = match JournalReader::open(path) {
        Ok(reader) => reader,
        Err(JournalError::Files(e)) if e.reason() == Reason::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut past = P::default();
    for record in reader.read_after::<P::Line>(0)? {
        past.apply(record?.value);
    }
    Ok(Some(past))
}

/// Removes a journal, or whatever lies in its place. Blocks.
pub(crate) fn remove(path: &Path) -> threadline_files::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    gone(
        Root::open(folder).and_then(|root| match root.remove_file(name) {
            Err(e) if e.reason() == Reason::NotRegular => root.remove_dir_all(name),
            done => done,
        }),
    )
}

/// Removes a folder of journals if nothing is left in it. Blocks.
pub(crate) fn remove_empty(folder: &Path) -> threadline_files::Result<()> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Ok(());
    };
    gone(Root::open(above).and_then(|root| {
        if root.entries(name)?.is_empty() {
            root.remove_dir_all(name)?;
        }
        Ok(())
    }))
}

/// What is not there has been removed.
fn gone(removed: threadline_files::Result<()>) -> threadline_files::Result<()> {
    match removed {
        Err(e) if e.reason() == Reason::NotFound => Ok(()),
        done => done,
    }
}

/// The writer before us may be a task of ours that is just going away.
fn open_patiently(path: &Path) -> Result<Journal, JournalError> {
    let since = Instant::now();
    loop {
        match Journal::open(path) {
            Err(JournalError::Busy { .. }) if since.elapsed() < HANDOVER => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

/// What a caller can be told about a journal.
pub(crate) fn journal_fault(error: JournalError) -> Fault {
    match error {
        // A folder or a link has taken its place: that does not pass by itself.
        JournalError::Files(e)
            if matches!(
                e.reason(),
                Reason::Symlink | Reason::NotRegular | Reason::NotDirectory | Reason::HardLinked
            ) =>
        {
            Fault::new(
                Code::RunLost,
                "Something else lies where the run's own record was, so it cannot go on and its end is unknown. Start it again.",
            )
        }
        JournalError::Files(e) => storage_fault(e),
        JournalError::Busy { .. } => Fault::new(
            Code::DataFolderInUse,
            "Another process is writing the run's record. Only one Threadline may own a data folder.",
        ),
        JournalError::Damaged { .. }
        | JournalError::NotUnderstood { .. }
        | JournalError::PastEnd { .. } => Fault::new(
            Code::RunLost,
            "The run's own record is damaged, so it cannot go on and its end is unknown. Start it again.",
        ),
        JournalError::TooLarge { size, .. } => Fault::new(
            Code::ExecutionFailed,
            format!("One step of the run is too large to be recorded ({size} bytes)."),
        ),
        JournalError::NotJson { .. } | JournalError::Broken { .. } => {
            tracing::error!(%error, "a run's journal cannot be written");
            Fault::internal()
        }
    }
}
