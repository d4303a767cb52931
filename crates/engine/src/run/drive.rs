//! The driver: takes one run through its phases, under a lease, until it is closed.
//!
//! Every step is repeatable, and every write is fenced by the lease: a driver that lost it is
//! refused by the database and stops, whatever it believed.

use std::{sync::Arc, time::Duration};

use threadline_contract::{
    Code, Fault, Millis, PermissionPolicy, RunId, RunStatus, SessionUpdate, UpdateKind,
};
use threadline_retry::table;
use threadline_runtimes::{End, Places, Runtime, TurnPlan};
use threadline_store::{
    Lease, NewEvent, Phase, Run, RunChange, SessionState, StoreError, StreamId, Subscription,
};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::{
    kept::Kept,
    phase::{self, Event},
    update,
};
use crate::{Engine, attachments, wire};

/// Why a driver stops before its run is closed.
pub(crate) enum Halt {
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
    /// Who executes tool calls.
    pub(super) executor: Option<String>,
    /// What becomes of permissions.
    pub(super) policy: PermissionPolicy,
    /// How many minutes the run may take.
    pub(super) budget: Option<u32>,
    /// It was said that they are over.
    pub(super) is_overdue: bool,
    /// Something that was decided has not reached the runtime.
    pub(super) owes: bool,
    /// When time alone asks for something.
    pub(super) wake: Instant,
    pub(super) stream: StreamId,
    /// The thread's log: how a stop or an answer reaches the run, from whichever node it came.
    pub(super) control: Subscription,
    pub(super) end: Option<End>,
    pub(super) places: Option<Places>,
}

impl<'a> Driver<'a> {
    /// Drives a run to its close, trying again with growing pauses when something breaks.
    /// With a reason why the run is lost, it only ends it.
    pub(crate) async fn drive(engine: &'a Engine, lease: Lease, lost: Option<String>) {
        let run = lease.run.clone();
        let mut pauses = table::RUN_STEP.pauses();
        loop {
            let outcome = match Self::open(engine, lease.clone()).await {
                Ok(mut driver) => match &lost {
                    Some(why) => driver.give_up(why).await,
                    None => driver.advance().await,
                },
                Err(halt) => Err(halt),
            };
            let halt = match outcome {
                Ok(()) => {
                    engine.0.stalls.wrote(&run);
                    return;
                }
                Err(Halt::Broken(fault)) => {
                    engine.0.stalls.failed(&run, &fault);
                    error!(run.id = %run, code = %fault.code, "Run {run} could not go on and is tried again: {}", fault.message);
                    engine.pause(&mut pauses).await.err()
                }
                Err(halt) => Some(halt),
            };
            if let Some(halt) = halt {
                if matches!(halt, Halt::Fenced) {
                    info!(run.id = %run, "Run {run} is driven elsewhere");
                }
                return;
            }
        }
    }

    async fn open(engine: &'a Engine, lease: Lease) -> Result<Self, Halt> {
        let run = engine.store().run_any(&lease.run).await?;
        let kept = Kept::read(engine.store(), &run.id).await?;
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
            plan: kept.plan,
            executor: kept.executor,
            policy: kept.policy,
            budget: kept.budget_minutes,
            is_overdue: kept.overdue,
            owes: false,
            wake: Instant::now(),
            stream,
            control,
            end: None,
            places: None,
        })
    }

    /// Ends a run whose registry cannot be asked any more.
    async fn give_up(&mut self, why: &str) -> Result<(), Halt> {
        match self.run.phase {
            Phase::Queued | Phase::Preparing | Phase::Starting => {
                self.never_ran(RunStatus::Failed, Some(Code::RunLost), why)
                    .await?;
            }
            Phase::Running => self.ended(End::failed(Code::RunLost, why)).await?,
            Phase::Collecting | Phase::Closed => {}
        }
        self.advance().await
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
                    // Closing a session stops its runs first.
                    if self.cancel_requested() {
                        self.close_if_asked().await?;
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn close_if_asked(&self) -> Result<(), Halt> {
        let run = &self.run;
        let store = self.engine.store();
        match store.session_by_key(&run.account, &run.session_key).await {
            Ok(session) if session.state == SessionState::Closed => {
                self.engine.close_at_runtime(&session).await;
                Ok(())
            }
            // The owner may have been deleted meanwhile.
            Ok(_) | Err(StoreError::NotFound) => Ok(()),
            Err(e) => Err(e.into()),
        }
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
        self.engine.0.stalls.wrote(self.id());
        self.ring();
        Ok(())
    }

    pub(super) fn next_phase(&self, event: Event) -> Result<Phase, Fault> {
        phase::after(self.run.phase, event).map_err(|e| Fault::new(Code::Internal, e.to_string()))
    }

    pub(super) async fn log(&self, events: Vec<NewEvent>) -> Result<(), Halt> {
        self.engine
            .store()
            .append(&self.stream, Some(&self.lease), events)
            .await?;
        self.engine.0.stalls.wrote(self.id());
        Ok(())
    }

    pub(super) fn update(&self, kind: UpdateKind, event: &str) -> SessionUpdate {
        wire::update(&self.run.owner, &self.run.id, kind, event, Millis::now())
    }

    pub(super) fn cancel_requested(&self) -> bool {
        self.run.cancel_requested_at.is_some() || self.engine.has_unstored_cancel(self.id())
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

    pub(super) fn ring(&self) {
        if let Some(lane) = self.engine.lane(&self.run.runtime) {
            lane.bell.send_replace(());
        }
    }
}

fn is_control(kind: &str) -> bool {
    matches!(kind, update::CANCEL_REQUESTED | update::QUESTION_CLOSED)
}
