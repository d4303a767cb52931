//! One writing transaction on either database: statements, and events that get their numbers in it.

use std::sync::{Arc, LazyLock};

use sqlx::{AssertSqlSafe, PgConnection, Postgres, SqliteConnection, Transaction};

use crate::{
    Appended, Dialect, Lease, NewEvent, Result, StoreError, StoredEvent, StreamId, heads::Heads,
    many::Many, sql,
};

static EVENT_ROWS: LazyLock<Many> = LazyLock::new(|| {
    Many::new(
        "insert into events (stream, seq, run, frame, kind, body, at)",
        7,
    )
});

/// Rows of events that one commit added to a stream.
pub(crate) type Fresh = (StreamId, Vec<StoredEvent>);

pub(crate) enum Conn {
    /// Begin and commit are the writer's business: it shares one among many pieces of work.
    Sqlite(Box<SqliteConnection>),
    Postgres(Box<Transaction<'static, Postgres>>),
}

pub(crate) struct Tx {
    pub(crate) conn: Conn,
    /// SQLite only.
    pub(crate) heads: Heads,
    /// What subscribers will want to see once it is committed.
    pub(crate) fresh: Vec<Fresh>,
}

/// Runs one statement on the transaction's connection, whichever kind it is.
macro_rules! on {
    ($tx:expr, |$c:ident| $body:expr) => {
        match &mut $tx.conn {
            $crate::tx::Conn::Sqlite(conn) => {
                let $c: &mut sqlx::SqliteConnection = conn;
                $body
            }
            $crate::tx::Conn::Postgres(conn) => {
                let $c: &mut sqlx::PgConnection = conn;
                $body
            }
        }
        .map_err($crate::StoreError::from)
    };
}
pub(crate) use on;

impl Tx {
    pub(crate) fn new(conn: Conn) -> Self {
        Self {
            conn,
            heads: Heads::default(),
            fresh: Vec::new(),
        }
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        match self.conn {
            Conn::Sqlite(_) => Dialect::Sqlite,
            Conn::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Fails with `Stale` unless the lease still holds; on PostgreSQL it then holds until commit.
    pub(crate) async fn fence(&mut self, lease: &Lease) -> Result<()> {
        let sql = sql::FENCE.of(self.dialect());
        let (run, epoch) = (lease.run.as_str(), lease.epoch);
        let held: Option<i32> = on!(self, |c| sqlx::query_scalar(sql)
            .bind(run)
            .bind(epoch)
            .fetch_optional(c)
            .await)?;
        held.map(drop).ok_or(StoreError::Stale)
    }

    /// Numbers events, inserts them, and remembers them for the subscribers.
    pub(crate) async fn append(
        &mut self,
        stream: &StreamId,
        events: Vec<NewEvent>,
    ) -> Result<Appended> {
        let (appended, rows) = self.number(stream, events).await?;
        if !rows.is_empty() {
            let fresh = [(stream.clone(), rows)];
            self.insert(&fresh).await?;
            self.fresh.extend(fresh);
            self.notify(stream, appended.last).await?;
        }
        Ok(appended)
    }

    /// Gives events the next numbers of their stream.
    pub(crate) async fn number(
        &mut self,
        stream: &StreamId,
        events: Vec<NewEvent>,
    ) -> Result<(Appended, Vec<StoredEvent>)> {
        let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
        let last = match &mut self.conn {
            Conn::Sqlite(conn) => {
                let head = match self.heads.get(stream) {
                    Some(head) => head,
                    None => {
                        sqlx::query_scalar(sql::LAST_SEQ)
                            .bind(stream.as_str())
                            .fetch_one(&mut **conn)
                            .await?
                    }
                };
                self.heads.set(stream, head + count);
                head + count
            }
            Conn::Postgres(conn) => {
                let conn: &mut PgConnection = conn;
                sqlx::query_scalar(sql::NEXT_NUMBERS)
                    .bind(stream.as_str())
                    .bind(count)
                    .fetch_one(conn)
                    .await?
            }
        };
        let first = last - count + 1;
        let rows = (first..)
            .zip(events)
            .map(|(seq, e)| e.numbered(seq))
            .collect();
        Ok((Appended { first, last }, rows))
    }

    /// Inserts numbered rows, many with each statement.
    pub(crate) async fn insert(&mut self, fresh: &[Fresh]) -> Result<()> {
        let rows: Vec<(&StreamId, &StoredEvent)> = fresh
            .iter()
            .flat_map(|(stream, rows)| rows.iter().map(move |row| (stream, row)))
            .collect();
        let mut rest = rows.as_slice();
        while let Some((chunk, statement)) = EVENT_ROWS.next(&mut rest) {
            on!(self, |c| {
                let mut query = sqlx::query(AssertSqlSafe(statement.clone()));
                for (stream, row) in chunk {
                    query = query
                        .bind(stream.shared())
                        .bind(row.seq)
                        .bind(row.run.as_ref().map(|r| r.as_str()))
                        .bind(row.frame)
                        .bind(Arc::clone(&row.kind))
                        .bind(Arc::clone(&row.body))
                        .bind(row.at.0);
                }
                query.execute(c).await.map(drop)
            })?;
        }
        Ok(())
    }

    /// Rings the bell of the other nodes. It is part of the transaction: no commit without it, and
    /// nothing rings without a commit.
    async fn notify(&mut self, stream: &StreamId, last: i64) -> Result<()> {
        if let Conn::Postgres(conn) = &mut self.conn {
            let conn: &mut PgConnection = conn;
            sqlx::query(sql::NOTIFY)
                .bind(format!("{last} {stream}"))
                .execute(conn)
                .await?;
        }
        Ok(())
    }
}
