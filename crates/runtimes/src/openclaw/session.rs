//! What the gateway tells of a run's session: its transcript, its tasks, and whether its conversation is
//! still there.

use serde::{Deserialize, Serialize};
use threadline_contract::{RunId, SessionKey};

use super::{
    evidence::Tasks,
    gateway::{CallError, Conn},
    notes::Note,
    transcript::{Before, History, Row},
    turn::{OfSession, SMALL, Turns},
};
use crate::{RunRef, TurnPlan};

/// Rows of a transcript that are looked at: a turn's own are the newest.
const ROWS: u32 = 200;
/// Tells how a session stands.
const DESCRIBE: &str = "sessions.describe";
/// Rows of a transcript that are looked at to see whether the conversation is still there.
const LAST_ROWS: u32 = 50;
/// What is said in a run whose conversation is not there any more.
const RESET: &str = "The conversation was reset at the OpenClaw gateway since the last message. The agent does not know what was said before.";
const DELETED: &str = "The session was deleted at the OpenClaw gateway since the last message. The agent does not know what was said before.";
/// Tells one message of a transcript; lists of them cut long ones.
const ONE_MESSAGE: &str = "chat.message.get";
/// Characters of a message that the gateway tells at most.
const LONGEST_TEXT_CHARS: u32 = 2_000_000;

#[derive(Serialize)]
struct DescribeSession<'a> {
    key: &'a str,
}

#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    session: Option<DescribedSession>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedSession {
    /// A session that was reset has none.
    #[serde(default)]
    last_run_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastRows<'a> {
    session_key: &'a str,
    limit: u32,
    max_chars: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneMessage<'a> {
    session_key: &'a str,
    message_id: &'a str,
    max_chars: u32,
}

#[derive(Deserialize)]
struct GotMessage {
    #[serde(default)]
    message: Option<Row>,
}

impl Turns {
    /// The newest rows of the session's transcript.
    pub(super) async fn history(&self, conn: &Conn, note: &Note) -> Result<History, CallError> {
        let params = OfSession::newest(note, ROWS);
        conn.call("chat.history", params, SMALL).await
    }

    /// Reads to their ends the run's messages of which the transcript shows only a part.
    pub(super) async fn read_whole(
        &self,
        conn: &Conn,
        note: &Note,
        history: &mut History,
    ) -> Result<(), CallError> {
        if !conn.hello().has(ONE_MESSAGE) {
            return Ok(());
        }
        for id in history.cut_messages(&note.first_name(), &note.name) {
            let params = OneMessage {
                session_key: note.session.as_str(),
                message_id: &id,
                max_chars: LONGEST_TEXT_CHARS,
            };
            match conn.call(ONE_MESSAGE, params, SMALL).await {
                Ok(GotMessage { message: Some(row) }) => history.put(&id, row),
                Ok(GotMessage { message: None }) => {
                    tracing::warn!(run.id = %note.run, "The gateway does not tell all of a message of run {}", note.run);
                }
                Err(error) if error.is_final() => {
                    tracing::warn!(run.id = %note.run, "The gateway does not tell all of a message of run {}: {error}", note.run);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The newest native tasks of the session.
    pub(super) async fn tasks(&self, conn: &Conn, note: &Note) -> Result<Tasks, CallError> {
        let params = OfSession::newest(note, 100);
        match conn.hello().has("tasks.list") {
            true => conn.call("tasks.list", params, SMALL).await,
            false => Ok(Tasks::default()),
        }
    }

    /// What is to be said when a turn goes on with a conversation that is no longer there: somebody reset
    /// or deleted the session at the gateway since its last turn.
    pub(super) async fn conversation_gone(
        &self,
        conn: &Conn,
        plan: &TurnPlan,
    ) -> Option<&'static str> {
        if !self.notes.has_others(&plan.run_ref()).await {
            return None;
        }
        // The gateway answers this at once; its transcript costs it much more.
        let params = DescribeSession {
            key: plan.session.as_str(),
        };
        let described: Result<Described, _> = conn.call(DESCRIBE, params, SMALL).await;
        let last = described
            .ok()
            .and_then(|described| described.session?.last_run_id);
        if let Some(last) = last
            && last != plan.run.as_str()
            && self.is_ours(&plan.session, &last).await
        {
            return None;
        }
        let params = LastRows {
            session_key: plan.session.as_str(),
            limit: LAST_ROWS,
            max_chars: 1,
        };
        let history: Result<History, _> = conn.call("chat.history", params, SMALL).await;
        let history = match history {
            Ok(history) => history,
            Err(error) => {
                tracing::warn!(run.id = %plan.run, "Whether the conversation of run {} is still there is not known: {error}", plan.run);
                return None;
            }
        };
        let name = plan.run.as_str();
        for row in history.before(name) {
            match row {
                Before::Reset => return Some(RESET),
                // What was said before it is known there.
                Before::Turn(run) if self.is_ours(&plan.session, run).await => return None,
                Before::Turn(_) => {}
            }
        }
        history.is_empty_but_for(name).then_some(DELETED)
    }

    /// Whether we sent a run to a session.
    async fn is_ours(&self, session: &SessionKey, run: &str) -> bool {
        let Ok(run) = RunId::new(run) else {
            return false;
        };
        let run = RunRef {
            session: session.clone(),
            run,
        };
        matches!(self.notes.read(&run).await, Ok(Some(_)))
    }
}
