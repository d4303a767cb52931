//! Newtypes for every id and key, checked when they are made so that no other code has to.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize};

/// Why a text cannot be the id it was meant to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    /// Nothing but white space.
    #[error("{what} is required")]
    Blank {
        /// The id that was asked for, as a person would call it.
        what: &'static str,
    },
    /// More characters than the id may have.
    #[error("{what} has {got} characters, at most {most} are allowed")]
    TooLong {
        /// The id that was asked for.
        what: &'static str,
        /// How many characters came.
        got: usize,
        /// How many would have been fine.
        most: usize,
    },
    /// A NUL character, which neither a database nor a path can hold.
    #[error("{what} contains a NUL character")]
    Nul {
        /// The id that was asked for.
        what: &'static str,
    },
    /// A control character, such as a line's end: neither a gateway nor a person could tell what is meant.
    #[error("{what} contains a control character")]
    Control {
        /// The id that was asked for.
        what: &'static str,
    },
    /// Something other than small letters and digits, of which a short id is made.
    #[error("{what} may have small letters and digits only")]
    NotShort {
        /// The id that was asked for.
        what: &'static str,
    },
    /// A part of the key belongs to the gateway's own sessions.
    #[error("{what} contains the reserved part `{part}:`")]
    Reserved {
        /// The id that was asked for.
        what: &'static str,
        /// The reserved word.
        part: &'static str,
    },
}

fn checked(what: &'static str, most: usize, text: &str) -> Result<Arc<str>, BadId> {
    let text = text.trim();
    if text.is_empty() {
        return Err(BadId::Blank { what });
    }
    let got = text.chars().count();
    if got > most {
        return Err(BadId::TooLong { what, got, most });
    }
    Ok(text.into())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $most:literal $(, $extra:path)?) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a text. White space around it is dropped.
            pub fn new(text: impl AsRef<str>) -> Result<Self, BadId> {
                let text = checked($what, $most, text.as_ref())?;
                $($extra($what, &text)?;)?
                Ok(Self(text))
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl std::str::FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::new(text)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "minLength": 1, "maxLength": $most})
            }
        }
    };
}

/// Words that the gateway keeps for its own sessions; neither a thread nor a part of a key may be named so.
const RESERVED: [&str; 3] = ["acp", "cron", "subagent"];

fn no_nul(what: &'static str, text: &str) -> Result<(), BadId> {
    if text.contains('\0') {
        Err(BadId::Nul { what })
    } else {
        Ok(())
    }
}

fn not_reserved(what: &'static str, text: &str) -> Result<(), BadId> {
    if text.contains(char::is_control) {
        return Err(BadId::Control { what });
    }
    let mut parts: Vec<&str> = text.split(':').collect();
    parts.pop();
    match RESERVED
        .into_iter()
        .find(|r| parts.iter().any(|p| p.eq_ignore_ascii_case(r)))
    {
        Some(part) => Err(BadId::Reserved { what, part }),
        None => Ok(()),
    }
}

/// Whether a text is an id that stands between the colons of a key.
pub(crate) fn is_short_id(text: &str) -> bool {
    let length = text.chars().count();
    (1..=12).contains(&length) && short("", text).is_ok()
}

fn short(what: &'static str, text: &str) -> Result<(), BadId> {
    if !text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9')) {
        return Err(BadId::NotShort { what });
    }
    match RESERVED.into_iter().find(|word| *word == text) {
        Some(part) => Err(BadId::Reserved { what, part }),
        None => Ok(()),
    }
}

text_id! {
    /// The tenant. Every record belongs to exactly one, and every query names it.
    AccountId, "account", 64, no_nul
}
text_id! {
    /// The app's name for a thread (`draft:1780658097668838-1`). Equal to `TaskThread.sessionKey`.
    AppThreadKey, "appThreadKey", 512, not_reserved
}
text_id! {
    /// A session on a runtime (`agent:main:draft:…` on OpenClaw, `builtin:main:draft:…` here).
    /// Read from the durable mapping, never made by taking another key apart.
    SessionKey, "session key", 512
}
text_id! {
    /// One turn on one session.
    RunId, "run id", 200
}
text_id! {
    /// The client's idempotency key, unique per account and thread.
    RequestId, "requestId", 128, no_nul
}
text_id! {
    /// A question or permission that waits for a person.
    QuestionId, "questionId", 128, no_nul
}
text_id! {
    /// Names a token without revealing it.
    TokenId, "token id", 64
}
text_id! {
    /// An agent of a team. It is a part of session keys, and so short.
    AgentId, "agent id", 12, short
}
text_id! {
    /// A person of an account.
    PersonId, "person id", 64, no_nul
}

