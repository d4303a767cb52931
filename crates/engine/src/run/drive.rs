//! The driver: takes one run through its phases, under a lease, until it is closed.
//!
//! Every step is repeatable, and every write is fenced by the lease: a driver that lost it is
//! refused by the database and stops, whatever it believed.

use std::{sync::Arc, time::Duration};

use threadline_contract::{
    Code, Fault, Millis, Question, QuestionState, RunId, RunStatus, SessionUpdate, UpdateKind,
};
use threadline_runtimes::{End, EndStatus, Places, Registry, Runtime, TurnPlan};
use threadline_store::{
    Ended, Lease, NewEvent, Phase, QuestionEnd, Run, RunChange, RunEnd, StoreError, StreamId,
    Subscription,
};
use tracing::{error, info, warn};

use super::{
    kept::Kept,
    lane::{self, Place},
    phase::{self, Event, Verdict, verdict},
    update,
};
use crate::{Engine, attachments};

/// Why a driver stops before its run is closed.
pub(super) enum Halt {
    /// Another node has the lease now.
    Fenced,
    /// The server is stopping; the next start goes on.
    Stopping,
    /// Something broke; worth another try.
    Broken(Fault),
}

impl From<StoreError> for Halt {
    fn from(e: StoreError) -> Self {
        match e {
            StoreError::Stale => Self::Fenced,
            other => Self::Broken(other.into()),
        }
    }
}
impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

pub(crate) struct Driver<'a> {
    pub(super) engine: &'a Engine,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) lease: Lease,
    pub(super) run: Run,
    pub(super) plan: TurnPlan,
    pub(super) stream: StreamId,
    /// The thread's log: how a stop or an answer reaches the run, from whichever node it came.
    pub(super) control: Subscription,
    pub(super) end: Option<End>,
    places: Option<Places>,
}

