//! What a run's journal says: the lines, and the state that they add up to.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use threadline_contract::{
    Code, Fault, QuestionId, QuestionOption, Sha256, StepState, Usage, round_usd,
};

use super::{
    steps::{Folders, Tool},
    wire::AgentFacts,
};
use crate::{
    End, Frame, Signal, Update,
    journaled::{self, Begun, RunRecord},
};

/// One line of a run's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The run was taken on.
    Begun(Box<Begun>),
    /// The host that has it from now on.
    Bound(Box<Bound>),
    /// An entry of the host's journal was taken in.
    Heard(Box<Heard>),
    /// A person answered, or declined to.
    Answered {
        question: QuestionId,
        answer: Option<String>,
    },
    /// Somebody asked the run to stop.
    CancelAsked,
    /// The turn has used up its time.
    OutOfTime,
    /// The agent had lost the session before it did anything of this turn: its process is given up, and the turn
    /// begins anew in another.
    Restarted,
    /// The run ended.
    Ended(Box<End>),
}

/// The host that a run is bound to: this one and no other will ever have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bound {
    /// Which life of the session's host.
    pub(super) boot: String,
    /// The number of the first request of this run; those of other runs on this host are others.
    pub(super) base: u64,
    /// Where the agent works, and what leaves.
    pub(super) folders: Folders,
    /// What is known about the agent, when it runs already.
    pub(super) agent: Option<AgentFacts>,
    /// The session in it, when it has one already.
    pub(super) session: Option<String>,
    /// The session to go on with, when the agent was started anew.
    pub(super) resume: Option<String>,
    /// What the session had cost before.
    pub(super) cost: Option<f64>,
    /// The digest of the instructions that the session was given before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<Sha256>,
}

/// What came of one entry of the host's journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heard {
    /// The entry.
    pub(super) no: u64,
    /// When it was written, in milliseconds since 1970.
    pub(super) at: i64,
    /// What a person sees of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) frames: Vec<Frame>,
    /// What the run must remember of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) facts: Vec<Fact>,
    /// It ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<End>,
}

/// What a run must remember.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fact {
    /// The agent said who it is.
    Agent(AgentFacts),
    /// The agent's session is there.
    Session(String),
    /// A frame of ours is in the host's journal.
    Sent(String),
    /// The agent waits for an answer.
    Asked(Asked),
    /// It does not wait for it any more.
    Unasked(u64),
    /// How a tool call stands.
    Tool(Tool),
    /// The message that the text belongs to, where messages have names.
    Message(Option<String>),
    /// What the session has cost so far.
    Cost(f64),
    /// What it had cost before this turn, by an agent that was started anew.
    CostBefore(f64),
    /// The agent does not know the session any more, and has done nothing of this turn.
    SessionGone,
    /// The agent is of no use to the next turn, which needs another process.
    Broken,
    /// The agent said that its model failed.
    ModelFailed,
    /// It wrote something that could not be read; perhaps even its last word, where that is unclear.
    NotRead { is_unclear: bool },
}

/// A request of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// Its entry in the host's journal.
    pub(super) no: u64,
    /// Its id, as the agent wrote it.
    pub(super) id: String,
    pub(super) method: String,
    /// What a person is asked; nothing when we refuse it ourselves.
    pub(super) question: Option<Permission>,
    /// Whether it could be read.
    #[serde(default = "yes")]
    pub(super) is_read: bool,
}

fn yes() -> bool {
    true
}

/// A permission that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Permission {
    pub(super) id: QuestionId,
    /// The tool call that it is about.
    pub(super) tool: Option<String>,
    pub(super) options: Vec<QuestionOption>,
}

impl Permission {
    /// The option that an answer means: by its words, or its name. Who declines has chosen none.
    pub(super) fn chosen(&self, answer: Option<&str>) -> Option<&QuestionOption> {
        let answer = answer?;
        let by = |is_it: &dyn Fn(&&QuestionOption) -> bool| self.options.iter().find(is_it);
        by(&|o| o.label == answer).or_else(|| by(&|o| o.option_id == answer))
    }

    /// Whether an answer says no.
    fn is_no(&self, answer: Option<&str>) -> bool {
        let chosen = self.chosen(answer).and_then(|o| o.kind.as_deref());
        answer.is_none() || chosen.is_some_and(|kind| kind.starts_with("reject"))
    }
}

/// A request of the agent, and what was answered: `None` inside means declined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiting {
    pub(super) asked: Asked,
    pub(super) answer: Option<Option<String>>,
}

