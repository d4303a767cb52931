//! The runs that go on in this process: at most one writer and one task for each.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::FutureExt as _;
use threadline_contract::{Code, Fault, Millis, RunId, SessionKey, scope::segment};
use threadline_files::{Durability, JournalError};
use tokio::{
    sync::OnceCell,
    task::{JoinError, spawn_blocking},
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{
    Shared, agent, demo,
    past::{Begun, Entry, Past},
    record::{self, Record, journal_fault},
};
use crate::{End, EndStatus, Places, RunRef, TurnPlan, Update};

/// The runs of this process.
pub(super) struct Runs {
    shared: Arc<Shared>,
    live: Arc<Live>,
    tasks: TaskTracker,
}

/// A place for each run: two callers that want the same run open it once.
type Place = Arc<OnceCell<Run>>;
type Live = Mutex<HashMap<RunRef, Place>>;

/// A run that goes on.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) record: Arc<Record>,
    pub(super) cancel: CancellationToken,
    /// Ends with the last owner: a run must not outlive its runtime.
    _task: Arc<AbortOnDropHandle<()>>,
}

/// How a run stands.
pub(super) enum Standing {
    /// It goes on in this process.
    Live(Run),
    /// It ended.
    Ended,
    /// It never began.
    NoRecord,
}

/// What a caller wants with a run that does not go on here.
pub(super) enum Want<'a> {
    /// Begin it if it never began, and let it go on.
    Begin(&'a TurnPlan, &'a Places),
    /// Let it go on, after the last frame that was handed over.
    Resume(i64),
}

impl Runs {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            live: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Where a run's journal lies.
    pub(super) fn path(&self, run: &RunRef) -> PathBuf {
        let folder = self
            .shared
            .config
            .records
            .join(segment(run.session.as_str()));
        folder.join(format!("{}.journal", segment(run.run.as_str())))
    }

    /// What the journal of a run says, without touching it. A run of another session or name that
    /// shares the file's name is not this run.
    pub(super) async fn read(&self, run: &RunRef) -> Result<Option<Past>, Fault> {
        let path = self.path(run);
        let past = blocking(move || record::read(&path)).await?;
        if let Some(past) = &past {
            own(past, run)?;
        }
        Ok(past)
    }

    /// The run, if it goes on in this process now.
    pub(super) fn here(&self, run: &RunRef) -> Option<Run> {
        self.lock().get(run)?.get().cloned()
    }

    /// Finds a run and does what is wanted with it.
    pub(super) async fn find(&self, run: &RunRef, want: Want<'_>) -> Result<Standing, Fault> {
        if let Some(run) = self.here(run) {
            return Ok(Standing::Live(run));
        }
        // Only a run that will go on gets a place and a writer.
        let past = self.read(run).await?.unwrap_or_default();
        if past.ended.is_some() {
            return Ok(Standing::Ended);
        }
        if past.begun.is_none() && matches!(want, Want::Resume(_)) {
            return Ok(Standing::NoRecord);
        }
        let place = Arc::clone(self.lock().entry(run.clone()).or_default());
        let opened = place.get_or_try_init(|| self.open(run, want, &place)).await;
        let opened = opened.cloned();
        if opened.is_err() {
            let mut live = self.lock();
            // Only the map and we hold it, and nobody can come to hold it meanwhile.
            if Arc::strong_count(&place) == 2 && place.get().is_none() {
                live.remove(run);
            }
        }
        match opened {
            Ok(run) => Ok(Standing::Live(run)),
            Err(NotOpened::Ended) => Ok(Standing::Ended),
            Err(NotOpened::Failed(fault)) => Err(fault),
        }
    }

    async fn open(&self, run: &RunRef, want: Want<'_>, place: &Place) -> Result<Run, NotOpened> {
        let path = self.path(run);
        let record = Arc::new(blocking(move || Record::open(&path)).await?);
        record.look(|past| own(past, run))?;
        if record.look(|past| past.ended.is_some()) {
            return Err(NotOpened::Ended);
        }
        if let Want::Resume(told) = want {
            record.told_until(told);
        }
        let resumed = record.look(|past| past.begun.is_some());
        if let Want::Begin(plan, places) = want
            && !resumed
        {
            let begun = Box::new(Begun {
                plan: plan.clone(),
                places: places.clone(),
                at: Millis::now(),
            });
            record.write(Entry::Begun(begun), Durability::Now).await?;
        }
        let cancel = CancellationToken::new();
        let leave = Leave {
            live: Arc::downgrade(&self.live),
            place: Arc::downgrade(place),
            run: run.clone(),
        };
        let work = {
            let (shared, record, cancel) = (self.shared.clone(), record.clone(), cancel.clone());
            async move {
                let _leave = leave;
                drive(&shared, &record, &cancel, resumed).await;
            }
        };
        let task = AbortOnDropHandle::new(self.tasks.spawn(work));
        Ok(Run {
            record,
            cancel,
            _task: Arc::new(task),
        })
    }

    /// Records that a run which never began must not work when it does.
    pub(super) async fn cancel_ahead(&self, run: &RunRef) -> Result<(), Fault> {
        let path = self.path(run);
        let record = Arc::new(blocking(move || Record::open(&path)).await?);
        record.write(Entry::CancelAsked, Durability::Now).await
    }

