//! `xworkmate.questions.list` and `.answer`, and their older names `xworkmate.permissions.list` and
//! `.respond`.

use threadline_contract::{
    Answer, Code, Fault, Millis, Owner, Principal, Question, QuestionId, QuestionKind,
    QuestionState,
    method::{
        AnswerParams, Decision, Outcome, Permissions, Questions, QuestionsParams, RespondParams,
        Responded,
    },
};
use threadline_store::{Closed, QuestionEnd, StoreError, StoredQuestion, Whose};

use crate::{Engine, run::update, wire};

/// Questions of one answer at most.
const MOST: u32 = 500;

impl Engine {
    /// Questions that wait, newest first.
    pub async fn questions(
        &self,
        caller: &Principal,
        params: &QuestionsParams,
    ) -> Result<Questions, Fault> {
        let owner = params.thread_id.clone().map(Owner::Thread);
        let whose = owner.as_ref().map_or(Whose::Threads, Whose::Of);
        let (store, closed) = (&self.0.store, params.include_closed);
        let found = store
            .questions(&caller.account, whose, closed, MOST)
            .await?;
        Ok(Questions {
            questions: found.iter().map(wire::question).collect(),
        })
    }

    /// Answers a question, once. The run that asked gets it as soon as it can hear it, also after
    /// a restart.
    pub async fn answer(
        &self,
        caller: &Principal,
        params: AnswerParams,
    ) -> Result<Question, Fault> {
        let question = self.question(caller, &params.question_id).await?;
        let answer = choose(&question, params.option_id, params.text)?;
        let closed = self.close(caller, question, Some(answer)).await?;
        Ok(wire::question(&closed))
    }

    /// Permissions that wait, newest first.
    pub async fn permissions(
        &self,
        caller: &Principal,
        params: &QuestionsParams,
    ) -> Result<Permissions, Fault> {
        let mut questions = self.questions(caller, params).await?.questions;
        questions.retain(|q| q.kind == QuestionKind::Permission);
        Ok(Permissions {
            permissions: questions.into_iter().map(Into::into).collect(),
        })
    }

    /// Answers a permission, or any question, by its older names.
    pub async fn respond(
        &self,
        caller: &Principal,
        params: RespondParams,
    ) -> Result<Responded, Fault> {
        let question = self.question(caller, &params.request_id).await?;
        if let Some(session) = params
            .session_id
            .filter(|s| question.owner.thread() != Some(s))
        {
            return Err(Fault::new(
                Code::Conflict,
                format!("The permission is not asked for by thread `{session}`."),
            ));
        }
        let answer = match (params.option_id, params.decision) {
            (option @ Some(_), None) => Some(choose(&question, option, None)?),
            (None, Some(Decision::Cancel)) => None,
            _ => return Err(Fault::invalid("Send either optionId or decision `cancel`.")),
        };
        let closed = self.close(caller, question, answer).await?;
        let outcome = match &closed.answer {
            Some(Answer::OptionId(option_id)) => Outcome::Selected {
                option_id: option_id.clone(),
            },
            Some(Answer::Text(_)) | None => Outcome::Cancelled,
        };
        Ok(Responded {
            accepted: true,
            outcome,
            permission: wire::question(&closed).into(),
        })
    }

    async fn question(&self, caller: &Principal, id: &QuestionId) -> Result<StoredQuestion, Fault> {
        let question = self.0.store.question(&caller.account, id).await;
        question.map_err(|e| match e {
            StoreError::NotFound => Fault::new(
                Code::QuestionNotFound,
                format!("There is no question `{id}`."),
            ),
            other => other.into(),
        })
    }

    /// Closes a question: answered, or declined when there is no answer.
    async fn close(
        &self,
        caller: &Principal,
        question: StoredQuestion,
        answer: Option<Answer>,
    ) -> Result<StoredQuestion, Fault> {
        let now = Millis::now();
        let state = match answer {
            Some(_) => QuestionState::Answered,
            None => QuestionState::Declined,
        };
        let closed = StoredQuestion {
            state,
            closed_at: Some(now),
            answer: answer.clone(),
            closed_by: Some(caller.label.clone()),
            closed_by_principal: Some(caller.who.clone()),
            ..question
        };
        let event = update::closed(&closed, now)?;
        let end = QuestionEnd {
            state,
            answer: answer.clone(),
            by: caller.label.clone(),
            principal: caller.who.clone(),
            at: now,
        };
        match self
            .0
            .store
            .close_question(&caller.account, &closed.id, end, |_| vec![event])
            .await?
        {
            Closed::Now(question) => Ok(question),
            // The same answer again is a repeated request, not a second opinion.
            Closed::Before(question) if question.answer == answer && question.state == state => {
                Ok(question)
            }
            Closed::Before(question) => Err(Fault::new(
                Code::QuestionAlreadyClosed,
                format!("The question is {} already.", word(question.state)),
            )),
        }
    }
}

/// Holds an answer against what the question offers.
fn choose(
    question: &StoredQuestion,
    option: Option<String>,
    text: Option<String>,
) -> Result<Answer, Fault> {
    if let (Some(id), None) = (&option, &text)
        && question.options.iter().any(|o| o.option_id == *id)
    {
        return Ok(Answer::OptionId(id.clone()));
    }
    let said = |s: Option<String>| s.map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
    match (said(option), said(text)) {
        (Some(id), None) => {
            if question.options.iter().any(|o| o.option_id == id) {
                return Ok(Answer::OptionId(id));
            }
            let offered = question.options.iter().map(|o| o.option_id.as_str());
            Err(not_offered(format!("`{id}` is not offered."), offered))
        }
        (None, Some(text)) if question.free_text => Ok(Answer::Text(text)),
        (None, Some(text)) => {
            // A person may type an option's words instead of its id.
            let option = question
                .options
                .iter()
                .find(|o| o.label.eq_ignore_ascii_case(&text) || o.option_id == text);
            option
                .map(|o| Answer::OptionId(o.option_id.clone()))
                .ok_or_else(|| {
                    let why = "This question takes no own words.".into();
                    let offered = question.options.iter().map(|o| o.label.as_str());
                    not_offered(why, offered)
                })
        }
        (None, None) => Err(Fault::invalid("Send optionId or text.")),
        (Some(_), Some(_)) => Err(Fault::invalid("Send either optionId or text, not both.")),
    }
}

/// Why an answer is none, and what could be one.
fn not_offered<'a>(why: String, offered: impl Iterator<Item = &'a str>) -> Fault {
    let offered: Vec<&str> = offered.collect();
    let advice = match offered.is_empty() {
        true => "It offers nothing to choose, and can only be declined: `xworkmate.permissions.respond` with the decision `cancel`, or cancel the run.".into(),
        false => format!("Choose one of: {}.", offered.join(", ")),
    };
    Fault::new(Code::QuestionOptionNotOffered, format!("{why} {advice}"))
}

fn word(state: QuestionState) -> &'static str {
    match state {
        QuestionState::Open => "open",
        QuestionState::Answered => "answered",
        QuestionState::Declined => "declined",
        QuestionState::Expired => "expired",
        QuestionState::Withdrawn => "withdrawn",
    }
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
