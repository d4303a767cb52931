//! Chat completions, as most endpoints speak.

use serde_json::{Value, json};

use super::{
    script::{Modifier, Turn},
    talk::{Talk, Tool, Who, list, text_of, word},
};

pub(super) fn read(request: &Value) -> Talk {
    let mut talk = Talk::default();
    for message in list(request, "messages") {
        let content = message.get("content").map(text_of).unwrap_or_default();
        match word(message, "role") {
            "user" => talk.push(Who::User, content),
            "assistant" => talk.push(Who::Assistant, content),
            "tool" => talk.push(Who::Tool, content),
            _ => {}
        }
    }
    for tool in list(request, "tools") {
        let function = tool.get("function").unwrap_or(&Value::Null);
        talk.tools.push(Tool {
            name: word(function, "name").to_owned(),
            schema: function.get("parameters").cloned().unwrap_or_default(),
        });
    }
    talk
}

/// Agents try again by the kind of an error, not only by its status.
pub(super) fn refusal(status: u16, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind(status)}})
}

/// What kind of error a status is.
pub(super) fn kind(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// The whole answer at once.
pub(super) fn whole(turn: &Turn, usage: Option<(usize, usize)>) -> Value {
    let calls: Vec<Value> = (0..turn.calls.len())
        .map(|index| call(turn, index))
        .collect();
    let mut message = json!({"role": "assistant", "content": turn.text});
    if !calls.is_empty()
        && let Some(fields) = message.as_object_mut()
    {
        fields.insert("tool_calls".into(), calls.into());
    }
    let mut body = json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason(turn)}],
    });
    if let (Some(usage), Some(fields)) = (usage, body.as_object_mut()) {
        fields.insert("usage".into(), used(usage));
    }
    body
}

/// The answer in events: a word or a part of a call's arguments each.
pub(super) fn events(turn: &Turn, usage: Option<(usize, usize)>) -> Vec<String> {
    let mut lines: Vec<String> = pieces(turn, usage)
        .iter()
        .map(|piece| format!("data: {piece}\n\n"))
        .collect();
    lines.push("data: [DONE]\n\n".into());
    lines
}

/// An error in the middle of a stream.
pub(super) fn broken(text: &str) -> String {
    format!("data: {}\n\n", json!({"error": {"message": text}}))
}

fn pieces(turn: &Turn, usage: Option<(usize, usize)>) -> Vec<Value> {
    let delta = |delta: Value| json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]});
    let mut out = vec![delta(json!({"role": "assistant", "content": ""}))];
    for word in turn.words() {
        out.push(delta(json!({"content": word})));
    }
    for (index, (tool, arguments)) in turn.calls.iter().enumerate() {
        out.push(delta(json!({"tool_calls": [{
            "index": index, "id": turn.call_id(index), "type": "function",
            "function": {"name": tool, "arguments": ""},
        }]})));
        for part in parts(arguments, 16 * 1024) {
            out.push(delta(json!({"tool_calls": [{
                "index": index, "function": {"arguments": part},
            }]})));
        }
    }
    out.push(json!({"object": "chat.completion.chunk", "choices": [
        {"index": 0, "delta": {}, "finish_reason": reason(turn)}
    ]}));
    if let Some(usage) = usage {
        out.push(json!({"object": "chat.completion.chunk", "choices": [], "usage": used(usage)}));
    }
    out
}

fn used((input, output): (usize, usize)) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output})
}

fn call(turn: &Turn, index: usize) -> Value {
    let (tool, arguments) = turn.calls.get(index).cloned().unwrap_or_default();
    json!({"id": turn.call_id(index), "type": "function", "function": {"name": tool, "arguments": arguments}})
}

fn reason(turn: &Turn) -> &'static str {
    if turn.modifiers.contains(&Modifier::Length) {
        "length"
    } else if turn.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    }
}

/// A text in parts of about so many bytes.
fn parts(text: &str, bytes: usize) -> Vec<&str> {
    let mut rest = text;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let mut cut = bytes.min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut += 1;
        }
        let (part, after) = rest.split_at(cut);
        out.push(part);
        rest = after;
    }
    out
}
