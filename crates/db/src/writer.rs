//! The one SQLite writer: it owns the write connection, and what waits in its queue shares a commit.
//!
//! Small writes of one kind ([`TxState::Bulk`]) are done together; other pieces of work run one after the
//! other, each behind a savepoint, so that one that fails takes nothing else with it. Everybody is answered
//! after the commit. A caller that goes away changes nothing: its work is done or not done as a whole.

use futures_util::future::BoxFuture;
use sqlx::Connection as _;
use tokio::sync::{mpsc, oneshot};

use crate::{DbError, Result, Tx, TxState, WorkError, tx::Conn};

/// Callers that may wait in the queue before the next one waits outside.
const QUEUE: usize = 1024;
/// Pieces of work that share one commit at most.
const BATCH: usize = 256;

/// How often the writer lets others go first between two commits.
const YIELDS: usize = 4;

/// The way to the writer.
pub(crate) struct Writer<S: TxState> {
    jobs: mpsc::Sender<Job<S>>,
}

enum Job<S: TxState> {
    Bulk(S::Bulk),
    Work(Box<dyn Work<S>>),
    Close(oneshot::Sender<Result<()>>),
}

/// A piece of work with its answer, whatever their types.
trait Work<S>: Send {
    /// Does it; when it fails it must be rolled back. The error is the database's, where that is why.
    fn run<'t>(&'t mut self, tx: &'t mut Tx<S>) -> BoxFuture<'t, Result<(), Option<DbError>>>;
    /// Says how it went, now that the commit succeeded or failed.
    fn answer(self: Box<Self>, commit: Result<()>);
}

struct Task<F, T, E> {
    work: Option<F>,
    /// None until it was run.
    out: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<S, F, T, E> Work<S> for Task<F, T, E>
where
    F: for<'t> FnOnce(&'t mut Tx<S>) -> BoxFuture<'t, Result<T, E>> + Send,
    S: Send,
    T: Send,
    E: WorkError,
{
    fn run<'t>(&'t mut self, tx: &'t mut Tx<S>) -> BoxFuture<'t, Result<(), Option<DbError>>> {
        Box::pin(async move {
            let Some(work) = self.work.take() else {
                return Ok(());
            };
            let out = self.out.insert(work(tx).await);
            out.as_ref().map(drop).map_err(|e| e.database().cloned())
        })
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let out = match (self.out, commit) {
            (Some(Err(e)), _) => Err(e),
            (_, Err(e)) => Err(e.into()),
            (Some(Ok(out)), Ok(())) => Ok(out),
            (None, Ok(())) => Err(DbError::Closed.into()),
        };
        // The caller may have gone away; then nobody wants the answer.
        let _ = self.reply.send(out);
    }
}

impl<S: TxState> Writer<S> {
    /// Takes the connection and begins to write.
    pub(crate) fn start(tx: Tx<S>) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(write(tx, queue));
        Self { jobs }
    }

    pub(crate) async fn submit(&self, bulk: S::Bulk) -> Result<()> {
        let sent = self.jobs.send(Job::Bulk(bulk)).await;
        sent.map_err(|_| DbError::Closed)
    }

    pub(crate) async fn run<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx<S>) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: WorkError,
    {
        self.ask(|reply| {
            Job::Work(Box::new(Task {
                work: Some(work),
                out: None,
                reply,
            }))
        })
        .await
        .unwrap_or_else(|| Err(DbError::Closed.into()))
    }

    /// Does what is in the queue, then closes the connection.
    pub(crate) async fn close(&self) -> Result<()> {
        self.ask(Job::Close).await.unwrap_or(Ok(()))
    }

    /// The writer's answer; none when it has ended.
    async fn ask<A>(&self, job: impl FnOnce(oneshot::Sender<A>) -> Job<S>) -> Option<A> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(job(reply)).await.ok()?;
        answer.await.ok()
    }
}

async fn write<S: TxState>(mut tx: Tx<S>, mut queue: mpsc::Receiver<Job<S>>) {
    let mut jobs = Vec::with_capacity(BATCH);
    let mut closing = Vec::new();
    while closing.is_empty() && queue.recv_many(&mut jobs, BATCH).await > 0 {
        let together = jobs.len();
        let mut batch = Batch {
            bulk: Vec::new(),
            works: Vec::new(),
        };
        for job in jobs.drain(..) {
            match job {
                Job::Bulk(bulk) => batch.bulk.push(bulk),
                Job::Work(work) => batch.works.push(work),
                Job::Close(reply) => closing.push(reply),
            }
        }
        batch.write(&mut tx).await;
        // Those who were just answered often come back at once. A moment for them, and they share
        // the next commit instead of waiting for the one after it.
        for _ in 0..YIELDS {
            if queue.len() >= together {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    queue.close();
    let closed = match tx.conn {
        Conn::Sqlite(conn) => conn.close().await.map_err(DbError::from),
        Conn::Postgres(_) => Ok(()),
    };
    for reply in closing {
        let _ = reply.send(closed.clone());
    }
}

struct Batch<S: TxState> {
    bulk: Vec<S::Bulk>,
    works: Vec<Box<dyn Work<S>>>,
}

impl<S: TxState> Batch<S> {
    /// Writes everything with one commit, then answers everybody.
    async fn write(mut self, tx: &mut Tx<S>) {
        if self.bulk.is_empty() && self.works.is_empty() {
            return;
        }
        let commit = self.commit(tx).await;
        if commit.is_ok() {
            tx.state.committed();
        } else {
            tx.state.failed();
            // Fails where SQLite has rolled back by itself, which is what is wanted.
            let _ = execute(tx, "rollback").await;
        }
        for bulk in self.bulk {
            S::answer(bulk, commit.clone());
        }
        for work in self.works {
            work.answer(commit.clone());
        }
    }

    async fn commit(&mut self, tx: &mut Tx<S>) -> Result<()> {
        execute(tx, "begin immediate").await?;
        if !self.bulk.is_empty() {
            S::write_bulk(tx, &mut self.bulk).await?;
            tx.state.keep_work();
        }
        if let ([work], []) = (self.works.as_mut_slice(), self.bulk.as_slice()) {
            // Alone, it needs no savepoint: the whole transaction is its own.
            if work.run(tx).await.is_err() {
                tx.state.drop_work();
                return execute(tx, "rollback").await;
            }
            tx.state.keep_work();
        } else {
            for work in &mut self.works {
                run_one(tx, work.as_mut()).await?;
            }
        }
        execute(tx, "commit").await
    }
}

/// Runs one piece of work; when it fails, what it did is undone and the batch goes on.
async fn run_one<S: TxState>(tx: &mut Tx<S>, work: &mut dyn Work<S>) -> Result<()> {
    execute(tx, "savepoint work").await?;
    match work.run(tx).await {
        Ok(()) => tx.state.keep_work(),
        Err(why) => {
            tx.state.drop_work();
            // Some failures (a full disk) make SQLite roll back everything: then they are the
            // whole batch's failure.
            let undone = execute(tx, "rollback to work").await;
            undone.map_err(|e| why.unwrap_or(e))?;
        }
    }
    execute(tx, "release work").await
}

async fn execute<S>(tx: &mut Tx<S>, statement: &'static str) -> Result<()> {
    crate::on!(tx, |c| sqlx::query(statement).execute(c).await.map(drop))
}
