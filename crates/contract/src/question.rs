//! Questions and permissions: durable objects that wait for a person and end in exactly one way.

use serde::{Deserialize, Serialize};

use crate::{AppThreadKey, Millis, QuestionId, RunId, ToolKind, Who};

/// What kind of answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The agent wants to know something.
    Question,
    /// The agent wants to be allowed something.
    Permission,
}

/// How a question stands. Only `open` is not an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    /// It waits.
    Open,
    /// A person answered, or the thread's policy did (`closedBy` begins with `policy:` then).
    Answered,
    /// A person said no to answering.
    Declined,
    /// Its time ran out (only where a limit was configured).
    Expired,
    /// The run that asked ended first.
    Withdrawn,
}

/// One thing to choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    /// What to answer with.
    pub option_id: String,
    /// What it says.
    pub label: String,
    /// For permissions: `allow_once`, `allow_always`, `reject_once`, `reject_always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Its id, kept over restarts.
    pub question_id: QuestionId,
    /// The thread that it belongs to.
    pub thread_id: AppThreadKey,
    /// The run that asked.
    pub run_id: RunId,
    /// What kind of answer is wanted.
    pub kind: QuestionKind,
    /// What is asked.
    pub text: String,
    /// What can be chosen; empty when only text answers.
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    /// Whether an answer in own words is taken.
    #[serde(default)]
    pub free_text: bool,
    /// For permissions: what the agent wants to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolKind>,
    /// How it stands.
    pub state: QuestionState,
    /// When it was asked.
    pub asked_at: Millis,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Millis>,
    /// What was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Who answered (a token's label, or `policy:` and the rule), or why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<String>,
    /// Whose doing that was; absent where it was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by_principal: Option<Who>,
}

/// An answer: one of the options, or own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The option chosen.
    OptionId(String),
    /// In own words.
    Text(String),
}

impl Question {
    /// The rule of the thread's policy that answered it, when a person did not.
    pub fn policy_rule(&self) -> Option<&str> {
        self.closed_by.as_deref()?.strip_prefix("policy:")
    }

    /// What the run that asked is told: the answer; the option that says no, when its time ran out; or nothing,
    /// when none of the options was chosen.
    pub fn told(&self) -> Option<&str> {
        let of_kind = |kind: &str| {
            let mut options = self.options.iter();
            options.find(|option| option.kind.as_deref() == Some(kind))
        };
        let no = of_kind("reject_once").or_else(|| of_kind("reject_always"));
        match self.state {
            QuestionState::Expired => no.map(|option| option.label.as_str()),
            _ => self.answer_text(),
        }
    }

    /// The answer as a person reads it.
    pub fn answer_text(&self) -> Option<&str> {
        match self.answer.as_ref()? {
            Answer::Text(text) => Some(text),
            Answer::OptionId(id) => Some(
                self.options
                    .iter()
                    .find(|o| o.option_id == *id)
                    .map_or(id.as_str(), |o| o.label.as_str()),
            ),
        }
    }
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
