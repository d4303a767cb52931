//! Runs: admitted once per request, changed only under a lease, ended once.

use serde_json::json;
use threadline_contract::{
    AccountId, Actor, Millis, Owner, RequestId, RunId, RuntimeId, SessionKey, Sha256,
};

use crate::{
    LaneEntry, Lease, NewEvent, NewRun, Result, Run, RunChange, RunEnd, Store, StoreError,
    StreamId, Tx, json,
    open::read,
    run::{LaneRow, Phase, RunRow},
    sql,
    tx::on,
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
        self.transact(move |mut tx| Box::pin(async move { admit(&mut tx, new, events).await }))
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
        let known: Option<(Vec<u8>, String)> = read!(self, |db| sqlx::query_as(sql::REQUEST)
            .bind(account.as_str())
            .bind(owner.as_str())
            .bind(request.as_str())
            .fetch_optional(db)
            .await)?;
        match known {
            None => Ok(None),
            Some((body, _)) if body != digest.0 => Err(StoreError::IdempotencyConflict),
            Some((_, run)) => Ok(Some(
                self.run(account, &crate::json::id("requests.run", &run)?)
                    .await?,
            )),
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
            Box::pin(async move { change_run(&mut tx, lease, change, events).await })
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
        if !end.status.is_terminal() {
            return Err(StoreError::Invalid("`running` is not an end".to_owned()));
        }
        let lease = lease.clone();
        self.transact(move |mut tx| {
            Box::pin(async move { end_run(&mut tx, lease, end, events).await })
        })
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
        let by = json::to_text("asked by", by)?;
        let (account, run) = (account.clone(), run.clone());
        self.transact(move |mut tx| {
            Box::pin(async move {
                let asked: Option<RunRow> = on!(tx, |c| sqlx::query_as(sql::REQUEST_CANCEL)
                    .bind(account.as_str())
                    .bind(run.as_str())
                    .bind(at.0)
                    .bind(by.as_str())
                    .fetch_optional(c)
                    .await)?;
                if let Some(asked) = asked {
                    let asked = Run::try_from(asked)?;
                    tx.append(&asked.stream(), vec![event]).await?;
                    return Ok(Cancel::Asked(asked));
                }
                let there: RunRow = on!(tx, |c| sqlx::query_as(sql::RUN)
                    .bind(account.as_str())
                    .bind(run.as_str())
                    .fetch_one(c)
                    .await)?;
                let there = Run::try_from(there)?;
                Ok(if there.status.is_terminal() {
                    Cancel::AlreadyEnded(there)
                } else {
                    Cancel::AlreadyAsked(there)
                })
            })
        })
        .await
    }
}

async fn admit(tx: &mut Tx<'_>, new: NewRun, events: Vec<NewEvent>) -> Result<Admitted> {
    let owner = new.owner.to_string();
    if let Some((request, digest)) = &new.request {
        let first: Option<String> = on!(tx, |c| sqlx::query_scalar(sql::ADD_REQUEST)
            .bind(new.account.as_str())
            .bind(owner.as_str())
            .bind(request.as_str())
            .bind(digest.0.as_slice())
            .bind(new.id.as_str())
            .fetch_optional(c)
            .await)?;
        if first.is_none() {
            let (known, run): (Vec<u8>, String) = on!(tx, |c| sqlx::query_as(sql::REQUEST)
                .bind(new.account.as_str())
                .bind(owner.as_str())
                .bind(request.as_str())
                .fetch_one(c)
                .await)?;
            if known != digest.0 {
                return Err(StoreError::IdempotencyConflict);
            }
            let row: RunRow = on!(tx, |c| sqlx::query_as(sql::RUN)
                .bind(new.account.as_str())
                .bind(run.as_str())
                .fetch_one(c)
                .await)?;
            return Ok(Admitted::Same(row.try_into()?));
        }
    }
    tx.stays(&new.account, &new.owner).await?;
    let runtime = new.runtime.to_string();
    let lease = new.lease.as_ref();
    let begun_by = json::to_text("begun by", &new.begun_by)?;
    let stream = StreamId::of(&new.account, &new.owner);
    let row: RunRow = on!(tx, |c| sqlx::query_as(sql::ADD_RUN)
        .bind(new.id.as_str())
        .bind(new.account.as_str())
        .bind(owner.as_str())
        .bind(runtime.as_str())
        .bind(new.session_key.as_str())
        .bind(new.method.as_str())
        .bind(Phase::Queued.as_str())
        .bind(new.at.0)
        .bind(lease.map(|l| l.owner.as_str()))
        .bind(i64::from(lease.is_some()))
        .bind(lease.map_or(0, |l| l.until.0))
        .bind(stream.as_str())
        .bind(begun_by.as_str())
        .fetch_one(c)
        .await)?;
    on!(tx, |c| sqlx::query(sql::ADD_TURN)
        .bind(new.id.as_str())
        .bind(new.turn.as_str())
        .execute(c)
        .await
        .map(drop))?;
    let run = Run::try_from(row)?;
    tx.append(&stream, events).await?;
    Ok(Admitted::New(run))
}

