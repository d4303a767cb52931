//! The Agent Client Protocol, version 1, as far as we speak it.
//!
//! Own types, few and lenient, on purpose: what an agent says is read for what we know, and whatever else
//! stands in it is left alone. Types that hold the whole protocol would refuse a frame because of a field
//! or a word that came with a later version, and cost more to build than everything here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use threadline_host::{Frame, Id, Kind, mend};

use super::terminal::plain;

/// The version of the protocol.
pub(super) const PROTOCOL: u64 = 1;
/// "Parse error": what we answer to requests that cannot be read.
const NOT_READ: i64 = -32700;
/// "Invalid request": what we answer to requests whose ids are none.
const NOT_RPC: i64 = -32600;
/// "Method not found": what we answer to requests for what we never offered.
const NOT_FOUND: i64 = -32601;
/// An agent wants somebody to log in first.
pub(super) const AUTH_REQUIRED: i64 = -32000;

/// "Resource not found": a session is one.
const RESOURCE_NOT_FOUND: i64 = -32002;
/// Characters of what an error tells beside its message that are shown.
const MAX_DETAIL_CHARS: usize = 500;

/// What an agent says.
#[derive(Debug)]
pub(super) enum Said {
    /// It answers a request of ours.
    Answered {
        id: Id,
        answer: Result<Value, RpcError>,
    },
    /// It asks, and waits for the answer. The id is kept as it was written: it may be a number or a text.
    Asked {
        id: Id,
        method: String,
        params: Value,
    },
    /// It tells.
    Told { method: String, params: Value },
}

/// An error that an agent answers with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Option<Value>,
}

impl Said {
    /// Reads a frame, mended where it must be. `None` for one that is neither a request nor an answer.
    pub(super) fn parse(frame: &Frame) -> Option<Self> {
        let kind = frame.kind();
        let read = serde_json::from_str(frame.text())
            .or_else(|_| serde_json::from_str(&mend(frame.text().as_bytes())));
        let mut message: Value = read.ok()?;
        let mut part = |name: &str| message.get_mut(name).map(Value::take).unwrap_or_default();
        Some(match kind {
            Kind::Request { id, method } => Self::Asked {
                id,
                method,
                params: part("params"),
            },
            Kind::Notification { method } => Self::Told {
                method,
                params: part("params"),
            },
            Kind::Response { id } => Self::Answered {
                id,
                answer: match part("error") {
                    Value::Null => Ok(part("result")),
                    error => Err(serde_json::from_value(error).unwrap_or_default()),
                },
            },
            Kind::Other => return None,
        })
    }
}

impl RpcError {
    /// What it says, for a person: in its message, and in what is told beside it.
    pub(super) fn words(&self) -> String {
        let said = plain(&self.message);
        let details = self.data.iter().filter_map(details).map(plain);
        let details = details.map(|text| text.chars().take(MAX_DETAIL_CHARS).collect::<String>());
        let mut details = details.filter(|text| !text.is_empty() && !said.contains(text));
        match (said.is_empty(), details.next()) {
            (true, None) => "an error without a word".to_owned(),
            (true, Some(details)) => details,
            (false, None) => said,
            (false, Some(details)) => format!("{said} ({details})"),
        }
    }

    /// Whether it says that the agent does not know the session it is asked about.
    pub(super) fn is_session_gone(&self) -> bool {
        let words = self.words().to_lowercase();
        self.code == RESOURCE_NOT_FOUND || SESSION_GONE.iter().any(|gone| words.contains(gone))
    }
}

/// What agents call it when they do not know a session.
const SESSION_GONE: [&str; 4] = [
    "session not found",
    "session does not exist",
    "unknown session",
    "no such session",
];

/// The text in what an error carries beside its message: agents name it as they like.
fn details(data: &Value) -> Option<&str> {
    const PATHS: [&[&str]; 7] = [
        &[],
        &["details"],
        &["message"],
        &["error", "message"],
        &["error"],
        &["reason"],
        &["cause"],
    ];
    PATHS.iter().find_map(|path| text(data, path))
}

