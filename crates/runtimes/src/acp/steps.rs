//! Tool calls and plans as steps that a person reads, and as evidence of what was written.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use threadline_contract::{Step, StepState};

use super::wire::{at, each, text};
use crate::Update;

/// Characters of what a tool said that are kept for a person.
const DETAIL: usize = 2_000;
/// Lines of a difference that are shown.
const LINES: usize = 40;
/// Why a tool call that a person said no to failed.
const NOT_ALLOWED: &str = "It was not allowed.";
/// The step that a plan is.
pub(super) const PLAN: &str = "plan";

/// A tool call, as far as it is known: agents tell about it in any order and leave things out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tool {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) kind: Option<String>,
    pub(super) state: StepState,
    /// The agent said that it has not begun yet.
    #[serde(default)]
    pub(super) is_pending: bool,
    pub(super) detail: Option<String>,
    /// Files that it names as written.
    pub(super) wrote: BTreeSet<String>,
    /// When it was first heard of.
    pub(super) began: i64,
    pub(super) took: Option<i64>,
}

impl Tool {
    /// What an update makes of a tool call. Absent fields mean that nothing changed.
    pub(super) fn after(
        before: Option<&Self>,
        update: &Value,
        folders: &Folders,
        now: i64,
    ) -> Option<Self> {
        let id = text(update, &["toolCallId"])?;
        let mut tool = before.cloned().unwrap_or_else(|| Self {
            id: id.to_owned(),
            title: String::new(),
            kind: None,
            state: StepState::Running,
            is_pending: false,
            detail: None,
            wrote: BTreeSet::new(),
            began: now,
            took: None,
        });
        if let Some(title) = text(update, &["title"]).filter(|t| !t.trim().is_empty()) {
            tool.title = title.trim().to_owned();
        }
        if let Some(kind) = text(update, &["kind"]) {
            tool.kind = Some(kind.to_owned());
        }
        if tool.title.is_empty() {
            tool.title = tool.kind.clone().unwrap_or_else(|| "tool".into());
        }
        tool.state = match text(update, &["status"]) {
            Some("completed") => StepState::Done,
            Some("failed") => StepState::Failed,
            // An end is not taken back by an agent that tells about the beginning again.
            _ => tool.state,
        };
        if let Some(status) = text(update, &["status"]) {
            tool.is_pending = status == "pending";
        }
        if tool.state != StepState::Running && tool.took.is_none() {
            tool.took = Some((now - tool.began).max(0));
        }
        tool.read(update, folders);
        Some(tool)
    }

    fn read(&mut self, update: &Value, folders: &Folders) {
        let mut diffs = Vec::new();
        let mut said = String::new();
        for content in each(update, "content") {
            match text(content, &["type"]) {
                Some("diff") => {
                    if let Some(path) = text(content, &["path"]) {
                        self.wrote.extend(relative(path, folders));
                        diffs.push(difference(path, content));
                    }
                }
                _ => said.push_str(text(content, &["content", "text"]).unwrap_or_default()),
            }
        }
        let writes = matches!(self.kind.as_deref(), Some("edit" | "move"));
        if writes {
            let named = each(update, "locations").filter_map(|place| text(place, &["path"]));
            self.wrote
                .extend(named.filter_map(|path| relative(path, folders)));
        }
        if !diffs.is_empty() {
            self.detail = Some(diffs.join("\n"));
        } else if !said.trim().is_empty()
            && (self.detail.is_none() || self.state == StepState::Failed)
        {
            self.detail = Some(shortened(said.trim()));
        }
    }

    /// What it failed of, where a person did not allow it: agents tell in place of that what they would
    /// have done.
    pub(super) fn answered(mut self, declined: &BTreeSet<String>) -> Self {
        if self.state == StepState::Failed && declined.contains(&self.id) {
            self.detail = Some(NOT_ALLOWED.to_owned());
        }
        self
    }

    pub(super) fn step(&self) -> Update {
        Update::Step(Step {
            step_id: self.id.clone(),
            title: self.title.clone(),
            tool: self.kind.clone(),
            state: self.state,
            detail: self.detail.clone(),
            duration_ms: self.took,
        })
    }
}

/// A plan as one step: what is to be done, and what is.
pub(super) fn plan(update: &Value) -> Update {
    let entries: Vec<&Value> = each(update, "entries").collect();
    let is_done = |entry: &&Value| text(entry, &["status"]) == Some("completed");
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| {
            let sign = match text(entry, &["status"]) {
                Some("completed") => "[x]",
                Some("in_progress") => "[>]",
                _ => "[ ]",
            };
            format!("{sign} {}", text(entry, &["content"]).unwrap_or_default())
        })
        .collect();
    let done = entries.iter().filter(|entry| is_done(entry)).count();
    Update::Step(Step {
        step_id: PLAN.into(),
        title: format!("Plan: {done} of {} done", entries.len()),
        tool: Some(PLAN.into()),
        state: match done == entries.len() {
            true => StepState::Done,
            false => StepState::Running,
        },
        detail: Some(lines.join("\n")),
        duration_ms: None,
    })
}

/// The paths by which an agent may name where it works and what leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Folders {
    pub(super) work: Vec<PathBuf>,
    pub(super) scope: Vec<PathBuf>,
}

/// A path as it counts for collecting: relative where it lies in the work folder; nothing where it
/// lies in the run's scope, from which everything leaves anyway.
pub(super) fn relative(path: &str, folders: &Folders) -> Option<String> {
    let given = Path::new(path);
    if folders.scope.iter().any(|scope| given.starts_with(scope)) {
        return None;
    }
    let mut work = folders.work.iter();
    let inside = work.find_map(|folder| given.strip_prefix(folder).ok());
    let kept = inside.unwrap_or(given).to_str()?;
    (!kept.is_empty()).then(|| kept.to_owned())
}

/// What changed, without the lines before and after that are the same.
fn difference(path: &str, diff: &Value) -> String {
    let lines = |name| -> Vec<&str> { at(diff, &[name]).as_str().unwrap_or("").lines().collect() };
    let (old, new) = (lines("oldText"), lines("newText"));
    let same = |a: &[&str], b: &[&str]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let head = same(&old, &new);
    let (old, new) = (&old[head..], &new[head..]);
    let back = old.iter().rev().zip(new.iter().rev());
    let tail = back.take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let mut out = format!("{path} (+{} -{})", new.len(), old.len());
    let removed = old.iter().map(|line| format!("\n-{line}"));
    let added = new.iter().map(|line| format!("\n+{line}"));
    out.extend(removed.chain(added).take(LINES));
    let all = old.len() + new.len();
    if all > LINES {
        out.push_str(&format!("\n(and {} more lines)", all - LINES));
    }
    shortened(&out)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(DETAIL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
