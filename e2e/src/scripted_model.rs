//! A model that does what its prompt says, for tests: an endpoint on loopback that speaks what the
//! builtin agent and the real ones speak.
//!
//! | path | dialect |
//! | --- | --- |
//! | `/v1/chat/completions` | chat completions (builtin, OpenCode, OpenClaw) |
//! | `/v1/responses` | responses (Codex) |
//! | `/v1beta/models/MODEL:streamGenerateContent` | Gemini |
//!
//! `GET /seen` tells `{open, prompts}`, as [`Seen`] does.
//!
//! The last user message holds directives, carried out in order, one *action* per model call. Which
//! comes next is read from the conversation (how many assistant messages follow the last user
//! message), so the endpoint keeps nothing and can be restarted at any time. A request without tools
//! is an agent's own (a title, a summary) and gets a plain answer.
//!
//! Actions. All but `say`, `count`, `large` and `long` are tool calls; those end the turn.
//!
//! | directive | does |
//! | --- | --- |
//! | `[[say TEXT]]` | answers; `{last}` stands for the last tool result |
//! | `[[count N]]` | answers with the numbers up to N, a word each |
//! | `[[large BYTES]]` | answers with a text of so many bytes |
//! | `[[long N]]` | answers with [`long_text`] of so many characters |
//! | `[[write PATH BYTES]]` | writes a file of so many bytes, with whatever tool is offered for that |
//! | `[[write PATH = TEXT]]` | writes this text |
//! | `[[shell COMMAND]]` | runs a command, asking for leave where the tool can |
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
//! | `[[rate N]]` | sends so many words a second |
//! | `[[fail STATUS TIMES]]` | answers this HTTP status, so many times (for ever, if none are said), and repeats the key it was sent |
//! | `[[drop TIMES]]` | cuts the connection in the middle of the answer, so many times |
//! | `[[error TEXT]]` | reports an error inside the stream |
//! | `[[hang]]` | takes the request and never answers |
//! | `[[garbage]]` | streams something that is not JSON |
//! | `[[length]]` | stops at its length limit |
//! | `[[whole]]` | answers without streaming |
//!
//! Times are counted per script: two threads that shall both fail twice need different words.
//!
//! Some behaviour goes with the model's name: `no-tools` refuses requests with tools, `no-usage`
//! reports no usage, `strict` refuses `stream_options`. Any other name is a plain model that counts
//! four bytes as a token.

mod answer;
mod chat;
mod gemini;
mod responses;
mod script;
mod talk;
mod tools;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::answer::stream;
pub use self::script::long_text;
pub(crate) use self::{
    script::{Modifier, Turn},
    talk::{Talk, Who},
};

/// What an endpoint has seen so far. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Value>,
    authorizations: Vec<Option<String>>,
    /// The person's words in each request.
    prompts: Vec<String>,
    open: usize,
    /// How often each answer was asked for, for directives that count.
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

    /// The person's words in each request; those of an agent's own (a title, a summary) are left out.
    pub fn prompts(&self) -> Vec<String> {
        self.lock().prompts.clone()
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

    /// How often this answer was asked for before. Agents change what surrounds the directives from try to
    /// try, so those alone count, and how far the conversation is.
    fn attempt(&self, talk: &Talk) -> u32 {
        let mut hasher = DefaultHasher::new();
        let prompt = talk.messages.get(talk.prompt());
        let prompt = prompt.map(|m| m.text.as_str()).unwrap_or_default();
        for directive in script::directives(prompt) {
            directive.hash(&mut hasher);
        }
        talk.answers().hash(&mut hasher);
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

/// An endpoint that serves for as long as the runtime lives.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its address, without a path.
    pub url: String,
    /// What it has seen.
    pub seen: Seen,
}

impl Model {
    /// Starts one on a port of its own.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Seen::default();
        tokio::spawn(serve_seen(listener, seen.clone()));
        Self {
            url: format!("http://{address}"),
            seen,
        }
    }

    /// Its address as the OpenAI dialects want it.
    pub fn v1(&self) -> String {
        format!("{}/v1", self.url)
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
        .route("/seen", get(told))
        .route("/v1/chat/completions", post(completions))
        .route("/v1/responses", post(responses))
        .route("/v1beta/models/{call}", post(generate))
        .layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024))
        .with_state(seen);
    axum::serve(listener, app).await
}

/// How a request is worded and an answer is given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dialect {
    Chat,
    Responses,
    Gemini,
}

impl Dialect {
    fn read(self, request: &Value) -> Talk {
        match self {
            Self::Chat => chat::read(request),
            Self::Responses => responses::read(request),
            Self::Gemini => gemini::read(request),
        }
    }

