//! Beginning a turn, asking how it stands, and stopping it.
//!
//! A turn begins with the gateway's `agent` method, and here alone. `chat.send`, which earlier bridges
//! use, leaves no native task record, and a turn that it began is not taken up when the gateway dies
//! before the model was reached; `agent` leaves a record from the first moment, and its turns were
//! taken up in every such case that was tried. What speaks against it, that an id which is sent again
//! after a restart spoils the record, never happens here: see [`Turns::begin`].

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use threadline_contract::{Code, Fault, Usage};
use tokio::time::{sleep, timeout};

use super::{
    attachments::{Attachments, Image, Limits},
    evidence::{Evidence, Ruling, Wait, rule},
    gateway::{CallError, Conn, Gateway, Link, Second},
    notes::{Note, Notes},
    stops::Stops,
    transcript::History,
    used::Receipts,
};
use crate::{End, RunRef, TurnPlan};

/// How long a gateway that was never there is waited for.
pub(super) const NEVER: Duration = Duration::from_secs(4);
/// How long one is waited for by somebody who wants to know how a run stands: the record tells it too.
pub(super) const AT_ONCE: Duration = Duration::from_millis(300);
/// How long one that is restarting is, and any by a turn that has not begun: it needs ten seconds, on a
/// busy machine more than a minute.
pub(super) const RESTARTING: Duration = Duration::from_secs(120);
/// How long a small question may take.
pub(super) const SMALL: Duration = Duration::from_secs(30);
/// How long the gateway may take to accept a turn.
const ACCEPT: Duration = Duration::from_secs(120);
/// How long a gateway that ended a turn may take to tell what it used: it still writes things down.
const RECEIPT: Duration = Duration::from_millis(500);
/// How long the transcript may take to tell it instead.
const USED: Duration = Duration::from_secs(2);
/// How often a gateway that is too busy is asked again.
const TRIES: u32 = 5;

/// The turns on a gateway.
#[derive(Clone)]
pub(super) struct Turns {
    pub(super) gateway: Gateway,
    pub(super) notes: Notes,
    pub(super) stops: Stops,
    pub(super) receipts: Receipts,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Agent<'a> {
    message: &'a str,
    session_key: &'a str,
    /// The run's name there: the gateway takes it for its own id.
    idempotency_key: &'a str,
    /// To us, and not to a chat channel.
    deliver: bool,
    #[serde(skip_serializing_if = "<[Image]>::is_empty")]
    attachments: &'a [Image],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_system_prompt: Option<&'a str>,
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
    /// Whether the turn was taken by this name, and for the session that it was sent for.
    fn is_of(&self, plan: &TurnPlan, name: &str) -> bool {
        let session = self.session_key.as_deref();
        self.run_id == name && session.is_none_or(|key| key == plan.session.as_str())
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
pub(super) struct OfSession<'a> {
    pub(super) session_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u32>,
}

impl<'a> OfSession<'a> {
    /// The newest of the session of a run, so many.
    pub(super) fn newest(note: &'a Note, limit: u32) -> Self {
        Self {
            session_key: note.session.as_str(),
            run_id: None,
            limit: Some(limit),
        }
    }
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
    /// trace of it. A gateway that is stopping is waited for until it is back.
    pub(super) async fn begin(&self, plan: &TurnPlan) -> Result<(), Fault> {
        let run = plan.run_ref();
        let stop = self.stops.expect(&run);
        loop {
            let conn = tokio::select! {
                conn = self.gateway.wait_to_begin(RESTARTING) => conn.map_err(unreachable)?,
                () = stop.asked() => return Err(stopped()),
            };
            let note = match self.notes.read(&run).await? {
                Some(note) if note.end.is_some() || note.name != note.run.as_str() => return Ok(()),
                Some(note) if note.refused && note.cancel_asked => return Err(stopped()),
                Some(note) if note.boot == conn.boot() => note,
                Some(note) => match self.look(&conn, &note).await {
                    Ok((Ruling::NoRecord, _)) if note.cancel_asked => return Err(stopped()),
                    Ok((Ruling::NoRecord, _)) => Note {
                        boot: conn.boot().to_owned(),
                        ..note
                    },
                    Ok(_) => return Ok(()),
                    Err(error) if error.is_stopping() => continue,
                    Err(error) => return Err(unreachable(error)),
                },
                None => Note::new(plan, conn.boot()),
            };
            let (sent, notice) = tokio::join!(
                self.hand_over(&conn, plan, note),
                self.conversation_gone(&conn, plan)
            );
            match sent? {
                Ok(()) => return self.tell_in_run(&run, notice).await,
                Err(error) if error.is_stopping() => {}
                done => return done.map_err(not_begun),
            }
        }
    }

    /// Has the run tell this, first of all.
    async fn tell_in_run(&self, run: &RunRef, notice: Option<&str>) -> Result<(), Fault> {
        let Some(notice) = notice else {
            return Ok(());
        };
        let note = self.notes.read(run).await?.ok_or_else(no_record)?;
        let note = Note {
            notice: Some(notice.to_owned()),
            ..note
        };
        self.notes.write(&note).await
    }

