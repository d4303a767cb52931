//! A model that does what its prompt says, for tests: an OpenAI-compatible endpoint on loopback.
//!
//! The last user message holds directives, carried out in order, one *action* per model call. Which
//! comes next is read from the conversation (how many assistant messages follow the last user
//! message), so the endpoint keeps nothing and can be restarted at any time.
//!
//! Actions. All but `say` are tool calls; `say` ends the turn.
//!
//! | directive | does |
//! | --- | --- |
//! | `[[say TEXT]]` | answers; `{last}` stands for the last tool result |
//! | `[[write PATH BYTES]]` | writes a file of so many bytes |
//! | `[[write PATH = TEXT]]` | writes this text |
//! | `[[edit PATH\|OLD\|NEW]]` | edits a file |
//! | `[[read PATH]]`, `[[list]]` | reads a file, lists files |
//! | `[[ask QUESTION\|OPTION\|…]]` | asks the person |
//! | `[[call TOOL JSON]]` | calls any tool with any arguments |
//! | `[[also ACTION]]` | a further tool call in the same message as the action before it |
//!
//! After the last action it says `Done.` and repeats the last tool result.
//!
//! Modifiers, which take effect in the model call of the action that follows them:
//!
//! | directive | does |
//! | --- | --- |
//! | `[[sleep MS]]` | waits before it answers |
//! | `[[slow MS]]` | waits between two words |
//! | `[[fail STATUS TIMES]]` | answers this HTTP status, so many times, and repeats the key it was sent |
//! | `[[drop TIMES]]` | cuts the connection in the middle of the answer, so many times |
//! | `[[error TEXT]]` | reports an error inside the stream |
//! | `[[hang]]` | takes the request and never answers |
//! | `[[garbage]]` | streams something that is not JSON |
//! | `[[length]]` | stops at its length limit |
//! | `[[whole]]` | answers without streaming |
//!
//! Some behaviour goes with the model's name: `no-tools` refuses requests with tools, `no-usage`
//! reports no usage, `strict` refuses `stream_options`. Any other name is a plain model that counts
//! four bytes as a token.

mod answer;
mod script;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::{
    answer::{respond, stream},
    script::{Modifier, Turn},
};

/// What an endpoint has seen so far. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Value>,
    authorizations: Vec<Option<String>>,
    open: usize,
    /// How often each conversation was sent, for directives that count.
    attempts: HashMap<u64, u32>,
}

impl Seen {
    /// The bodies of all requests, in order.
    pub fn requests(&self) -> Vec<Value> {
        self.lock().requests.clone()
    }

    /// The `Authorization` header of each request.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        self.lock().authorizations.clone()
    }

    /// Answers that are under way now.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answer as under way until it is dropped.
    fn begin(&self) -> Open {
        self.lock().open += 1;
        Open(self.clone())
    }

    /// How often this conversation came before.
    fn attempt(&self, messages: &Value) -> u32 {
        let mut hasher = DefaultHasher::new();
        messages.to_string().hash(&mut hasher);
        let mut log = self.lock();
        let count = log.attempts.entry(hasher.finish()).or_default();
        *count += 1;
        *count - 1
    }
}

struct Open(Seen);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener) -> std::io::Result<()> {
    serve_seen(listener, Seen::default()).await
}

/// Serves until it is dropped, and tells what it sees.
pub async fn serve_seen(listener: TcpListener, seen: Seen) -> std::io::Result<()> {
    let app = Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(completions))
        .layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024))
        .with_state(seen);
    axum::serve(listener, app).await
}

async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
}

async fn completions(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return refused(StatusCode::BAD_REQUEST, "The body is not JSON.");
    };
    let authorization = headers.get(AUTHORIZATION);
    let authorization = authorization
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned);
    let bearer = authorization.clone().unwrap_or_default();
    {
        let mut log = seen.lock();
        log.requests.push(request.clone());
        log.authorizations.push(authorization);
    }
    let open = seen.begin();
    let model = request
        .get("model")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if model == "no-tools" && request.get("tools").is_some() {
        return refused(StatusCode::BAD_REQUEST, "no-tools does not support tools");
    }
    if model == "strict" && request.get("stream_options").is_some() {
        return refused(StatusCode::BAD_REQUEST, "Unknown field: stream_options");
    }
    let messages = request.get("messages").cloned().unwrap_or_default();
    let attempt = seen.attempt(&messages);
    let turn = Turn::of(&messages);
    let mut whole = request.get("stream") != Some(&Value::Bool(true));
    for modifier in &turn.modifiers {
        match modifier {
            Modifier::Sleep(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Modifier::Fail(status, times) if attempt < *times => {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST);
                // Some endpoints repeat what they were sent. What comes of it must not.
                let message = format!("This failure was asked for. You sent {bearer}.");
                return refused(status, &message);
            }
            Modifier::Hang => std::future::pending().await,
            Modifier::Whole => whole = true,
            _ => {}
        }
    }
    let usage = (model != "no-usage").then(|| {
        json!({"prompt_tokens": messages.to_string().len() / 4, "completion_tokens": turn.weight() / 4})
    });
    if whole {
        return respond(&turn, usage.as_ref());
    }
    stream(turn, attempt, usage, open)
}

fn refused(status: StatusCode, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": "invalid_request_error"}});
    (status, Json(body)).into_response()
}
