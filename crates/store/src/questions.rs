//! Questions and permissions: asked under a run's lease, ended once.

use serde::{Deserialize, Serialize};
use threadline_contract::{
    AccountId, Answer, Millis, Owner, QuestionId, QuestionKind, QuestionOption, QuestionState,
    RunId, ToolKind, Who,
};

use crate::{
    Lease, NewEvent, Result, Store, StoreError, StreamId, Tx, json, open::read, sql, tx::on,
};

/// A question as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredQuestion {
    /// Its id, kept over restarts.
    pub id: QuestionId,
    /// Whose it is.
    pub owner: Owner,
    /// The run that asked.
    pub run: RunId,
    /// What kind of answer is wanted.
    pub kind: QuestionKind,
    /// What is asked.
    pub text: String,
    /// What can be chosen; empty when only text answers.
    pub options: Vec<QuestionOption>,
    /// Whether an answer in own words is taken.
    pub free_text: bool,
    /// For permissions: what the agent wants to do.
    pub tool: Option<ToolKind>,
    /// How it stands.
    pub state: QuestionState,
    /// When it was asked.
    pub asked_at: Millis,
    /// When it ended.
    pub closed_at: Option<Millis>,
    /// What was answered.
    pub answer: Option<Answer>,
    /// Who answered, or why it ended.
    pub closed_by: Option<String>,
    /// Whose doing that was; absent where it was not noted.
    pub closed_by_principal: Option<Who>,
}

/// Whose questions are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Those of one owner.
    Of(&'a Owner),
    /// Those of every thread.
    Threads,
    /// All.
    Everyone,
}

/// What [`Store::close_question`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// This was its end.
    Now(StoredQuestion),
    /// It had ended before, in this way.
    Before(StoredQuestion),
}

/// What never changes about a question.
#[derive(Serialize, Deserialize)]
struct Body {
    kind: QuestionKind,
    text: String,
    options: Vec<QuestionOption>,
    free_text: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<ToolKind>,
}

#[derive(Clone, sqlx::FromRow)]
struct QuestionRow {
    id: String,
    account: String,
    owner: String,
    run: String,
    body: String,
    state: String,
    asked_at: i64,
    closed_at: Option<i64>,
    answer: Option<String>,
    closed_by: Option<String>,
    closed_by_principal: Option<String>,
}

impl QuestionRow {
    fn new(question: &StoredQuestion, account: &AccountId) -> Result<Self> {
        let body = Body {
            kind: question.kind,
            text: question.text.clone(),
            options: question.options.clone(),
            free_text: question.free_text,
            tool: question.tool,
        };
        Ok(Self {
            id: question.id.to_string(),
            account: account.to_string(),
            owner: question.owner.to_string(),
            run: question.run.to_string(),
            body: json::to_text("question", &body)?,
            state: json::word("state", &question.state)?,
            asked_at: question.asked_at.0,
            closed_at: question.closed_at.map(|at| at.0),
            answer: json::maybe_to_text("answer", question.answer.as_ref())?,
            closed_by: json::maybe_to_text("closed by", question.closed_by.as_ref())?,
            closed_by_principal: json::maybe_to_text(
                "closed by",
                question.closed_by_principal.as_ref(),
            )?,
        })
    }

    fn stream(&self) -> Result<StreamId> {
        let account = json::id("questions.account", &self.account)?;
        let owner = json::id("questions.owner", &self.owner)?;
        Ok(StreamId::of(&account, &owner))
    }
}

