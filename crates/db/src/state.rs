//! The hook for state in memory that must follow what becomes of transactions.

use std::convert::Infallible;

use futures_util::future::BoxFuture;

use crate::{DbError, Result, Tx};

/// What is kept in memory beside transactions: numbers that were given out, rows that somebody will be shown.
///
/// On SQLite one value lives as long as the writer. A batch of work is one transaction: each piece is kept or
/// dropped, then the batch is committed or has failed. On PostgreSQL every transaction has a value of its own.
pub trait TxState: Send + Sized + 'static {
    /// Small writes of one kind that SQLite's writer takes together, with few statements and no savepoint each.
    type Bulk: Send + 'static;

    /// Writes a group of them. Each remembers what became of it; an error is the whole batch's.
    fn write_bulk<'t>(
        tx: &'t mut Tx<Self>,
        group: &'t mut [Self::Bulk],
    ) -> BoxFuture<'t, Result<()>>;

    /// Tells whoever waits for one of them what became of it, now that the commit succeeded or failed.
    fn answer(bulk: Self::Bulk, commit: Result<()>);

    /// The current piece of work will be part of the transaction.
    fn keep_work(&mut self);

    /// The current piece of work was rolled back.
    fn drop_work(&mut self);

    /// The transaction is on the disk.
    fn committed(&mut self);

    /// The transaction failed. Whether the disk has it is for the tables to say.
    fn failed(&mut self);
}

/// For whoever keeps nothing.
impl TxState for () {
    type Bulk = Infallible;

    fn write_bulk<'t>(_: &'t mut Tx<Self>, _: &'t mut [Infallible]) -> BoxFuture<'t, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn answer(bulk: Infallible, _: Result<(), DbError>) {
        match bulk {}
    }
    fn keep_work(&mut self) {}
    fn drop_work(&mut self) {}
    fn committed(&mut self) {}
    fn failed(&mut self) {}
}
