//! How an answer is sent: whole, or as a stream that can be slow, broken or cut.

use std::{io, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes},
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _, stream::unfold};
use serde_json::{Value, json};

use super::{
    Open,
    script::{Modifier, Turn},
};

/// The whole answer at once.
pub(super) fn respond(turn: &Turn, usage: Option<&Value>) -> Response {
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
        fields.insert("usage".into(), usage.clone());
    }
    Json(body).into_response()
}

/// The answer in pieces. `open` is held until the last of them is sent or nobody listens.
pub(super) fn stream(turn: Turn, attempt: u32, usage: Option<Value>, open: Open) -> Response {
    let pieces = pieces(&turn, usage);
    let has = |wanted: fn(&Modifier) -> bool| turn.modifiers.iter().any(wanted);
    let cut = turn
        .modifiers
        .iter()
        .any(|m| matches!(m, Modifier::Drop(times) if attempt < *times));
    let pause = turn.modifiers.iter().find_map(|m| match m {
        Modifier::Slow(ms) => Some(Duration::from_millis(*ms)),
        _ => None,
    });
    let mut lines: Vec<Result<String, ()>> = if has(|m| matches!(m, Modifier::Garbage)) {
        vec![Ok("data: {not json\n\n".into())]
    } else {
        let pieces = pieces
            .into_iter()
            .map(|piece| Ok(format!("data: {piece}\n\n")));
        pieces.chain([Ok("data: [DONE]\n\n".into())]).collect()
    };
    if let Some(text) = turn.modifiers.iter().find_map(error) {
        lines.truncate(1);
        lines.push(Ok(format!(
            "data: {}\n\n",
            json!({"error": {"message": text}})
        )));
    }
    if cut {
        lines.truncate(lines.len() / 2);
        lines.push(Err(()));
    }
    let body = paced(lines, pause, open);
    let body = body.map(|line| line.map(Bytes::from).map_err(|()| io::Error::other("cut")));
    (
        [(CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(body),
    )
        .into_response()
}

fn error(modifier: &Modifier) -> Option<&str> {
    match modifier {
        Modifier::Error(text) => Some(text),
        _ => None,
    }
}

fn paced(
    lines: Vec<Result<String, ()>>,
    pause: Option<Duration>,
    open: Open,
) -> impl Stream<Item = Result<String, ()>> {
    unfold(
        (lines.into_iter(), open),
        move |(mut lines, open)| async move {
            let line = lines.next()?;
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            if line.is_err() {
                // What was sent before must arrive before the connection breaks.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Some((line, (lines, open)))
        },
    )
}

/// The pieces of an answer: a word or a part of a call's arguments each.
fn pieces(turn: &Turn, usage: Option<Value>) -> Vec<Value> {
    let delta = |delta: Value| json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]});
    let mut out = vec![delta(json!({"role": "assistant", "content": ""}))];
    for word in turn.text.split_inclusive(' ') {
        out.push(delta(json!({"content": word})));
    }
    for (index, (tool, arguments)) in turn.calls.iter().enumerate() {
        let id = id(turn, index);
        out.push(delta(json!({"tool_calls": [{
            "index": index, "id": id, "type": "function",
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
        out.push(json!({"object": "chat.completion.chunk", "choices": [], "usage": usage}));
    }
    out
}

fn call(turn: &Turn, index: usize) -> Value {
    let (tool, arguments) = turn.calls.get(index).cloned().unwrap_or_default();
    json!({"id": id(turn, index), "type": "function", "function": {"name": tool, "arguments": arguments}})
}

fn id(turn: &Turn, index: usize) -> String {
    format!("c{}x{index}", turn.round)
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