text_id! {
    /// A task of the board, as keys name it.
    TaskId, "task id", 12, short
}
text_id! {
    /// A build, as keys name it.
    BuildId, "build id", 12, short
}

fn fresh(prefix: &str) -> Arc<str> {
    format!("{prefix}{}", uuid::Uuid::now_v7().simple()).into()
}

impl RunId {
    /// A new run id. Sorted by time, so that runs list in the order they were made.
    pub fn fresh() -> Self {
        Self(fresh("turn-"))
    }
}
impl QuestionId {
    /// A new question id.
    pub fn fresh() -> Self {
        Self(fresh("q-"))
    }
}
impl TokenId {
    /// A new token id.
    pub fn fresh() -> Self {
        Self(fresh("tok-"))
    }
}
impl RequestId {
    /// A new idempotency key.
    pub fn fresh() -> Self {
        Self(fresh("req-"))
    }
}
impl AccountId {
    /// The account that first start makes.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// Whether this is the machine's own account, that of the app and of whoever runs the server.
    pub fn is_local(&self) -> bool {
        self.as_str() == "local"
    }
}
impl AppThreadKey {
    /// The key of a new thread: `draft:<epoch µs>-<n>`. `n` tells threads of one microsecond apart.
    pub fn draft(now: Millis, n: u32) -> Self {
        Self(format!("draft:{}-{n}", now.0.saturating_mul(1000)).into())
    }
}

impl AppThreadKey {
    /// The name of an owner that is no thread: made of short ids, it needs no check.
    pub(crate) fn of_owner(owner: &crate::Owner) -> Self {
        Self(owner.to_string().into())
    }
}

/// The agent of an OpenClaw gateway that a key names, and the rest of the key.
fn names_agent(key: &str) -> Option<(&str, &str)> {
    let (agent, rest) = key.strip_prefix("agent:")?.split_once(':')?;
    let is_one = gateway_agent(agent).is_some_and(|normal| normal == agent);
    (is_one && !rest.is_empty()).then_some((agent, rest))
}

/// The id of an OpenClaw gateway's agent as the gateway itself writes it: small letters, digits, `-`
/// and `_`, at most 64. `None` when nothing of a name is left.
pub fn gateway_agent(name: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name = name.trim().to_ascii_lowercase();
    let parts: Vec<&str> = name
        .split(|c| !fits(c))
        .filter(|part| !part.is_empty())
        .collect();
    let id: String = parts.join("-").chars().take(64).collect();
    let id = id.trim_matches('-');
    (!id.is_empty()).then(|| id.to_owned())
}

impl SessionKey {
    /// The one-time creation policy for a session that has no mapping yet on the OpenClaw gateway,
    /// in the gateway's own normal form (lower case): `agent:<agent>:<appThreadKey>`. A key that names
    /// its agent (`agent:<id>:…`) has that form already. `twin` > 1 tells case twins apart.
    pub fn for_openclaw(thread: &AppThreadKey, agent: &str, twin: u32) -> Self {
        let key = thread.as_str().to_lowercase();
        let (agent, key) = names_agent(&key).unwrap_or((agent, &key));
        let tail = if twin > 1 {
            format!("-{twin}")
        } else {
            String::new()
        };
        Self(format!("agent:{agent}:{key}{tail}").into())
    }

    /// A key that is checked before it is stored.
    pub(crate) fn unchecked(text: String) -> Self {
        Self(text.into())
    }

    /// The creation policy for a thread on every other runtime: `<runtime>:<agent>:<appThreadKey>`.
    pub fn for_runtime(runtime: &str, agent: &str, thread: &AppThreadKey) -> Self {
        Self(format!("{runtime}:{agent}:{thread}").into())
    }
}

/// Milliseconds since 1970, as they stand on the wire and in both databases.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// The wall clock.
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_millisecond())
    }
    /// Later by so many milliseconds.
    pub fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
