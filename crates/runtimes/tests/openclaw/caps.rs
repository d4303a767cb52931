//! How a real gateway (2026.9.6) cuts a long answer, each of its methods and events in its own way.
//! It counts UTF-16 units.

use serde_json::{Value, json};

/// `agent.wait` and the end of the lifecycle.
const WAIT_UNITS: usize = 4096;
/// The terminal `chat` event, which keeps the end.
const EVENT_UNITS: usize = 500_000;
/// A row of `chat.history`.
const ROW_UNITS: usize = 8000;

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The first so many units, never half a character.
fn first(text: &str, most: usize) -> &str {
    let mut left = most;
    let fits = text.char_indices().find(|(_, c)| {
        let fits = c.len_utf16() <= left;
        left -= if fits { c.len_utf16() } else { 0 };
        !fits
    });
    fits.map_or(text, |(at, _)| &text[..at])
}

/// The answer to `agent.wait` about a run that has ended well.
pub(crate) fn waited(run: &str, text: &str) -> Value {
    let told = match units(text.trim()) > WAIT_UNITS {
        true => format!("{}…", first(text.trim(), WAIT_UNITS - 1).trim_end()),
        false => text.trim().to_owned(),
    };
    json!({"runId": run, "status": "ok", "endedAt": 9,
        "terminalReply": {"disposition": "visible", "text": told}})
}

/// The `chat` event at the end.
pub(crate) fn last_event(run: &str, text: &str) -> Value {
    let lost = units(text).saturating_sub(EVENT_UNITS);
    let told = &text[first(text, lost).len()..];
    json!({"type": "event", "event": "chat", "payload": {"runId": run, "sessionKey": "agent:main:draft:1",
        "state": "final", "message": {"content": [{"type": "text", "text": told}]}}})
}

/// What the run says, as far as it is.
pub(crate) fn said(run: &str, text: &str) -> Value {
    json!({"type": "event", "event": "agent", "payload": {"runId": run, "sessionKey": "agent:main:draft:1",
        "stream": "assistant", "data": {"itemId": "msg", "text": text}}})
}

/// The row of a transcript, cut at so many units.
pub(crate) fn row(run: &str, text: &str, most: usize) -> Value {
    let (told, truncated) = match units(text) > most {
        true => (format!("{}\n...(truncated)...", first(text, most)), true),
        false => (text.to_owned(), false),
    };
    let mut own = json!({"runId": run, "id": "row-1"});
    if truncated {
        own["truncated"] = json!(true);
        own["reason"] = json!("display-cap");
    }
    json!({"role": "assistant", "content": [{"type": "text", "text": told}], "stopReason": "stop",
        "__openclaw": own})
}

/// `chat.history` after the run.
pub(crate) fn history(run: &str, text: &str) -> Value {
    let user = json!({"role": "user", "content": "do it", "idempotencyKey": format!("{run}:user")});
    json!({"messages": [user, row(run, text, ROW_UNITS)]})
}

/// `chat.message.get` of its answer.
pub(crate) fn message(run: &str, text: &str, params: &Value) -> Value {
    assert_eq!(params["messageId"], json!("row-1"));
    let most = params["maxChars"].as_u64().unwrap_or(1_000_000);
    json!({"ok": true, "message": row(run, text, most as usize)})
}
