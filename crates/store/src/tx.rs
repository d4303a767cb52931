//! The transaction in which a decision is made: read, decide, apply, and everything commits together or not at all.

use threadline_contract::{AccountId, RunId, SessionKey};
use threadline_db::{Connection, DbError, Dialect};

use crate::{
    Appended, Lease, NewEvent, Rank, Result, Run, Session, StoreError, StreamId, append,
    live::{DbTx, Live},
    lock_order::LockOrder,
    run::RunRow,
    sessions::SessionRow,
    sql,
};

/// A transaction of the store (see [`crate::Store::transact`]).
///
/// A decision first locks the rows that it is about, in the order of [`Rank`]; then it reads, decides in pure code,
/// and applies. Whoever locks a row after a later one gets an error in a debug build, so that a test finds it.
pub struct Tx<'t> {
    db: &'t mut DbTx,
    order: LockOrder,
}

/// Runs one statement in a transaction, on whichever database there is.
macro_rules! on {
    ($tx:expr, |$c:ident| $body:expr) => {
        threadline_db::on!($tx, |$c| $body).map_err($crate::StoreError::from)
    };
}
pub(crate) use on;

impl<'t> Tx<'t> {
    pub(crate) fn new(db: &'t mut DbTx) -> Self {
        Self {
            db,
            order: LockOrder::default(),
        }
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    pub(crate) fn connection(&mut self) -> Connection<'_> {
        self.db.connection()
    }

    pub(crate) fn explain(&self, e: sqlx::Error) -> DbError {
        self.db.explain(e)
    }

    pub(crate) fn live(&mut self) -> &mut Live {
        &mut self.db.state
    }

    /// Notes that the next statement locks a row. Elsewhere than in tests a wrong order is only logged: what comes of
    /// it at worst, a deadlock, is tried again.
    pub(crate) fn locks(&mut self, rank: Rank, key: &str) -> Result<()> {
        match self.order.take(rank, key) {
            Err(why) if cfg!(debug_assertions) => Err(StoreError::Invalid(why)),
            Err(why) => {
                tracing::warn!("Rows are locked out of order: {why}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Locks a session of an account and reads it.
    pub async fn lock_session(
        &mut self,
        account: &AccountId,
        session: &SessionKey,
    ) -> Result<Session> {
        self.locks(Rank::Session, session.as_str())?;
        let statement = sql::LOCK_SESSION.of(self.dialect());
        let row: SessionRow = on!(self, |c| sqlx::query_as(statement)
            .bind(account.as_str())
            .bind(session.as_str())
            .fetch_one(c)
            .await)?;
        row.try_into()
    }

    /// Locks a run of an account and reads it.
    pub async fn lock_run(&mut self, account: &AccountId, run: &RunId) -> Result<Run> {
        self.locks(Rank::Run, run.as_str())?;
        let statement = sql::LOCK_RUN.of(self.dialect());
        let row: RunRow = on!(self, |c| sqlx::query_as(statement)
            .bind(account.as_str())
            .bind(run.as_str())
            .fetch_one(c)
            .await)?;
        row.try_into()
    }

    /// Locks the run that a lease is for and reads it: how a driver's transaction begins. `Stale` when the lease is
    /// lost; otherwise it holds until the transaction ends.
    pub async fn lock_leased_run(&mut self, lease: &Lease) -> Result<Run> {
        self.locks(Rank::Run, lease.run.as_str())?;
        let statement = sql::LOCK_LEASED_RUN.of(self.dialect());
        let row: Option<RunRow> = on!(self, |c| sqlx::query_as(statement)
            .bind(lease.run.as_str())
            .bind(lease.epoch)
            .fetch_optional(c)
            .await)?;
        row.ok_or(StoreError::Stale)?.try_into()
    }

    /// Adds events to a stream. Those who follow it see them once the transaction is committed.
    pub async fn append(&mut self, stream: &StreamId, events: Vec<NewEvent>) -> Result<Appended> {
        self.locks(Rank::Stream, stream.as_str())?;
        Ok(append::append(self.db, stream, events).await?)
    }
}
