//! Beginning a turn, asking how it stands, and stopping it.
//!
//! A turn begins with the gateway's `agent` method, and here alone. `chat.send`, which earlier bridges
//! use, leaves no native task record, and a turn that it began is not taken up when the gateway dies
//! before the model was reached; `agent` leaves a record from the first moment, and its turns were
//! taken up in every such case that was tried. What speaks against it, that an id which is sent again
//! after a restart spoils the record, never happens here: see [`Turns::begin`].

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use threadline_artifacts::content_type;
use threadline_contract::{Code, Fault, Millis};
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    evidence::{Evidence, History, Ruling, Tasks, Wait, rule},
    gateway::{CallError, Conn, Gateway},
    notes::{Note, Notes},
};
use crate::{RunRef, TurnPlan};

/// How long a gateway that was never there is waited for.
pub(super) const NEVER: Duration = Duration::from_secs(4);
/// How long one that is restarting is: it needs ten seconds, on a busy machine more than a minute.
pub(super) const RESTARTING: Duration = Duration::from_secs(120);
/// How long a small question may take.
pub(super) const SMALL: Duration = Duration::from_secs(30);
/// How long the gateway may take to accept a turn.
const ACCEPT: Duration = Duration::from_secs(120);
/// Rows of a transcript that are looked at: a turn's own are the newest.
const ROWS: u32 = 200;
/// How often a gateway that is too busy is asked again.
const TRIES: u32 = 5;

/// The turns on a gateway.
#[derive(Clone)]
pub(super) struct Turns {
    pub(super) gateway: Gateway,
    pub(super) notes: Notes,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Agent<'a> {
    message: &'a str,
    session_key: &'a str,
    /// The run's id: the gateway takes it for its own.
    idempotency_key: &'a str,
    /// To us, and not to a chat channel.
    deliver: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Attached>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attached {
    #[serde(rename = "type")]
    kind: &'static str,
    mime_type: String,
    file_name: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    session_key: Option<String>,
}

impl Accepted {
    /// Whether the turn was taken for the run and the session that it was sent for.
    fn is_of(&self, plan: &TurnPlan) -> bool {
        let session = self.session_key.as_deref();
        self.run_id == plan.run.as_str() && session.is_none_or(|key| key == plan.session.as_str())
    }

