//! The responses dialect, which Codex speaks.

use serde_json::{Value, json};

use super::{
    chat,
    script::Turn,
    talk::{Talk, Tool, Who, list, text_of, word},
};

pub(super) fn read(request: &Value) -> Talk {
    let mut talk = Talk {
        wants_json: request.pointer("/text/format/schema").is_some(),
        ..Talk::default()
    };
    if let Some(input) = request.get("input").and_then(Value::as_str) {
        talk.push(Who::User, input.to_owned());
    }
    for item in list(request, "input") {
        let content = item.get("content").map(text_of).unwrap_or_default();
        match (word(item, "type"), word(item, "role")) {
            (kind, _) if kind.ends_with("_output") => {
                let output = item.get("output").map(text_of).unwrap_or_default();
                talk.push(Who::Tool, output);
            }
            (kind, _) if kind.ends_with("_call") || kind == "reasoning" => {
                talk.push_said(String::new());
            }
            (_, "assistant") => talk.push_said(content),
            (_, "user") => talk.push(Who::User, content),
            _ => {}
        }
    }
    for tool in list(request, "tools") {
        if word(tool, "type") == "function" {
            talk.tools.push(Tool {
                name: word(tool, "name").to_owned(),
                schema: tool.get("parameters").cloned().unwrap_or_default(),
            });
        }
    }
    talk
}

pub(super) fn refusal(status: u16, message: &str) -> Value {
    json!({"error": {"message": message, "type": chat::kind(status), "code": "scripted"}})
}

/// The whole answer at once.
pub(super) fn whole(turn: &Turn, usage: Option<(usize, usize)>) -> Value {
    let (input, output) = usage.unwrap_or_default();
    let mut body = response(turn, "completed");
    if let Some(fields) = body.as_object_mut() {
        fields.insert("output".into(), items(turn).into());
        fields.insert(
            "usage".into(),
            json!({
                "input_tokens": input, "output_tokens": output, "total_tokens": input + output,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            }),
        );
    }
    body
}

/// The answer in events, numbered as the dialect wants it.
pub(super) fn events(turn: &Turn, usage: Option<(usize, usize)>) -> Vec<String> {
    let begun = response(turn, "in_progress");
    let mut out = Events::default();
    out.push("response.created", json!({"response": begun}));
    out.push("response.in_progress", json!({"response": begun}));
    for (index, item) in items(turn).into_iter().enumerate() {
        if word(&item, "type") == "message" {
            message(&mut out, turn, index, &item);
        } else {
            call(&mut out, index, &item);
        }
        let done = json!({"output_index": index, "item": item});
        out.push("response.output_item.done", done);
    }
    out.push(
        "response.completed",
        json!({"response": whole(turn, usage)}),
    );
    out.lines
}

/// An error in the middle of a stream.
pub(super) fn broken(text: &str) -> String {
    let failed = json!({"type": "response.failed", "response": {
        "status": "failed", "error": {"code": "server_error", "message": text},
    }});
    format!("event: response.failed\ndata: {failed}\n\n")
}

#[derive(Default)]
struct Events {
    lines: Vec<String>,
}

impl Events {
    fn push(&mut self, kind: &str, mut event: Value) {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("type".into(), kind.into());
            fields.insert("sequence_number".into(), self.lines.len().into());
        }
        self.lines.push(format!("event: {kind}\ndata: {event}\n\n"));
    }
}

fn message(out: &mut Events, turn: &Turn, index: usize, item: &Value) {
    let id = word(item, "id");
    let place = |mut event: Value| {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("item_id".into(), id.into());
            fields.insert("output_index".into(), index.into());
            fields.insert("content_index".into(), 0.into());
        }
        event
    };
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let begun = json!({"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []});
    let added = json!({"output_index": index, "item": begun});
    out.push("response.output_item.added", added);
    let opened = place(json!({"part": part("")}));
    out.push("response.content_part.added", opened);
    for word in turn.words() {
        let delta = place(json!({"delta": word}));
        out.push("response.output_text.delta", delta);
    }
    let done = place(json!({"text": turn.text}));
    out.push("response.output_text.done", done);
    let closed = place(json!({"part": part(&turn.text)}));
    out.push("response.content_part.done", closed);
}

fn call(out: &mut Events, index: usize, item: &Value) {
    let (id, arguments) = (word(item, "id"), word(item, "arguments"));
    let mut begun = item.clone();
    if let Some(fields) = begun.as_object_mut() {
        fields.insert("status".into(), "in_progress".into());
        fields.insert("arguments".into(), "".into());
    }
    let added = json!({"output_index": index, "item": begun});
    out.push("response.output_item.added", added);
    let delta = json!({"item_id": id, "output_index": index, "delta": arguments});
    out.push("response.function_call_arguments.delta", delta);
    let done = json!({"item_id": id, "output_index": index, "arguments": arguments});
    out.push("response.function_call_arguments.done", done);
}

/// What the answer consists of: its text, if any, then its calls.
fn items(turn: &Turn) -> Vec<Value> {
    let mut items = Vec::new();
    if !turn.text.is_empty() || turn.calls.is_empty() {
        items.push(json!({
            "type": "message", "id": format!("msg_{}", turn.number), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
        }));
    }
    for (index, (tool, arguments)) in turn.calls.iter().enumerate() {
        let id = turn.call_id(index);
        items.push(json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": id,
            "name": tool, "arguments": arguments, "status": "completed",
        }));
    }
    items
}

fn response(turn: &Turn, status: &str) -> Value {
    json!({
        "id": format!("resp_{}", turn.number), "object": "response", "created_at": 0, "status": status,
        "output": [], "error": null, "incomplete_details": null, "usage": null,
    })
}
