//! The runs that go on in this process: at most one writer and one task for each.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use threadline_contract::{
    Code, Fault, Millis, RunId, SessionKey,
    scope::{segment, session_segment},
};
use threadline_files::{Durability, JournalError};
use tokio::{
    sync::{OnceCell, watch},
    task::{JoinError, spawn_blocking},
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use tracing::Instrument as _;

use super::{
    Begun, Past, Record, follow, no_record,
    record::{self, journal_fault},
};
use crate::{End, Follow, Places, Registry, RunRef, TurnPlan};

/// Who does the work of runs.
pub(crate) trait Work: Send + Sync + 'static {
    /// What a run's journal adds up to.
    type Past: Past;

    /// Works until the run has its end, and writes it down. Dropped when the work is to be
    /// interrupted, as a kill would do it. `cancel` tells that somebody asked the run to stop.
    fn drive(
        &self,
        record: &Arc<Record<Self::Past>>,
        cancel: &CancellationToken,
        resumed: bool,
    ) -> impl Future<Output = ()> + Send;
}

type LineOf<W> = <<W as Work>::Past as Past>::Line;

/// The runs of this process.
pub(crate) struct Runs<W: Work> {
    work: Arc<W>,
    /// The folder of the journals.
    records: PathBuf,
    live: Arc<Live<W::Past>>,
    tasks: TaskTracker,
}

/// A place for each run: two callers that want the same run open it once.
type Place<P> = Arc<OnceCell<Run<P>>>;
type Live<P> = Mutex<HashMap<RunRef, Place<P>>>;

/// A run that goes on.
pub(crate) struct Run<P> {
    pub(crate) record: Arc<Record<P>>,
    pub(crate) cancel: CancellationToken,
    /// Ends with the last owner: a run must not outlive its runtime.
    _task: Arc<AbortOnDropHandle<()>>,
}

impl<P> Clone for Run<P> {
    fn clone(&self) -> Self {
        Self {
            record: Arc::clone(&self.record),
            cancel: self.cancel.clone(),
            _task: Arc::clone(&self._task),
        }
    }
}

/// How a run stands.
pub(crate) enum Standing<P> {
    /// It goes on in this process.
    Live(Run<P>),
    /// It ended.
    Ended,
    /// It never began.
    NoRecord,
}

/// What a caller wants with a run that does not go on here.
pub(crate) enum Want<'a> {
    /// Begin it if it never began, and let it go on.
    Begin(&'a TurnPlan, &'a Places),
    /// Let it go on, after the last frame that was handed over.
    Resume(i64),
}

