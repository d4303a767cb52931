//! How a browser gets in: a link that works once, for ten minutes, and leaves a cookie behind.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::{Query, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use threadline_contract::Fault;
use threadline_server::{Gate, Refusal};

use crate::{Pending, Web, pages};

/// How long a link waits to be used.
const WAITS: Duration = Duration::from_secs(10 * 60);
/// Links that may wait at the same time; the oldest goes first.
const WAITING_MOST: usize = 64;
/// How long a browser stays in.
pub(crate) const STAYS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Makes a token that the gate knows, for one browser.
pub type Mint = Arc<dyn Fn() -> Pending<'static, Result<String, Fault>> + Send + Sync>;

pub(crate) struct Entry {
    pub(crate) port: u16,
    pub(crate) mint: Mint,
    only_https: bool,
    waiting: Mutex<HashMap<String, Instant>>,
}

impl Entry {
    pub(crate) fn new(port: u16, mint: Mint, only_https: bool) -> Self {
        Self {
            port,
            mint,
            only_https,
            waiting: Mutex::default(),
        }
    }

    /// The cookie with which a browser stays in for so long; with no time, the one that makes it forget.
    pub(crate) fn cookie(&self, token: &str, stays: Duration) -> String {
        let (name, stays) = (Gate::cookie_name(self.port), stays.as_secs());
        let secure = if self.only_https { "; Secure" } else { "" };
        format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={stays}{secure}")
    }

    pub(crate) fn new_path(&self) -> String {
        let key = hex::encode(rand::random::<[u8; 32]>());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, made| made.elapsed() < WAITS);
        if waiting.len() >= WAITING_MOST {
            let oldest = waiting
                .iter()
                .min_by_key(|(_, made)| **made)
                .map(|(key, _)| key.clone());
            oldest.map(|key| waiting.remove(&key));
        }
        let path = format!("/enter?key={key}");
        waiting.insert(key, Instant::now());
        path
    }

    /// Whether the key still lets somebody in; from here on it does not.
    fn take(&self, key: &str) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting
            .remove(key)
            .is_some_and(|made| made.elapsed() < WAITS)
    }
}

/// `POST /app/entry`: a new link, for a command that found the owner already running.
pub(crate) async fn new_link(State(web): State<Web>) -> Json<Value> {
    Json(json!({"path": web.new_entry_path()}))
}

#[derive(Deserialize)]
pub(crate) struct Key {
    #[serde(default)]
    key: String,
}

/// `GET /enter?key=…`
pub(crate) async fn handle(
    State(web): State<Web>,
    Query(Key { key }): Query<Key>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let said = |name: &str| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
    };
    // Somebody looks ahead (a chat program, the browser's own prefetch): the person comes later.
    if method == Method::HEAD || said("sec-purpose").contains("prefetch") {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if !web.entry.take(&key) {
        return Ok((StatusCode::UNAUTHORIZED, pages::refused::stale_link()).into_response());
    }
    let token = (web.entry.mint)().await?;
    let cookie = [(header::SET_COOKIE, web.entry.cookie(&token, STAYS))];
    // A strict cookie does not travel with a redirect of a link on another site's page; a visit
    // that begins on a page of ours carries it.
    Ok(match said("sec-fetch-site") {
        "" | "none" | "same-origin" => {
            (StatusCode::SEE_OTHER, cookie, [(header::LOCATION, "/")]).into_response()
        }
        _ => (cookie, [("refresh", "0; url=/")], pages::refused::come_in()).into_response(),
    })
}