impl TryFrom<QuestionRow> for StoredQuestion {
    type Error = StoreError;
    fn try_from(row: QuestionRow) -> Result<Self> {
        let body: Body = json::from_text("questions.body", &row.body)?;
        Ok(Self {
            id: json::id("questions.id", &row.id)?,
            owner: json::id("questions.owner", &row.owner)?,
            run: json::id("questions.run", &row.run)?,
            kind: body.kind,
            text: body.text,
            options: body.options,
            free_text: body.free_text,
            tool: body.tool,
            state: json::from_word("questions.state", &row.state)?,
            asked_at: Millis(row.asked_at),
            closed_at: json::millis(row.closed_at),
            answer: json::maybe_from_text("questions.answer", row.answer.as_deref())?,
            closed_by: json::maybe_from_text("questions.closed_by", row.closed_by.as_deref())?,
            closed_by_principal: json::maybe_from_text(
                "questions.closed_by_principal",
                row.closed_by_principal.as_deref(),
            )?,
        })
    }
}

/// How a question ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionEnd {
    /// The end; not `open`.
    pub state: QuestionState,
    /// What was answered.
    pub answer: Option<Answer>,
    /// Who answered, or why it ended.
    pub by: String,
    /// Whose doing it was.
    pub principal: Who,
    /// Now.
    pub at: Millis,
}

impl Store {
    /// Records a question under the lease of the run that asks, with events, in one transaction.
    pub async fn ask(
        &self,
        account: &AccountId,
        question: &StoredQuestion,
        lease: &Lease,
        events: Vec<NewEvent>,
    ) -> Result<()> {
        if lease.run != question.run {
            return Err(StoreError::Conflict("the question belongs to another run"));
        }
        let (row, lease) = (QuestionRow::new(question, account)?, lease.clone());
        self.transact(move |mut tx| {
            Box::pin(async move {
                tx.fence(&lease).await?;
                on!(tx, |c| sqlx::query(sql::ADD_QUESTION)
                    .bind(row.id.as_str())
                    .bind(row.account.as_str())
                    .bind(row.owner.as_str())
                    .bind(row.run.as_str())
                    .bind(row.body.as_str())
                    .bind(row.state.as_str())
                    .bind(row.asked_at)
                    .bind(row.closed_at)
                    .bind(row.answer.as_deref())
                    .bind(row.closed_by.as_deref())
                    .bind(row.closed_by_principal.as_deref())
                    .execute(c)
                    .await
                    .map(drop))?;
                tx.append(&row.stream()?, events).await.map(drop)
            })
        })
        .await
    }

    /// Ends an open question for whoever answers or declines it. The first end stands; `events` makes the events of
    /// that end only.
    pub async fn close_question(
        &self,
        account: &AccountId,
        id: &QuestionId,
        end: QuestionEnd,
        events: impl FnOnce(&StoredQuestion) -> Vec<NewEvent> + Clone + Send + 'static,
    ) -> Result<Closed> {
        let (account, id) = (account.clone(), id.clone());
        self.transact(move |mut tx| {
            Box::pin(async move { tx.close_question(&account, &id, end, events).await })
        })
        .await
    }

    /// A question of an account.
    pub async fn question(&self, account: &AccountId, id: &QuestionId) -> Result<StoredQuestion> {
        let row: QuestionRow = read!(self, |db| sqlx::query_as(sql::QUESTION)
            .bind(account.as_str())
            .bind(id.as_str())
            .fetch_one(db)
            .await)?;
        row.try_into()
    }