    /// Removes the journals of runs that have ended, and their folder when it is empty then. One that
    /// another session's run of the same name wrote stays.
    pub(super) async fn forget(&self, session: &SessionKey, runs: &[RunId]) -> Result<(), Fault> {
        for run in runs {
            let run = RunRef {
                session: session.clone(),
                run: run.clone(),
            };
            // A damaged one tells nothing, and lies where only this run's can lie.
            match self.read(&run).await {
                Err(fault) if fault.code != Code::RunLost => {
                    tracing::warn!(%fault, "a journal is not this run's and stays");
                    continue;
                }
                Ok(None) => continue,
                _ => {}
            }
            let path = self.path(&run);
            blocking(move || Ok(record::remove(&path)?)).await?;
        }
        let folder = self.shared.config.records.join(segment(session.as_str()));
        blocking(move || Ok(record::remove_empty(&folder)?)).await
    }

    /// Interrupts every run, as a kill would: they go on when they are followed again.
    pub(super) async fn stop(&self) {
        let places = std::mem::take(&mut *self.lock());
        drop(places);
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunRef, Place>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a run was not opened.
enum NotOpened {
    Ended,
    Failed(Fault),
}

impl From<Fault> for NotOpened {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Gives a run's place up, however its task ends.
struct Leave {
    live: Weak<Live>,
    place: Weak<OnceCell<Run>>,
    run: RunRef,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let Some(live) = self.live.upgrade() else {
            return;
        };
        let mut places = live.lock().unwrap_or_else(PoisonError::into_inner);
        // The same run may be on its way again already, in another place.
        let ours = |place: &Place| Weak::ptr_eq(&Arc::downgrade(place), &self.place);
        let left = match places.get(&self.run) {
            Some(place) if ours(place) => places.remove(&self.run),
            _ => None,
        };
        drop(places);
        drop(left);
    }
}

/// Why a turn stopped before it was done.
pub(super) enum Stop {
    Cancelled,
    Failed(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Waits for something that may take long, unless the run is asked to stop. What is waited for is
/// dropped then, so it must leave nothing half done.
pub(super) async fn unless<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, Stop> {
    tokio::select! {
        () = cancel.cancelled() => Err(Stop::Cancelled),
        done = work => Ok(done),
    }
}

/// Works until the run has its end, and writes it down.
async fn drive(shared: &Shared, record: &Arc<Record>, cancel: &CancellationToken, resumed: bool) {
    let worked = AssertUnwindSafe(work(shared, record, cancel, resumed))
        .catch_unwind()
        .await;
    let (status, fault) = match worked {
        Ok(Ok(())) => (EndStatus::Completed, None),
        Ok(Err(Stop::Cancelled)) => (EndStatus::Cancelled, None),
        Ok(Err(Stop::Failed(fault))) => (EndStatus::Failed, Some(fault)),
        // The panic itself is in the log already; the run must not be resumed into it for ever.
        Err(_) => {
            let text = "The builtin agent broke while it worked on this turn. The server's log says where.";
            (
                EndStatus::Failed,
                Some(Fault::new(Code::ExecutionFailed, text)),
            )
        }
    };
    let ended = record
        .decide(Durability::Now, move |past| {
            Ok(Some(Entry::Ended(End {
                status,
                code: fault.as_ref().map(|f| f.code),
                message: fault.map(|f| f.message),
                text: past.text(),
                usage: past.usage,
                wrote: past.wrote.clone(),
            })))
        })
        .await;
    if let Err(fault) = ended {
        // Without a recorded end the run did not end: it goes on when it is followed again.
        tracing::error!(path = %record.path().display(), %fault, "the end of a run could not be recorded");
    }
}

async fn work(
    shared: &Shared,
    record: &Arc<Record>,
    cancel: &CancellationToken,
    resumed: bool,
) -> Result<(), Stop> {
    if record.look(|past| past.cancel_asked) {
        return Err(Stop::Cancelled);
    }
    let Some(begun) = record.look(|past| past.begun.clone()) else {
        return Err(Fault::internal().into());
    };
    if resumed {
        let note = Update::Note("Resumed after a restart.".into());
        record.frame(note, None, Durability::Later).await?;
    }
    match &shared.model {
        Some(model) => agent::work(shared, model, record, &begun, cancel).await,
        None => demo::play(&shared.config, record, &begun, cancel).await,
    }
}

/// A journal belongs to the run that began it.
fn own(past: &Past, run: &RunRef) -> Result<(), Fault> {
    match &past.begun {
        Some(begun) if begun.plan.run_ref() != *run => Err(Fault::new(
            Code::Conflict,
            "Another session or run has a key that leads to the same record. Use another key.",
        )),
        _ => Ok(()),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Result<T, Fault> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|e| {
            tracing::warn!(error = %e, "a run's journal cannot be used");
            journal_fault(e)
        }),
        Err(e) => Err(broke(&e)),
    }
}

fn broke(error: &JoinError) -> Fault {
    tracing::error!(%error, "work on a run's journal broke");
    Fault::internal()
}
