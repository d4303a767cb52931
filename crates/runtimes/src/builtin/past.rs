//! What a run's journal says: the lines, and the state that they add up to.
//!
//! A line is one fact that is there as a whole or not at all. What a person sees and what the run
//! must remember about it therefore stand in the same line, so that a kill between two lines never
//! leaves a thing shown but forgotten, or done but not shown.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use threadline_contract::{Code, Fault, QuestionId, StepState, ToolResult, Usage};

pub(super) use crate::journaled::Begun;
use crate::{
    End, Frame, Signal, Update,
    journaled::{self, RunRecord},
};

/// One line of a run's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The run was taken on.
    Begun(Box<Begun>),
    /// Something a person sees, with what the run must remember of it.
    Frame {
        frame: Frame,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fact: Option<Fact>,
    },
    /// Something the run must remember.
    Fact(Fact),
    /// A person answered, or declined to.
    Answered {
        question: QuestionId,
        answer: Option<String>,
    },
    /// A tool that came with the turn was executed.
    ToolResult { call: String, result: ToolResult },
    /// Somebody asked the run to stop.
    CancelAsked,
    /// The run ended.
    Ended(End),
}

/// What a run must remember to go on after a kill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fact {
    /// The demonstration played this scene, which may have left a file.
    Scene { no: u32, wrote: Option<String> },
    /// The model finished a message.
    Said(Said),
    /// A question of this tool call waits.
    Asked { step: String },
    /// A tool call has its result.
    Ran(Ran),
}

/// A whole message of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Option<Usage>,
    /// How much of the turn's time was used by then.
    pub(super) spent_ms: u64,
    /// Why it breaks off, if the endpoint said that it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cut_off: Option<String>,
}

/// A tool call that the model wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Our name for it, unique in the run.
    pub(super) step: String,
    /// The model's name for it, as it must be given back.
    pub(super) id: String,
    pub(super) tool: String,
    /// The arguments as the model wrote them, which may not be JSON.
    pub(super) arguments: String,
}

/// What came of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(super) step: String,
    pub(super) result: String,
    /// The file that it wrote, or may have written.
    pub(super) wrote: Option<String>,
}

/// A question and what was answered. `None` in the answer means declined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(super) step: Option<String>,
    pub(super) answer: Option<Option<String>>,
}

/// Everything a journal adds up to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Past {
    pub(super) run: RunRecord,
    /// The scenes that were played.
    pub(super) scenes: u32,
    /// The model's whole messages, in order.
    pub(super) said: Vec<Said>,
    /// Tool calls that began, by step.
    pub(super) started: BTreeSet<String>,
    /// Calls of tools that came with the turn, by step.
    pub(super) called: BTreeSet<String>,
    /// What came of them.
    pub(super) results: BTreeMap<String, ToolResult>,
    /// Tool calls that have their result, by step.
    pub(super) ran: BTreeMap<String, Ran>,
    pub(super) asked: BTreeMap<QuestionId, Asked>,
    /// Files that the run wrote, each once, in order.
    pub(super) wrote: Vec<String>,
    pub(super) usage: Option<Usage>,
    /// How many characters of text were shown.
    pub(super) shown: u64,
    /// How many of them belong to whole messages.
    pub(super) whole: u64,
}

impl Past {
    fn show(&mut self, update: &Update, fact: Option<&Fact>) {
        match update {
            Update::Text(text) => self.shown += text.chars().count() as u64,
            Update::Reset { keep } => self.shown = *keep,
            Update::Step(step) if step.state == StepState::Running => {
                self.started.insert(step.step_id.clone());
            }
            Update::ToolCall(call) => _ = self.called.insert(call.id.clone()),
            Update::Asked(ask) => {
                let step = match fact {
                    Some(Fact::Asked { step }) => Some(step.clone()),
                    _ => None,
                };
                let asked = Asked { step, answer: None };
                self.asked.insert(ask.id.clone(), asked);
            }
            _ => {}
        }
    }

    fn learn(&mut self, fact: Fact) {
        match fact {
            Fact::Scene { no, wrote } => {
                self.scenes = no + 1;
                self.wrote(wrote);
            }
            Fact::Said(said) => {
                self.usage = sum(self.usage, said.usage);
                self.said.push(said);
                self.whole = self.shown;
            }
            Fact::Asked { .. } => {}
            Fact::Ran(ran) => {
                self.wrote(ran.wrote.clone());
                self.ran.insert(ran.step.clone(), ran);
            }
        }
    }

