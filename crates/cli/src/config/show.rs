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

/// The settings as lines. Where they do not fit side by side, what belongs to a setting stands
/// beneath it.
pub(crate) fn show(config: &Config, origin: bool, width: usize) -> String {
    let longest = |lengths: Vec<usize>| lengths.into_iter().max().unwrap_or(0);
    let values: Vec<String> = config.shown.iter().map(seen).collect();
    let keys = longest(config.shown.iter().map(|s| s.key.len()).collect());
    let wide = longest(values.iter().map(|v| v.chars().count()).collect());
    let origins: Vec<String> = match origin {
        true => config.shown.iter().map(|s| s.origin.to_string()).collect(),
        false => vec![String::new(); values.len()],
    };
    let said = longest(origins.iter().map(|o| o.chars().count()).collect());
    let beside = keys + 2 + wide + 2 + said <= width;
    let mut out = String::new();
    for ((shown, value), origin) in config.shown.iter().zip(values).zip(origins) {
        let line = match beside {
            true => format!("{:keys$}  {value:wide$}  {origin}", shown.key),
            false if keys + 2 + wide <= width => {
                format!("{:keys$}  {value}{}", shown.key, under(&origin, keys + 2))
            }
            false => format!("{}{}{}", shown.key, under(&value, 2), under(&origin, 2)),
        };
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// On a line of its own.
fn under(text: &str, indent: usize) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!("\n{:indent$}{text}", ""),
    }
}

fn seen(shown: &Shown) -> String {
    match &shown.value {
        None if shown.wrong => "(wrong)".into(),
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
        let Some(map) = out.as_object_mut() else {
            return out;
        };
        if let (Some(value), false) = (&shown.value, hidden(shown)) {
            map.insert("value".into(), json!(value));
        }
        if shown.wrong {
            map.insert("wrong".into(), json!(true));
        }
        out
    };
    json!({"settings": config.shown.iter().map(one).collect::<Vec<_>>()})
}
