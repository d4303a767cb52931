//! What runtimes share whose runs each have one append-only journal, and that journal as their registry.
//!
//! A line is one fact that is there as a whole or not at all. What the lines add up to is the run's
//! [`Past`]; who works on a run decides by it, and after a kill whoever comes next decides the same.

mod follow;
mod record;
#[cfg(test)]
pub(crate) mod replay;
mod runs;
mod runtime;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use threadline_contract::{Code, Fault, Millis, QuestionId, ToolResult};

pub(crate) use self::{
    record::{Record, read},
    runs::{Runs, Want, Work},
    runtime::JournaledRuntime,
};
use crate::{End, Places, Signal, TurnPlan, takes_no_tools};

/// A run that was taken on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) plan: TurnPlan,
    pub(crate) places: Places,
    pub(crate) at: Millis,
}

/// How a run stands, whoever works on it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RunRecord {
    /// What was taken on.
    pub(crate) begun: Option<Begun>,
    /// The number of its last frame.
    pub(crate) frames: i64,
    /// Somebody asked it to stop.
    pub(crate) cancel_asked: bool,
    /// How it ended.
    pub(crate) ended: Option<End>,
}

/// Everything that a run's journal adds up to.
pub(crate) trait Past: Default + Send + 'static {
    /// One line of the journal.
    type Line: Serialize + DeserializeOwned + Send + 'static;
    /// Whether a run waits for room when its journal cannot be written; else whoever works on it sees to that.
    const WAITS_FOR_ROOM: bool;

    /// The line that takes a run on.
    fn begin(begun: Begun) -> Self::Line;
    /// The line by which somebody asks the run to stop.
    fn stop() -> Self::Line;
    /// What a line says to whoever follows the run.
    fn signals(line: Self::Line) -> Vec<Signal>;

    /// Takes in the next line.
    fn apply(&mut self, line: Self::Line);
    /// Frames up to this one were told, also those that a power cut then took from the journal.
    fn told_until(&mut self, frame: i64);
    /// How the run stands.
    fn run(&self) -> &RunRecord;
    /// The line that an answer adds; none when it is the answer that is there already.
    fn take_answer(
        &self,
        question: QuestionId,
        answer: Option<String>,
    ) -> Result<Option<Self::Line>, Fault>;
    /// The line that the result of a tool call adds; none when it is the result that is there already.
    fn take_tool_result(
        &self,
        _call: String,
        _result: ToolResult,
    ) -> Result<Option<Self::Line>, Fault> {
        Err(takes_no_tools())
    }
}

pub(crate) fn no_record() -> Fault {
    Fault::new(Code::RunLost, "There is no record of this run.")
}