    /// An account's questions, newest first, the open ones or all.
    pub async fn questions(
        &self,
        account: &AccountId,
        whose: Whose<'_>,
        include_closed: bool,
        limit: u32,
    ) -> Result<Vec<StoredQuestion>> {
        let limit = i64::from(limit);
        let rows: Vec<QuestionRow> = if let Whose::Of(owner) = whose {
            let owner = owner.to_string();
            let statement = if include_closed {
                sql::QUESTIONS_OF_OWNER
            } else {
                sql::OPEN_QUESTIONS_OF_OWNER
            };
            read!(self, |db| sqlx::query_as(statement)
                .bind(account.as_str())
                .bind(owner.as_str())
                .bind(limit)
                .fetch_all(db)
                .await)
        } else {
            let statement = match (whose, include_closed) {
                (Whose::Threads, true) => sql::QUESTIONS_OF_THREADS,
                (Whose::Threads, false) => sql::OPEN_QUESTIONS_OF_THREADS,
                (_, true) => sql::QUESTIONS,
                (_, false) => sql::OPEN_QUESTIONS,
            };
            read!(self, |db| sqlx::query_as(statement)
                .bind(account.as_str())
                .bind(limit)
                .fetch_all(db)
                .await)
        }?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Every question that a run asked, oldest first: how its driver hands over what was decided.
    pub async fn questions_of_run(&self, run: &RunId) -> Result<Vec<StoredQuestion>> {
        let rows: Vec<QuestionRow> = read!(self, |db| sqlx::query_as(sql::QUESTIONS_OF_RUN)
            .bind(run.as_str())
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The open questions of a run, oldest first: for its driver.
    pub async fn open_questions(&self, run: &RunId) -> Result<Vec<StoredQuestion>> {
        let rows: Vec<QuestionRow> = read!(self, |db| sqlx::query_as(sql::OPEN_QUESTIONS_OF_RUN)
            .bind(run.as_str())
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }
}

impl Tx<'_> {
    /// Ends an open question, with the events that `events` makes. The first end stands.
    ///
    /// A person may do so whoever drives the run that asked; a driver fences its own write first.
    pub async fn close_question(
        &mut self,
        account: &AccountId,
        id: &QuestionId,
        end: QuestionEnd,
        events: impl FnOnce(&StoredQuestion) -> Vec<NewEvent>,
    ) -> Result<Closed> {
        if end.state == QuestionState::Open {
            return Err(StoreError::Invalid("`open` is not an end".to_owned()));
        }
        let state = json::word("state", &end.state)?;
        let answer = json::maybe_to_text("answer", end.answer.as_ref())?;
        let by = json::to_text("closed by", &end.by)?;
        let principal = json::to_text("closed by", &end.principal)?;
        let now: Option<QuestionRow> = on!(self, |c| sqlx::query_as(sql::CLOSE_QUESTION)
            .bind(account.as_str())
            .bind(id.as_str())
            .bind(state.as_str())
            .bind(end.at.0)
            .bind(answer.as_deref())
            .bind(by.as_str())
            .bind(principal.as_str())
            .fetch_optional(c)
            .await)?;
        if let Some(now) = now {
            let stream = now.stream()?;
            let question = StoredQuestion::try_from(now)?;
            self.append(&stream, events(&question)).await?;
            return Ok(Closed::Now(question));
        }
        let before: QuestionRow = on!(self, |c| sqlx::query_as(sql::QUESTION)
            .bind(account.as_str())
            .bind(id.as_str())
            .fetch_one(c)
            .await)?;
        Ok(Closed::Before(before.try_into()?))
    }

    /// Withdraws every open question of a run under its lease, each with the event that `event` makes. Gives the
    /// questions that it withdrew.
    pub async fn withdraw_questions(
        &mut self,
        lease: &Lease,
        by: &str,
        at: Millis,
        event: impl Fn(&StoredQuestion) -> Result<NewEvent>,
    ) -> Result<Vec<StoredQuestion>> {
        self.fence(lease).await?;
        let by = json::to_text("closed by", by)?;
        let principal = json::to_text("closed by", &Who::Server)?;
        let rows: Vec<QuestionRow> = on!(self, |c| sqlx::query_as(sql::WITHDRAW_QUESTIONS)
            .bind(lease.run.as_str())
            .bind(at.0)
            .bind(by.as_str())
            .bind(principal.as_str())
            .fetch_all(c)
            .await)?;
        let Some(stream) = rows.first().map(QuestionRow::stream).transpose()? else {
            return Ok(Vec::new());
        };
        let rows = rows.into_iter().map(StoredQuestion::try_from);
        let questions: Vec<StoredQuestion> = rows.collect::<Result<_>>()?;
        let events = questions.iter().map(event).collect::<Result<_>>()?;
        self.append(&stream, events).await?;
        Ok(questions)
    }
}
