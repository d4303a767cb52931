//! `xworkmate.questions.list` and `xworkmate.questions.answer`.

use threadline_contract::{
    Answer, Code, Fault, Millis, Question, QuestionState,
    method::{AnswerParams, Questions, QuestionsParams},
};
use threadline_store::{Closed, QuestionEnd, StoreError};

use crate::{Caller, Engine, run::update};

/// Questions of one answer at most.
const MOST: u32 = 500;

impl Engine {
    /// Questions that wait, newest first.
    pub async fn questions(
        &self,
        caller: &Caller,
        params: &QuestionsParams,
    ) -> Result<Questions, Fault> {
        let questions = self
            .0
            .store
            .questions(
                &caller.account,
                params.thread_id.as_ref(),
                params.include_closed,
                MOST,
            )
            .await?;
        Ok(Questions { questions })
    }

    /// Answers a question, once. The run that asked gets it as soon as it can hear it, also after
    /// a restart.
    pub async fn answer(&self, caller: &Caller, params: AnswerParams) -> Result<Question, Fault> {
        let question = self
            .0
            .store
            .question(&caller.account, &params.question_id)
            .await
            .map_err(|e| match e {
                StoreError::NotFound => Fault::new(
                    Code::QuestionNotFound,
                    format!("There is no question `{}`.", params.question_id),
                ),
                other => other.into(),
            })?;
        let answer = choose(&question, params.option_id, params.text)?;
        let now = Millis::now();
        let closed = Question {
            state: QuestionState::Answered,
            closed_at: Some(now),
            answer: Some(answer.clone()),
            closed_by: Some(caller.label.clone()),
            ..question
        };
        let event = update::closed(&closed, now)?;
        let end = QuestionEnd {
            state: QuestionState::Answered,
            answer: Some(answer.clone()),
            by: caller.label.clone(),
            at: now,
        };
        match self
            .0
            .store
            .close_question(&caller.account, &closed.question_id, end, |_| vec![event])
            .await?
        {
            Closed::Now(question) => Ok(question),
            // The same answer again is a repeated request, not a second opinion.
            Closed::Before(question) if question.answer == Some(answer) => Ok(question),
            Closed::Before(question) => Err(Fault::new(
                Code::QuestionAlreadyClosed,
                format!("The question is {} already.", word(question.state)),
            )),
        }
    }
}

/// Holds an answer against what the question offers.
fn choose(
    question: &Question,
    option: Option<String>,
    text: Option<String>,
) -> Result<Answer, Fault> {
    let said = |s: Option<String>| s.map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
    match (said(option), said(text)) {
        (Some(id), None) => {
            if question.options.iter().any(|o| o.option_id == id) {
                return Ok(Answer::OptionId(id));
            }
            let offered: Vec<&str> = question
                .options
                .iter()
                .map(|o| o.option_id.as_str())
                .collect();
            Err(Fault::new(
                Code::QuestionOptionNotOffered,
                format!(
                    "`{id}` is not offered. Choose one of: {}.",
                    offered.join(", ")
                ),
            ))
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
                    let offered: Vec<&str> =
                        question.options.iter().map(|o| o.label.as_str()).collect();
                    Fault::new(
                        Code::QuestionOptionNotOffered,
                        format!(
                            "This question takes no own words. Choose one of: {}.",
                            offered.join(", ")
                        ),
                    )
                })
        }
        (None, None) => Err(Fault::invalid("Send optionId or text.")),
        (Some(_), Some(_)) => Err(Fault::invalid("Send either optionId or text, not both.")),
    }
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
