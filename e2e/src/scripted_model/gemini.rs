//! The Gemini dialect: contents with parts, function calls as objects.

use serde_json::{Value, json};

use super::{
    script::{Modifier, Turn},
    talk::{Talk, Tool, Who, list, text_of, word},
};

pub(super) fn read(request: &Value) -> Talk {
    let format = request.pointer("/generationConfig/responseMimeType");
    let mut talk = Talk {
        wants_json: format == Some(&json!("application/json")),
        ..Talk::default()
    };
    for content in list(request, "contents") {
        let said = word(content, "role") == "model";
        let mut text = Vec::new();
        for part in list(content, "parts") {
            if let Some(answer) = part.pointer("/functionResponse/response") {
                let output = answer.get("output").or_else(|| answer.get("error"));
                let output = output.map_or_else(|| answer.to_string(), text_of);
                talk.push(Who::Tool, output);
            } else {
                text.push(text_of(part));
            }
        }
        let text = text.join("\n");
        if said {
            talk.push_said(text);
        } else if !text.is_empty() {
            talk.push(Who::User, text);
        }
    }
    for tool in list(request, "tools") {
        for function in list(tool, "functionDeclarations") {
            let schema = function.get("parametersJsonSchema");
            let schema = schema.or_else(|| function.get("parameters"));
            talk.tools.push(Tool {
                name: word(function, "name").to_owned(),
                schema: schema.cloned().unwrap_or_default(),
            });
        }
    }
    talk
}

pub(super) fn refusal(status: u16, message: &str) -> Value {
    let name = match status {
        400 => "INVALID_ARGUMENT",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}

/// The whole answer at once.
pub(super) fn whole(turn: &Turn, usage: Option<(usize, usize)>) -> Value {
    let mut parts = calls(turn);
    if !turn.text.is_empty() || parts.is_empty() {
        parts.insert(0, json!({"text": turn.text}));
    }
    piece(turn, parts, Some(reason(turn)), usage)
}

/// The answer in events: a word each, then all calls and the end.
pub(super) fn events(turn: &Turn, usage: Option<(usize, usize)>) -> Vec<String> {
    let mut out: Vec<Value> = turn
        .words()
        .into_iter()
        .map(|word| piece(turn, vec![json!({"text": word})], None, usage))
        .collect();
    let mut last = calls(turn);
    if last.is_empty() {
        last.push(json!({"text": ""}));
    }
    out.push(piece(turn, last, Some(reason(turn)), usage));
    out.iter().map(|p| format!("data: {p}\r\n\r\n")).collect()
}

/// An error in the middle of a stream.
pub(super) fn broken(text: &str) -> String {
    format!("data: {}\r\n\r\n", refusal(500, text))
}

fn calls(turn: &Turn) -> Vec<Value> {
    let call = |(index, (tool, arguments)): (usize, &(String, String))| {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        json!({"functionCall": {"id": turn.call_id(index), "name": tool, "args": arguments}})
    };
    turn.calls.iter().enumerate().map(call).collect()
}

fn reason(turn: &Turn) -> &'static str {
    if turn.modifiers.contains(&Modifier::Length) {
        "MAX_TOKENS"
    } else {
        "STOP"
    }
}

fn piece(
    turn: &Turn,
    parts: Vec<Value>,
    reason: Option<&str>,
    usage: Option<(usize, usize)>,
) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let (Some(reason), Some(fields)) = (reason, candidate.as_object_mut()) {
        fields.insert("finishReason".into(), reason.into());
    }
    let mut body =
        json!({"candidates": [candidate], "responseId": format!("resp_{}", turn.number)});
    if let (Some((input, output)), Some(fields)) = (usage, body.as_object_mut()) {
        fields.insert(
            "usageMetadata".into(),
            json!({
                "promptTokenCount": input, "candidatesTokenCount": output,
                "totalTokenCount": input + output,
            }),
        );
    }
    body
}