/// Everything a journal adds up to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Past {
    pub(super) run: RunRecord,
    pub(super) bound: Option<Bound>,
    /// The last entry of the host's journal that was taken in.
    pub(super) heard: u64,
    pub(super) agent: Option<AgentFacts>,
    pub(super) session: Option<String>,
    /// Frames of ours that are in the host's journal, by their names.
    pub(super) sent: BTreeSet<String>,
    /// When the agent was given the prompt.
    pub(super) prompted: Option<i64>,
    /// Requests of the agent, by their entries.
    pub(super) requests: BTreeMap<u64, Waiting>,
    pub(super) tools: BTreeMap<String, Tool>,
    /// Everything that was answered.
    pub(super) answered: BTreeMap<QuestionId, Option<String>>,
    /// A person said no.
    pub(super) has_declined: bool,
    /// Tool calls that a person said no to.
    pub(super) declined: BTreeSet<String>,
    /// Tool calls that need a permission which nobody gave, also when the question was taken back.
    pub(super) not_permitted: BTreeSet<String>,
    /// Everything it said.
    pub(super) text: String,
    pub(super) message: Option<String>,
    /// Something else came after the last text.
    pub(super) apart: bool,
    pub(super) cost: Option<f64>,
    /// What the session had cost before this turn, where the agent told it.
    pub(super) cost_before: Option<f64>,
    pub(super) model_failed: bool,
    /// The agent does not know the session any more: the turn is to begin anew.
    pub(super) session_gone: bool,
    /// It began anew already.
    pub(super) is_restarted: bool,
    /// The agent's process is of no use to the next turn.
    pub(super) is_broken: bool,
    /// Lines of the agent that could not be read.
    pub(super) not_read: u32,
    /// The last thing that it wrote was one of them, and may have been the end of the turn.
    pub(super) is_unclear: bool,
    /// How long questions were open, and since when one is.
    pub(super) paused: i64,
    pub(super) open_since: Option<i64>,
    /// A question was open when the stop was asked for, and nothing was said or begun since.
    pub(super) stopped_at_question: bool,
    pub(super) out_of_time: bool,
}

impl Past {
    /// Whether the turn is to be stopped.
    pub(super) fn stops(&self) -> bool {
        self.run.cancel_asked || self.out_of_time
    }

    /// Permissions that nobody has answered, and that the agent still waits for.
    pub(super) fn open(&self) -> impl Iterator<Item = &Waiting> {
        let waits = |w: &&Waiting| w.asked.question.is_some() && w.answer.is_none();
        self.requests.values().filter(waits)
    }

    /// Whether the agent waits for nobody and nobody knows that it works: with a last word that could not be
    /// read, nothing more may come.
    pub(super) fn may_be_over(&self) -> bool {
        let works = |tool: &Tool| tool.state == StepState::Running;
        self.is_unclear && self.requests.is_empty() && !self.tools.values().any(works)
    }

    /// How long the agent has worked by then, in milliseconds; while a question is open, its time
    /// stands still.
    pub(super) fn spent(&self, now: i64) -> i64 {
        let Some(since) = self.prompted else {
            return 0;
        };
        let open = self.open_since.map_or(0, |since| now - since);
        (now - since - self.paused - open).max(0)
    }

    /// Whether nothing came of the turn yet: no word, no step, no question.
    pub(super) fn is_untouched(&self) -> bool {
        self.text.is_empty() && self.tools.is_empty() && self.requests.is_empty()
    }

    /// What the run has cost.
    pub(super) fn cost(&self) -> Option<f64> {
        self.cost.and_then(|cost| self.since(cost))
    }

    /// What of a session's cost is this run's; nothing where it is not known. What an agent tells is the
    /// session's sum, which some begin anew with each process.
    pub(super) fn since(&self, cost: f64) -> Option<f64> {
        let known = self.bound.as_ref().and_then(|b| b.cost).unwrap_or_default();
        let before = match self.cost_before {
            Some(told) => told,
            // A sum does not shrink: it was begun anew.
            None if cost < known => 0.0,
            None => known,
        };
        // Agents that know no price tell zero, which is not what it cost.
        Some(round_usd(cost - before)).filter(|since| *since > 0.0)
    }

    /// Forgets everything of a host, and with it of the turn, of which nothing came there.
    fn leave_host(&mut self) {
        let kept = std::mem::take(self);
        *self = Self {
            run: kept.run,
            out_of_time: kept.out_of_time,
            is_restarted: true,
            ..Self::default()
        };
    }

