//! The gateway's messages in words for people.

use serde_json::Value;

/// The texts in the content of a message.
pub(super) fn texts(content: &Value) -> Option<String> {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|b| b["type"] == "text");
            let texts: Vec<&str> = texts.filter_map(|b| b["text"].as_str()).collect();
            texts.join(GAP)
        }
        _ => String::new(),
    };
    (!text.trim().is_empty()).then_some(text)
}

/// What stands between two messages.
pub(super) const GAP: &str = "\n\n";

/// A message of the gateway as one sentence for people: no signs in front, one line, not too long.
pub(super) fn sentence(text: &str) -> String {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '"');
    let line = text.lines().next().unwrap_or_default().trim();
    let mut out: String = line.chars().take(500).collect();
    if out.is_empty() {
        out.push_str("The gateway gives no reason.");
    }
    out
}
