//! What a gateway asks people while a run goes on: its agent's questions, and leave to run a command.
//! Pure: records in, questions out; and what an answer comes to.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use threadline_contract::{QuestionId, QuestionKind, QuestionOption, ToolKind};

use crate::Ask;

/// A prompt of the agent: up to three questions, which are answered together.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt {
    id: String,
    #[serde(default)]
    questions: Vec<One>,
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    status: String,
}

/// One question of a prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct One {
    question_id: String,
    #[serde(default)]
    question: String,
    #[serde(default)]
    options: Vec<Choice>,
    #[serde(default)]
    multi_select: bool,
    #[serde(default)]
    is_secret: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct Choice {
    label: String,
    #[serde(default)]
    description: Option<String>,
}

/// A command that wants leave.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Approval {
    id: String,
    request: Command,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Command {
    #[serde(default)]
    command: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    warning_text: Option<String>,
    #[serde(default)]
    allowed_decisions: Vec<String>,
    #[serde(default)]
    run_id: Option<String>,
}

/// What a question's id names at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// A question of a prompt.
    Part { prompt: &'a str, question: &'a str },
    /// A command that wants leave.
    Command(&'a str),
}

impl<'a> Named<'a> {
    /// Reads an id that [`Prompt::asks`] or [`Approval::ask`] made.
    pub(super) fn read(id: &'a QuestionId) -> Option<Self> {
        let id = id.as_str();
        if let Some(id) = id.strip_prefix(EXEC) {
            return Some(Self::Command(id));
        }
        // The question's own id has no colon.
        let (prompt, question) = id.strip_prefix(ASK)?.rsplit_once(':')?;
        Some(Self::Part { prompt, question })
    }

    /// The prompt or command, by the gateway's id.
    pub(super) fn whole(self) -> &'a str {
        match self {
            Self::Part { prompt, .. } => prompt,
            Self::Command(id) => id,
        }
    }
}

const ASK: &str = "openclaw-ask:";
const EXEC: &str = "openclaw-exec:";

/// The decisions that a gateway takes: its word, ours, and the kind of option.
const DECISIONS: [(&str, &str, &str); 3] = [
    ("allow-once", "Allow once", "allow_once"),
    ("allow-always", "Allow always", "allow_always"),
    ("deny", "Deny", "reject_once"),
];

impl Prompt {
    /// Whether it waits for answers about this run.
    pub(super) fn is_open(&self, run: &str) -> bool {
        self.run_id.as_deref() == Some(run) && self.waits()
    }

    /// Whether it waits for answers.
    pub(super) fn waits(&self) -> bool {
        self.status == "pending"
    }

    /// Whether it wants a secret. Those are given to the gateway alone.
    pub(super) fn is_secret(&self) -> bool {
        self.questions.iter().any(|one| one.is_secret)
    }

    /// Its questions, one by one.
    pub(super) fn asks(&self) -> Vec<Ask> {
        let ask = |one: &One| {
            let id = QuestionId::new(format!("{ASK}{}:{}", self.id, one.question_id)).ok()?;
            let mut text = one.question.clone();
            if one.multi_select {
                text.push_str(" (More than one can be chosen: write them, with commas between.)");
            }
            for choice in &one.options {
                if let Some(more) = choice.description.as_deref().filter(|d| !d.is_empty()) {
                    text.push_str(&format!("\n- {}: {more}", choice.label));
                }
            }
            let option = |choice: &Choice| QuestionOption {
                option_id: choice.label.clone(),
                label: choice.label.clone(),
                kind: None,
            };
            Some(Ask {
                id,
                kind: QuestionKind::Question,
                text,
                options: one.options.iter().map(option).collect(),
                // The gateway always takes own words.
                free_text: true,
                tool: None,
            })
        };
        self.questions.iter().filter_map(ask).collect()
    }

    /// How an answer is given to the gateway: one value, or several where several may be chosen.
    pub(super) fn values(&self, question: &str, answer: &str) -> Vec<String> {
        let Some(one) = self.questions.iter().find(|o| o.question_id == question) else {
            return vec![answer.to_owned()];
        };
        let parts: Vec<&str> = answer.split(',').map(str::trim).collect();
        let offered = |part: &&str| one.options.iter().any(|choice| choice.label == *part);
        match one.multi_select && parts.iter().all(offered) {
            true => parts.into_iter().map(str::to_owned).collect(),
            false => vec![answer.to_owned()],
        }
    }

    /// Whether these answer all of it.
    pub(super) fn is_answered(&self, given: &Given) -> bool {
        self.questions
            .iter()
            .all(|one| given.contains_key(&one.question_id))
    }
}

/// Answers to a prompt's questions, by their ids.
pub(super) type Given = std::collections::BTreeMap<String, Vec<String>>;

impl Approval {
    /// Whether it is about this run.
    pub(super) fn is_of(&self, run: &str) -> bool {
        self.request.run_id.as_deref() == Some(run)
    }

    /// The permission that it wants.
    pub(super) fn ask(&self) -> Option<Ask> {
        let request = &self.request;
        let mut text = format!("Allow this command? {}", request.command);
        if let Some(folder) = &request.cwd {
            text.push_str(&format!("\n\nIn {folder}"));
        }
        if let Some(warning) = request.warning_text.as_deref().filter(|w| !w.is_empty()) {
            text.push_str(&format!("\n\n{warning}"));
        }
        let offered = |decision: &str| request.allowed_decisions.iter().any(|d| d == decision);
        let options = DECISIONS
            .iter()
            .filter(|(decision, ..)| offered(decision))
            .map(|(decision, label, kind)| QuestionOption {
                option_id: (*decision).to_owned(),
                label: (*label).to_owned(),
                kind: Some((*kind).to_owned()),
            });
        Some(Ask {
            id: QuestionId::new(format!("{EXEC}{}", self.id)).ok()?,
            kind: QuestionKind::Permission,
            text,
            options: options.collect(),
            free_text: false,
            tool: Some(ToolKind::Execute),
        })
    }
}

/// The gateway's word for an answer to a permission. What was declined, or is nothing of that, is no.
pub(super) fn decision(answer: Option<&str>) -> &'static str {
    let said = |(decision, label, _): &&(&str, &str, &str)| {
        answer.is_some_and(|answer| answer == *label || answer == *decision)
    };
    DECISIONS.iter().find(said).map_or("deny", |found| found.0)
}

/// How a prompt is resolved.
#[derive(Serialize)]
pub(super) struct Resolve<'a> {
    id: &'a str,
    #[serde(flatten)]
    how: Value,
    #[serde(rename = "resolvedBy")]
    by: &'static str,
}

impl<'a> Resolve<'a> {
    /// With answers; without them, nobody answers.
    pub(super) fn new(id: &'a str, given: Option<&Given>) -> Self {
        let how = match given {
            Some(given) => json!({"answers": {"answers": given}}),
            None => json!({"cancel": true}),
        };
        Self {
            id,
            how,
            by: "threadline",
        }
    }
}

#[cfg(test)]
#[path = "asks_tests.rs"]
mod tests;