impl<W: Work> Runs<W> {
    pub(crate) fn new(work: Arc<W>, records: PathBuf) -> Self {
        Self {
            work,
            records,
            live: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Where the journals of a session's runs lie.
    pub(crate) fn folder(&self, session: &SessionKey) -> PathBuf {
        self.records.join(session_segment(session))
    }

    /// Where a run's journal lies.
    pub(crate) fn path(&self, run: &RunRef) -> PathBuf {
        let folder = self.folder(&run.session);
        folder.join(format!("{}.journal", segment(run.run.as_str())))
    }

    /// What the journal of a run says, without touching it. A run of another session or name that
    /// shares the file's name is not this run.
    pub(crate) async fn read(&self, run: &RunRef) -> Result<Option<W::Past>, Fault> {
        let path = self.path(run);
        let past = blocking(move || record::read(&path)).await?;
        if let Some(past) = &past {
            own(past, run)?;
        }
        Ok(past)
    }

    /// The run, if it goes on in this process now.
    pub(crate) fn here(&self, run: &RunRef) -> Option<Run<W::Past>> {
        self.lock().get(run)?.get().cloned()
    }

    /// Finds a run and does what is wanted with it.
    pub(crate) async fn find(
        &self,
        run: &RunRef,
        want: Want<'_>,
    ) -> Result<Standing<W::Past>, Fault> {
        if let Some(run) = self.here(run) {
            return Ok(Standing::Live(run));
        }
        // Only a run that will go on gets a place and a writer.
        let past = self.read(run).await?.unwrap_or_default();
        if past.run().ended.is_some() {
            return Ok(Standing::Ended);
        }
        if past.run().begun.is_none() && matches!(want, Want::Resume(_)) {
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

    async fn open(
        &self,
        run: &RunRef,
        want: Want<'_>,
        place: &Place<W::Past>,
    ) -> Result<Run<W::Past>, NotOpened> {
        let path = self.path(run);
        let record = Arc::new(blocking(move || Record::<W::Past>::open(&path)).await?);
        record.look(|past| own(past, run))?;
        if record.look(|past| past.run().ended.is_some()) {
            return Err(NotOpened::Ended);
        }
        if let Want::Resume(told) = want {
            record.told_until(told);
        }
        let resumed = record.look(|past| past.run().begun.is_some());
        if let Want::Begin(plan, places) = want
            && !resumed
        {
            let begun = W::Past::begin(Begun {
                plan: plan.clone(),
                places: places.clone(),
                at: Millis::now(),
            });
            record.write(begun, Durability::Now).await?;
        }
        let cancel = CancellationToken::new();
        let leave = Leave {
            live: Arc::downgrade(&self.live),
            place: Arc::downgrade(place),
            run: run.clone(),
        };
        let work = {
            let (work, record, cancel) = (self.work.clone(), record.clone(), cancel.clone());
            async move {
                let _leave = leave;
                work.drive(&record, &cancel, resumed).await;
            }
        };
        let span = tracing::error_span!("run", run.id = %run.run, session = %run.session);
        let task = AbortOnDropHandle::new(self.tasks.spawn(work.instrument(span)));
        Ok(Run {
            record,
            cancel,
            _task: Arc::new(task),
        })
    }

    /// What a journal says when it is read as the registry.
    fn says(past: &W::Past) -> Registry {
        match (&past.run().ended, &past.run().begun) {
            (Some(end), _) => Registry::Ended(end.clone()),
            (None, Some(_)) => Registry::Running,
            (None, None) => Registry::NoRecord,
        }
    }

    /// What the registry says about a run.
    pub(crate) async fn ask(&self, run: &RunRef) -> Result<Registry, Fault> {
        if let Some(live) = self.here(run) {
            return Ok(live.record.look(Self::says));
        }
        match self.read(run).await {
            Ok(past) => Ok(past.as_ref().map_or(Registry::NoRecord, Self::says)),
            Err(fault) => lost(fault),
        }
    }

    /// Hands over a run's frames after this one, and lets it go on if it was interrupted.
    pub(crate) async fn follow(&self, run: &RunRef, after: i64) -> Result<Follow, Fault> {
        match self.find(run, Want::Resume(after)).await {
            Ok(Standing::Live(live)) => {
                let (path, bell) = (live.record.path().to_owned(), live.record.bell());
                Ok(follow::follow::<W::Past>(path, after, bell))
            }
            Ok(Standing::Ended) => {
                // Nobody writes any more: everything that is there is all there will be.
                let (_, bell) = watch::channel(u64::MAX);
                Ok(follow::follow::<W::Past>(self.path(run), after, bell))
            }
            Ok(Standing::NoRecord) => Err(no_record()),
            Err(fault) => match lost(fault)? {
                Registry::Ended(end) => Ok(follow::only(end)),
                _ => Err(no_record()),
            },
        }
    }

    /// Asks a run to stop, also one that has not begun. Can be repeated.
    pub(crate) async fn cancel(&self, run: &RunRef) -> Result<(), Fault> {
        let live = match self.find(run, Want::Resume(0)).await? {
            Standing::Live(live) => live,
            Standing::Ended => return Ok(()),
            Standing::NoRecord => match (self.cancel_ahead(run).await, self.here(run)) {
                // It began between the two looks.
                (Err(_), Some(live)) => live,
                (done, _) => return done,
            },
        };
        let ask = |past: &W::Past| {
            let needless = past.run().cancel_asked || past.run().ended.is_some();
            Ok((!needless).then(W::Past::stop))
        };
        let asked = live.record.decide_at_once(Durability::Now, ask).await;
        live.cancel.cancel();
        match asked {
            // Who works on it has heard it, and writes the end down when there is room.
            Err(fault) if W::Past::WAITS_FOR_ROOM && fault.code == Code::StorageFull => Ok(()),
            asked => asked,
        }
    }

    /// Adds the line that `decide` makes of a run's past, if any.
    pub(crate) async fn change(
        &self,
        run: &RunRef,
        decide: impl FnOnce(&W::Past) -> Result<Option<LineOf<W>>, Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        match self.find(run, Want::Resume(0)).await? {
            Standing::Live(live) => live.record.decide_at_once(Durability::Now, decide).await,
            Standing::Ended => {
                let past = self.read(run).await?.unwrap_or_default();
                decide(&past).map(|_| ())
            }
            Standing::NoRecord => Err(no_record()),
        }
    }

    /// Records that a run which never began must not work when it does.
    async fn cancel_ahead(&self, run: &RunRef) -> Result<(), Fault> {
        let path = self.path(run);
        let record = Arc::new(blocking(move || Record::<W::Past>::open(&path)).await?);
        record.write(W::Past::stop(), Durability::Now).await
    }

    /// Removes the journals of runs that have ended, and their folder when it is empty then. One that
    /// another session's run of the same name wrote stays.
    pub(crate) async fn forget(&self, session: &SessionKey, runs: &[RunId]) -> Result<(), Fault> {
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
        let folder = self.folder(session);
        blocking(move || Ok(record::remove_empty(&folder)?)).await
    }

    /// Interrupts every run, as a kill would: they go on when they are followed again.
    pub(crate) async fn stop(&self) {
        let places = std::mem::take(&mut *self.lock());
        drop(places);
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunRef, Place<W::Past>>> {
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
struct Leave<P> {
    live: Weak<Live<P>>,
    place: Weak<OnceCell<Run<P>>>,
    run: RunRef,
}

impl<P> Drop for Leave<P> {
    fn drop(&mut self) {
        let Some(live) = self.live.upgrade() else {
            return;
        };
        let mut places = live.lock().unwrap_or_else(PoisonError::into_inner);
        // The same run may be on its way again already, in another place.
        let ours = |place: &Place<P>| Weak::ptr_eq(&Arc::downgrade(place), &self.place);
        let left = match places.get(&self.run) {
            Some(place) if ours(place) => places.remove(&self.run),
            _ => None,
        };
        drop(places);
        drop(left);
    }
}

/// A journal belongs to the run that began it.
fn own(past: &impl Past, run: &RunRef) -> Result<(), Fault> {
    match &past.run().begun {
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
    let span = tracing::Span::current();
    match spawn_blocking(move || span.in_scope(work)).await {
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

/// A damaged record ends its run; anything else that hinders reading it may pass.
fn lost(fault: Fault) -> Result<Registry, Fault> {
    match fault.code {
        Code::RunLost => Ok(Registry::Ended(End::failed(fault.code, fault.message))),
        _ => Err(fault),
    }
}
