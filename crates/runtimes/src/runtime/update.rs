//! What a run did, and how it ended.

use serde::{Deserialize, Serialize};
use threadline_contract::{
    Code, QuestionId, QuestionKind, QuestionOption, Step, ToolCall, ToolKind, Usage,
};

/// One thing a run did, numbered from 1 without gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Its number within the run.
    pub no: i64,
    /// What happened.
    pub update: Update,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// Text to append.
    Text(String),
    /// Only so many characters of the text so far stand: a message was cut off in its middle, and is
    /// said anew.
    Reset {
        /// How many, in Unicode code points over all texts of the run.
        keep: u64,
    },
    /// A step began, went on or ended.
    Step(Step),
    /// It waits for a person.
    Asked(Ask),
    /// A question ended on the runtime's side.
    Unasked(QuestionId),
    /// It called a tool that came with the turn, and waits for the result.
    ToolCall(ToolCall),
    /// Something a person should read.
    Note(String),
    /// What it used so far, in all.
    Usage(Usage),
}

/// A question as the runtime asks it. The id is the runtime's and survives restarts; asking it again
/// changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Its id.
    pub id: QuestionId,
    /// Question or permission.
    pub kind: QuestionKind,
    /// What is asked.
    pub text: String,
    /// What can be chosen.
    pub options: Vec<QuestionOption>,
    /// Whether own words are taken.
    pub free_text: bool,
    /// For permissions: what the runtime wants to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolKind>,
}

/// Stands in a message before what an agent wrote to its standard error, which is for the operator.
pub const LAST_WORDS: &str = "Its last words:";

/// How a run ended, in its registry's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The end.
    pub status: EndStatus,
    /// Why it did not complete.
    pub code: Option<Code>,
    /// The same, as a sentence.
    pub message: Option<String>,
    /// The final text.
    pub text: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Files that the runtime itself names as written in this turn: evidence for collecting.
    pub wrote: Vec<String>,
}

/// The three ends that a registry knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// Stopped.
    Cancelled,
}

impl End {
    /// A failure that the registry (or its absence) tells.
    pub fn failed(code: Code, message: impl Into<String>) -> Self {
        Self {
            status: EndStatus::Failed,
            code: Some(code),
            message: Some(message.into()),
            text: None,
            usage: None,
            wrote: vec![],
        }
    }
}
