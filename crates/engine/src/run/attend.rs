//! What the passing of time asks of a run's driver.

use std::time::Duration;

use threadline_contract::{Code, Millis, QuestionState, UpdateKind};
use threadline_store::{RunChange, StoredQuestion};
use tokio::time::Instant;

use super::{
    drive::{Driver, Halt},
    kept::Kept,
    time::Times,
    update,
};

/// How long nothing is looked at when nothing is near.
const FAR: Duration = Duration::from_secs(60 * 60);
/// How soon something is handed to the runtime again that did not reach it.
const AGAIN: Duration = Duration::from_secs(2);

impl Driver<'_> {
    /// Closes questions whose wait is over, and says so once when the run has used up its time.
    /// Decides when to look again.
    pub(super) async fn attend(&mut self) -> Result<(), Halt> {
        let questions = self.engine.store().questions_of_run(self.id()).await?;
        let now = Millis::now();
        let far = if self.owes { AGAIN } else { FAR };
        let mut next = now.plus(far.as_millis() as i64);
        let open = |q: &&StoredQuestion| q.state == QuestionState::Open;
        if let Some(wait) = self.engine.0.config.rules.question_wait {
            for question in questions.iter().filter(open) {
                let until = question.asked_at.plus(wait.as_millis() as i64);
                if until > now {
                    next = next.min(until);
                    continue;
                }
                let by = format!("nobody answered for {}", update::span(wait));
                self.end_question(question, QuestionState::Expired, &by)
                    .await?;
            }
        }
        let budget = self.budget.filter(|_| !self.is_overdue);
        if let Some(times) = Times::of(&self.run, budget, &questions, now)
            && let Some(deadline) = times.deadline
            // Time stands still while one is open; its end is looked at when it comes.
            && !questions.iter().any(|q| open(&q))
        {
            match deadline > now {
                true => next = next.min(deadline),
                false => self.say_overdue().await?,
            }
        }
        let pause = u64::try_from(next.since(now)).unwrap_or_default();
        self.wake = Instant::now() + Duration::from_millis(pause);
        Ok(())
    }

    /// The run goes on: its registry alone ends it.
    async fn say_overdue(&mut self) -> Result<(), Halt> {
        let minutes = self.budget.unwrap_or_default();
        let mut update = self.update(UpdateKind::Status, "task.deadline_exceeded");
        update.code = Some(Code::RunDeadlineExceeded);
        update.message = Some(format!(
            "It has used up its {minutes} minutes and goes on. Stop it, or wait for its end."
        ));
        let mut kept = Kept::read(self.engine.store(), self.id()).await?;
        kept.overdue = true;
        let change = RunChange {
            turn: Some(kept.text()?),
            ..RunChange::default()
        };
        let event = update::logged(&update, None)?;
        self.run = self
            .engine
            .store()
            .change_run(&self.lease, change, vec![event])
            .await?;
        self.is_overdue = true;
        self.engine.0.counters.overdue();
        Ok(())
    }
}