    /// Sends a turn under the name in its note, which is on the disk before.
    pub(super) async fn hand_over(
        &self,
        conn: &Arc<Conn>,
        plan: &TurnPlan,
        mut note: Note,
    ) -> Result<Result<(), CallError>, Fault> {
        note.refused = false;
        let attachments = Attachments::read(plan, Limits::of(conn.hello())).await?;
        self.notes.write(&note).await?;
        let sent = match send(conn, plan, &note.name, &attachments).await {
            Ok((accepted, receipt)) if accepted.is_of(plan, &note.name) => {
                self.receipts.expect(note.run_ref(), receipt);
                Ok(())
            }
            Ok((accepted, _)) => {
                note.refused = true;
                self.notes.write(&note).await?;
                accepted.stop(conn, plan).await;
                let code = Code::SessionMismatch;
                return Err(Fault::new(code, code.advice()));
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &sent
            && (error.is_final() || error.is_stopping())
        {
            note.refused = true;
            // A stop may have been asked for meanwhile.
            let kept = self.notes.read(&note.run_ref()).await?;
            note.cancel_asked |= kept.is_some_and(|kept| kept.cancel_asked);
            self.notes.write(&note).await?;
        }
        Ok(sent)
    }

    /// How a run stands, by everything that the gateway says; with the transcript, for what was said.
    pub(super) async fn look(
        &self,
        conn: &Conn,
        note: &Note,
    ) -> Result<(Ruling, History), CallError> {
        let wait = self.wait(conn, &note.name, Duration::ZERO);
        let history = self.history(conn, note);
        let tasks = self.tasks(conn, note);
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

    /// What a run used, by the gateway's last answer about it, else by its transcript. Nothing waits long
    /// for it.
    pub(super) async fn used(&self, note: &Note, end: &End) -> Option<Usage> {
        let run = note.run_ref();
        if end.usage.is_some_and(|usage| usage.input_tokens.is_some()) {
            self.receipts.forget(&run);
            return None;
        }
        let told = timeout(RECEIPT, self.receipts.usage(&run, &note.name)).await;
        if let Ok(Some(usage)) = told {
            return Some(usage);
        }
        let Link::Up(conn) = self.gateway.link() else {
            return None;
        };
        let history = timeout(USED, self.history(&conn, note)).await;
        history.ok()?.ok()?.usage(&note.name)
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

    /// Asks the run to stop. What was not sent is not sent any more; what was is stopped as soon as the
    /// gateway can be asked, and what it did until then stays.
    pub(super) async fn cancel(&self, run: &RunRef) -> Result<(), Fault> {
        let kept = self.notes.read(run).await?;
        let Some(mut note) = kept.filter(|note| !note.refused) else {
            return match self.stops.ask(run) {
                true => Ok(()),
                false => Err(no_record()),
            };
        };
        if note.end.is_some() {
            return Ok(());
        }
        if !note.cancel_asked {
            note.cancel_asked = true;
            self.notes.write(&note).await?;
        }
        let stopped = match self.gateway.link() {
            Link::Up(conn) => self.abort(&conn, &note).await,
            _ => Err(CallError::Offline("the gateway is away".into())),
        };
        if let Err(error) = stopped {
            // It is remembered: whoever follows the run stops it when the gateway can be asked.
            tracing::info!(run.id = %note.run, "Run {} is stopped when the gateway answers: {error}", note.run);
        }
        Ok(())
    }

    /// Asks the gateway to stop a run.
    pub(super) async fn abort(&self, conn: &Conn, note: &Note) -> Result<(), CallError> {
        let params = OfSession {
            session_key: note.session.as_str(),
            run_id: Some(&note.name),
            limit: None,
        };
        let stopped: Result<serde_json::Value, _> = conn.call("chat.abort", params, SMALL).await;
        stopped.map(drop)
    }
}

async fn send(
    conn: &Arc<Conn>,
    plan: &TurnPlan,
    name: &str,
    attachments: &Attachments,
) -> Result<(Accepted, Second), CallError> {
    let above = [plan.instructions.as_deref(), attachments.texts.as_deref()];
    let above: Vec<&str> = above.into_iter().flatten().collect();
    let above = (!above.is_empty()).then(|| above.join("\n\n"));
    let params = Agent {
        message: &plan.prompt,
        session_key: plan.session.as_str(),
        idempotency_key: name,
        deliver: false,
        attachments: &attachments.images,
        extra_system_prompt: above.as_deref(),
    };
    let mut tries = 0;
    loop {
        tries += 1;
        match conn.call_twice("agent", &params, ACCEPT).await {
            Err(CallError::Refused(busy))
                if busy.retryable && !busy.is_stopping() && tries < TRIES =>
            {
                let pause = busy.retry_after_ms.unwrap_or(1000).min(10_000);
                sleep(Duration::from_millis(pause)).await;
            }
            done => return done,
        }
    }
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

/// What a caller is told while the gateway does not answer, and it is not known yet whether it is gone.
pub(super) fn unheard() -> Fault {
    let text = "The OpenClaw gateway does not answer at present.";
    Fault::new(Code::ProviderUnavailable, text)
}

/// What a caller is told while the gateway waits for its runs.
pub(super) fn stopping() -> Fault {
    let text = "The OpenClaw gateway is stopping, and answers nothing until it is back.";
    Fault::new(Code::ProviderUnavailable, text)
}

fn stopped() -> Fault {
    Fault::new(Code::RequestCancelled, "Stopped before it was sent.")
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
