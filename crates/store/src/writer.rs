//! The one SQLite writer: it owns the write connection, and what waits in its queue shares a commit.
//!
//! Appends of events are numbered in memory and inserted many at a time; other pieces of work run
//! one after the other, each behind a savepoint, so that one that fails takes nothing else with it.
//! Everybody is answered after the commit. A caller that goes away changes nothing: its work is done
//! or not done as a whole, and subscribers hear of it.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::BoxFuture;
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Appended, Lease, NewEvent, Result, StoreError, StreamId,
    bus::Bus,
    json, sql,
    tx::{Conn, Fresh, Tx},
};

/// Callers that may wait in the queue before the next one waits outside.
const QUEUE: usize = 1024;
/// Pieces of work that share one commit at most.
const BATCH: usize = 256;

/// How often the writer lets others go first between two commits.
const YIELDS: usize = 4;

/// The writer's door.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
}

enum Job {
    Append(Append),
    Work(Box<dyn Work>),
    Close(oneshot::Sender<Result<()>>),
}

struct Append {
    stream: StreamId,
    fence: Option<Lease>,
    events: Vec<NewEvent>,
    reply: oneshot::Sender<Result<Appended>>,
}

/// A piece of work with its answer, whatever their types.
trait Work: Send {
    /// Does it; when it fails it must be rolled back.
    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> BoxFuture<'t, Result<()>>;
    /// Says how it went, now that the commit succeeded or failed.
    fn answer(self: Box<Self>, commit: Result<()>);
}

struct Task<F, T> {
    work: Option<F>,
    out: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Work for Task<F, T>
where
    F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send,
    T: Send,
{
    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> BoxFuture<'t, Result<()>> {
        Box::pin(async move {
            if let Some(work) = self.work.take() {
                self.out = work(tx).await;
            }
            self.out.as_ref().map(drop).map_err(StoreError::clone)
        })
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        // The caller may have gone away; then nobody wants the answer.
        let _ = self
            .reply
            .send(self.out.and_then(|out| commit.map(|()| out)));
    }
}

impl Writer {
    /// Takes the connection and begins to write.
    pub(crate) fn start(conn: SqliteConnection, bus: Arc<Bus>) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(write(Tx::new(Conn::Sqlite(Box::new(conn))), queue, bus));
        Self { jobs }
    }

    pub(crate) async fn append(
        &self,
        stream: StreamId,
        fence: Option<Lease>,
        events: Vec<NewEvent>,
    ) -> Result<Appended> {
        self.ask(|reply| {
            Job::Append(Append {
                stream,
                fence,
                events,
                reply,
            })
        })
        .await
    }

    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        self.ask(|reply| {
            Job::Work(Box::new(Task {
                work: Some(work),
                out: Err(StoreError::Closed),
                reply,
            }))
        })
        .await
    }

    /// Does what is in the queue, then closes the connection.
    pub(crate) async fn close(&self) -> Result<()> {
        match self.ask(Job::Close).await {
            Err(StoreError::Closed) => Ok(()),
            other => other,
        }
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T>>) -> Job) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let sent = self.jobs.send(job(reply)).await;
        sent.map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }
}

async fn write(mut tx: Tx, mut queue: mpsc::Receiver<Job>, bus: Arc<Bus>) {
    let mut jobs = Vec::with_capacity(BATCH);
    let mut closing = Vec::new();
    while closing.is_empty() && queue.recv_many(&mut jobs, BATCH).await > 0 {
        let together = jobs.len();
        let mut batch = Batch::default();
        for job in jobs.drain(..) {
            match job {
                Job::Append(append) => batch.appends.push(append),
                Job::Work(work) => batch.works.push(work),
                Job::Close(reply) => closing.push(reply),
            }
        }
        batch.write(&mut tx, &bus).await;
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
        Conn::Sqlite(conn) => conn.close().await.map_err(StoreError::from),
        Conn::Postgres(_) => Ok(()),
    };
    for reply in closing {
        let _ = reply.send(closed.clone());
    }
}

#[derive(Default)]
struct Batch {
    appends: Vec<Append>,
    works: Vec<Box<dyn Work>>,
}

