//! Settings and mistakes, for people and for programs.

use serde_json::{Value, json};
use threadline_contract::{Code, Fault};

use super::{Config, Mistake, Shown};

/// All mistakes as one error.
pub(crate) fn fault(mistakes: &[Mistake]) -> Fault {
    let mut message = match mistakes.len() {
        1 => "One setting is wrong.".to_owned(),
        n => format!("{n} settings are wrong."),
    };
    let origins: Vec<String> = mistakes.iter().map(|m| m.origin.to_string()).collect();
    for (origin, mistake) in origins.iter().zip(mistakes) {
        message.push_str(&format!("\n  {origin}: {}", mistake.message));
    }
    let list: Vec<Value> = origins
        .iter()
        .zip(mistakes)
        .map(|(origin, mistake)| json!({"origin": origin, "message": mistake.message}))
        .collect();
    Fault::new(Code::ConfigInvalid, message).with("mistakes", list)
}

/// The settings as lines.
pub(crate) fn show(config: &Config, origin: bool) -> String {
    let width = config.shown.iter().map(|s| s.key.len()).max().unwrap_or(0);
    let values: Vec<String> = config.shown.iter().map(seen).collect();
    let value_width = values.iter().map(|v| v.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (shown, value) in config.shown.iter().zip(values) {
        let line = match origin {
            true => format!(
                "{:width$}  {value:value_width$}  {}",
                shown.key, shown.origin
            ),
            false => format!("{:width$}  {value}", shown.key),
        };
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn seen(shown: &Shown) -> String {
    match &shown.value {
        None => "(not set)".into(),
        Some(_) if hidden(shown) => "(set)".into(),
        Some(value) => value.clone(),
    }
}

/// The database that we chose ourselves has no password in it.
fn hidden(shown: &Shown) -> bool {
    let local = shown
        .value
        .as_ref()
        .is_some_and(|v| v.starts_with("sqlite:"));
    shown.secret && !(shown.key == "store.url" && local)
}

/// The settings for a program.
pub(crate) fn json(config: &Config) -> Value {
    let one = |shown: &Shown| {
        let mut out = json!({"key": shown.key, "set": shown.value.is_some(), "origin": shown.origin.to_string()});
        if let (Some(value), false, Some(map)) = (&shown.value, hidden(shown), out.as_object_mut())
        {
            map.insert("value".into(), json!(value));
        }
        out
    };
    json!({"settings": config.shown.iter().map(one).collect::<Vec<_>>()})
}