impl<'a> Driver<'a> {
    /// Drives a run to its close, trying again with growing pauses when something breaks.
    pub(crate) async fn drive(engine: &'a Engine, lease: Lease) {
        let run = lease.run.clone();
        let mut pause = Duration::from_millis(200);
        loop {
            let outcome = match Self::open(engine, lease.clone()).await {
                Ok(mut driver) => driver.advance().await,
                Err(halt) => Err(halt),
            };
            match outcome {
                Ok(()) => return,
                Err(Halt::Stopping) => return,
                Err(Halt::Fenced) => {
                    info!(run.id = %run, "Run {run} is driven elsewhere");
                    return;
                }
                Err(Halt::Broken(fault)) => {
                    error!(run.id = %run, code = %fault.code, error = %fault.message, "Run {run} could not go on; trying again in {pause:?}");
                }
            }
            if engine
                .stopping()
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return;
            }
            pause = (pause * 2).min(Duration::from_secs(30));
        }
    }

    async fn open(engine: &'a Engine, lease: Lease) -> Result<Self, Halt> {
        let run = engine.store().run_any(&lease.run).await?;
        let plan = Kept::read(engine.store(), &run.id).await?.plan;
        let stream = run.stream();
        let control = engine
            .store()
            .subscribe(&stream, engine.store().last_seq(&stream).await?);
        let runtime = engine.runtime(&run.runtime)?.runtime.clone();
        // Read again: a stop asked for between the first read and the subscription counts.
        let run = engine.store().run_any(&lease.run).await?;
        Ok(Self {
            engine,
            runtime,
            lease,
            run,
            plan,
            stream,
            control,
            end: None,
            places: None,
        })
    }

    async fn advance(&mut self) -> Result<(), Halt> {
        loop {
            match self.run.phase {
                Phase::Queued => self.wait_for_place().await?,
                Phase::Preparing => self.prepare().await?,
                Phase::Starting => self.start().await?,
                Phase::Running => self.follow().await?,
                Phase::Collecting => self.collect().await?,
                Phase::Closed => {
                    attachments::forget(&self.engine.0.config.attachments, &self.run.id);
                    self.ring();
                    return Ok(());
                }
            }
        }
    }

    async fn wait_for_place(&mut self) -> Result<(), Halt> {
        let lane = self.engine.runtime(&self.run.runtime)?;
        let mut bell = lane.bell.subscribe();
        let mut told = None;
        let stopping = self.engine.stopping().clone();
        loop {
            if self.cancel_requested() {
                return self
                    .never_ran(RunStatus::Cancelled, None, "Stopped before it began.")
                    .await;
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
            tokio::select! {
                _ = bell.changed() => {}
                () = self.next_control() => self.reload().await?,
                // Places on other nodes become free without a ring.
                () = tokio::time::sleep(Duration::from_secs(2)) => {}
                () = stopping.cancelled() => return Err(Halt::Stopping),
            }
        }
    }

    async fn prepare(&mut self) -> Result<(), Halt> {
        if self.cancel_requested() {
            return self
                .never_ran(RunStatus::Cancelled, None, "Stopped before it began.")
                .await;
        }
        match self.places().await {
            Ok(_) => {
                self.shift(Event::Prepared, RunChange::default(), vec![])
                    .await
            }
            Err(fault) => {
                self.never_ran(RunStatus::Failed, Some(fault.code), &fault.message)
                    .await
            }
        }
    }

    /// The run's folders; making them is repeatable, so a driver that takes over just asks again.
    async fn places(&mut self) -> Result<Places, Fault> {
        if let Some(places) = &self.places {
            return Ok(places.clone());
        }
        let places = self.runtime.prepare(&self.plan).await?;
        self.plan.prompt = threadline_contract::context::fill(
            &self.plan.prompt,
            &places.work_folder,
            &places.artifact_directory,
        );
        self.places = Some(places.clone());
        Ok(places)
    }

    async fn start(&mut self) -> Result<(), Halt> {
        let places = self.places().await?;
        if let Err(fault) = self.runtime.start(&self.plan, &places).await {
            // The request may have got through although its answer did not: the registry knows.
            return match self.runtime.ask_registry(&self.plan.run_ref()).await? {
                Registry::NoRecord => {
                    self.never_ran(RunStatus::Failed, Some(fault.code), &fault.message)
                        .await
                }
                Registry::Running | Registry::Ended(_) => self.started(&places).await,
            };
        }
        self.started(&places).await
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

    /// Records what the registry said. With declared deliverables the verdict waits for the files.
    pub(super) async fn ended(&mut self, end: End) -> Result<(), Halt> {
        info!(run.id = %self.run.id, end = ?end.status, "Run {} ended: {:?}", self.run.id, end.status);
        self.withdraw_questions().await?;
        if self.verdict_waits(&end) {
            let update = self.update(UpdateKind::Status, "task.verifying");
            self.end = Some(end);
            return self
                .shift(
                    Event::Ended,
                    RunChange::default(),
                    vec![update::logged(&update, None)?],
                )
                .await;
        }
        self.record_end(
            &end,
            verdict(&end, self.cancel_requested(), &[]),
            Some(Event::Ended),
        )
        .await?;
        self.end = Some(end);
        Ok(())
    }

    pub(super) fn verdict_waits(&self, end: &End) -> bool {
        !self.plan.deliverables.is_empty() && end.status == EndStatus::Completed
    }

    /// The first confirmed end stands; a later, different one is kept as an anomaly by the store.
    /// `event` moves the run on with the same write.
    pub(super) async fn record_end(
        &mut self,
        end: &End,
        verdict: Verdict,
        event: Option<Event>,
    ) -> Result<(), Halt> {
        let phase = event.map(|e| self.next_phase(e)).transpose()?;
        let mut update = self.update(UpdateKind::Status, "task.ended");
        update.status = Some(verdict.status);
        update.code = verdict.code;
        update.message = verdict.message.clone();
        update.usage = end.usage;
        let record = RunEnd {
            status: verdict.status,
            code: verdict.code,
            message: verdict.message,
            text: end.text.clone(),
            usage: end.usage,
            missing: None,
            ended_at: Millis::now(),
            phase,
        };
        let ended = self
            .engine
            .store()
            .end_run(&self.lease, record, vec![update::logged(&update, None)?])
            .await?;
        self.run = match ended {
            Ended::First(run) => run,
            Ended::Already(run) => {
                warn!(run.id = %run.id, status = run.status.as_str(), "Run {} had ended already as {}", run.id, run.status.as_str());
                let change = RunChange {
                    phase,
                    ..RunChange::default()
                };
                self.engine
                    .store()
                    .change_run(&self.lease, change, vec![])
                    .await?
            }
        };
        self.ring();
        Ok(())
    }

    /// Ends a run that the runtime never had: there is nothing to collect.
    async fn never_ran(
        &mut self,
        status: RunStatus,
        code: Option<Code>,
        message: &str,
    ) -> Result<(), Halt> {
        let end = End {
            status: if status == RunStatus::Cancelled {
                EndStatus::Cancelled
            } else {
                EndStatus::Failed
            },
            code,
            message: Some(message.to_owned()),
            text: None,
            usage: None,
            wrote: vec![],
        };
        self.record_end(
            &end,
            Verdict {
                status,
                code,
                message: Some(message.to_owned()),
            },
            None,
        )
        .await?;
        let update = self.update(UpdateKind::Status, "completed");
        let change = RunChange {
            closed_at: Some(Millis::now()),
            ..RunChange::default()
        };
        self.shift(
            Event::NeverRan,
            change,
            vec![update::logged(&update, None)?],
        )
        .await
    }

    /// Questions of a run that has ended wait for nobody.
    async fn withdraw_questions(&self) -> Result<(), Halt> {
        let lost = self.engine.store().open_questions(&self.run.id).await?;
        for question in lost {
            self.withdraw(&question, "the run ended").await?;
        }
        Ok(())
    }

    pub(super) async fn withdraw(&self, question: &Question, by: &str) -> Result<(), Halt> {
        let at = Millis::now();
        let end = QuestionEnd {
            state: QuestionState::Withdrawn,
            answer: None,
            by: by.to_owned(),
            at,
        };
        let closed = Question {
            state: end.state,
            closed_at: Some(at),
            closed_by: Some(by.to_owned()),
            ..question.clone()
        };
        let event = update::closed(&closed, at)?;
        self.engine
            .store()
            .close_question(&self.run.account, &question.question_id, end, |_| {
                vec![event]
            })
            .await?;
        Ok(())
    }

    pub(super) async fn shift(
        &mut self,
        event: Event,
        mut change: RunChange,
        events: Vec<NewEvent>,
    ) -> Result<(), Halt> {
        change.phase = Some(self.next_phase(event)?);
        self.run = self
            .engine
            .store()
            .change_run(&self.lease, change, events)
            .await?;
        self.ring();
        Ok(())
    }

    fn next_phase(&self, event: Event) -> Result<Phase, Fault> {
        phase::after(self.run.phase, event).map_err(|e| Fault::new(Code::Internal, e.to_string()))
    }

    pub(super) async fn log(&self, events: Vec<NewEvent>) -> Result<(), Halt> {
        self.engine
            .store()
            .append(&self.stream, Some(&self.lease), events)
            .await?;
        Ok(())
    }

    pub(super) fn update(&self, kind: UpdateKind, event: &str) -> SessionUpdate {
        SessionUpdate::new(&self.run.thread, &self.run.id, kind, event, Millis::now())
    }

    pub(super) fn cancel_requested(&self) -> bool {
        self.run.cancel_requested_at.is_some()
    }

    /// Waits until something about this run was decided elsewhere: a stop, or an answer. Nothing
    /// is awaited after the event was taken, so dropping this future never loses one.
    pub(super) async fn next_control(&mut self) {
        loop {
            match self.control.next().await {
                Ok(events)
                    if events
                        .iter()
                        .any(|e| e.run.as_ref() == Some(&self.run.id) && is_control(&e.kind)) =>
                {
                    break;
                }
                Ok(_) => {}
                Err(e) => {
                    warn!(run.id = %self.run.id, error = %e, "The log of run {} could not be read; trying again", self.run.id);
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }

    /// Reads the run again, to learn what was decided elsewhere.
    pub(super) async fn reload(&mut self) -> Result<(), Halt> {
        self.run = self.engine.store().run_any(&self.run.id).await?;
        Ok(())
    }

    pub(super) fn id(&self) -> &RunId {
        &self.run.id
    }

    fn ring(&self) {
        if let Some(lane) = self.engine.lane(&self.run.runtime) {
            lane.bell.send_replace(());
        }
    }
}

fn is_control(kind: &str) -> bool {
    matches!(kind, update::CANCEL_REQUESTED | update::QUESTION_CLOSED)
}
