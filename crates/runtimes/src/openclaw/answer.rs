//! Handing people's answers to the gateway, and asking it what waits for one.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Deserialize;
use serde_json::{Value, json};
use threadline_contract::{Code, Fault, QuestionId};

use super::{
    asks::{Approval, Given, Named, Prompt, Resolve, decision},
    gateway::{CallError, Conn},
    turn::{SMALL, unreachable},
};
use crate::Ask;

/// Answers that are on their way. What is lost of them with this process is handed over again.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    /// Of prompts that are not answered to the end, by their ids.
    given: HashMap<String, Given>,
    /// Questions that need nothing any more.
    settled: HashSet<QuestionId>,
}

#[derive(Deserialize)]
struct Got {
    question: Prompt,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    questions: Vec<Prompt>,
}

/// What waits for an answer about this run.
pub(super) async fn open(conn: &Conn, run: &str) -> Result<Vec<Ask>, CallError> {
    let mut asks = vec![];
    if conn.has_scope("operator.questions") && conn.hello().has("question.list") {
        let listed: Listed = conn.call("question.list", json!({}), SMALL).await?;
        let ours = |p: &&Prompt| p.is_open(run) && !p.is_secret();
        asks.extend(listed.questions.iter().filter(ours).flat_map(Prompt::asks));
    }
    if conn.has_scope("operator.approvals") && conn.hello().has("exec.approval.list") {
        let listed: Vec<Approval> = conn.call("exec.approval.list", json!({}), SMALL).await?;
        let ours = listed.iter().filter(|approval| approval.is_of(run));
        asks.extend(ours.filter_map(Approval::ask));
    }
    Ok(asks)
}

impl Answers {
    /// Hands an answer over; `None` declines. Can be repeated: the first that the gateway got stands.
    pub(super) async fn give(
        &self,
        conn: &Conn,
        id: &QuestionId,
        answer: Option<&str>,
    ) -> Result<(), Fault> {
        if self.held().settled.contains(id) {
            return Ok(());
        }
        let settled = match Named::read(id) {
            Some(Named::Command(command)) => {
                let params = json!({"id": command, "kind": "exec", "decision": decision(answer)});
                let resolved: Result<Value, _> = conn.call("approval.resolve", params, SMALL).await;
                resolved.map(|_| true).map_err(closed)?
            }
            Some(Named::Part { prompt, question }) => {
                self.give_part(conn, prompt, question, answer).await?
            }
            None => {
                let text = "This is no question of the OpenClaw gateway.";
                return Err(Fault::new(Code::QuestionNotFound, text));
            }
        };
        if settled {
            self.held().settled.insert(id.clone());
        }
        Ok(())
    }

    /// `true` when the prompt is answered to the end.
    async fn give_part(
        &self,
        conn: &Conn,
        id: &str,
        question: &str,
        answer: Option<&str>,
    ) -> Result<bool, Fault> {
        let got = conn.call::<Got>("question.get", json!({"id": id}), SMALL);
        let prompt = got.await.map_err(closed)?.question;
        if !prompt.waits() {
            return Ok(true);
        }
        let given = match answer {
            Some(answer) => {
                let mut held = self.held();
                let given = held.given.entry(id.to_owned()).or_default();
                given.insert(question.to_owned(), prompt.values(question, answer));
                if !prompt.is_answered(given) {
                    return Ok(false);
                }
                Some(given.clone())
            }
            None => None,
        };
        let params = Resolve::new(id, given.as_ref());
        let resolved: Result<Value, _> = conn.call("question.resolve", params, SMALL).await;
        resolved.map_err(closed)?;
        self.held().given.remove(id);
        Ok(true)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed(error: CallError) -> Fault {
    match error {
        CallError::Refused(refused) if !refused.retryable => Fault::new(
            Code::QuestionAlreadyClosed,
            format!("The OpenClaw gateway does not wait for this answer any more: {refused}."),
        ),
        other => unreachable(other),
    }
}
