//! The phase in which the runtime works: its frames become the log, its end becomes the record.

use threadline_contract::{Code, Fault, QuestionState, Usage};
use threadline_retry::{Pauses, table};
use threadline_runtimes::{End, Follow, Frame, Logged, Registry, Signal, Update};
use threadline_store::{NewEvent, RunChange};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::wire;

use super::{
    drive::{Driver, Halt},
    policy,
    tool_calls::Executing,
    update,
};

/// Frames that are logged with one write at most: a burst costs one commit, not hundreds.
const BATCH: usize = 64;

impl Driver<'_> {
    /// Follows the run until its registry ends it. Frames that were logged before a crash are not
    /// asked for again, so each is in the log exactly once.
    pub(super) async fn follow(&mut self) -> Result<(), Halt> {
        let run = self.plan.run_ref();
        let mut pauses = table::FOLLOW_RUN.pauses();
        let mut executing = Executing::default();
        loop {
            let logged = self.logged().await?;
            match self.runtime.follow(&run, logged).await {
                Ok(signals) => {
                    self.hand_over_decisions().await?;
                    self.go_on_with_calls(&mut executing).await?;
                    if let Some(end) = self.listen(signals, &mut executing).await? {
                        return self.ended(end).await;
                    }
                }
                Err(fault) => {
                    warn!(run.id = %self.id(), code = %fault.code, "Run {} cannot be followed: {}", self.id(), fault.message)
                }
            }
            match self.runtime.ask_registry(&run).await {
                Ok(Registry::NoRecord) => {
                    return self.ended(self.runtime.lost_run()).await;
                }
                Ok(Registry::Running | Registry::Ended(_)) => {}
                Err(fault) => {
                    warn!(run.id = %self.id(), code = %fault.code, "The registry of run {} cannot be asked: {}", self.id(), fault.message)
                }
            }
            self.attend().await?;
            self.wait_for_runtime(&mut pauses).await?;
        }
    }

    /// What the log has of the run.
    async fn logged(&self) -> Result<Logged, Halt> {
        let last = self.engine.store().last_frame(&self.run).await?;
        let Some((frame, _)) = last else {
            return Ok(Logged::default());
        };
        let text = match self.runtime.needs_logged_text() {
            true => self.said().await?.unwrap_or_default(),
            false => String::new(),
        };
        Ok(Logged { frame, text })
    }

    /// Waits before the runtime is tried again. What is decided meanwhile is looked at now rather
    /// than then.
    async fn wait_for_runtime(&mut self, pauses: &mut Pauses) -> Result<(), Halt> {
        let engine = self.engine;
        tokio::select! {
            waited = engine.pause(pauses) => waited,
            () = self.next_control() => self.reload().await,
        }
    }

    /// Logs frames until the end, or until the runtime falls silent.
    async fn listen(
        &mut self,
        mut signals: Follow,
        executing: &mut Executing,
    ) -> Result<Option<End>, Halt> {
        let stopping = self.engine.stopping().clone();
        let mut batch = Vec::with_capacity(BATCH);
        self.attend().await?;
        loop {
            let wake = self.wake;
            tokio::select! {
                count = signals.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return Ok(None);
                    }
                    if let Some(end) = self.take(std::mem::take(&mut batch), executing).await? {
                        return Ok(Some(end));
                    }
                }
                () = self.next_control() => {
                    self.reload().await?;
                    self.hand_over_decisions().await?;
                    self.attend().await?;
                }
                executed = executing.next() => self.tool_executed(executed).await?,
                () = sleep_until(wake) => {
                    if self.owes {
                        self.hand_over_decisions().await?;
                        self.go_on_with_calls(executing).await?;
                    }
                    self.attend().await?;
                }
                () = stopping.cancelled() => return Err(Halt::Stopping),
            }
        }
    }

    async fn take(
        &mut self,
        signals: Vec<Signal>,
        executing: &mut Executing,
    ) -> Result<Option<End>, Halt> {
        let mut events: Vec<NewEvent> = Vec::with_capacity(signals.len());
        let mut usage = None;
        for signal in signals {
            match signal {
                Signal::Frame(frame) => {
                    if let Update::Usage(so_far) = &frame.update {
                        usage = Some(*so_far);
                    }
                    match update::of_frame(&frame, &self.run) {
                        Some(update) => events.push(update::logged(&update, Some(frame.no))?),
                        None => {
                            self.flush(&mut events, usage.take()).await?;
                            self.record_apart(frame, executing).await?;
                        }
                    }
                }
                Signal::End(end) => {
                    self.flush(&mut events, usage.take()).await?;
                    return Ok(Some(end));
                }
            }
        }
        self.flush(&mut events, usage).await?;
        Ok(None)
    }

    /// Logs what is there. What the run has used is recorded as it grows: one that is lost has used it
    /// all the same.
    async fn flush(
        &mut self,
        events: &mut Vec<NewEvent>,
        usage: Option<Usage>,
    ) -> Result<(), Halt> {
        let events = std::mem::take(events);
        if usage.is_some() {
            let change = RunChange {
                usage,
                ..RunChange::default()
            };
            let changed = self.engine.store().change_run(&self.lease, change, events);
            self.run = changed.await?;
        } else if !events.is_empty() {
            self.log(events).await?;
        }
        Ok(())
    }

    /// Records what is more than an event in the log.
    async fn record_apart(&mut self, frame: Frame, executing: &mut Executing) -> Result<(), Halt> {
        match frame.update {
            Update::ToolCall(call) => self.tool_called(call, executing).await?,
            Update::Asked(ask) => {
                // A runtime that was left and found again asks what it asked before.
                let known = self.engine.store().questions_of_run(self.id()).await?;
                if known.iter().any(|q| q.id == ask.id) {
                    return Ok(());
                }
                let question = update::question(&ask, &self.run);
                let mut asked = self.update(
                    threadline_contract::UpdateKind::Task,
                    update::QUESTION_ASKED,
                );
                let answered = policy::answered(&self.policy, &question, question.asked_at);
                // What the policy has answered is never open, so that nobody is asked in vain.
                asked.question = Some(wire::question(answered.as_ref().unwrap_or(&question)));
                let mut events = vec![update::logged(&asked, Some(frame.no))?];
                if let Some(answered) = &answered {
                    // Heard by this driver as any other answer is, and so handed to the runtime.
                    events.push(update::closed(answered, question.asked_at)?);
                }
                let question = answered.unwrap_or(question);
                self.engine
                    .store()
                    .ask(&self.run.account, &question, &self.lease, events)
                    .await?;
                self.wake = Instant::now();
            }
            Update::Unasked(id) => {
                if let Some(question) = self
                    .engine
                    .store()
                    .open_questions(self.id())
                    .await?
                    .into_iter()
                    .find(|q| q.id == id)
                {
                    self.withdraw(&question, "the agent no longer asks").await?;
                }
            }
            Update::Text(_)
            | Update::Reset { .. }
            | Update::Step(_)
            | Update::Note(_)
            | Update::Usage(_) => {}
        }
        Ok(())
    }

    /// Hands the runtime what was decided: a stop, and answers. Both can be repeated, so what was
    /// decided while nobody listened is simply handed over now.
    async fn hand_over_decisions(&mut self) -> Result<(), Halt> {
        let run = self.plan.run_ref();
        let known = std::mem::take(&mut self.owes);
        if self.cancel_requested()
            && let Err(fault) = self.runtime.cancel(&run).await
        {
            self.not_heard("its stop", &fault, known);
        }
        for question in self.engine.store().questions_of_run(self.id()).await? {
            if !matches!(
                question.state,
                QuestionState::Answered | QuestionState::Declined | QuestionState::Expired
            ) {
                continue;
            }
            let told = wire::question(&question);
            let told = self.runtime.answer(&run, &question.id, told.told()).await;
            if let Err(fault) = told {
                self.not_heard("an answer", &fault, known);
            }
        }
        Ok(())
    }

    /// Something that was decided did not reach the runtime. One that is away is told later; that it
    /// still is need not be said again.
    pub(super) fn not_heard(&mut self, what: &str, fault: &Fault, known: bool) {
        self.owes |= fault.code == Code::ProviderUnavailable;
        if !known {
            warn!(run.id = %self.id(), code = %fault.code, "Run {} did not hear of {what}: {}", self.id(), fault.message);
        }
    }
}
