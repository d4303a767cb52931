//! How a run ends: once, in its registry's words.

use threadline_contract::{
    AccountId, Code, Millis, QuestionKind, QuestionState, RunStatus, UpdateKind, Who,
};
use threadline_runtimes::{End, EndStatus};
use threadline_store::{
    Ended, Lease, QuestionEnd, RunChange, RunEnd, StoreError, StoredQuestion, Tx,
};
use tracing::{info, warn};

use super::{
    drive::{Driver, Halt},
    phase::{Event, Verdict, verdict},
    update, wording,
};

/// Events that are read at once.
const PAGE: u32 = 256;

impl Driver<'_> {
    /// Records what the registry said. With declared deliverables the verdict waits for the files.
    pub(super) async fn ended(&mut self, end: End) -> Result<(), Halt> {
        info!(run.id = %self.run.id, end = ?end.status, "Run {} ended: {:?}", self.run.id, end.status);
        if self.verdict_waits(&end) {
            self.end = Some(end);
            return self.verify().await;
        }
        let verdict = verdict(&end, self.cancel_requested(), &[]);
        let verdict = self.with_neighbour(verdict).await?;
        self.record_end(&end, verdict, Some(Event::Ended)).await?;
        self.end = Some(end);
        Ok(())
    }

    /// The run has ended; how, its files will say.
    async fn verify(&mut self) -> Result<(), Halt> {
        let update = self.update(UpdateKind::Status, "task.verifying");
        let verifying = update::logged(&update, None)?;
        let change = RunChange {
            phase: Some(self.next_phase(Event::Ended)?),
            ..RunChange::default()
        };
        let (lease, at) = (self.lease.clone(), Millis::now());
        let (account, ending) = (self.run.account.clone(), self.ending_questions().await?);
        let changed = self.engine.store().transact(move |mut tx| {
            Box::pin(async move {
                tx.lock_leased_run(&lease).await?;
                match ending {
                    None => withdraw_questions(&mut tx, &lease, at).await?,
                    Some(some) => withdraw_some(&mut tx, &account, some, at).await?,
                }
                tx.change_run(&lease, change, vec![verifying]).await
            })
        });
        self.run = changed.await?;
        self.engine.0.stalls.wrote(self.id());
        self.ring();
        Ok(())
    }

    pub(super) fn verdict_waits(&self, end: &End) -> bool {
        !self.plan.deliverables.is_empty() && end.status == EndStatus::Completed
    }

    /// The first confirmed end stands; a later, different one is kept as an anomaly by the store.
    /// `event` moves the run on with the same write, and with it no question of the run is open any more.
    pub(super) async fn record_end(
        &mut self,
        end: &End,
        verdict: Verdict,
        event: Option<Event>,
    ) -> Result<(), Halt> {
        let phase = event.map(|e| self.next_phase(e)).transpose()?;
        let message = verdict.message.as_deref();
        let message = message.map(|message| wording::for_account(&self.run.account, message));
        let text = match verdict.status {
            RunStatus::Failed | RunStatus::Cancelled => self.said().await?.or(end.text.clone()),
            _ => end.text.clone(),
        };
        let mut update = self.update(UpdateKind::Status, "task.ended");
        update.status = Some(verdict.status);
        update.code = verdict.code;
        update.message = message.clone();
        update.usage = end.usage;
        let record = RunEnd {
            status: verdict.status,
            code: verdict.code,
            message,
            text,
            usage: end.usage,
            missing: None,
            ended_at: Millis::now(),
            phase,
        };
        let told = update::logged(&update, None)?;
        let (lease, at) = (self.lease.clone(), record.ended_at);
        let (account, ending) = (self.run.account.clone(), self.ending_questions().await?);
        let ended = self.engine.store().transact(move |mut tx| {
            Box::pin(async move {
                tx.lock_leased_run(&lease).await?;
                match ending {
                    None => withdraw_questions(&mut tx, &lease, at).await?,
                    Some(some) => withdraw_some(&mut tx, &account, some, at).await?,
                }
                match tx.end_run(&lease, record, vec![told]).await? {
                    Ended::Already(_) => {
                        let change = RunChange {
                            phase,
                            ..RunChange::default()
                        };
                        let run = tx.change_run(&lease, change, vec![]).await?;
                        Ok(Ended::Already(run))
                    }
                    first @ Ended::First(_) => Ok(first),
                }
            })
        });
        self.run = match ended.await? {
            Ended::First(run) => run,
            Ended::Already(run) => {
                warn!(run.id = %run.id, status = run.status.as_str(), "Run {} had ended already as {}", run.id, run.status.as_str());
                run
            }
        };
        self.ring();
        Ok(())
    }

    /// What the run has said so far, also of a message that it did not finish: what its updates add up to.
    pub(super) async fn said(&self) -> Result<Option<String>, Halt> {
        let (store, stream) = (self.engine.store(), self.run.stream());
        let head = store.last_seq(&stream).await?;
        let (mut said, mut after) = (String::new(), self.run.log_from);
        loop {
            let range = (after, head);
            let page = store.run_events(&stream, self.id(), range, PAGE).await?;
            for event in page.iter().filter(|e| e.kind.starts_with("delta")) {
                update::add_text(&mut said, &event.body)?;
            }
            match page.last() {
                Some(last) => after = last.seq,
                None => break,
            }
        }
        Ok((!said.trim().is_empty()).then_some(said))
    }

    /// Ends a run that the runtime never had: there is nothing to collect.
    pub(super) async fn never_ran(
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
        let mut update = self.update(UpdateKind::Status, "completed");
        update.status = Some(self.run.status);
        update.code = self.run.code;
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

    /// The open questions that end with the run: all of them, where nothing is named. Where the owner takes answers
    /// after a run, its questions wait on; what the agent may do is not asked any more when it does nothing more.
    async fn ending_questions(&self) -> Result<Option<Vec<StoredQuestion>>, Halt> {
        if !self.run.owner.questions_outlive_runs() {
            return Ok(None);
        }
        let mut open = self.engine.store().open_questions(self.id()).await?;
        open.retain(|question| question.kind == QuestionKind::Permission);
        Ok(Some(open))
    }

    pub(super) async fn withdraw(&self, question: &StoredQuestion, by: &str) -> Result<(), Halt> {
        self.end_question(question, QuestionState::Withdrawn, by)
            .await
    }

    /// Ends a question that nobody answered, unless somebody does so just now.
    pub(super) async fn end_question(
        &self,
        question: &StoredQuestion,
        state: QuestionState,
        by: &str,
    ) -> Result<(), Halt> {
        let at = Millis::now();
        let end = QuestionEnd {
            state,
            answer: None,
            by: by.to_owned(),
            principal: Who::Server,
            at,
        };
        let event = update::closed(&ended_by_server(question, &end), at)?;
        let (lease, account) = (self.lease.clone(), self.run.account.clone());
        let id = question.id.clone();
        let written = self.engine.store().transact(move |mut tx| {
            Box::pin(async move {
                tx.fence(&lease).await?;
                tx.close_question(&account, &id, end, |_| vec![event]).await
            })
        });
        written.await?;
        Ok(())
    }
}

