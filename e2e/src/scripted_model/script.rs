//! What a conversation asks for: the modifiers and the action of this model call.

use serde_json::{Value, json};

/// What one model call does.
#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) modifiers: Vec<Modifier>,
    pub(super) text: String,
    /// Tools and their arguments.
    pub(super) calls: Vec<(String, String)>,
    /// Which model call of the turn this is.
    pub(super) round: usize,
}

#[derive(Debug, PartialEq)]
pub(super) enum Modifier {
    Sleep(u64),
    Slow(u64),
    Fail(u16, u32),
    Drop(u32),
    Error(String),
    Hang,
    Garbage,
    Length,
    Whole,
}

/// One model call as it was written down.
#[derive(Default)]
struct Scripted {
    modifiers: Vec<Modifier>,
    actions: Vec<Action>,
}

enum Action {
    Say(String),
    Call(String, Value),
    /// Arguments that may not even be JSON.
    Raw(String, String),
}

impl Turn {
    /// Reads a conversation.
    pub(super) fn of(messages: &Value) -> Self {
        let messages = messages.as_array().map(Vec::as_slice).unwrap_or_default();
        let role = |m: &Value| m.get("role").and_then(Value::as_str).map(str::to_owned);
        let is = |m: &Value, wanted: &str| role(m).as_deref() == Some(wanted);
        let last_user = messages.iter().rposition(|m| is(m, "user")).unwrap_or(0);
        let (before, after) = messages.split_at((last_user + 1).min(messages.len()));
        let prompt = before.last().map(content).unwrap_or_default();
        let round = after.iter().filter(|m| is(m, "assistant")).count();
        let last = after.iter().rev().find(|m| is(m, "tool")).map(content);
        let last = last.unwrap_or_default();
        let (mut text, mut calls) = (String::new(), Vec::new());
        let mut modifiers = Vec::new();
        match script(&prompt).into_iter().nth(round) {
            None => {
                text = "Done.".into();
                if !last.is_empty() {
                    text = format!("Done. {last}");
                }
            }
            Some(scripted) => {
                modifiers = scripted.modifiers;
                for action in scripted.actions {
                    match action {
                        Action::Say(said) => text.push_str(&said.replace("{last}", &last)),
                        Action::Call(tool, arguments) => calls.push((tool, arguments.to_string())),
                        Action::Raw(tool, arguments) => calls.push((tool, arguments)),
                    }
                }
            }
        }
        Self {
            modifiers,
            text,
            calls,
            round,
        }
    }

    /// How many bytes it says.
    pub(super) fn weight(&self) -> usize {
        let calls: usize = self
            .calls
            .iter()
            .map(|(_, arguments)| arguments.len())
            .sum();
        self.text.len() + calls
    }
}

fn content(message: &Value) -> String {
    let content = message.get("content").and_then(Value::as_str);
    content.unwrap_or_default().to_owned()
}

/// The directives of a prompt, one entry per model call.
fn script(prompt: &str) -> Vec<Scripted> {
    let mut calls: Vec<Scripted> = Vec::new();
    let mut next = Scripted::default();
    for directive in directives(prompt) {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let rest = rest.trim();
        if let Some(modifier) = modifier(word, rest) {
            next.modifiers.push(modifier);
        } else if word == "also" {
            let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(before) = calls.last_mut() {
                before.actions.push(action(word, rest.trim()));
            }
        } else {
            next.actions.push(action(word, rest));
            calls.push(std::mem::take(&mut next));
        }
    }
    if !next.modifiers.is_empty() {
        next.actions.push(Action::Say("Done.".into()));
        calls.push(next);
    }
    calls
}

fn directives(prompt: &str) -> impl Iterator<Item = &str> {
    let parts = prompt.split("[[").skip(1);
    parts.filter_map(|part| Some(part.split_once("]]")?.0.trim()))
}

