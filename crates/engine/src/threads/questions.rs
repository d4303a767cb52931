//! `xworkmate.questions.list` and `.answer`, and their older names `xworkmate.permissions.list` and
//! `.respond`.

use threadline_contract::{
    Answer, Code, Fault, Owner, Principal, Question, QuestionKind,
    method::{
        AnswerParams, Decision, Outcome, Permissions, Questions, QuestionsParams, RespondParams,
        Responded,
    },
};
use threadline_store::Whose;

use crate::{Engine, questions::choose, wire};

impl Engine {
    /// Questions that wait, newest first.
    pub async fn questions(
        &self,
        caller: &Principal,
        params: &QuestionsParams,
    ) -> Result<Questions, Fault> {
        let owner = params.thread_id.clone().map(Owner::Thread);
        let whose = owner.as_ref().map_or(Whose::Threads, Whose::Of);
        let found = self
            .list_questions(caller, whose, params.include_closed)
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
        let question = self.find_question(caller, &params.question_id).await?;
        let answer = choose(&question, params.option_id, params.text)?;
        let closed = self.close_question(caller, question, Some(answer)).await?;
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
        let question = self.find_question(caller, &params.request_id).await?;
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
        let closed = self.close_question(caller, question, answer).await?;
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
}
