//! What runtimes share whose runs each have one append-only journal, and that journal as their registry.
//!
//! A line is one fact that is there as a whole or not at all. What the lines add up to is the run's
//! [`Past`]; who works on a run decides by it, and after a kill whoever comes next decides the same.

mod follow;
mod record;
mod runs;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use threadline_contract::{Code, Fault, Millis};

pub(crate) use self::{
    record::{Record, read},
    runs::{Runs, Want, Work},
};
use crate::{End, Places, Signal, TurnPlan};

/// A run that was taken on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) plan: TurnPlan,
    pub(crate) places: Places,
    pub(crate) at: Millis,
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
    /// What was taken on.
    fn begun(&self) -> Option<&Begun>;
    /// Whether somebody asked the run to stop.
    fn cancel_asked(&self) -> bool;
    /// How it ended.
    fn ended(&self) -> Option<&End>;
}

pub(crate) fn no_record() -> Fault {
    Fault::new(Code::RunLost, "There is no record of this run.")
}
