//! Leases with fencing tokens: one driver per run, and a driver that lost its lease can write
//! nothing any more.

use threadline_contract::{Millis, RunId};

use crate::{Result, Run, Store, StoreError, Tx, json, open::read, run::RunRow, sql, tx::on};

/// The right to drive a run, as its epoch says. Every lease has a higher epoch than the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// The fencing token.
    pub epoch: i64,
}

/// Whether a lease that somebody holds may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Only when nobody holds it or its time is over.
    IfExpired,
    /// In any case: the holder is known to be gone.
    Always,
}

impl Tx<'_> {
    /// Fails with `Stale` unless the lease still holds; on PostgreSQL it then holds until commit.
    pub async fn fence(&mut self, lease: &Lease) -> Result<()> {
        let sql = sql::FENCE.of(self.dialect());
        let (run, epoch) = (lease.run.as_str(), lease.epoch);
        let held: Option<i32> = on!(self, |c| sqlx::query_scalar(sql)
            .bind(run)
            .bind(epoch)
            .fetch_optional(c)
            .await)?;
        held.map(drop).ok_or(StoreError::Stale)
    }
}

impl Store {
    /// Takes the lease on a run. `None` when somebody holds it, or the run is closed.
    pub async fn acquire_lease(
        &self,
        run: &RunId,
        owner: &str,
        now: Millis,
        ttl_ms: i64,
        takeover: Takeover,
    ) -> Result<Option<Lease>> {
        let (run, owner) = (run.clone(), owner.to_owned());
        let held_until = match takeover {
            Takeover::IfExpired => now.0,
            Takeover::Always => i64::MAX,
        };
        self.transact(move |mut tx| {
            Box::pin(async move {
                let epoch: Option<i64> = on!(tx, |c| sqlx::query_scalar(sql::ACQUIRE_LEASE)
                    .bind(run.as_str())
                    .bind(owner.as_str())
                    .bind(now.plus(ttl_ms).0)
                    .bind(held_until)
                    .fetch_optional(c)
                    .await)?;
                if let Some(epoch) = epoch {
                    return Ok(Some(Lease { run, epoch }));
                }
                let there: Option<RunRow> = on!(tx, |c| sqlx::query_as(sql::RUN_ANY)
                    .bind(run.as_str())
                    .fetch_optional(c)
                    .await)?;
                there.map(|_| None).ok_or(StoreError::NotFound)
            })
        })
        .await
    }

    /// Opens a closed run once more whose files could not be collected, and takes its lease. `None` when
    /// there is nothing to collect, or somebody else was quicker.
    pub async fn reopen_files(
        &self,
        run: &RunId,
        owner: &str,
        now: Millis,
        ttl_ms: i64,
    ) -> Result<Option<Lease>> {
        let (run, owner) = (run.clone(), owner.to_owned());
        self.transact(move |mut tx| {
            Box::pin(async move {
                let epoch: Option<i64> = on!(tx, |c| sqlx::query_scalar(sql::REOPEN_FILES)
                    .bind(run.as_str())
                    .bind(owner.as_str())
                    .bind(now.plus(ttl_ms).0)
                    .fetch_optional(c)
                    .await)?;
                Ok(epoch.map(|epoch| Lease { run, epoch }))
            })
        })
        .await
    }

    /// Takes the leases of up to `limit` open runs that nobody holds, oldest first. Two nodes that
    /// ask at once get different runs.
    pub async fn claim_runs(
        &self,
        owner: &str,
        now: Millis,
        ttl_ms: i64,
        limit: u32,
    ) -> Result<Vec<Run>> {
        let owner = owner.to_owned();
        self.transact(move |mut tx| {
            Box::pin(async move {
                let statement = sql::CLAIM_RUNS.of(tx.dialect());
                let rows: Vec<RunRow> = on!(tx, |c| sqlx::query_as(statement)
                    .bind(owner.as_str())
                    .bind(now.plus(ttl_ms).0)
                    .bind(now.0)
                    .bind(i64::from(limit))
                    .fetch_all(c)
                    .await)?;
                rows.into_iter().map(TryInto::try_into).collect()
            })
        })
        .await
    }

    /// Open runs whose lease nobody holds.
    pub async fn claimable_runs(&self, now: Millis, limit: u32) -> Result<Vec<Run>> {
        let rows: Vec<RunRow> = read!(self, |db| sqlx::query_as(sql::CLAIMABLE_RUNS)
            .bind(now.0)
            .bind(i64::from(limit))
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Prolongs leases, and says which of them are lost.
    pub async fn renew_leases(
        &self,
        owner: &str,
        leases: &[Lease],
        until: Millis,
    ) -> Result<Vec<RunId>> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (owner, leases) = (owner.to_owned(), leases.to_vec());
        self.transact(move |mut tx| {
            Box::pin(async move {
                let pairs: Vec<_> = leases.iter().map(|l| (&l.run, l.epoch)).collect();
                let pairs = json::to_text("leases", &pairs)?;
                let statement = sql::RENEW_LEASES.of(tx.dialect());
                let kept: Vec<String> = on!(tx, |c| sqlx::query_scalar(statement)
                    .bind(owner.as_str())
                    .bind(pairs.as_str())
                    .bind(until.0)
                    .fetch_all(c)
                    .await)?;
                let kept: std::collections::HashSet<_> = kept.into_iter().collect();
                let lost = leases.into_iter().map(|l| l.run);
                Ok(lost.filter(|run| !kept.contains(run.as_str())).collect())
            })
        })
        .await
    }

    /// Gives a lease back, so that anybody can take it at once. A lease that is lost already is no
    /// error.
    pub async fn release_lease(&self, lease: &Lease) -> Result<()> {
        let lease = lease.clone();
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::RELEASE_LEASE)
                    .bind(lease.run.as_str())
                    .bind(lease.epoch)
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await
    }
}