async fn change_run(
    tx: &mut Tx<'_>,
    lease: Lease,
    change: RunChange,
    events: Vec<NewEvent>,
) -> Result<Run> {
    let message = json::maybe_to_text("message", change.message.as_ref())?;
    let text = json::maybe_to_text("text", change.text.as_ref())?;
    let usage = json::maybe_to_text("usage", change.usage.as_ref())?;
    let missing = json::maybe_to_text("missing", change.missing.as_ref())?;
    let anomaly = match &change.anomaly {
        Some(anomaly) => json::to_text("anomaly", anomaly)? + "\n",
        None => String::new(),
    };
    let row: Option<RunRow> = on!(tx, |c| sqlx::query_as(sql::CHANGE_RUN)
        .bind(lease.run.as_str())
        .bind(lease.epoch)
        .bind(change.phase.map(Phase::as_str))
        .bind(change.code.map(|code| code.as_str()))
        .bind(message.as_deref())
        .bind(text.as_deref())
        .bind(usage.as_deref())
        .bind(missing.as_deref())
        .bind(change.started_at.map(|at| at.0))
        .bind(change.ended_at.map(|at| at.0))
        .bind(change.closed_at.map(|at| at.0))
        .bind(change.artifact_state.map(|state| state.as_str()))
        .bind(anomaly.as_str())
        .fetch_optional(c)
        .await)?;
    let run = Run::try_from(row.ok_or(StoreError::Stale)?)?;
    if let Some(turn) = &change.turn {
        on!(tx, |c| sqlx::query(sql::CHANGE_TURN)
            .bind(lease.run.as_str())
            .bind(turn.as_str())
            .execute(c)
            .await
            .map(drop))?;
    }
    log(tx, run, events).await
}

/// Logs what belongs to a change. With the change that closes the run, its part of the log ends.
async fn log(tx: &mut Tx<'_>, mut run: Run, events: Vec<NewEvent>) -> Result<Run> {
    let appended = tx.append(&run.stream(), events).await?;
    if run.phase == Phase::Closed && run.log_to.is_none() {
        on!(tx, |c| sqlx::query(sql::CLOSE_LOG)
            .bind(run.id.as_str())
            .bind(appended.last)
            .execute(c)
            .await
            .map(drop))?;
        run.log_to = Some(appended.last);
    }
    Ok(run)
}

async fn end_run(
    tx: &mut Tx<'_>,
    lease: Lease,
    end: RunEnd,
    events: Vec<NewEvent>,
) -> Result<Ended> {
    let message = json::maybe_to_text("message", end.message.as_ref())?;
    let text = json::maybe_to_text("text", end.text.as_ref())?;
    let usage = json::maybe_to_text("usage", end.usage.as_ref())?;
    let missing = json::maybe_to_text("missing", end.missing.as_ref())?;
    let first: Option<RunRow> = on!(tx, |c| sqlx::query_as(sql::END_RUN)
        .bind(lease.run.as_str())
        .bind(lease.epoch)
        .bind(end.status.as_str())
        .bind(end.code.map(|code| code.as_str()))
        .bind(message.as_deref())
        .bind(text.as_deref())
        .bind(usage.as_deref())
        .bind(missing.as_deref())
        .bind(end.ended_at.0)
        .bind(end.phase.map(Phase::as_str))
        .fetch_optional(c)
        .await)?;
    if let Some(first) = first {
        let run = log(tx, first.try_into()?, events).await?;
        return Ok(Ended::First(run));
    }
    let there = sql::RUN_TO_CHANGE.of(tx.dialect());
    let there: Option<RunRow> = on!(tx, |c| sqlx::query_as(there)
        .bind(lease.run.as_str())
        .fetch_optional(c)
        .await)?;
    let run = Run::try_from(there.ok_or(StoreError::Stale)?)?;
    if run.lease_epoch != lease.epoch {
        return Err(StoreError::Stale);
    }
    match contradiction(&run, &end) {
        None => Ok(Ended::Already(run)),
        Some(anomaly) => {
            let line = json::to_text("anomaly", &anomaly)? + "\n";
            let noted: Option<RunRow> = on!(tx, |c| sqlx::query_as(sql::ADD_ANOMALY)
                .bind(lease.run.as_str())
                .bind(lease.epoch)
                .bind(line.as_str())
                .fetch_optional(c)
                .await)?;
            let noted = noted.map(Run::try_from).transpose()?;
            Ok(Ended::Already(noted.unwrap_or(run)))
        }
    }
}

/// What a later end says that the record does not, unless it was noted before. Times and usage may
/// differ between two tellings of the same end.
fn contradiction(run: &Run, end: &RunEnd) -> Option<serde_json::Value> {
    let same_text = end.text.is_none() || end.text == run.text;
    if end.status == run.status && end.code == run.code && same_text {
        return None;
    }
    let anomaly = json!({
        "kind": "later_end",
        "status": end.status,
        "code": end.code,
        "message": end.message,
        "text": end.text,
        "at": end.ended_at,
    });
    let told = |a: &serde_json::Value| {
        ["kind", "status", "code", "text"]
            .iter()
            .all(|key| a.get(key) == anomaly.get(key))
    };
    (!run.anomalies.iter().any(told)).then_some(anomaly)
}
