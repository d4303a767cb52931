//! What a conversation asks for: the modifiers and the action of this model call.

use serde_json::{Value, json};

use super::{
    talk::{Talk, Tool, Who},
    tools,
};

/// A text of more bytes is not streamed word by word.
const LONG_BYTES: usize = 64 * 1024;
/// The pieces of such a text.
const PIECE_BYTES: usize = 4 * 1024;

/// What one model call does.
#[derive(Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) modifiers: Vec<Modifier>,
    pub(crate) text: String,
    /// Tools and their arguments.
    pub(crate) calls: Vec<(String, String)>,
    /// Which answer of the whole conversation this is.
    pub(crate) number: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Modifier {
    Sleep(u64),
    Slow(u64),
    Rate(u32),
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
    Write(String, String),
    Shell(String),
    Call(String, Value),
    /// Arguments that may not even be JSON.
    Raw(String, String),
}

impl Turn {
    /// Reads a conversation.
    pub(crate) fn of(talk: &Talk) -> Self {
        let prompt = talk.prompt();
        let after = talk.messages.get(prompt + 1..).unwrap_or_default();
        let prompt = talk.messages.get(prompt);
        let prompt = prompt.map(|m| m.text.as_str()).unwrap_or_default();
        let said = |m: &&super::talk::Message| m.who == Who::Assistant;
        let round = after.iter().filter(said).count();
        let last = after.iter().rev().find(|m| m.who == Who::Tool);
        let last = last.map(|m| m.text.as_str()).unwrap_or_default();
        let mut turn = Self {
            modifiers: vec![],
            text: String::new(),
            calls: vec![],
            number: talk.answers(),
        };
        let Some(scripted) = script(prompt).into_iter().nth(round) else {
            turn.text = "Done.".into();
            if !last.is_empty() {
                turn.text = format!("Done. {last}");
            }
            return turn;
        };
        turn.modifiers = scripted.modifiers;
        for action in scripted.actions {
            turn.add(action, last, &talk.tools);
        }
        turn
    }

    /// An answer outside the script.
    pub(crate) fn aside(text: &str) -> Self {
        Self {
            modifiers: vec![],
            text: text.to_owned(),
            calls: vec![],
            number: 0,
        }
    }

    fn add(&mut self, action: Action, last: &str, offered: &[Tool]) {
        let (tool, arguments) = match action {
            Action::Say(said) => return self.text.push_str(&said.replace("{last}", last)),
            Action::Raw(tool, arguments) => return self.calls.push((tool, arguments)),
            Action::Call(tool, arguments) => (tool, arguments),
            Action::Write(path, content) => tools::write(offered, &path, &content),
            Action::Shell(command) => tools::shell(offered, &command),
        };
        self.calls.push((tool, arguments.to_string()));
    }

    /// How many bytes it says.
    pub(crate) fn weight(&self) -> usize {
        let calls: usize = self
            .calls
            .iter()
            .map(|(_, arguments)| arguments.len())
            .sum();
        self.text.len() + calls
    }

    /// Its text as it is streamed: word by word, a long one in larger pieces.
    pub(crate) fn words(&self) -> Vec<&str> {
        if self.text.len() <= LONG_BYTES {
            return self.text.split_inclusive(' ').collect();
        }
        let (mut pieces, mut rest) = (vec![], self.text.as_str());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }

    /// The id of one of its calls: no other call of the conversation has it.
    pub(crate) fn call_id(&self, index: usize) -> String {
        format!("c{}x{index}", self.number)
    }
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

pub(crate) fn directives(prompt: &str) -> impl Iterator<Item = &str> {
    let parts = prompt.split("[[").skip(1);
    parts.filter_map(|part| Some(part.split_once("]]")?.0.trim()))
}

fn modifier(word: &str, rest: &str) -> Option<Modifier> {
    Some(match word {
        "sleep" => Modifier::Sleep(rest.parse().ok()?),
        "slow" => Modifier::Slow(rest.parse().ok()?),
        "rate" => Modifier::Rate(rest.parse().ok()?),
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
            Action::Write(path.to_owned(), content)
        }
        "shell" => Action::Shell(rest.to_owned()),
        "count" => Action::Say(count(rest.parse().unwrap_or(1))),
        "large" => Action::Say(filler("large", rest.parse().unwrap_or(1 << 20))),
        "long" => Action::Say(long_text(rest.parse().unwrap_or(1))),
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

/// The numbers up to this one, a word each.
fn count(last: u32) -> String {
    let words: Vec<String> = (1..=last).map(|n| format!("{n} ")).collect();
    words.concat()
}

/// A text of so many characters, which repeats nothing, and some of which UTF-16 writes as two: what
/// `[[long N]]` says.
pub fn long_text(characters: usize) -> String {
    let words = (0..).flat_map(|n| format!("word {n} 🦀 ").chars().collect::<Vec<_>>());
    let mut text: String = words.take(characters.saturating_sub(1)).collect();
    text.push('.');
    text
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
        Turn::of(&super::super::chat::read(&json!({"messages": messages})))
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
                number: 0,
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
