//! The model agent: asks the model, does what it wants done, until it has nothing more to do.
//!
//! What comes next is decided from the record alone, so a turn that goes on after a kill takes the
//! same way as one that never stopped.

mod call_out;
mod hear;

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use serde_json::Value;
use threadline_contract::{
    Code, Fault, QuestionId, QuestionKind, QuestionOption, Step, StepState, amounts,
    scope::session_segment,
};
use threadline_files::Durability;
use tokio::{
    task::spawn_blocking,
    time::{Duration, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::hear::Heard;
use super::{
    Shared,
    chat::{Message, Request, StreamOptions},
    config::Limits,
    history,
    model::Model,
    past::{Begun, Call, Entry, Fact, Past, Ran, Said},
    prompt,
    tools::{AskUser, Folder, Tool, Work, definitions, one_line},
    work::{Record, Stop, unless},
};
use crate::{Ask, Update, journaled::Past as _};

/// What to do next.
#[derive(Debug, PartialEq)]
enum Next {
    /// Run this tool call.
    Run(Call),
    /// Ask the model.
    Ask,
    /// The model has nothing more to do.
    Done,
}

fn next(past: &Past) -> Next {
    let Some(said) = past.said.last() else {
        return Next::Ask;
    };
    let open = said.calls.iter().find(|c| !past.ran.contains_key(&c.step));
    match open {
        Some(call) => Next::Run(call.clone()),
        None if said.calls.is_empty() => Next::Done,
        None => Next::Ask,
    }
}

/// One turn.
struct Agent<'a> {
    model: &'a Model,
    record: &'a Arc<Record>,
    cancel: &'a CancellationToken,
    limits: Limits,
    folder: Folder,
    /// What comes before this turn's own messages.
    preface: Vec<Message>,
    tools: Value,
    /// The names of those that came with the turn.
    offered: Vec<String>,
    clock: Clock,
    /// The endpoint takes our asking for usage.
    asks_usage: bool,
}

/// Works until the model is done.
pub(super) async fn work(
    shared: &Shared,
    model: &Model,
    record: &Arc<Record>,
    begun: &Begun,
    cancel: &CancellationToken,
) -> Result<(), Stop> {
    let records = shared
        .config
        .records
        .join(session_segment(&begun.plan.session));
    let mut preface = vec![Message::System {
        content: prompt::system(begun),
    }];
    preface.extend(history::before(records, begun).await?);
    preface.push(Message::User {
        content: begun.plan.prompt.clone(),
    });
    let spent = record.look(|past| past.said.last().map_or(0, |s| s.spent_ms));
    let mut agent = Agent {
        model,
        record,
        cancel,
        limits: shared.config.limits,
        folder: Folder {
            work: begun.places.work_folder.clone(),
            leaves: begun.places.artifact_directory.clone(),
            workspace: shared.config.workspace.clone(),
            session: begun.plan.session.clone(),
            run: begun.plan.run.clone(),
        },
        preface,
        tools: definitions(&begun.plan.tools),
        offered: begun.plan.tools.iter().map(|t| t.name.clone()).collect(),
        clock: Clock::after(Duration::from_millis(spent)),
        asks_usage: true,
    };
    loop {
        if cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        match record.look(next) {
            Next::Done => return Ok(()),
            Next::Ask => agent.ask().await?,
            Next::Run(call) => agent.run(&call).await?,
        }
    }
}

impl Agent<'_> {
    /// One model call, tried again while it may help.
    async fn ask(&mut self) -> Result<(), Stop> {
        let round = self.record.look(|past| past.said.len());
        if round >= self.limits.max_steps as usize {
            let most = self.limits.max_steps;
            return Err(exceeded(format!(
                "The turn used up its {most} model calls."
            )));
        }
        let mut tries = 0;
        let heard = loop {
            let left = self.limits.max_time.saturating_sub(self.clock.spent());
            let body = self.body()?;
            let hear = timeout(left, hear::hear(self.model, self.record, body));
            let trouble = match unless(self.cancel, hear).await? {
                Err(_) => {
                    let time = amounts::time_limit(self.limits.max_time);
                    return Err(exceeded(format!("The turn used up its time of {time}.")));
                }
                Ok(Ok(Heard::Answer(answer))) => break answer,
                Ok(Ok(Heard::Trouble(trouble))) => trouble,
                Ok(Err(fault)) => return Err(fault.into()),
            };
            if self.asks_usage && trouble.refuses_usage() {
                self.asks_usage = false;
                continue;
            }
            if !trouble.may_pass() || tries == self.limits.retries {
                return Err(trouble.fault(self.model).into());
            }
            let pause = self.limits.backoff.at_most(tries);
            let pause = trouble.pause().unwrap_or(pause);
            tries += 1;
            let note = format!(
                "The model {}. Trying again ({tries} of {}).",
                one_line(&self.model.clean(&trouble.short()), 200),
                self.limits.retries
            );
            self.note(note).await?;
            unless(self.cancel, sleep(pause)).await?;
        };
        let said_nothing = self.record.look(|past| past.text().is_none());
        let mute = said_nothing && heard.calls.is_empty() && heard.text.trim().is_empty();
        let cut_off = match heard.finish.as_deref() {
            Some("length") => Some("The model stopped at its length limit."),
            Some("content_filter") => Some("The endpoint's content filter cut the answer off."),
            _ => None,
        };
        let remark = cut_off.or(mute.then_some("The model ended without a word."));
        let calls = heard.calls.into_iter().enumerate().map(|(index, call)| {
            let step = format!("call-{}-{}", round + 1, index + 1);
            Call {
                id: if call.id.is_empty() {
                    step.clone()
                } else {
                    call.id
                },
                step,
                tool: call.tool,
                arguments: call.arguments,
            }
        });
        let said = Said {
            calls: calls.collect(),
            text: heard.text,
            usage: heard.usage,
            spent_ms: u64::try_from(self.clock.spent().as_millis()).unwrap_or(u64::MAX),
            cut_off: cut_off.map(str::to_owned),
        };
        self.said(said).await?;
        if let Some(remark) = remark {
            self.note(remark.to_owned()).await?;
        }
        Ok(())
    }

    /// Records a whole message; with it, what the turn used so far.
    async fn said(&self, said: Said) -> Result<(), Stop> {
        let decide = move |past: &Past| {
            let fact = Fact::Said(said);
            let mut after = Past {
                usage: past.usage,
                ..Past::default()
            };
            after.apply(Entry::Fact(fact.clone()));
            Ok(Some(match after.usage {
                Some(usage) if after.usage != past.usage => Entry::Frame {
                    frame: crate::Frame {
                        no: past.run.frames + 1,
                        update: Update::Usage(usage),
                    },
                    fact: Some(fact),
                },
                _ => Entry::Fact(fact),
            }))
        };
        self.record.decide(Durability::Now, decide).await?;
        Ok(())
    }

    fn body(&self) -> Result<Bytes, Fault> {
        let mut messages = self.preface.clone();
        messages.extend(self.record.look(history::said));
        let request = Request {
            model: self.model.name(),
            messages: &messages,
            tools: &self.tools,
            stream: true,
            stream_options: self.asks_usage.then_some(StreamOptions {
                include_usage: true,
            }),
        };
        let body = serde_json::to_vec(&request).map_err(|e| {
            tracing::error!(error = %e, "a request for the model cannot be written");
            Fault::internal()
        })?;
        Ok(body.into())
    }

    /// One tool call, as a step that a person sees.
    async fn run(&mut self, call: &Call) -> Result<(), Stop> {
        if self.offered.contains(&call.tool) {
            return self.call_out(call).await;
        }
        let since = Instant::now();
        let started = self.record.look(|past| past.started.contains(&call.step));
        let tool = match Tool::parse(&call.tool, &call.arguments) {
            Ok(tool) => tool,
            Err(sentence) => {
                let title = format!("Called {}", one_line(&call.tool, 40));
                let step = step(call, title, StepState::Failed, Some(&sentence), Some(since));
                return self.ran(call, step, sentence, None).await;
            }
        };
        let (doing, did) = tool.titles();
        if !started {
            let running = step(call, doing, StepState::Running, None, None);
            self.record
                .frame(Update::Step(running), None, Durability::Now)
                .await?;
        }
        if let Tool::Ask(ask) = &tool {
            return self.ask_user(call, ask, did).await;
        }
        if started && !tool.repeats_safely() {
            let sentence = "This call was interrupted by a restart, so it is not known whether it took effect. Read the file before you go on.";
            let detail = Some("Interrupted by a restart.");
            let step = step(call, did, StepState::Failed, detail, Some(since));
            let wrote = self.folder.names(&tool);
            return self.ran(call, step, sentence.into(), wrote).await;
        }
        let folder = self.folder.clone();
        let worked = spawn_blocking(move || folder.run(&tool)).await;
        let Work { result, wrote } = worked.map_err(|e| {
            tracing::error!(error = %e, tool = call.tool, "a tool broke");
            Fault::internal()
        })??;
        let (state, detail, result) = match result {
            Ok(result) => (StepState::Done, None, result),
            Err(sentence) => (StepState::Failed, Some(sentence.clone()), sentence),
        };
        let step = step(call, did, state, detail.as_deref(), Some(since));
        self.ran(call, step, result, wrote).await
    }

    /// Asks the person and waits, however long it takes. After a restart the same question waits on.
    async fn ask_user(&mut self, call: &Call, ask: &AskUser, did: String) -> Result<(), Stop> {
        let options: Vec<QuestionOption> = ask
            .options
            .iter()
            .flatten()
            .enumerate()
            .map(|(index, label)| QuestionOption {
                option_id: format!("option-{}", index + 1),
                label: label.clone(),
                kind: None,
            })
            .collect();
        let asked = self.record.look(|past| past.question_of(&call.step));
        let id = match asked {
            Some(id) => id,
            None => {
                let id = QuestionId::fresh();
                let asked = Update::Asked(Ask {
                    id: id.clone(),
                    kind: QuestionKind::Question,
                    text: ask.question.clone(),
                    options: options.clone(),
                    free_text: true,
                    tool: None,
                });
                let fact = Fact::Asked {
                    step: call.step.clone(),
                };
                self.record
                    .frame(asked, Some(fact), Durability::Now)
                    .await?;
                id
            }
        };
        let since = Instant::now();
        let answer = unless(self.cancel, self.answer(&id)).await?;
        self.clock.waited(since.elapsed());
        let (detail, result) = match answer {
            None => (
                "Declined.".to_owned(),
                "The person declined to answer.".to_owned(),
            ),
            Some(text) => {
                let option = options.into_iter().find(|o| o.option_id == text);
                let text = option.map_or(text, |o| o.label);
                let result = format!("The person answered: {text}");
                (text, result)
            }
        };
        let step = step(call, did, StepState::Done, Some(&detail), Some(since));
        self.ran(call, step, result, None).await
    }

    async fn answer(&self, id: &QuestionId) -> Option<String> {
        let mut bell = self.record.bell();
        loop {
            let answer = self.record.look(|past| past.asked.get(id)?.answer.clone());
            if let Some(answer) = answer {
                return answer;
            }
            // The record rings its own bell, so it cannot close while we hold the record.
            if bell.changed().await.is_err() {
                return None;
            }
        }
    }

    async fn ran(
        &self,
        call: &Call,
        step: Step,
        result: String,
        wrote: Option<String>,
    ) -> Result<(), Stop> {
        let fact = Fact::Ran(Ran {
            step: call.step.clone(),
            result,
            wrote,
        });
        let update = Update::Step(step);
        self.record
            .frame(update, Some(fact), Durability::Now)
            .await?;
        Ok(())
    }

    async fn note(&self, text: String) -> Result<(), Fault> {
        let note = Update::Note(text);
        self.record.frame(note, None, Durability::Later).await
    }
}

fn step(
    call: &Call,
    title: String,
    state: StepState,
    detail: Option<&str>,
    since: Option<Instant>,
) -> Step {
    Step {
        step_id: call.step.clone(),
        title,
        tool: Some(call.tool.clone()),
        state,
        detail: detail.map(str::to_owned),
        duration_ms: since.map(|s| i64::try_from(s.elapsed().as_millis()).unwrap_or(i64::MAX)),
    }
}

fn exceeded(sentence: String) -> Stop {
    Fault::new(Code::BudgetExceeded, sentence).into()
}

/// The time of a turn, without the time in which it waited for a person.
struct Clock {
    earlier: Duration,
    since: Instant,
    waited: Duration,
}

impl Clock {
    /// A turn that had used so much before.
    fn after(earlier: Duration) -> Self {
        Self {
            earlier,
            since: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    fn spent(&self) -> Duration {
        self.earlier + self.since.elapsed().saturating_sub(self.waited)
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
