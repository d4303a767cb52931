//! What was said before: the conversation as the model gets it.

use std::path::PathBuf;

use threadline_contract::Fault;
use threadline_files::{Error, JournalError, JournalReader, Reason, Root};
use tokio::task::spawn_blocking;

use super::{
    chat::{Function, Message, ToolCall},
    past::{Begun, Call, Entry, Past},
    prompt::own_words,
};
use crate::{journaled, local::storage_fault};

/// How much of earlier turns the model is told.
const MESSAGES: usize = 40;
const BYTES: usize = 200 * 1024;
/// Arguments that are longer are told shortened: the model wrote them itself, and the file is there.
const ARGUMENTS: usize = 16 * 1024;

/// The conversation of the session before a run, oldest first. Earlier turns that do not fit are
/// told without their tool calls; those that do not fit even so are left out.
pub(super) async fn before(folder: PathBuf, begun: &Begun) -> Result<Vec<Message>, Fault> {
    if !begun.plan.continues {
        return Ok(Vec::new());
    }
    let begun = begun.clone();
    let read = spawn_blocking(move || earlier(&folder, &begun)).await;
    match read {
        Ok(read) => read.map_err(storage_fault),
        Err(e) => {
            tracing::error!(error = %e, "reading earlier turns broke");
            Err(Fault::internal())
        }
    }
}

fn earlier(folder: &PathBuf, begun: &Begun) -> Result<Vec<Message>, Error> {
    let mut runs: Vec<(Begun, PathBuf)> = Vec::new();
    let root = match Root::open(folder) {
        Err(e) if e.reason() == Reason::NotFound => return Ok(Vec::new()),
        root => root?,
    };
    for entry in root.entries("")? {
        let path = folder.join(&entry.name);
        if path.extension().is_none_or(|e| e != "journal") {
            continue;
        }
        match first(&path) {
            Ok(Some(other)) if is_before(&other, begun) => runs.push((other, path)),
            Ok(_) => {}
            Err(e) => tracing::warn!(error = %e, "an earlier turn cannot be read"),
        }
    }
    runs.sort_unstable_by(|(a, _), (b, _)| order(b).cmp(&order(a)));
    // What was said before the conversation was begun anew is not a part of it.
    if let Some(first) = runs.iter().position(|(run, _)| !run.plan.continues) {
        runs.truncate(first + 1);
    }
    let (mut messages, mut bytes) = (0, 0);
    let mut turns: Vec<Vec<Message>> = Vec::new();
    for (_, path) in runs {
        let past = match journaled::read::<Past>(&path) {
            Ok(past) => past.unwrap_or_default(),
            Err(e) => {
                tracing::warn!(error = %e, "an earlier turn cannot be read");
                continue;
            }
        };
        let mut fits = |turn: &Vec<Message>| {
            let weight: usize = turn.iter().map(Message::weight).sum();
            let fits = messages + turn.len() <= MESSAGES && bytes + weight <= BYTES;
            if fits {
                messages += turn.len();
                bytes += weight;
            }
            fits
        };
        match [turn(&past), in_short(&past)].into_iter().find(|t| fits(t)) {
            Some(turn) => turns.push(turn),
            None => break,
        }
    }
    turns.reverse();
    Ok(turns.concat())
}

/// How a run began, from the first line of its journal.
fn first(path: &PathBuf) -> Result<Option<Begun>, JournalError> {
    let mut records = JournalReader::open(path)?.read_after::<Entry>(0)?;
    Ok(match records.next().transpose()? {
        Some(record) => match record.value {
            Entry::Begun(begun) => Some(*begun),
            _ => None,
        },
        None => None,
    })
}

/// Two keys can share a folder's name, so the key itself is looked at.
fn is_before(other: &Begun, begun: &Begun) -> bool {
    other.plan.session == begun.plan.session && order(other) < order(begun)
}

fn order(begun: &Begun) -> (i64, &str) {
    (begun.at.0, begun.plan.run.as_str())
}

/// An earlier turn as it was.
fn turn(past: &Past) -> Vec<Message> {
    let Some(begun) = &past.run.begun else {
        return Vec::new();
    };
    let content = own_words(&begun.plan.prompt).to_owned();
    let mut messages = vec![Message::User { content }];
    messages.extend(said(past));
    messages
}

/// An earlier turn without its tool calls.
fn in_short(past: &Past) -> Vec<Message> {
    let mut messages = turn(past);
    messages.truncate(1);
    let answer = past.text().map(|text| Message::Assistant {
        content: Some(text),
        tool_calls: Vec::new(),
    });
    messages.extend(answer);
    messages
}

/// What the model said in a turn and what its tool calls gave, in the form it must be given back.
pub(super) fn said(past: &Past) -> Vec<Message> {
    let mut messages = Vec::new();
    for said in &past.said {
        if said.text.is_empty() && said.calls.is_empty() {
            continue;
        }
        messages.push(Message::Assistant {
            content: (!said.text.is_empty()).then(|| said.text.clone()),
            tool_calls: said.calls.iter().map(tool_call).collect(),
        });
        for call in &said.calls {
            // Every call must have a result, also one that a stopped turn never came to.
            let ran = past.ran.get(&call.step);
            messages.push(Message::Tool {
                tool_call_id: call.id.clone(),
                content: ran.map_or("This call was not run.".into(), |r| r.result.clone()),
            });
        }
    }
    messages
}

fn tool_call(call: &Call) -> ToolCall {
    ToolCall {
        id: call.id.clone(),
        kind: "function",
        function: Function {
            name: call.tool.clone(),
            arguments: arguments(&call.arguments),
        },
    }
}

/// Arguments as an endpoint takes them back: JSON, and not a whole file again and again.
fn arguments(text: &str) -> String {
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_str(text) else {
        return "{}".into();
    };
    if text.len() <= ARGUMENTS {
        return text.to_owned();
    }
    for value in fields.values_mut() {
        if let serde_json::Value::String(long) = value
            && long.len() > ARGUMENTS / 4
        {
            let head: String = long.chars().take(ARGUMENTS / 16).collect();
            *long = format!("{head}… (shortened here; {} bytes in all)", long.len());
        }
    }
    serde_json::Value::Object(fields).to_string()
}
