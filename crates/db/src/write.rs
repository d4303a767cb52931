//! Running a piece of work in a writing transaction.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use threadline_retry::table;

use crate::{
    Db, DbError, Result, Tx, TxState, WorkError,
    open::{Inner, Pools},
    tx::Conn,
};

/// How often a piece of work that met another transaction is run again at most.
const MAX_RETRIES: u32 = 10;

impl<S: TxState> Db<S> {
    /// Runs a piece of work in a writing transaction. It is done as a whole or not at all, even when the caller goes
    /// away. When it meets another transaction it is run again from its beginning, so it must do nothing outside
    /// the transaction.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx<S>) -> BoxFuture<'t, Result<T, E>> + Clone + Send + 'static,
        T: Send + 'static,
        E: WorkError,
    {
        let mut pauses = table::TRANSACTIONS_MET.pauses();
        let begun = Instant::now();
        loop {
            let out = self.write_once(work.clone()).await;
            match &out {
                Err(e)
                    if is_contention(e)
                        && pauses.count() < MAX_RETRIES
                        && begun.elapsed() < self.inner.patience => {}
                _ => return out,
            }
            tokio::time::sleep(pauses.next_pause()).await;
        }
    }

    /// As [`Db::write`], for work that cannot be run again: meeting another transaction is its caller's to mend.
    pub async fn write_once<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx<S>) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: WorkError,
    {
        match &self.inner.pools {
            Pools::Sqlite { writer, .. } => writer.run(work).await,
            Pools::Postgres(_) => {
                // A task of its own: a caller that goes away between the commit and what follows from it must not
                // keep that from happening.
                let inner = Arc::clone(&self.inner);
                match tokio::spawn(on_postgres(inner, work)).await {
                    Ok(out) => out,
                    Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
                    Err(_) => Err(DbError::Closed.into()),
                }
            }
        }
    }

    /// Hands a small write to SQLite's writer, which answers it by [`TxState::answer`]. On PostgreSQL, which has no
    /// such writer, it is refused: there it is a piece of work as any other.
    pub async fn submit(&self, bulk: S::Bulk) -> Result<()> {
        match &self.inner.pools {
            Pools::Sqlite { writer, .. } => writer.submit(bulk).await,
            Pools::Postgres(_) => Err(DbError::Invalid(
                "PostgreSQL takes no bulk writes".to_owned(),
            )),
        }
    }
}

fn is_contention(e: &impl WorkError) -> bool {
    matches!(e.database(), Some(DbError::Contended(_)))
}

async fn on_postgres<S, T, E, F>(inner: Arc<Inner<S>>, work: F) -> Result<T, E>
where
    F: for<'t> FnOnce(&'t mut Tx<S>) -> BoxFuture<'t, Result<T, E>> + Send,
    S: TxState,
    E: WorkError,
{
    let Pools::Postgres(pool) = &inner.pools else {
        return Err(DbError::Closed.into());
    };
    let transaction = pool.begin().await.map_err(DbError::from)?;
    let mut tx = Tx::new(Conn::Postgres(Box::new(transaction)), None, (inner.state)());
    let out = work(&mut tx).await?;
    tx.state.keep_work();
    if let Conn::Postgres(transaction) = tx.conn {
        transaction.commit().await.map_err(DbError::from)?;
    }
    tx.state.committed();
    Ok(out)
}