/// Questions of a run that has ended wait for nobody.
async fn withdraw_questions(tx: &mut Tx<'_>, lease: &Lease, at: Millis) -> Result<(), StoreError> {
    let closed = |question: &StoredQuestion| Ok(update::closed(question, at)?);
    tx.withdraw_questions(lease, "the run ended", at, closed)
        .await?;
    Ok(())
}

/// Only some of a run's questions end with it. Its lease is held by the transaction.
async fn withdraw_some(
    tx: &mut Tx<'_>,
    account: &AccountId,
    questions: Vec<StoredQuestion>,
    at: Millis,
) -> Result<(), StoreError> {
    for question in questions {
        let end = withdrawn(at);
        let closed = ended_by_server(&question, &end);
        let event = update::closed(&closed, at)?;
        tx.close_question(account, &question.id, end, |_| vec![event])
            .await?;
    }
    Ok(())
}

fn withdrawn(at: Millis) -> QuestionEnd {
    QuestionEnd {
        state: QuestionState::Withdrawn,
        answer: None,
        by: "the run ended".to_owned(),
        principal: Who::Server,
        at,
    }
}

/// A question after an end that nobody gave it.
fn ended_by_server(question: &StoredQuestion, end: &QuestionEnd) -> StoredQuestion {
    StoredQuestion {
        state: end.state,
        closed_at: Some(end.at),
        closed_by: Some(end.by.clone()),
        closed_by_principal: Some(Who::Server),
        ..question.clone()
    }
}
