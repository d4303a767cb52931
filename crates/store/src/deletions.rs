//! Deleting an owner: its runs, questions, files' records, requests, sessions and its whole log.
//!
//! The wish is recorded first and forgotten last. From the first moment on the owner takes nothing
//! new. Each node that has something of it removes its part, the last one the records: a
//! deletion that a crash cut short is found at the next start.

use threadline_contract::{AccountId, Actor, Millis, Owner};

use crate::{Dialect, Result, Store, StoreError, StreamId, Tx, json, open::read, sql, tx::on};

/// Events that one commit removes: others want to write, too.
const EVENTS: i64 = 4096;

/// An owner that shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The account.
    pub account: AccountId,
    /// The owner.
    pub owner: Owner,
    /// The node that was asked.
    pub node: String,
    /// Who asked, where that is known.
    pub asked_by: Option<Actor>,
}

impl Store {
    /// Records that an owner shall go. From here on it takes neither sessions nor runs.
    pub async fn ask_deletion(&self, deletion: &Deletion, at: Millis) -> Result<()> {
        let (deletion, owner) = (deletion.clone(), deletion.owner.to_string());
        let asked_by = json::maybe_to_text("asked by", deletion.asked_by.as_ref())?;
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::ASK_DELETION)
                    .bind(deletion.account.as_str())
                    .bind(owner.as_str())
                    .bind(deletion.node.as_str())
                    .bind(at.0)
                    .bind(asked_by.as_deref())
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await
    }

    /// What was asked to be deleted and is not finished, in the order in which it was asked.
    pub async fn deletions(&self) -> Result<Vec<Deletion>> {
        let rows: Vec<(String, String, String, Option<String>)> =
            read!(self, |db| sqlx::query_as(sql::DELETIONS)
                .fetch_all(db)
                .await)?;
        let deletion = |(account, owner, node, by): (String, String, String, Option<String>)| {
            Ok(Deletion {
                account: json::id("deletions.account", &account)?,
                owner: json::id("deletions.owner", &owner)?,
                node,
                asked_by: json::maybe_from_text("deletions.asked_by", by.as_deref())?,
            })
        };
        rows.into_iter().map(deletion).collect()
    }

    /// Removes everything of an owner, and the wish with it. Its runs must be closed; `Conflict` when
    /// one is not. Those who follow its log hear that it has ended. Can be repeated: once the wish is
    /// gone, an owner of the same name is another one and stays.
    pub async fn delete_owner(&self, deletion: &Deletion) -> Result<()> {
        let stream = StreamId::of(&deletion.account, &deletion.owner);
        while self.delete_events(deletion, &stream).await? > 0 {}
        let (deletion, log) = (deletion.clone(), stream.clone());
        self.transact(move |mut tx| Box::pin(async move { delete(&mut tx, deletion, log).await }))
            .await?;
        self.bus().end(&stream);
        Ok(())
    }

    async fn delete_events(&self, deletion: &Deletion, stream: &StreamId) -> Result<u64> {
        let (deletion, stream) = (deletion.clone(), stream.clone());
        self.transact(move |mut tx| {
            Box::pin(async move {
                if !tx.is_going(&deletion.account, &deletion.owner).await? {
                    return Ok(0);
                }
                on!(tx, |c| sqlx::query(sql::DELETE_EVENTS)
                    .bind(stream.as_str())
                    .bind(EVENTS)
                    .execute(c)
                    .await
                    .map(|done| done.rows_affected()))
            })
        })
        .await
    }
}

/// What is said of an owner that takes nothing new any more.
pub fn being_deleted(owner: &Owner) -> &'static str {
    match owner {
        Owner::Thread(_) => "the thread is being deleted",
        Owner::TaskAgent { .. } | Owner::Base { .. } => "the agent's work is being deleted",
        Owner::Build { .. } => "the build is being deleted",
    }
}

impl Tx<'_> {
    /// Refuses an owner that is being deleted.
    pub(crate) async fn stays(&mut self, account: &AccountId, owner: &Owner) -> Result<()> {
        match self.is_going(account, owner).await? {
            false => Ok(()),
            true => Err(StoreError::Conflict(being_deleted(owner))),
        }
    }

    async fn is_going(&mut self, account: &AccountId, owner: &Owner) -> Result<bool> {
        let owner = owner.to_string();
        let going: Option<i32> = on!(self, |c| sqlx::query_scalar(sql::DELETION)
            .bind(account.as_str())
            .bind(owner.as_str())
            .fetch_optional(c)
            .await)?;
        Ok(going.is_some())
    }
}

async fn delete(tx: &mut Tx<'_>, deletion: Deletion, log: StreamId) -> Result<()> {
    if !tx.is_going(&deletion.account, &deletion.owner).await? {
        return Ok(());
    }
    let (account, owner) = (deletion.account.as_str(), deletion.owner.to_string());
    let open: Option<i32> = on!(tx, |c| sqlx::query_scalar(sql::OPEN_RUN_OF_OWNER)
        .bind(account)
        .bind(owner.as_str())
        .fetch_optional(c)
        .await)?;
    if open.is_some() {
        return Err(StoreError::Conflict("a run of it goes on"));
    }
    for statement in [
        sql::DELETE_ARTIFACTS,
        sql::DELETE_QUESTIONS,
        sql::DELETE_TURNS,
        sql::DELETE_REQUESTS,
        sql::DELETE_RUNS,
        sql::DELETE_SESSIONS,
        sql::DELETE_DELETION,
    ] {
        on!(tx, |c| sqlx::query(statement)
            .bind(account)
            .bind(owner.as_str())
            .execute(c)
            .await
            .map(drop))?;
    }
    // What came while the rest of the log was removed.
    on!(tx, |c| sqlx::query(sql::DELETE_EVENTS)
        .bind(log.as_str())
        .bind(i64::MAX)
        .execute(c)
        .await
        .map(drop))?;
    match tx.dialect() {
        Dialect::Sqlite => tx.live().heads.remove(&log),
        Dialect::Postgres => on!(tx, |c| sqlx::query(sql::DELETE_STREAM)
            .bind(log.as_str())
            .execute(c)
            .await
            .map(drop))?,
    }
    Ok(())
}
