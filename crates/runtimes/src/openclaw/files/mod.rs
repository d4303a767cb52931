//! A run's files: the plugin makes the folders, and says what came of the run.
//!
//! The plugin may be an earlier one whose answers are not always true. What it says is held against
//! what was asked: another session, run or scope is refused, and folders in which other threads' files
//! lie are not named to it.

mod collect;
mod left;
mod prepare;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use threadline_contract::{
    ArtifactScope, Code, Fault, RunId, SessionKey, Sha256,
    method::TASKS_GET,
    plugin::{PREPARE, Whose},
};
use tokio::time::{Instant, sleep};

use super::{
    gateway::{CallError, Conn, Gateway, WireError},
    turn::{NEVER, RESTARTING, unreachable},
};

/// How long listing and hashing a large scope may take.
pub(super) const LARGE: Duration = Duration::from_secs(300);
/// How long a gateway that stops and starts is waited for, all in all.
const PATIENCE: Duration = Duration::from_secs(450);
/// How long one is that loads the plugin anew.
const RELOADING: Duration = Duration::from_secs(10);

/// How long a plugin that answered counts as there.
const LATELY: Duration = Duration::from_secs(5);
/// How long a look whether it is there may take.
const LOOK: Duration = Duration::from_secs(2);

/// What is said where the plugin is missing.
pub(super) const NO_PLUGIN: &str = "The OpenClaw gateway has no Threadline plugin, so it cannot keep a run's files apart. `threadline openclaw install` puts it there.";

/// When the plugin last answered.
#[derive(Clone, Default)]
pub(super) struct Plugin(Arc<Mutex<Option<Instant>>>);

impl Plugin {
    fn heard(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
    fn was_heard(&self) -> bool {
        let heard = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.is_some_and(|at| at.elapsed() < LATELY)
    }
}

/// Files on a gateway.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) gateway: Gateway,
    pub(super) plugin: Plugin,
    pub(super) http: reqwest::Client,
}

/// A file as the plugin tells of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flat {
    relative_path: String,
    #[serde(default)]
    content_type: Option<Cow<'static, str>>,
    size_bytes: u64,
    sha256: Sha256,
    #[serde(default)]
    artifact_scope: Option<String>,
    /// A peer's mark of a file that nobody's agent made.
    #[serde(default)]
    placeholder: bool,
}

impl Files {
    /// Asks the plugin; whatever is asked here can be asked again. A gateway that starts or stops turns
    /// everybody away for a while, and one whose settings changed has no plugin for a moment.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
        code: Code,
    ) -> Result<T, Fault> {
        let params = plain(params)?;
        let begun = Instant::now();
        loop {
            let conn = self.gateway.wait_for_work(NEVER, RESTARTING).await;
            let conn = conn.map_err(unreachable)?;
            let error = match conn.call(method, &params, limit).await {
                Ok(answer) => {
                    self.plugin.heard();
                    return Ok(answer);
                }
                Err(error) if forbids(&error) && !self.has_still(&conn, method).await => {
                    return Err(no_plugin(code));
                }
                Err(error) => error,
            };
            let (pause, patience) = match &error {
                CallError::Refused(away) if away.code == "UNAVAILABLE" && away.retryable => {
                    let asked = away.retry_after_ms.unwrap_or(1000).clamp(100, 5_000);
                    (asked, PATIENCE)
                }
                // The gateway's own word, without a reason: the plugin always gives one.
                CallError::Refused(away)
                    if away.code == "UNAVAILABLE" && away.details.is_none() =>
                {
                    (250, RELOADING)
                }
                CallError::Offline(_) => (200, PATIENCE),
                _ => return Err(refused(error, code)),
            };
            if begun.elapsed() > patience {
                return Err(refused(error, code));
            }
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Whether the gateway has this method of the plugin. If it had it not when it greeted, it is asked
    /// again.
    async fn has(&self, conn: &Conn, method: &str) -> bool {
        conn.hello().has(method) || self.has_still(conn, method).await
    }

    /// The same, by what the gateway says now.
    async fn has_still(&self, conn: &Conn, method: &str) -> bool {
        self.gateway.read_features(conn).await;
        conn.hello().has(method)
    }

    /// Whether the plugin is there. If nothing was heard of it lately, it is asked something small, as a
    /// gateway forbids what it does not know.
    pub(super) async fn has_plugin(&self, conn: &Conn) -> bool {
        if !self.has(conn, PREPARE).await {
            return false;
        }
        if self.plugin.was_heard() {
            return true;
        }
        let nothing = serde_json::json!({});
        let there = match conn.call::<Value>(TASKS_GET, nothing, LOOK).await {
            Err(error) if forbids(&error) => self.has_still(conn, PREPARE).await,
            // Whatever else it says, or is too busy to say.
            _ => true,
        };
        if there {
            self.plugin.heard();
        }
        there
    }

    pub(super) async fn conn(&self, restarting: Duration) -> Result<Arc<Conn>, Fault> {
        let up = self.gateway.wait_up(NEVER, restarting).await;
        up.map_err(unreachable)
    }
}

pub(super) fn whose(session: &SessionKey, run: &RunId) -> Whose {
    Whose {
        openclaw_session_key: Some(session.to_string()),
        run_id: Some(run.to_string()),
        ..Whose::default()
    }
}

/// The scope, if it is this run's: in our spelling, or in that of the earlier plugin.
fn own_scope(text: &str, session: &SessionKey, run: &RunId) -> Option<ArtifactScope> {
    ArtifactScope::check_to_read(text, session, run).ok()
}

/// Parameters without the fields that say nothing: an earlier plugin takes `null` for zero.
pub(super) fn plain(params: &impl Serialize) -> Result<Value, Fault> {
    let mut value = serde_json::to_value(params).map_err(|_| Fault::internal())?;
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(value)
}

/// A gateway says so of a method that others may ask, and of one that it does not know.
fn is_missing_scope(refusal: &WireError) -> bool {
    refusal.code == "FORBIDDEN" || refusal.detail("code") == Some("MISSING_SCOPE")
}

fn forbids(error: &CallError) -> bool {
    matches!(error, CallError::Refused(refusal) if is_missing_scope(refusal))
}

/// What a caller is told when there is no plugin. Files may come when it is back.
fn no_plugin(code: Code) -> Fault {
    let code = match code {
        Code::OpenClawPrepareFailed => code,
        _ => Code::ProviderUnavailable,
    };
    Fault::new(code, NO_PLUGIN)
}

/// What a caller is told when the plugin said no.
pub(super) fn refused(error: CallError, code: Code) -> Fault {
    let refusal = match error {
        CallError::Refused(refusal) if !refusal.is_stopping() => refusal,
        other => return unreachable(other),
    };
    if is_missing_scope(&refusal) {
        return Fault::new(
            code,
            "The plugin in the OpenClaw gateway answers administrators only. `threadline openclaw install` puts one there that does not need it, or set `openclaw.admin = true`.",
        );
    }
    match Code::find(&refusal.code) {
        Some(Code::InvalidRequest) | None => Fault::new(code, format!("{refusal}.")),
        Some(own) => Fault::new(own, format!("{}.", refusal.message.trim_end_matches('.'))),
    }
}

fn foreign(code: Code) -> Fault {
    Fault::new(
        code,
        "The plugin in the OpenClaw gateway answered for another run. Nothing of it was taken.",
    )
}
