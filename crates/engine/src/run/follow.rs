//! The phase in which the runtime works: its frames become the log, its end becomes the record.

use threadline_contract::{Code, QuestionState};
use threadline_runtimes::{End, Follow, Frame, Registry, Signal, Update};
use threadline_store::NewEvent;
use tracing::warn;

use super::{
    drive::{Driver, Halt},
    patience::Patience,
    update,
};

/// Frames that are logged with one write at most: a burst costs one commit, not hundreds.
const BATCH: usize = 64;

impl Driver<'_> {
    /// Follows the run until its registry ends it. Frames that were logged before a crash are not
    /// asked for again, so each is in the log exactly once.
    pub(super) async fn follow(&mut self) -> Result<(), Halt> {
        let run = self.plan.run_ref();
        let mut patience = Patience::new(200, 10);
        loop {
            let after = self
                .engine
                .store()
                .last_frame(&self.run)
                .await?
                .unwrap_or(0);
            match self.runtime.follow(&run, after).await {
                Ok(signals) => {
                    self.hand_over_decisions().await?;
                    if let Some(end) = self.listen(signals).await? {
                        return self.ended(end).await;
                    }
                }
                Err(fault) => {
                    warn!(run.id = %self.id(), code = %fault.code, "Run {} cannot be followed: {}", self.id(), fault.message)
                }
            }
            match self.runtime.ask_registry(&run).await {
                Ok(Registry::NoRecord) => {
                    let end = End::failed(
                        Code::RunLost,
                        "The runtime has no trace of this run. What it did until then is in its work folder.",
                    );
                    return self.ended(end).await;
                }
                Ok(Registry::Running | Registry::Ended(_)) => {}
                Err(fault) => {
                    warn!(run.id = %self.id(), code = %fault.code, "The registry of run {} cannot be asked: {}", self.id(), fault.message)
                }
            }
            patience.wait(self.engine).await?;
        }
    }

    /// Logs frames until the end, or until the runtime falls silent.
    async fn listen(&mut self, mut signals: Follow) -> Result<Option<End>, Halt> {
        let stopping = self.engine.stopping().clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                count = signals.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return Ok(None);
                    }
                    if let Some(end) = self.take(std::mem::take(&mut batch)).await? {
                        return Ok(Some(end));
                    }
                }
                () = self.next_control() => {
                    self.reload().await?;
                    self.hand_over_decisions().await?;
                }
                () = stopping.cancelled() => return Err(Halt::Stopping),
            }
        }
    }

    async fn take(&mut self, signals: Vec<Signal>) -> Result<Option<End>, Halt> {
        let mut events: Vec<NewEvent> = Vec::with_capacity(signals.len());
        for signal in signals {
            match signal {
                Signal::Frame(frame) => {
                    match update::of_frame(&frame, &self.run.thread, &self.run.id) {
                        Some(update) => events.push(update::logged(&update, Some(frame.no))?),
                        None => {
                            self.flush(&mut events).await?;
                            self.question(frame).await?;
                        }
                    }
                }
                Signal::End(end) => {
                    self.flush(&mut events).await?;
                    return Ok(Some(end));
                }
            }
        }
        self.flush(&mut events).await?;
        Ok(None)
    }

    async fn flush(&self, events: &mut Vec<NewEvent>) -> Result<(), Halt> {
        if events.is_empty() {
            Ok(())
        } else {
            self.log(std::mem::take(events)).await
        }
    }

    async fn question(&mut self, frame: Frame) -> Result<(), Halt> {
        match frame.update {
            Update::Asked(ask) => {
                let question = update::question(&ask, &self.run.thread, &self.run.id);
                let mut asked = self.update(
                    threadline_contract::UpdateKind::Task,
                    update::QUESTION_ASKED,
                );
                asked.question = Some(question.clone());
                let event = update::logged(&asked, Some(frame.no))?;
                self.engine
                    .store()
                    .ask(&self.run.account, &question, &self.lease, vec![event])
                    .await?;
            }
            Update::Unasked(id) => {
                if let Some(question) = self
                    .engine
                    .store()
                    .open_questions(self.id())
                    .await?
                    .into_iter()
                    .find(|q| q.question_id == id)
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
        if self.cancel_requested()
            && let Err(fault) = self.runtime.cancel(&run).await
        {
            warn!(run.id = %self.id(), code = %fault.code, "Run {} could not be asked to stop: {}", self.id(), fault.message);
        }
        for question in self.engine.store().questions_of_run(self.id()).await? {
            if !matches!(
                question.state,
                QuestionState::Answered | QuestionState::Declined
            ) {
                continue;
            }
            if let Err(fault) = self
                .runtime
                .answer(&run, &question.question_id, question.answer_text())
                .await
            {
                warn!(run.id = %self.id(), code = %fault.code, "An answer did not reach run {}: {}", self.id(), fault.message);
            }
        }
        Ok(())
    }
}
