//! Runs: admitted once per request, changed only under a lease, ended once.

use threadline_contract::{
    AccountId, Actor, Millis, Owner, RequestId, RunId, RuntimeId, SessionKey, Sha256,
};

use crate::{
    LaneEntry, Lease, NewEvent, NewRun, Result, Run, RunChange, RunEnd, Store,
    open::read,
    run::{LaneRow, RunRow},
    sql,
};

/// What [`Store::admit`] did.
#[derive(Clone, Debug, PartialEq)]
pub enum Admitted {
    /// A new run.
    New(Run),
    /// The request came before; this is its run.
    Same(Run),
}

/// What [`Store::end_run`] did.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// This was the end.
    First(Run),
    /// The run had ended before, and its end stands.
    Already(Run),
}

/// What [`Store::request_cancel`] did.
#[derive(Clone, Debug, PartialEq)]
pub enum Cancel {
    /// The wish is recorded.
    Asked(Run),
    /// Somebody wished it before.
    AlreadyAsked(Run),
    /// The run has ended; there is nothing to stop.
    AlreadyEnded(Run),
}

impl Store {
    /// Takes a run in, with the first events of its own, in one transaction. The same request id
    /// with the same digest gives the run that it made; with another digest, `IdempotencyConflict`.
    pub async fn admit(&self, new: NewRun, events: Vec<NewEvent>) -> Result<Admitted> {
        self.transact(move |mut tx| Box::pin(async move { tx.admit(new, events).await }))
            .await
    }

    /// The run that a request made before, if it came before. `IdempotencyConflict` when it came with
    /// another body.
    pub async fn requested(
        &self,
        account: &AccountId,
        owner: &Owner,
        request: &RequestId,
        digest: &Sha256,
    ) -> Result<Option<Run>> {
        let owner = owner.to_string();
        let outcome = self.outcome(account, &owner, request.as_str(), digest);
        match outcome.await? {
            None => Ok(None),
            Some(run) => {
                let run = crate::json::id("idempotency.outcome", &run)?;
                self.run(account, &run).await.map(Some)
            }
        }
    }

    /// A run of an account.
    pub async fn run(&self, account: &AccountId, run: &RunId) -> Result<Run> {
        let row: RunRow = read!(self, |db| sqlx::query_as(sql::RUN)
            .bind(account.as_str())
            .bind(run.as_str())
            .fetch_one(db)
            .await)?;
        row.try_into()
    }

    /// A run, whatever its account: for its driver, never for an answer to somebody.
    pub async fn run_any(&self, run: &RunId) -> Result<Run> {
        let row: RunRow = read!(self, |db| sqlx::query_as(sql::RUN_ANY)
            .bind(run.as_str())
            .fetch_one(db)
            .await)?;
        row.try_into()
    }

    /// What the engine keeps about the turn: for the run's driver.
    pub async fn turn(&self, run: &RunId) -> Result<String> {
        read!(self, |db| sqlx::query_scalar(sql::TURN)
            .bind(run.as_str())
            .fetch_one(db)
            .await)
    }

    /// An owner's newest run.
    pub async fn latest_run(&self, account: &AccountId, owner: &Owner) -> Result<Option<Run>> {
        let owner = owner.to_string();
        let row: Option<RunRow> = read!(self, |db| sqlx::query_as(sql::LATEST_RUN)
            .bind(account.as_str())
            .bind(owner.as_str())
            .fetch_optional(db)
            .await)?;
        row.map(TryInto::try_into).transpose()
    }

    /// The newest run of a session that its runtime began, before this run where one is named.
    pub async fn last_begun_run(
        &self,
        account: &AccountId,
        owner: &Owner,
        session: &SessionKey,
        before: Option<&RunId>,
    ) -> Result<Option<Run>> {
        let owner = owner.to_string();
        let row: Option<RunRow> = read!(self, |db| sqlx::query_as(sql::LAST_BEGUN_RUN)
            .bind(account.as_str())
            .bind(owner.as_str())
            .bind(session.as_str())
            .bind(before.map(RunId::as_str))
            .fetch_optional(db)
            .await)?;
        row.map(TryInto::try_into).transpose()
    }

    /// An owner's runs, newest first, from before a run on. A `before` that is not the account's
    /// has nothing before it.
    pub async fn runs_of_owner(
        &self,
        account: &AccountId,
        owner: &Owner,
        before: Option<&RunId>,
        limit: u32,
    ) -> Result<Vec<Run>> {
        let (owner, limit) = (owner.to_string(), i64::from(limit));
        let rows: Vec<RunRow> = match before {
            None => read!(self, |db| sqlx::query_as(sql::RUNS_OF_OWNER)
                .bind(account.as_str())
                .bind(owner.as_str())
                .bind(limit)
                .fetch_all(db)
                .await),
            Some(before) => read!(self, |db| sqlx::query_as(sql::RUNS_OF_OWNER_BEFORE)
                .bind(account.as_str())
                .bind(owner.as_str())
                .bind(before.as_str())
                .bind(limit)
                .fetch_all(db)
                .await),
        }?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Runs of all accounts that are not closed, oldest first, from after a run on.
    pub async fn open_runs(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<Run>> {
        let rows: Vec<RunRow> = read!(self, |db| sqlx::query_as(sql::OPEN_RUNS)
            .bind(after.map(|r| r.as_str()))
            .bind(i64::from(limit))
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The runs of a runtime that are not closed, in the order in which they came.
    pub async fn lane(&self, runtime: &RuntimeId) -> Result<Vec<LaneEntry>> {
        let runtime = runtime.to_string();
        let rows: Vec<LaneRow> = read!(self, |db| sqlx::query_as(sql::LANE)
            .bind(runtime.as_str())
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Changes a run under its lease, with events, in one transaction.
    pub async fn change_run(
        &self,
        lease: &Lease,
        change: RunChange,
        events: Vec<NewEvent>,
    ) -> Result<Run> {
        let lease = lease.clone();
        self.transact(move |mut tx| {
            Box::pin(async move { tx.change_run(&lease, change, events).await })
        })
        .await
    }

    /// Ends a run under its lease, with events, in one transaction. The first end stands. A later
    /// one that says something else becomes an anomaly; its events are not logged.
    pub async fn end_run(
        &self,
        lease: &Lease,
        end: RunEnd,
        events: Vec<NewEvent>,
    ) -> Result<Ended> {
        let lease = lease.clone();
        self.transact(move |mut tx| Box::pin(async move { tx.end_run(&lease, end, events).await }))
            .await
    }

    /// Records that somebody wants a run to stop. The event is logged the first time only.
    pub async fn request_cancel(
        &self,
        account: &AccountId,
        run: &RunId,
        by: &Actor,
        at: Millis,
        event: NewEvent,
    ) -> Result<Cancel> {
        let (account, run, by) = (account.clone(), run.clone(), by.clone());
        self.transact(move |mut tx| {
            Box::pin(async move { tx.request_cancel(&account, &run, &by, at, event).await })
        })
        .await
    }
}