/// What is at the end of a path of names; null where it breaks off.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter()
        .try_fold(value, |value, name| value.get(name))
        .unwrap_or(&Value::Null)
}

/// The text at the end of a path of names.
pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path).as_str()
}

/// Everything that an array holds; nothing where there is none.
pub(super) fn each<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let items = value.get(name).and_then(Value::as_array);
    items.into_iter().flatten()
}

/// What an agent said about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentFacts {
    pub(super) name: String,
    pub(super) version: String,
    /// It can go on with an earlier session.
    pub(super) resumes: bool,
    /// It can do so by telling again what was said.
    pub(super) loads: bool,
}

impl AgentFacts {
    /// From the answer to `initialize`.
    pub(super) fn of(answer: &Value) -> Self {
        let caps = at(answer, &["agentCapabilities"]);
        let word = |name| text(answer, &["agentInfo", name]).unwrap_or_default();
        Self {
            name: word("name").to_owned(),
            version: word("version").to_owned(),
            resumes: at(caps, &["sessionCapabilities", "resume"]).is_object(),
            loads: at(caps, &["loadSession"]) == &Value::Bool(true),
        }
    }
}

/// Requests of ours.
pub(super) fn request(id: u64, method: &str, params: Value) -> Option<Frame> {
    Frame::of(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).ok()
}

/// Files and terminals are not offered: agents have the disk themselves, and one that is offered
/// files fails at making new ones.
pub(super) fn initialize(id: u64) -> Option<Frame> {
    let version = env!("CARGO_PKG_VERSION");
    let params = json!({
        "protocolVersion": PROTOCOL,
        "clientInfo": {"name": "threadline", "title": "Threadline", "version": version},
        "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false},
            "terminal": false,
        },
    });
    request(id, "initialize", params)
}

pub(super) fn cancel(session: &str) -> Option<Frame> {
    let params = json!({"sessionId": session});
    Frame::of(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params})).ok()
}

/// An answer of ours, to an id as the agent wrote it: a number may be larger than any that we count with.
fn answer(id: &str, name: &str, value: Value) -> Option<Frame> {
    Frame::answer(id, name, &value).ok()
}

/// The method by which an agent asks a person.
pub(super) const PERMISSION: &str = "session/request_permission";

/// The answer to a permission: an option, or that nobody will answer any more.
pub(super) fn permission(id: &str, option: Option<&str>) -> Option<Frame> {
    answer(id, "result", outcome(option))
}

fn outcome(option: Option<&str>) -> Value {
    let outcome = match option {
        Some(option) => json!({"outcome": "selected", "optionId": option}),
        None => json!({"outcome": "cancelled"}),
    };
    json!({"outcome": outcome})
}

/// What an agent hears that asks while no turn is open.
pub(super) fn unattended() -> BTreeMap<String, Value> {
    [(PERMISSION.to_owned(), outcome(None))].into()
}

/// The answer to a request for something that we never offered.
pub(super) fn refused(id: &str, method: &str) -> Option<Frame> {
    let message = format!("{method} is not offered by this client");
    answer(id, "error", json!({"code": NOT_FOUND, "message": message}))
}

/// The id of a request under which nothing can be answered: it has none, or neither a number nor a text.
pub(super) const NO_ID: &str = "null";

/// The answer to such a request.
pub(super) fn without_id() -> Option<Frame> {
    let message = "the id of a request must be a number or a text";
    answer(NO_ID, "error", json!({"code": NOT_RPC, "message": message}))
}

/// The answer to a request that could not be read.
pub(super) fn not_read(id: &str) -> Option<Frame> {
    let message = "this request could not be read";
    answer(id, "error", json!({"code": NOT_READ, "message": message}))
}