impl Batch {
    /// Writes everything with one commit, then answers everybody.
    async fn write(mut self, tx: &mut Tx, bus: &Bus) {
        if self.appends.is_empty() && self.works.is_empty() {
            return;
        }
        let written = self.commit(tx).await;
        if written.is_ok() {
            tx.heads.committed();
            bus.publish(std::mem::take(&mut tx.fresh));
        } else {
            tx.heads.forget();
            tx.fresh.clear();
            // Fails where SQLite has rolled back by itself, which is what is wanted.
            let _ = execute(tx, "rollback").await;
        }
        match &written {
            Ok(appended) => {
                for (append, out) in self.appends.into_iter().zip(appended) {
                    let _ = append.reply.send(out.clone());
                }
            }
            Err(e) => {
                for append in self.appends {
                    let _ = append.reply.send(Err(e.clone()));
                }
            }
        }
        let commit = written.map(drop);
        for work in self.works {
            work.answer(commit.clone());
        }
    }

    async fn commit(&mut self, tx: &mut Tx) -> Result<Vec<Result<Appended>>> {
        execute(tx, "begin immediate").await?;
        let appended = number_all(tx, &mut self.appends).await?;
        if let ([work], []) = (self.works.as_mut_slice(), appended.as_slice()) {
            // Alone, it needs no savepoint: the whole transaction is its own.
            if work.run(tx).await.is_err() {
                undo(tx, 0);
                execute(tx, "rollback").await?;
                return Ok(appended);
            }
            tx.heads.keep_work();
        } else {
            for work in &mut self.works {
                run_one(tx, work.as_mut()).await?;
            }
        }
        execute(tx, "commit").await?;
        Ok(appended)
    }
}

/// Numbers and inserts all appends of a batch. Those whose fence is stale add nothing.
async fn number_all(tx: &mut Tx, appends: &mut [Append]) -> Result<Vec<Result<Appended>>> {
    let epochs = epochs(tx, appends.iter().filter_map(|a| a.fence.as_ref())).await?;
    let mut out = Vec::with_capacity(appends.len());
    let mut place: HashMap<StreamId, usize> = HashMap::new();
    let mut fresh: Vec<Fresh> = Vec::new();
    for Append {
        stream,
        fence,
        events,
        ..
    } in appends
    {
        if let Some(fence) = fence
            && epochs.get(fence.run.as_str()) != Some(&fence.epoch)
        {
            out.push(Err(StoreError::Stale));
            continue;
        }
        let (appended, rows) = tx.number(stream, std::mem::take(events)).await?;
        out.push(Ok(appended));
        let at = *place.entry(stream.clone()).or_insert_with(|| {
            fresh.push((stream.clone(), Vec::new()));
            fresh.len() - 1
        });
        if let Some((_, all)) = fresh.get_mut(at) {
            all.extend(rows);
        }
    }
    tx.insert(&fresh).await?;
    tx.heads.keep_work();
    tx.fresh.extend(fresh);
    Ok(out)
}

/// The current epoch of each run that a fence names.
async fn epochs(tx: &mut Tx, fences: impl Iterator<Item = &Lease>) -> Result<HashMap<String, i64>> {
    let runs: std::collections::BTreeSet<&str> = fences.map(|f| f.run.as_str()).collect();
    let (Conn::Sqlite(conn), false) = (&mut tx.conn, runs.is_empty()) else {
        return Ok(HashMap::new());
    };
    let rows: Vec<(String, i64)> = sqlx::query_as(sql::FENCES)
        .bind(json::to_text("fences", &runs)?)
        .fetch_all(&mut **conn)
        .await?;
    Ok(rows.into_iter().collect())
}

/// Runs one piece of work; when it fails, what it did is undone and the batch goes on.
async fn run_one(tx: &mut Tx, work: &mut dyn Work) -> Result<()> {
    execute(tx, "savepoint work").await?;
    let before = tx.fresh.len();
    match work.run(tx).await {
        Ok(()) => tx.heads.keep_work(),
        Err(why) => {
            undo(tx, before);
            // Some failures (a full disk) make SQLite roll back everything: then they are the
            // whole batch's failure.
            execute(tx, "rollback to work").await.map_err(|_| why)?;
        }
    }
    execute(tx, "release work").await
}

/// Forgets the numbers and events of the current piece of work.
fn undo(tx: &mut Tx, before: usize) {
    tx.heads.drop_work();
    tx.fresh.truncate(before);
}

async fn execute(tx: &mut Tx, statement: &'static str) -> Result<()> {
    if let Conn::Sqlite(conn) = &mut tx.conn {
        sqlx::query(statement).execute(&mut **conn).await?;
    }
    Ok(())
}