    fn wrote(&mut self, path: Option<String>) {
        if let Some(path) = path
            && !self.wrote.contains(&path)
        {
            self.wrote.push(path);
        }
    }

    /// Everything the model said in whole messages. Half a message that a cut or a kill left in the
    /// log is not part of it.
    pub(super) fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.said.iter().map(|s| s.text.trim()).collect();
        let texts: Vec<&str> = texts.into_iter().filter(|t| !t.is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// The question that a tool call waits for.
    pub(super) fn question_of(&self, step: &str) -> Option<QuestionId> {
        let of_step = |asked: &Asked| asked.step.as_deref() == Some(step);
        let found = self.asked.iter().find(|(_, asked)| of_step(asked));
        found.map(|(id, _)| id.clone())
    }
}

impl journaled::Past for Past {
    type Line = Entry;
    const WAITS_FOR_ROOM: bool = true;

    fn begin(begun: Begun) -> Entry {
        Entry::Begun(Box::new(begun))
    }

    fn stop() -> Entry {
        Entry::CancelAsked
    }

    fn signals(line: Entry) -> Vec<Signal> {
        match line {
            Entry::Frame { frame, .. } => vec![Signal::Frame(frame)],
            Entry::Ended(end) => vec![Signal::End(end)],
            _ => vec![],
        }
    }

    fn apply(&mut self, line: Entry) {
        match line {
            Entry::Begun(begun) => self.run.begun = Some(*begun),
            Entry::Frame { frame, fact } => {
                self.run.frames = frame.no;
                self.show(&frame.update, fact.as_ref());
                if let Some(fact) = fact {
                    self.learn(fact);
                }
            }
            Entry::Fact(fact) => self.learn(fact),
            Entry::Answered { question, answer } => {
                if let Some(asked) = self.asked.get_mut(&question) {
                    asked.answer = Some(answer);
                }
            }
            Entry::ToolResult { call, result } => _ = self.results.insert(call, result),
            Entry::CancelAsked => self.run.cancel_asked = true,
            Entry::Ended(end) => self.run.ended = Some(end),
        }
    }

    /// Where the journal has fewer frames than were told, their numbers are not given again, and whatever text they had was half a message: whole ones are always on the disk.
    fn told_until(&mut self, frame: i64) {
        if frame > self.run.frames {
            self.run.frames = frame;
            self.shown = self.shown.max(self.whole + 1);
        }
    }

    fn run(&self) -> &RunRecord {
        &self.run
    }

    /// A run that ended has withdrawn what it had asked.
    fn take_answer(
        &self,
        question: QuestionId,
        answer: Option<String>,
    ) -> Result<Option<Entry>, Fault> {
        let asked = self.asked.get(&question).ok_or_else(|| {
            Fault::new(
                Code::QuestionNotFound,
                "The run has not asked this question.",
            )
        })?;
        match &asked.answer {
            None if self.run.ended.is_none() => Ok(Some(Entry::Answered { question, answer })),
            Some(given) if *given == answer => Ok(None),
            _ => Err(Fault::new(
                Code::QuestionAlreadyClosed,
                "The question was answered or withdrawn already.",
            )),
        }
    }

    /// A run that ended waits for nothing.
    fn take_tool_result(&self, call: String, result: ToolResult) -> Result<Option<Entry>, Fault> {
        let closed = || {
            let sentence = "The run does not wait for the result of this tool call.";
            Fault::new(Code::Conflict, sentence)
        };
        match self.results.get(&call) {
            Some(given) if *given == result => Ok(None),
            None if self.called.contains(&call) && self.run.ended.is_none() => {
                Ok(Some(Entry::ToolResult { call, result }))
            }
            _ => Err(closed()),
        }
    }
}

/// Adds up what was reported. What nobody reported stays unknown.
fn sum(a: Option<Usage>, b: Option<Usage>) -> Option<Usage> {
    let (Some(x), Some(y)) = (a, b) else {
        return a.or(b);
    };
    let add = |x: Option<u64>, y: Option<u64>| match (x, y) {
        (Some(x), Some(y)) => Some(x.saturating_add(y)),
        (x, y) => x.or(y),
    };
    Some(Usage {
        input_tokens: add(x.input_tokens, y.input_tokens),
        output_tokens: add(x.output_tokens, y.output_tokens),
        cost_usd: match (x.cost_usd, y.cost_usd) {
            (Some(x), Some(y)) => Some(x + y),
            (x, y) => x.or(y),
        },
    })
}

#[cfg(test)]
#[path = "past_properties.rs"]
mod properties;
