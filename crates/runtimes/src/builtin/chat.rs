//! The chat-completions protocol: what is sent, and how an answer is put together from its pieces.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use threadline_contract::Usage;

/// Bytes that one answer may have. More is a model gone wild.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// The body of a request.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) messages: &'a [Message],
    pub(super) tools: &'a Value,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
}

/// Asks that the last piece says what the answer used.
#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

impl Message {
    /// How many bytes of text it carries, about.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::System { content } | Self::User { content } | Self::Tool { content, .. } => {
                content.len()
            }
            Self::Assistant {
                content,
                tool_calls,
            } => {
                let calls = tool_calls.iter().map(|c| c.function.arguments.len());
                content.as_ref().map_or(0, String::len) + calls.sum::<usize>()
            }
        }
    }
}

/// A tool call as it is given back to the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ToolCall {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A piece of an answer, or a whole one from an endpoint that does not stream.
#[derive(Debug, Deserialize)]
pub(super) struct Piece {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Used>,
    /// Some endpoints fail in the middle of a stream.
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default, alias = "message")]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<usize>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Used {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    cost: Option<f64>,
}

/// An answer under way.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) calls: Vec<Wanted>,
    pub(super) usage: Option<Usage>,
    /// Why the model stopped; `None` while it has not.
    pub(super) finish: Option<String>,
    /// Where the call with an index of the stream stands in `calls`.
    places: HashMap<usize, usize>,
    bytes: usize,
}

/// A tool call that the model wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
}

/// The answer is longer than any that makes sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Answer {
    /// Takes the next piece in and gives the text that it adds.
    pub(super) fn add(&mut self, piece: Piece) -> Result<String, TooLong> {
        if let Some(used) = piece.usage {
            // Some endpoints count up in every piece: the last word stands.
            self.usage = Some(Usage {
                input_tokens: used.prompt_tokens,
                output_tokens: used.completion_tokens,
                cost_usd: used.cost,
            });
        }
        let mut text = String::new();
        // Only one choice was asked for.
        if let Some(choice) = piece.choices.into_iter().next() {
            if let Some(reason) = choice.finish_reason.filter(|r| !r.is_empty()) {
                self.finish = Some(reason);
            }
            if let Some(delta) = choice.delta {
                text = delta.content.as_ref().map(text_of).unwrap_or_default();
                for call in delta.tool_calls.unwrap_or_default() {
                    self.add_call(call);
                }
            }
        }
        self.bytes += text.len();
        if self.bytes > LONGEST {
            return Err(TooLong);
        }
        self.text.push_str(&text);
        Ok(text)
    }

    fn add_call(&mut self, delta: CallDelta) {
        let id = delta.id.unwrap_or_default();
        let place = match delta.index {
            // Some endpoints give every call of a message the same index.
            Some(index) => self.places.get(&index).copied().filter(|place| {
                let call = self.calls.get(*place);
                call.is_some_and(|c| id.is_empty() || c.id.is_empty() || c.id == id)
            }),
            // Others give none: a new id is a new call, and no id goes on with the last one.
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|c| c.id == id),
        };
        let place = place.unwrap_or_else(|| {
            self.calls.push(Wanted::default());
            self.calls.len() - 1
        });
        if let Some(index) = delta.index {
            self.places.insert(index, place);
        }
        let function = delta.function.unwrap_or(FunctionDelta {
            name: None,
            arguments: None,
        });
        let (name, arguments) = (function.name, function.arguments.unwrap_or_default());
        self.bytes += arguments.len();
        if let Some(call) = self.calls.get_mut(place) {
            if call.id.is_empty() {
                call.id = id;
            }
            // Sent once by most, with every piece by some.
            if call.tool.is_empty() {
                call.tool = name.unwrap_or_default();
            }
            call.arguments.push_str(&arguments);
        }
    }
}

/// Content is a text, or parts of which some are text.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