    /// What it used, as far as it is known.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.cost().map(|cost| Usage {
            cost_usd: Some(cost),
            ..Usage::default()
        })
    }

    fn learn(&mut self, fact: Fact, at: i64) {
        match fact {
            Fact::Agent(agent) => self.agent = Some(agent),
            Fact::Session(session) => self.session = Some(session),
            Fact::Sent(key) => {
                if key.starts_with("prompt:") {
                    self.prompted = Some(at);
                }
                if let Some(no) = key.strip_prefix("reply:").and_then(|no| no.parse().ok()) {
                    self.requests.remove(&no);
                }
                self.sent.insert(key);
            }
            Fact::Asked(asked) => {
                let tool = asked.question.as_ref().and_then(|p| p.tool.clone());
                self.not_permitted.extend(tool);
                let waiting = Waiting {
                    asked,
                    answer: None,
                };
                self.requests.insert(waiting.asked.no, waiting);
            }
            Fact::Unasked(no) => _ = self.requests.remove(&no),
            Fact::Tool(tool) => {
                self.apart = true;
                self.stopped_at_question &= self.tools.contains_key(&tool.id);
                self.tools.insert(tool.id.clone(), tool);
            }
            Fact::Message(message) => self.message = message,
            Fact::Cost(cost) => self.cost = Some(cost),
            Fact::CostBefore(cost) => self.cost_before = Some(cost),
            Fact::SessionGone => self.session_gone = true,
            Fact::Broken => self.is_broken = true,
            Fact::ModelFailed => self.model_failed = true,
            Fact::NotRead { is_unclear } => {
                self.not_read += 1;
                self.is_unclear = is_unclear;
            }
        }
    }

    /// Time stands still from the first question to the last answer. An answer counts when it is
    /// given, which is noticed with whatever the agent does next.
    fn pause(&mut self, at: i64) {
        let is_open = self.open().next().is_some();
        match (self.open_since, is_open) {
            (None, true) => self.open_since = Some(at),
            (Some(since), false) => {
                self.paused += (at - since).max(0);
                self.open_since = None;
            }
            _ => {}
        }
    }
}

impl journaled::Past for Past {
    type Line = Line;
    const WAITS_FOR_ROOM: bool = false;

    fn begin(begun: Begun) -> Line {
        Line::Begun(Box::new(begun))
    }

    fn stop() -> Line {
        Line::CancelAsked
    }

    fn signals(line: Line) -> Vec<Signal> {
        match line {
            Line::Heard(heard) => {
                let frames = heard.frames.into_iter().map(Signal::Frame);
                frames.chain(heard.end.map(Signal::End)).collect()
            }
            Line::Ended(end) => vec![Signal::End(*end)],
            _ => vec![],
        }
    }

    fn apply(&mut self, line: Line) {
        match line {
            Line::Begun(begun) => self.run.begun = Some(*begun),
            Line::Bound(bound) => {
                self.agent = bound.agent.clone();
                self.session = bound.session.clone();
                self.bound = Some(*bound);
            }
            Line::Heard(heard) => {
                self.heard = heard.no;
                // It goes on.
                self.is_unclear &= heard.frames.is_empty();
                for frame in heard.frames {
                    self.run.frames = frame.no;
                    if let Update::Text(text) = frame.update {
                        self.text.push_str(&text);
                        self.apart = false;
                        self.stopped_at_question = false;
                    }
                }
                for fact in heard.facts {
                    self.learn(fact, heard.at);
                }
                self.pause(heard.at);
                self.run.ended = heard.end;
            }
            Line::Answered { question, answer } => {
                self.answered.insert(question.clone(), answer.clone());
                let mut waiting = self.requests.values_mut();
                let asked = |w: &&mut Waiting| {
                    let permission = w.asked.question.as_ref();
                    permission.is_some_and(|p| p.id == question)
                };
                let Some(waiting) = waiting.find(asked) else {
                    return;
                };
                if let Some(permission) = &waiting.asked.question {
                    if permission.is_no(answer.as_deref()) {
                        self.has_declined = true;
                        self.declined.extend(permission.tool.clone());
                    } else if let Some(tool) = &permission.tool {
                        self.not_permitted.remove(tool);
                        // Not every agent says that it begins then.
                        if let Some(tool) = self.tools.get_mut(tool) {
                            tool.is_pending = false;
                        }
                    }
                }
                waiting.answer = Some(answer);
            }
            Line::CancelAsked => {
                self.run.cancel_asked = true;
                let asks = self.open().next().is_some();
                self.stopped_at_question = asks;
            }
            Line::Restarted => self.leave_host(),
            Line::OutOfTime => self.out_of_time = true,
            Line::Ended(end) => self.run.ended = Some(*end),
        }
    }

    /// What the agent said lies with its host, which a power cut ends as well: the numbers are all
    /// that must not be given twice.
    fn told_until(&mut self, frame: i64) {
        self.run.frames = self.run.frames.max(frame);
    }

    fn run(&self) -> &RunRecord {
        &self.run
    }

    fn take_answer(
        &self,
        question: QuestionId,
        answer: Option<String>,
    ) -> Result<Option<Line>, Fault> {
        let closed = || {
            Fault::new(
                Code::QuestionAlreadyClosed,
                "The agent does not wait for this answer any more.",
            )
        };
        if self.answered.get(&question) == Some(&answer) {
            return Ok(None);
        }
        let mut open = self.open();
        let permission = open
            .find_map(|w| w.asked.question.as_ref().filter(|p| p.id == question))
            .filter(|_| self.run.ended.is_none() && !self.stops())
            .ok_or_else(closed)?;
        if answer.is_some() && permission.chosen(answer.as_deref()).is_none() {
            return Err(Fault::new(
                Code::QuestionOptionNotOffered,
                "The agent did not offer this.",
            ));
        }
        Ok(Some(Line::Answered { question, answer }))
    }
}