    fn whole(self, turn: &Turn, usage: Option<(usize, usize)>) -> Value {
        match self {
            Self::Chat => chat::whole(turn, usage),
            Self::Responses => responses::whole(turn, usage),
            Self::Gemini => gemini::whole(turn, usage),
        }
    }

    fn events(self, turn: &Turn, usage: Option<(usize, usize)>) -> Vec<String> {
        match self {
            Self::Chat => chat::events(turn, usage),
            Self::Responses => responses::events(turn, usage),
            Self::Gemini => gemini::events(turn, usage),
        }
    }

    fn broken(self, text: &str) -> String {
        match self {
            Self::Chat => chat::broken(text),
            Self::Responses => responses::broken(text),
            Self::Gemini => gemini::broken(text),
        }
    }

    fn refused(self, status: StatusCode, message: &str) -> Response {
        let refusal = match self {
            Self::Chat => chat::refusal,
            Self::Responses => responses::refusal,
            Self::Gemini => gemini::refusal,
        };
        let body = refusal(status.as_u16(), message);
        (status, Json(body)).into_response()
    }

    /// What an agent wants to hear when it asks about its own work and wants JSON.
    fn verdict(self) -> Value {
        match self {
            Self::Gemini => {
                json!({"reasoning": "scripted", "model_choice": "flash", "next_speaker": "user"})
            }
            _ => {
                json!({"outcome": "allow", "risk_level": "low", "user_authorization": "high", "rationale": "scripted"})
            }
        }
    }
}

/// What was seen, for whoever runs in another process.
async fn told(State(seen): State<Seen>) -> Json<Value> {
    Json(json!({"open": seen.open(), "prompts": seen.prompts()}))
}

async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
}

async fn completions(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Dialect::Chat, None, seen, &headers, &body).await
}

async fn responses(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Dialect::Responses, None, seen, &headers, &body).await
}

async fn generate(
    State(seen): State<Seen>,
    Path(call): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match call.split_once(':') {
        Some((_, "countTokens")) => Json(json!({"totalTokens": body.len() / 4})).into_response(),
        Some((_, "generateContent")) => {
            answer(Dialect::Gemini, Some(false), seen, &headers, &body).await
        }
        Some((_, "streamGenerateContent")) => {
            answer(Dialect::Gemini, Some(true), seen, &headers, &body).await
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// `streams`: whether the address says so; where it does not, the request does.
async fn answer(
    dialect: Dialect,
    streams: Option<bool>,
    seen: Seen,
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(body) else {
        return dialect.refused(StatusCode::BAD_REQUEST, "The body is not JSON.");
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
    let model = talk::word(&request, "model");
    if model == "no-tools" && request.get("tools").is_some() {
        return dialect.refused(StatusCode::BAD_REQUEST, "no-tools does not support tools");
    }
    if model == "strict" && request.get("stream_options").is_some() {
        return dialect.refused(StatusCode::BAD_REQUEST, "Unknown field: stream_options");
    }
    let talk = dialect.read(&request);
    let turn = if talk.wants_json {
        Turn::aside(&dialect.verdict().to_string())
    } else if talk.tools.is_empty() && model != "no-tools" {
        Turn::aside("Scripted")
    } else {
        let prompt = talk.messages.get(talk.prompt());
        let prompt = prompt.map(|m| m.text.clone()).unwrap_or_default();
        seen.lock().prompts.push(prompt);
        Turn::of(&talk)
    };
    let attempt = seen.attempt(&talk);
    let mut whole = streams.map_or(request.get("stream") != Some(&Value::Bool(true)), |s| !s);
    for modifier in &turn.modifiers {
        match modifier {
            Modifier::Sleep(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Modifier::Fail(status, times) if attempt < *times => {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST);
                // Some endpoints repeat what they were sent. What comes of it must not.
                let message = format!("This failure was asked for. You sent {bearer}.");
                return dialect.refused(status, &message);
            }
            Modifier::Hang => std::future::pending().await,
            Modifier::Whole => whole = true,
            _ => {}
        }
    }
    // Four bytes are a token.
    let usage = (model != "no-usage").then(|| (read_bytes(&request) / 4, turn.weight() / 4));
    if whole {
        return Json(dialect.whole(&turn, usage)).into_response();
    }
    stream(dialect, &turn, attempt, usage, open)
}

/// The bytes of the conversation that was sent.
fn read_bytes(request: &Value) -> usize {
    ["messages", "input", "contents"]
        .iter()
        .filter_map(|field| request.get(field))
        .map(|messages| messages.to_string().len())
        .sum()
}
