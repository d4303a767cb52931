//! Whether the model that is configured can be reached.

use std::time::Duration;

use reqwest::{Client as Http, StatusCode, redirect::Policy};
use serde_json::Value;
use threadline_runtimes::builtin::Found;

use super::Check;
use crate::{
    client::said,
    config::{Config, Model},
    programs::is_program,
    screen::words,
};

/// How long the endpoint may take to say which models it has.
const ANSWER: Duration = Duration::from_secs(4);
const WHAT: &str = "model";

/// Asks the endpoint for its models: that costs nothing, and shows whether a run could reach it.
/// Somebody who works with `others`, which bring their own, needs none.
pub(super) async fn model(config: &Config, others: bool) -> Check {
    let Some(model) = &config.model else {
        if others {
            return Check::ok(
                WHAT,
                "none, so the builtin agent only demonstrates; the other runtimes have their own",
            );
        }
        let found = Found::of(|name| std::env::var_os(name), is_program, vec![]);
        return Check::warn(
            WHAT,
            "none, so the builtin agent only demonstrates",
            found.line(),
        );
    };
    match ask(model).await {
        Ok((status, body)) => judged(model, status, &body),
        Err(why) => Check::bad(
            WHAT,
            format!("{} does not answer ({why})", words::line(&model.url)),
            "Start it, or set THREADLINE_MODEL_URL (`model.url`) to one that runs.",
        ),
    }
}

async fn ask(model: &Model) -> Result<(StatusCode, String), String> {
    let http = Http::builder()
        .redirect(Policy::none())
        .timeout(ANSWER)
        .build()
        .map_err(|e| said(&e))?;
    let mut request = http.get(format!("{}/models", model.url));
    if let Some(key) = &model.key {
        request = request.bearer_auth(key.expose());
    }
    let response = request.send().await.map_err(|e| said(&e))?;
    let status = response.status();
    Ok((status, response.text().await.map_err(|e| said(&e))?))
}

/// What an answer says about the endpoint, its key and the model.
fn judged(model: &Model, status: StatusCode, body: &str) -> Check {
    let (url, name) = (words::line(&model.url), words::line(&model.model));
    if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
        let key = match &model.key {
            Some(_) => "refuses the key",
            None => "wants a key",
        };
        return Check::bad(
            WHAT,
            format!("{url} {key} (HTTP {})", status.as_u16()),
            "Set THREADLINE_MODEL_KEY (`model.key`) to one that it takes.",
        );
    }
    if !status.is_success() {
        return Check::warn(
            WHAT,
            format!(
                "{url} answers, but cannot list its models (HTTP {})",
                status.as_u16()
            ),
            "If runs fail, look whether THREADLINE_MODEL_URL (`model.url`) is right; it mostly ends in /v1.",
        );
    }
    let names: Option<Vec<String>> = serde_json::from_str::<Value>(body).ok().and_then(|body| {
        let models = body.get("data")?.as_array()?.iter();
        Some(
            models
                .filter_map(|m| m.get("id")?.as_str().map(words::line))
                .collect(),
        )
    });
    match names {
        None => Check::warn(
            WHAT,
            format!("{url} answers with something that is not a list of models"),
            "Look whether THREADLINE_MODEL_URL (`model.url`) is right; it mostly ends in /v1.",
        ),
        // Some endpoints take a name without the tag that they list it under.
        Some(names)
            if names
                .iter()
                .any(|n| *n == name || n.split(':').next() == Some(&name)) =>
        {
            Check::ok(WHAT, format!("{name} at {url}, answers"))
        }
        Some(names) => {
            let some: Vec<String> = names.into_iter().take(8).collect();
            let offered = match some.is_empty() {
                true => "It lists none.".to_owned(),
                false => format!("It lists {}.", some.join(", ")),
            };
            Check::warn(
                WHAT,
                format!("{url} answers, but does not list {name}"),
                format!("{offered} Set THREADLINE_MODEL (`model.model`) to a model that it has."),
            )
        }
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