    /// Asks the gateway to stop a turn that nobody follows.
    async fn stop(&self, conn: &Conn, plan: &TurnPlan) {
        let params = OfSession {
            session_key: self.session_key.as_deref().unwrap_or(plan.session.as_str()),
            run_id: Some(&self.run_id),
            limit: None,
        };
        let stopped: Result<serde_json::Value, _> = conn.call("chat.abort", params, SMALL).await;
        if let Err(error) = stopped {
            tracing::error!(run.id = %plan.run, "A turn that the gateway took for another could not be stopped: {error}");
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfSession<'a> {
    session_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitFor<'a> {
    run_id: &'a str,
    timeout_ms: u64,
}

impl Turns {
    /// Begins the turn, once: a run that may have reached the gateway before is looked for there, and
    /// is sent again only to the same start of the gateway, which knows its id, or when there is no
    /// trace of it.
    pub(super) async fn begin(&self, plan: &TurnPlan) -> Result<(), Fault> {
        let conn = self.gateway.wait_for_work(NEVER, RESTARTING).await;
        let conn = conn.map_err(unreachable)?;
        let run = plan.run_ref();
        let mut note = match self.notes.read(&run).await? {
            Some(note) if note.end.is_some() => return Ok(()),
            Some(note) if note.name != note.run.as_str() => return Ok(()),
            Some(note) if note.boot == conn.boot() => note,
            Some(note) => match self.look(&conn, &note).await.map_err(unreachable)?.0 {
                Ruling::NoRecord => Note {
                    boot: conn.boot().to_owned(),
                    ..note
                },
                _ => return Ok(()),
            },
            None => Note {
                session: plan.session.clone(),
                run: plan.run.clone(),
                boot: conn.boot().to_owned(),
                name: plan.run.to_string(),
                sent_at: Millis::now(),
                refused: false,
                cancel_asked: false,
                end: None,
                ended_at: None,
                heard_at: None,
            },
        };
        note.refused = false;
        let attachments = attachments(plan, conn.hello().max_attachment()).await?;
        self.notes.write(&note).await?;
        match send(&conn, plan, attachments).await {
            Ok(accepted) if accepted.is_of(plan) => Ok(()),
            Ok(accepted) => {
                note.refused = true;
                self.notes.write(&note).await?;
                accepted.stop(&conn, plan).await;
                let code = Code::SessionMismatch;
                Err(Fault::new(code, code.advice()))
            }
            Err(error) => {
                if error.is_final() {
                    note.refused = true;
                    self.notes.write(&note).await?;
                }
                Err(not_begun(error))
            }
        }
    }

    /// How a run stands, by everything that the gateway says; with the transcript, for what was said.
    pub(super) async fn look(
        &self,
        conn: &Conn,
        note: &Note,
    ) -> Result<(Ruling, History), CallError> {
        let session = note.session.as_str();
        let of_session = |limit| OfSession {
            session_key: session,
            run_id: None,
            limit: Some(limit),
        };
        let wait = self.wait(conn, &note.name, Duration::ZERO);
        let history = conn.call::<History>("chat.history", of_session(ROWS), SMALL);
        let tasks = async {
            match conn.hello().has("tasks.list") {
                true => conn.call("tasks.list", of_session(100), SMALL).await,
                false => Ok(Tasks::default()),
            }
        };
        let (wait, history, tasks) = tokio::join!(wait, history, tasks);
        let (wait, history, tasks) = (wait?, history?, tasks?);
        let ruling = rule(&Evidence {
            name: &note.name,
            same_boot: note.boot == conn.boot(),
            cancel_asked: note.cancel_asked,
            heard: conn.heard(),
            uptime: conn.uptime(),
            wait,
            history: history.clone(),
            tasks,
        });
        Ok((ruling, history))
    }

    /// Waits for a run's end; it does not affect the run.
    pub(super) async fn wait(
        &self,
        conn: &Conn,
        name: &str,
        how_long: Duration,
    ) -> Result<Wait, CallError> {
        let timeout_ms = u64::try_from(how_long.as_millis()).unwrap_or(u64::MAX);
        let params = WaitFor {
            run_id: name,
            timeout_ms,
        };
        conn.call("agent.wait", params, how_long + SMALL).await
    }

    /// Asks the run to stop. What it did until then stays.
    pub(super) async fn cancel(&self, run: &RunRef) -> Result<(), Fault> {
        let Some(mut note) = self.notes.read(run).await? else {
            return Err(no_record());
        };
        if note.end.is_some() {
            return Ok(());
        }
        if !note.cancel_asked {
            note.cancel_asked = true;
            self.notes.write(&note).await?;
        }
        let conn = self.gateway.wait_up(NEVER, NEVER).await;
        let conn = conn.map_err(unreachable)?;
        let params = OfSession {
            session_key: note.session.as_str(),
            run_id: Some(&note.name),
            limit: None,
        };
        let stopped: Result<serde_json::Value, _> = conn.call("chat.abort", params, SMALL).await;
        stopped.map(drop).map_err(unreachable)
    }
}

async fn send(
    conn: &Arc<Conn>,
    plan: &TurnPlan,
    attachments: Vec<Attached>,
) -> Result<Accepted, CallError> {
    let params = Agent {
        message: &plan.prompt,
        session_key: plan.session.as_str(),
        idempotency_key: plan.run.as_str(),
        deliver: false,
        attachments,
    };
    let mut tries = 0;
    loop {
        tries += 1;
        match conn.call("agent", &params, ACCEPT).await {
            Err(CallError::Refused(busy)) if busy.retryable && tries < TRIES => {
                let pause = busy.retry_after_ms.unwrap_or(1000).min(10_000);
                sleep(Duration::from_millis(pause)).await;
            }
            done => return done,
        }
    }
}

async fn attachments(plan: &TurnPlan, most: u64) -> Result<Vec<Attached>, Fault> {
    if plan.attachments.is_empty() {
        return Ok(vec![]);
    }
    let files = plan.attachments.clone();
    let read = spawn_blocking(move || {
        let mut all = 0;
        let mut out = Vec::with_capacity(files.len());
        for file in files {
            let bytes = threadline_files::atomic::read_limited(&file.path, most)
                .map_err(crate::local::storage_fault)?;
            all += bytes.len() as u64;
            if all > most {
                let text = format!("The gateway takes {most} bytes of attachments in all.");
                return Err(Fault::new(Code::AttachmentTooLarge, text));
            }
            out.push(Attached {
                kind: "file",
                mime_type: content_type(&file.name, &bytes).to_owned(),
                file_name: file.name,
                content: BASE64.encode(&bytes),
            });
        }
        Ok(out)
    });
    read.await.unwrap_or_else(|error| {
        tracing::error!(%error, "reading attachments broke");
        Err(Fault::internal())
    })
}

fn content_type(name: &str, bytes: &[u8]) -> &'static str {
    let head = &bytes[..bytes.len().min(content_type::HEAD)];
    content_type::of_name(name).unwrap_or_else(|| content_type::of_head(head))
}

/// What a caller is told when the gateway did not begin the turn.
fn not_begun(error: CallError) -> Fault {
    match error {
        CallError::Refused(refused) if !refused.retryable => Fault::new(
            Code::ExecutionFailed,
            format!("The OpenClaw gateway refused the turn: {refused}."),
        ),
        CallError::NotSent(why) => Fault::new(Code::ExecutionFailed, format!("{why}.")),
        other => unreachable(other),
    }
}

/// What a caller is told when the gateway cannot be asked.
pub(super) fn unreachable(error: CallError) -> Fault {
    let text = match error {
        CallError::Offline(why) => why,
        other => format!("The OpenClaw gateway cannot be asked: {other}."),
    };
    Fault::new(Code::ProviderUnavailable, text)
}

/// What a caller is told when the gateway does not say how a run stands.
pub(super) fn unsaid(error: CallError) -> Fault {
    match error {
        CallError::Refused(_) | CallError::NotUnderstood { .. } | CallError::Slow(_) => Fault::new(
            Code::WaitFailed,
            format!("The OpenClaw gateway does not say how the run stands: {error}."),
        ),
        other => unreachable(other),
    }
}

pub(super) fn no_record() -> Fault {
    Fault::new(
        Code::RunLost,
        "The OpenClaw gateway has no trace of this run.",
    )
}
