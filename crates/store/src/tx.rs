//! The transaction in which a decision is made: read, decide, apply, and everything commits together or not at all.

use threadline_db::{Connection, DbError, Dialect};

use crate::{
    Appended, NewEvent, Result, StreamId, append,
    live::{DbTx, Live},
};

/// A transaction of the store (see [`crate::Store::transact`]).
pub struct Tx<'t> {
    db: &'t mut DbTx,
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
        Self { db }
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

    /// Adds events to a stream. Those who follow it see them once the transaction is committed.
    pub async fn append(&mut self, stream: &StreamId, events: Vec<NewEvent>) -> Result<Appended> {
        Ok(append::append(self.db, stream, events).await?)
    }
}
