//! How runs are written: admitted once per request, changed only under a lease, ended once.

use serde_json::json;
use threadline_contract::{AccountId, Actor, Millis, RunId};

use crate::{
    Admitted, Cancel, Ended, Lease, NewEvent, NewRun, Phase, Rank, Request, Result, Run, RunChange,
    RunEnd, StoreError, StreamId, Tx, json, run::RunRow, sql, tx::on,
};

impl Tx<'_> {
    /// Takes a run in, with the first events of its own (see [`Store::admit`]).
    pub async fn admit(&mut self, new: NewRun, events: Vec<NewEvent>) -> Result<Admitted> {
        let owner = new.owner.to_string();
        if let Some((key, digest)) = &new.request {
            let request = Request {
                account: new.account.clone(),
                scope: owner.clone(),
                key: key.to_string(),
                digest: *digest,
                by: new.begun_by.clone(),
                at: new.at,
            };
            if let Some(earlier) = self.outcome(&request).await? {
                let row: RunRow = on!(self, |c| sqlx::query_as(sql::RUN)
                    .bind(new.account.as_str())
                    .bind(earlier.as_str())
                    .fetch_one(c)
                    .await)?;
                return Ok(Admitted::Same(row.try_into()?));
            }
            self.keep_outcome(&request, new.id.as_str()).await?;
        }
        self.stays(&new.account, &new.owner).await?;
        let runtime = new.runtime.to_string();
        let lease = new.lease.as_ref();
        let begun_by = json::to_text("begun by", &new.begun_by)?;
        let stream = StreamId::of(&new.account, &new.owner);
        let row: RunRow = on!(self, |c| sqlx::query_as(sql::ADD_RUN)
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
        on!(self, |c| sqlx::query(sql::ADD_TURN)
            .bind(new.id.as_str())
            .bind(new.turn.as_str())
            .execute(c)
            .await
            .map(drop))?;
        let run = Run::try_from(row)?;
        self.append(&stream, events).await?;
        Ok(Admitted::New(run))
    }

    /// Changes a run under its lease, with events.
    pub async fn change_run(
        &mut self,
        lease: &Lease,
        change: RunChange,
        events: Vec<NewEvent>,
    ) -> Result<Run> {
        self.locks(Rank::Run, lease.run.as_str())?;
        let message = json::maybe_to_text("message", change.message.as_ref())?;
        let text = json::maybe_to_text("text", change.text.as_ref())?;
        let usage = json::maybe_to_text("usage", change.usage.as_ref())?;
        let missing = json::maybe_to_text("missing", change.missing.as_ref())?;
        let anomaly = match &change.anomaly {
            Some(anomaly) => json::to_text("anomaly", anomaly)? + "\n",
            None => String::new(),
        };
        let row: Option<RunRow> = on!(self, |c| sqlx::query_as(sql::CHANGE_RUN)
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
            on!(self, |c| sqlx::query(sql::CHANGE_TURN)
                .bind(lease.run.as_str())
                .bind(turn.as_str())
                .execute(c)
                .await
                .map(drop))?;
        }
        self.log(run, events).await
    }

    /// Logs what belongs to a change. With the change that closes the run, its part of the log ends.
    async fn log(&mut self, mut run: Run, events: Vec<NewEvent>) -> Result<Run> {
        let appended = self.append(&run.stream(), events).await?;
        if run.phase == Phase::Closed && run.log_to.is_none() {
            on!(self, |c| sqlx::query(sql::CLOSE_LOG)
                .bind(run.id.as_str())
                .bind(appended.last)
                .execute(c)
                .await
                .map(drop))?;
            run.log_to = Some(appended.last);
        }
        Ok(run)
    }

    /// Ends a run under its lease, with events (see [`Store::end_run`]).
    pub async fn end_run(
        &mut self,
        lease: &Lease,
        end: RunEnd,
        events: Vec<NewEvent>,
    ) -> Result<Ended> {
        if !end.status.is_terminal() {
            return Err(StoreError::Invalid("`running` is not an end".to_owned()));
        }
        self.locks(Rank::Run, lease.run.as_str())?;
        let message = json::maybe_to_text("message", end.message.as_ref())?;
        let text = json::maybe_to_text("text", end.text.as_ref())?;
        let usage = json::maybe_to_text("usage", end.usage.as_ref())?;
        let missing = json::maybe_to_text("missing", end.missing.as_ref())?;
        let first: Option<RunRow> = on!(self, |c| sqlx::query_as(sql::END_RUN)
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
            let run = self.log(first.try_into()?, events).await?;
            return Ok(Ended::First(run));
        }
        let run = self.lock_leased_run(lease).await?;
        match contradiction(&run, &end) {
            None => Ok(Ended::Already(run)),
            Some(anomaly) => {
                let line = json::to_text("anomaly", &anomaly)? + "\n";
                let noted: Option<RunRow> = on!(self, |c| sqlx::query_as(sql::ADD_ANOMALY)
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

    /// Records that somebody wants a run to stop. The event is logged the first time only.
    pub async fn request_cancel(
        &mut self,
        account: &AccountId,
        run: &RunId,
        by: &Actor,
        at: Millis,
        event: NewEvent,
    ) -> Result<Cancel> {
        let by = json::to_text("asked by", by)?;
        self.locks(Rank::Run, run.as_str())?;
        let asked: Option<RunRow> = on!(self, |c| sqlx::query_as(sql::REQUEST_CANCEL)
            .bind(account.as_str())
            .bind(run.as_str())
            .bind(at.0)
            .bind(by.as_str())
            .fetch_optional(c)
            .await)?;
        if let Some(asked) = asked {
            let asked = Run::try_from(asked)?;
            self.append(&asked.stream(), vec![event]).await?;
            return Ok(Cancel::Asked(asked));
        }
        let there: RunRow = on!(self, |c| sqlx::query_as(sql::RUN)
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