fn modifier(word: &str, rest: &str) -> Option<Modifier> {
    Some(match word {
        "sleep" => Modifier::Sleep(rest.parse().ok()?),
        "slow" => Modifier::Slow(rest.parse().ok()?),
        "fail" => {
            let (status, times) = rest.split_once(' ').unwrap_or((rest, "1000000"));
            Modifier::Fail(status.parse().ok()?, times.trim().parse().ok()?)
        }
        "drop" => Modifier::Drop(rest.parse().ok()?),
        "error" => Modifier::Error(rest.to_owned()),
        "hang" => Modifier::Hang,
        "garbage" => Modifier::Garbage,
        "length" => Modifier::Length,
        "whole" => Modifier::Whole,
        _ => return None,
    })
}

fn action(word: &str, rest: &str) -> Action {
    let mut parts = rest.split('|').map(str::trim);
    let mut part = || parts.next().unwrap_or_default();
    match word {
        "say" => Action::Say(rest.to_owned()),
        "write" => {
            let (path, content) = match rest.split_once(" = ") {
                Some((path, text)) => (path.trim(), text.to_owned()),
                None => {
                    let (path, bytes) = rest.rsplit_once(' ').unwrap_or((rest, "16"));
                    (
                        path.trim(),
                        filler(path.trim(), bytes.parse().unwrap_or(16)),
                    )
                }
            };
            Action::Call(
                "write_file".into(),
                json!({"path": path, "content": content}),
            )
        }
        "edit" => {
            let (path, old, new) = (part(), part(), part());
            Action::Call(
                "edit_file".into(),
                json!({"path": path, "old": old, "new": new}),
            )
        }
        "read" => Action::Call("read_file".into(), json!({"path": rest})),
        "list" => Action::Call("list_files".into(), json!({})),
        "ask" => {
            let question = part();
            let options: Vec<&str> = parts.collect();
            let arguments = if options.is_empty() {
                json!({"question": question})
            } else {
                json!({"question": question, "options": options})
            };
            Action::Call("ask_user".into(), arguments)
        }
        "call" => {
            let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
            Action::Raw(tool.to_owned(), arguments.trim().to_owned())
        }
        other => Action::Say(format!("I do not know the directive `{other}`.")),
    }
}

/// A text of so many bytes that says whose it is.
fn filler(path: &str, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes);
    let mut line = 0_u64;
    while text.len() < bytes {
        line += 1;
        text.push_str(&format!("{path}, line {line}\n"));
    }
    let mut cut = bytes;
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    text.truncate(cut);
    while text.len() < bytes {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(messages: Value) -> Turn {
        Turn::of(&messages)
    }

    #[test]
    fn directives_follow_the_conversation() {
        let prompt = "please [[sleep 5]] [[write a.md = hi]] [[also list]] [[ask Which?|red|blue]] [[say You said {last}]]";
        let user = json!({"role": "user", "content": prompt});
        let said = json!({"role": "assistant", "content": null});
        let result = |text: &str| json!({"role": "tool", "tool_call_id": "x", "content": text});
        assert_eq!(
            turn(json!([user])),
            Turn {
                modifiers: vec![Modifier::Sleep(5)],
                text: String::new(),
                calls: vec![
                    (
                        "write_file".into(),
                        r#"{"content":"hi","path":"a.md"}"#.into()
                    ),
                    ("list_files".into(), "{}".into()),
                ],
                round: 0,
            }
        );
        assert_eq!(
            turn(json!([user, said, result("ok"), result("none")])).calls,
            vec![(
                "ask_user".into(),
                r#"{"options":["red","blue"],"question":"Which?"}"#.into()
            )]
        );
        assert_eq!(
            turn(json!([
                user,
                said,
                result("ok"),
                result("none"),
                said,
                result("red")
            ]))
            .text,
            "You said red"
        );
        let earlier = json!([user, said, {"role": "user", "content": "hello"}]);
        assert_eq!(turn(earlier).text, "Done.");
    }

    #[test]
    fn filler_has_exactly_so_many_bytes() {
        for bytes in [0, 1, 16, 2048] {
            assert_eq!(filler("ü.md", bytes).len(), bytes);
        }
    }
}
