//! The leases of runs: one driver per run, and a driver that lost its lease can write nothing any more.

use std::collections::HashSet;

use threadline_contract::{Millis, RunId};

use crate::{
    Rank, Result, Run, Store, Tx, json, lease_table::Claimant, open::read, run::RunRow, sql, tx::on,
};

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
    /// Fails with `Stale` unless the lease still holds; on PostgreSQL it then holds until the transaction ends.
    pub async fn fence(&mut self, lease: &Lease) -> Result<()> {
        let (run, epoch) = (lease.run.as_str(), lease.epoch);
        self.fence_row(sql::RUN_LEASES, Rank::Run, run, epoch).await
    }
}

impl Store {
    /// Takes the leases of those of the named runs that are open and may be taken: all of them, or those that nobody
    /// holds. Two that ask at once never get the same one.
    pub async fn claim_runs(
        &self,
        runs: &[RunId],
        owner: &str,
        now: Millis,
        ttl_ms: i64,
        takeover: Takeover,
    ) -> Result<Vec<Lease>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let runs = runs.to_vec();
        let claimant = Claimant {
            owner: owner.to_owned(),
            now,
            until: now.plus(ttl_ms),
        };
        self.transact(move |mut tx| {
            Box::pin(async move {
                let keys = runs.iter().map(RunId::as_str);
                let claimed = tx
                    .claim_leases(sql::RUN_LEASES, keys, &claimant, takeover)
                    .await?;
                let lease = |(run, epoch): (String, i64)| {
                    Ok(Lease {
                        run: json::id("runs.id", &run)?,
                        epoch,
                    })
                };
                claimed.into_iter().map(lease).collect()
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
                let pairs: Vec<_> = leases.iter().map(|l| (l.run.as_str(), l.epoch)).collect();
                let kept = tx
                    .prolong_leases(sql::RUN_LEASES, &owner, &pairs, until)
                    .await?;
                let kept: HashSet<_> = kept.into_iter().collect();
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
                tx.free_lease(sql::RUN_LEASES, lease.run.as_str(), lease.epoch)
                    .await
            })
        })
        .await
    }
}
