//! Questions and permissions: listed, and answered once. The run that asked gets an answer as soon as it can hear
//! it, also after a restart. Where the owner says so, a question waits on when its run has ended, and its answer is
//! recorded although nobody is there to hand it to.

use threadline_contract::{Answer, Code, Fault, Millis, Principal, QuestionId, QuestionState};
use threadline_store::{Closed, QuestionEnd, StoreError, StoredQuestion, Whose};

use crate::{Engine, run::update};

/// Questions of one list at most.
const MAX_LISTED: u32 = 500;

impl Engine {
    /// An account's questions, newest first, the open ones or all.
    pub async fn list_questions(
        &self,
        caller: &Principal,
        whose: Whose<'_>,
        include_closed: bool,
    ) -> Result<Vec<StoredQuestion>, Fault> {
        let store = &self.0.store;
        let found = store.questions(&caller.account, whose, include_closed, MAX_LISTED);
        Ok(found.await?)
    }

    /// A question of an account.
    pub async fn find_question(
        &self,
        caller: &Principal,
        id: &QuestionId,
    ) -> Result<StoredQuestion, Fault> {
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
    pub async fn close_question(
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
        let store = &self.0.store;
        match store
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

/// The answer that a person gives by an option or in own words, held against what the question offers.
pub fn choose(
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
