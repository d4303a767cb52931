//! The first phases: a place in the lane, the run's folders, and the runtime's word that it began.

use std::time::Duration;

use threadline_contract::{Code, Fault, Millis, RunStatus, UpdateKind, context};
use threadline_runtimes::{Places, Registry};
use threadline_store::RunChange;
use tokio::time::Instant;
use tracing::debug;

use super::{
    drive::{Driver, Halt},
    kept::Kept,
    lane::{self, Place},
    lane_clock::LaneClock,
    phase::Event,
    update,
};

/// How long a turn that cannot begin is silent about it, and how often it looks whether the reason changed.
const SILENT: Duration = Duration::from_secs(2);
/// How often a turn in line looks at its lane: places on other nodes become free without a ring.
const LOOK: Duration = Duration::from_secs(2);

impl Driver<'_> {
    pub(super) async fn wait_for_place(&mut self) -> Result<(), Halt> {
        let lane = self.engine.runtime(&self.run.runtime)?;
        let mut bell = lane.bell.subscribe();
        let mut told = None;
        let mut clock = self.lane_clock().await?;
        let stopping = self.engine.stopping().clone();
        loop {
            if self.cancel_requested() {
                return self.never_began().await;
            }
            {
                let _deciding = lane.deciding.lock().await;
                let entries = self.engine.lane_entries(&self.run.runtime).await?;
                match lane::place(&entries, &self.run.id, self.runtime.lane()) {
                    Place::Go => {
                        return self
                            .shift(Event::Admitted, RunChange::default(), vec![])
                            .await;
                    }
                    Place::Wait(place) => {
                        clock.look(
                            Instant::now(),
                            lane::waits_for_own_turn(&entries, &self.run.id),
                        );
                        if told != Some(place) {
                            let mut update = self.update(UpdateKind::Status, "queued");
                            update.queue = Some(place);
                            update.message = Some(update::queue_sentence(place));
                            self.log(vec![update::logged(&update, None)?]).await?;
                            told = Some(place);
                        }
                    }
                }
            }
            // Only after the lane was looked at: one that may go at the last moment goes.
            let left = clock.left();
            if left.is_some_and(|left| left.is_zero()) {
                return self.waited_too_long().await;
            }
            if clock.is_unsaved() {
                self.save(&mut clock).await?;
            }
            tokio::select! {
                _ = bell.changed() => {}
                () = self.next_control() => self.reload().await?,
                () = tokio::time::sleep(left.map_or(LOOK, |left| left.min(LOOK))) => {}
                () = stopping.cancelled() => {
                    self.save(&mut clock).await?;
                    return Err(Halt::Stopping);
                }
            }
        }
    }

    /// How long the run has waited for a place: what earlier drivers of it wrote down goes on to count.
    async fn lane_clock(&self) -> Result<LaneClock, Halt> {
        let limit = self.engine.0.config.rules.queue_wait;
        let waited = match limit {
            Some(_) => {
                Kept::read(self.engine.store(), &self.run.id)
                    .await?
                    .lane_waited_ms
            }
            None => None,
        };
        Ok(LaneClock::new(
            limit,
            Duration::from_millis(waited.unwrap_or(0)),
        ))
    }

    async fn save(&mut self, clock: &mut LaneClock) -> Result<(), Halt> {
        let Some(waited) = clock.take_unsaved() else {
            return Ok(());
        };
        let mut kept = Kept::read(self.engine.store(), &self.run.id).await?;
        kept.lane_waited_ms = Some(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
        let change = RunChange {
            turn: Some(kept.text()?),
            ..RunChange::default()
        };
        let store = self.engine.store();
        self.run = store.change_run(&self.lease, change, vec![]).await?;
        Ok(())
    }

    async fn waited_too_long(&mut self) -> Result<(), Halt> {
        let limit = self.engine.0.config.rules.queue_wait.unwrap_or_default();
        let why = format!(
            "It waited for a place for {} and never began. Send it again when fewer wait.",
            update::span(limit)
        );
        self.never_ran(RunStatus::Failed, Some(Code::QueueTimeout), &why)
            .await
    }

    pub(super) async fn prepare(&mut self) -> Result<(), Halt> {
        if self.cancel_requested() {
            return self.never_began().await;
        }
        if let Err(fault) = self.goes_on().await? {
            return self
                .never_ran(RunStatus::Failed, Some(fault.code), &fault.message)
                .await;
        }
        let (runtime, plan) = (self.runtime.clone(), self.plan.clone());
        let mut preparing = runtime.prepare(&plan);
        let stopping = self.engine.stopping().clone();
        let mut look = tokio::time::interval_at(Instant::now() + SILENT, SILENT);
        let mut told = None;
        let prepared = loop {
            tokio::select! {
                prepared = &mut preparing => break prepared,
                _ = look.tick() => self.tell_what_it_waits_for(&mut told).await?,
                // A runtime that is away can be waited for long; nothing has begun meanwhile.
                () = self.next_control() => {
                    self.reload().await?;
                    if self.cancel_requested() {
                        return self.never_began().await;
                    }
                }
                () = stopping.cancelled() => return Err(Halt::Stopping),
            }
        };
        match prepared {
            Ok(places) => {
                self.settle(&places);
                self.shift(Event::Prepared, RunChange::default(), vec![])
                    .await
            }
            Err(fault) => {
                self.never_ran(RunStatus::Failed, Some(fault.code), &fault.message)
                    .await
            }
        }
    }

    /// Whether what the turn goes on with is there: it may have been lost while the turn waited.
    async fn goes_on(&self) -> Result<Result<(), Fault>, Halt> {
        if !self.plan.continues {
            return Ok(Ok(()));
        }
        let (run, store) = (&self.run, self.engine.store());
        let session = store.session_by_key(&run.account, &run.session_key).await?;
        let checked = self
            .engine
            .check_continuation(&session, &*self.runtime, Some(&run.id));
        match checked.await {
            Err(fault) if fault.code != Code::ContinuationUnavailable => Err(Halt::Broken(fault)),
            told => Ok(told),
        }
    }

    /// Says in the log what keeps the turn from beginning, once for each reason.
    async fn tell_what_it_waits_for(&self, told: &mut Option<String>) -> Result<(), Halt> {
        let now = self.runtime.waits_for();
        if now.is_none() || now == *told {
            return Ok(());
        }
        let mut update = self.update(UpdateKind::Task, "task.note");
        update.message.clone_from(&now);
        *told = now;
        self.log(vec![update::logged(&update, None)?]).await
    }

    /// The run's folders; making them is repeatable, so a driver that takes over just asks again.
    async fn places(&mut self) -> Result<Places, Fault> {
        if let Some(places) = &self.places {
            return Ok(places.clone());
        }
        let places = self.runtime.prepare(&self.plan).await?;
        self.settle(&places);
        Ok(places)
    }

    /// The run's folders are there: its prompt names them.
    fn settle(&mut self, places: &Places) {
        self.plan.prompt = context::fill(
            &self.plan.prompt,
            &places.work_folder,
            &places.artifact_directory,
        );
        self.places = Some(places.clone());
    }

    async fn never_began(&mut self) -> Result<(), Halt> {
        self.never_ran(RunStatus::Cancelled, None, "Stopped before it began.")
            .await
    }

    pub(super) async fn start(&mut self) -> Result<(), Halt> {
        if self.cancel_requested()
            && let Ok(Registry::NoRecord) = self.runtime.ask_registry(&self.plan.run_ref()).await
        {
            return self.never_began().await;
        }
        let places = self.places().await?;
        if let Err(fault) = self.begin(&places).await? {
            // The request may have got through although its answer did not: the registry knows.
            return match self.runtime.ask_registry(&self.plan.run_ref()).await? {
                Registry::NoRecord if self.cancel_requested() => self.never_began().await,
                Registry::NoRecord => {
                    self.never_ran(RunStatus::Failed, Some(fault.code), &fault.message)
                        .await
                }
                Registry::Running | Registry::Ended(_) => self.started(&places).await,
            };
        }
        self.started(&places).await
    }

    /// Has the runtime begin. A stop is handed to it meanwhile: only it knows what was sent.
    async fn begin(&mut self, places: &Places) -> Result<Result<(), Fault>, Halt> {
        let (runtime, plan) = (self.runtime.clone(), self.plan.clone());
        let run = plan.run_ref();
        let mut starting = runtime.start(&plan, places);
        loop {
            tokio::select! {
                // First, so that a stop that comes at the same moment finds a run that it can stop.
                biased;
                begun = &mut starting => return Ok(begun),
                () = self.next_control() => self.reload().await?,
            }
            // What has begun is asked to stop where it is followed.
            if self.cancel_requested()
                && let Err(fault) = runtime.cancel(&run).await
            {
                debug!(code = %fault.code, "Run {} cannot be stopped while it begins: {}", run.run, fault.message);
            }
        }
    }

    async fn started(&mut self, places: &Places) -> Result<(), Halt> {
        let mut update = self.update(UpdateKind::Status, "started");
        update.status = Some(RunStatus::Running);
        update.artifact_scope = Some(places.scope.clone());
        let mut kept = Kept::read(self.engine.store(), &self.run.id).await?;
        kept.artifact_directory = Some(places.artifact_directory.display().to_string());
        let change = RunChange {
            started_at: Some(Millis::now()),
            turn: Some(kept.text()?),
            ..RunChange::default()
        };
        self.shift(Event::Started, change, vec![update::logged(&update, None)?])
            .await
    }
}
