//! One JSON-RPC message, kept as it was written.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use crate::mend::{mend, top};

/// The longest frame that is taken from either side.
pub const LONGEST_FRAME: usize = 48 * 1024 * 1024;

/// One JSON-RPC message. Its text is that of its author: nothing is sorted, rounded or dropped. Only what
/// no reader would take is mended ([`mend`](crate::mend)).
#[derive(Clone)]
pub struct Frame(Box<RawValue>);

/// Why a text is not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAFrame {
    /// It is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// It is not JSON.
    #[error("not JSON")]
    NotJson,
    /// It is JSON, but not one JSON-RPC message.
    #[error("not a JSON-RPC message")]
    NotRpc,
}

/// What a frame is for the two that talk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Somebody waits for an answer.
    Request {
        /// What the answer must carry.
        id: Id,
        /// What is asked.
        method: String,
    },
    /// Nobody waits.
    Notification {
        /// What is told.
        method: String,
    },
    /// The answer to a request.
    Response {
        /// The request.
        id: Id,
    },
    /// Neither a method nor an id that could be answered.
    Other,
}

/// What ties an answer to its request. A number and a text of the same digits are different ids; see
/// [`number`](Self::number) for agents that do not know that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Id {
    /// A number, as it was written.
    Number(String),
    /// A text.
    Text(String),
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
}

impl Frame {
    /// Reads a frame.
    pub fn parse(text: &[u8]) -> Result<Self, NotAFrame> {
        Self::parse_kind(text).map(|(frame, _)| frame)
    }

    /// Reads a frame, and tells what it is.
    pub(crate) fn parse_kind(text: &[u8]) -> Result<(Self, Kind), NotAFrame> {
        let text = without_mark(text);
        Self::strict(text).or_else(|why| match why {
            NotAFrame::NotRpc => Err(why),
            _ => Self::strict(mend(text).as_bytes()).map_err(|_| why),
        })
    }

    fn strict(text: &[u8]) -> Result<(Self, Kind), NotAFrame> {
        let text = std::str::from_utf8(text).map_err(|_| NotAFrame::NotUtf8)?;
        let raw: &RawValue = serde_json::from_str(text).map_err(|_| NotAFrame::NotJson)?;
        if !raw.get().starts_with('{') {
            return Err(NotAFrame::NotRpc);
        }
        let peek: Peek<'_> = serde_json::from_str(raw.get()).map_err(|_| NotAFrame::NotRpc)?;
        Ok((Self(on_one_line(raw)?), peek.kind()))
    }

    /// A frame of a value.
    pub fn of(value: &impl Serialize) -> Result<Self, NotAFrame> {
        let text = serde_json::to_vec(value).map_err(|_| NotAFrame::NotJson)?;
        Self::parse(&text)
    }

    /// The answer to a request, whose id ([`Id::json`]) comes back as it was written. `name` is `result` or `error`.
    pub fn answer(id: &str, name: &str, value: &impl Serialize) -> Result<Self, NotAFrame> {
        let value = serde_json::to_string(value).map_err(|_| NotAFrame::NotJson)?;
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#);
        Self::parse(text.as_bytes())
    }

    /// Its text, on one line.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        serde_json::from_str(self.text()).map_or(Kind::Other, Peek::kind)
    }
}

impl Peek<'_> {
    fn kind(self) -> Kind {
        let id = self.id.and_then(|raw| Id::of(raw.get()));
        match (self.method, id) {
            (Some(method), Some(id)) => Kind::Request {
                id,
                method: method.into_owned(),
            },
            (Some(method), None) => Kind::Notification {
                method: method.into_owned(),
            },
            (None, Some(id)) => Kind::Response { id },
            (None, None) => Kind::Other,
        }
    }
}

/// The messages that a line holds as a batch: a list of at least one object.
pub(crate) fn batch(text: &[u8]) -> Option<Vec<String>> {
    let text = without_mark(text).trim_ascii_start();
    if !text.starts_with(b"[") {
        return None;
    }
    let each = |text: &str| -> Option<Vec<String>> {
        let all: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let is_batch = all.iter().any(|one| one.get().starts_with('{'));
        is_batch.then(|| all.iter().map(|one| one.get().to_owned()).collect())
    };
    let strict = std::str::from_utf8(text).ok().and_then(each);
    strict.or_else(|| each(&mend(text)))
}

/// Some write a byte order mark before what they say.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text)
}

/// What a line that is not a frame was meant to be, as far as its beginning tells.
pub(crate) fn meant(text: &[u8]) -> Option<Kind> {
    let text = mend(without_mark(text));
    let text = text.trim_start();
    if !text.starts_with('{') {
        return None;
    }
    let peek = Peek {
        id: top(text, "id").and_then(|raw| serde_json::from_str(raw).ok()),
        method: top(text, "method").and_then(|raw| serde_json::from_str(raw).ok()),
    };
    Some(peek.kind())
}

impl Id {
    /// The whole number that it means. Some agents answer a number as a text of its digits, or as a fraction.
    pub fn number(&self) -> Option<u64> {
        let (Self::Number(digits) | Self::Text(digits)) = self;
        let whole = digits.trim_end_matches('0').strip_suffix('.');
        let whole = whole.filter(|_| matches!(self, Self::Number(_)));
        whole.unwrap_or(digits).parse().ok()
    }

    /// As it is written in a frame.
    pub fn json(&self) -> String {
        match self {
            Self::Number(number) => number.clone(),
            Self::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        }
    }

    fn of(raw: &str) -> Option<Self> {
        match raw.as_bytes().first()? {
            b'"' => serde_json::from_str(raw).ok().map(Self::Text),
            b'-' | b'0'..=b'9' => Some(Self::Number(raw.to_owned())),
            _ => None,
        }
    }
}

/// A line break can only stand between tokens, where a space means the same.
fn on_one_line(raw: &RawValue) -> Result<Box<RawValue>, NotAFrame> {
    if !raw.get().contains(['\n', '\r']) {
        return Ok(raw.to_owned());
    }
    RawValue::from_string(raw.get().replace(['\n', '\r'], " ")).map_err(|_| NotAFrame::NotJson)
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Frame {}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Frame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// From a line of ours, which has no line break in it, and was a frame when it was written.
impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match raw.get().starts_with('{') {
            true => Ok(Self(raw)),
            false => Err(D::Error::custom(NotAFrame::NotRpc)),
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
