//! Tools that come with a turn: what they are, calls of them, and what came of each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that the agent of a turn may call beside its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Its name, as the agent calls it.
    pub name: String,
    /// What it does, for the agent.
    pub description: String,
    /// The JSON schema of its input: an object.
    pub input_schema: Value,
}

/// A call of a tool that came with the turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id: the runtime's, unique in the run, the same over restarts.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its input: an object.
    pub arguments: Value,
}

/// What came of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// What the agent reads.
    pub text: String,
    /// It could not be done, and the text says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// A result.
    pub fn done(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: false,
        }
    }

    /// Why it could not be done, as a sentence for the agent.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
        }
    }
}
