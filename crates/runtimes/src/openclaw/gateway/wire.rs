//! The gateway's frames. What comes in is read with patience: unknown fields and names are left alone.

use std::{
    collections::HashSet,
    fmt,
    sync::{PoisonError, RwLock},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The protocol that is spoken.
pub(super) const PROTOCOL: u32 = 4;

/// A frame that came in, of whatever kind.
#[derive(Debug, Deserialize)]
pub(super) struct Incoming {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Of a response.
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) ok: bool,
    #[serde(default)]
    pub(super) payload: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) error: Option<WireError>,
    /// Of an event.
    #[serde(default)]
    pub(super) event: Option<String>,
}

/// A request that goes out.
#[derive(Serialize)]
pub(super) struct Request<'a, P> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) id: &'a str,
    pub(super) method: &'a str,
    pub(super) params: P,
}

/// An error as the gateway tells it. Branch on `code` and `details`, never on `message`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct WireError {
    /// The code.
    #[serde(default)]
    pub(crate) code: String,
    /// For a person.
    #[serde(default)]
    pub(crate) message: String,
    /// What exactly.
    #[serde(default)]
    pub(crate) details: Option<serde_json::Value>,
    /// Trying again may help.
    #[serde(default)]
    pub(crate) retryable: bool,
    /// When.
    #[serde(default, rename = "retryAfterMs")]
    pub(crate) retry_after_ms: Option<u64>,
}

impl WireError {
    /// A text in the details.
    pub(crate) fn detail(&self, name: &str) -> Option<&str> {
        self.details.as_ref()?.get(name)?.as_str()
    }
    /// The gateway stops, or is about to start again: it takes nothing now.
    pub(crate) fn is_stopping(&self) -> bool {
        self.code == "UNAVAILABLE" && self.detail("reason") == Some("gateway-restarting")
    }
    /// Somebody has to approve this machine.
    pub(super) fn is_pairing(&self) -> bool {
        self.code == "NOT_PAIRED" || self.detail("code") == Some("PAIRING_REQUIRED")
    }
    /// A yes or no in the details.
    pub(crate) fn flag(&self, name: &str) -> bool {
        let flag = self.details.as_ref().and_then(|d| d.get(name));
        flag.and_then(serde_json::Value::as_bool).unwrap_or(false)
    }
}
impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Some are sentences; here each becomes a part of one.
        let message = self.message.trim_end_matches('.');
        let code = self.detail("code").unwrap_or(&self.code);
        write!(f, "{message} ({code})")
    }
}

/// What the gateway asks a client to sign.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Challenge {
    pub(super) nonce: String,
    pub(super) ts: i64,
}

/// The gateway's answer to a good `connect`.
#[derive(Debug, Deserialize)]
pub(crate) struct Hello {
    /// Who answers.
    pub(crate) server: Server,
    /// As it last said: they change while it runs.
    #[serde(default)]
    features: RwLock<Features>,
    #[serde(default)]
    pub(super) snapshot: Snapshot,
    #[serde(default)]
    pub(super) auth: Granted,
    #[serde(default)]
    policy: Policy,
}

/// Who answers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Server {
    /// Its version.
    #[serde(default)]
    pub(crate) version: String,
    /// Changes with every start: what it knew only in memory is gone then.
    #[serde(default, rename = "bootId")]
    pub(crate) boot: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Features {
    #[serde(default)]
    methods: HashSet<String>,
}

/// How it stands.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Snapshot {
    #[serde(default, rename = "uptimeMs")]
    pub(super) uptime_ms: Option<u64>,
    #[serde(default, rename = "sessionDefaults")]
    pub(super) session_defaults: Defaults,
}

/// What holds where nothing is said; also a part of each `health` event.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Defaults {
    #[serde(default, rename = "defaultAgentId")]
    pub(super) agent: Option<String>,
}

/// What was granted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Granted {
    #[serde(default)]
    pub(super) device_token: Option<String>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    #[serde(default)]
    tick_interval_ms: Option<u64>,
    #[serde(default)]
    max_payload: Option<u64>,
    #[serde(default)]
    attachments: Attachments,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attachments {
    #[serde(default)]
    max_image_bytes: Option<u64>,
}

impl Hello {
    /// Whether it has this method. Asking it would not tell: without admin rights an unknown method
    /// looks like a forbidden one.
    pub(crate) fn has(&self, method: &str) -> bool {
        let features = self.features.read();
        let features = features.unwrap_or_else(PoisonError::into_inner);
        features.methods.contains(method)
    }
    /// Takes over what a later greeting of the same gateway says that it can do.
    pub(super) fn learn(&self, later: Self) {
        let later = later.features.into_inner();
        let later = later.unwrap_or_else(PoisonError::into_inner);
        let features = self.features.write();
        *features.unwrap_or_else(PoisonError::into_inner) = later;
    }
    /// How long it may be silent.
    pub(super) fn patience_ms(&self) -> u64 {
        let tick = self.policy.tick_interval_ms.unwrap_or(30_000);
        tick.clamp(100, 300_000) * 2
    }
    /// How long a frame to it may be.
    pub(crate) fn max_payload(&self) -> usize {
        let most = self.policy.max_payload.unwrap_or(26_214_400);
        usize::try_from(most).unwrap_or(usize::MAX)
    }
    /// How many bytes an image may have that goes with a turn.
    pub(crate) fn max_image(&self) -> u64 {
        let most = self.policy.attachments.max_image_bytes;
        most.unwrap_or(6 * 1024 * 1024)
    }
}

/// What the `shutdown` event tells.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shutdown {
    #[serde(default)]
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) restart_expected_ms: Option<u64>,
}

/// Whose event this is, and whether it is the run's last.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfRun {
    #[serde(default)]
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) session_key: String,
    /// Of a `chat` event.
    #[serde(default)]
    pub(super) state: Option<String>,
    /// Of a command that wants leave.
    #[serde(default)]
    request: Option<Requested>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Requested {
    #[serde(default)]
    run_id: Option<String>,
}

impl OfRun {
    /// The run, if it is told.
    pub(super) fn run(&self) -> Option<&str> {
        let request = self.request.as_ref().and_then(|r| r.run_id.as_deref());
        request.or(Some(&self.run_id)).filter(|run| !run.is_empty())
    }
    pub(super) fn is_last(&self) -> bool {
        matches!(self.state.as_deref(), Some("final" | "error" | "aborted"))
    }
}
