//! The one error that crosses a boundary: a code from the list and a sentence a person can act on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Code;

/// What went wrong, in a form that every door can render.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    /// The code, from the one list.
    pub code: Code,
    /// What happened and what to do next.
    pub message: String,
    /// Further facts for a program (`reason`, `missing`, …).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
}

impl Fault {
    /// A fault with its sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: Map::new(),
        }
    }

    /// Bad input, with the sentence that says what is wrong with it.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }

    /// Something of ours broke. The caller logs the cause; the sentence does not carry it.
    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            "Something inside Threadline broke. The log of the server says what; the request can be tried again.",
        )
    }

    /// Adds a fact for programs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }
}

impl From<crate::BadId> for Fault {
    fn from(e: crate::BadId) -> Self {
        Self::invalid(format!("{e}."))
    }
}
impl From<crate::scope::BadScope> for Fault {
    fn from(e: crate::scope::BadScope) -> Self {
        Self::invalid(format!("{e}."))
    }
}
