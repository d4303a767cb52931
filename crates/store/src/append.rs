//! Appending events in a transaction: they get the next numbers of their stream, are inserted, and are remembered
//! for those who follow it.

use std::sync::{Arc, LazyLock};

use sqlx::AssertSqlSafe;
use threadline_db::{DbError, Dialect, Many, on};

use crate::{
    Appended, NewEvent, Result, StoredEvent, StreamId,
    live::{DbTx, Fresh},
    sql,
};

static EVENT_ROWS: LazyLock<Many> = LazyLock::new(|| {
    Many::new(
        "insert into events (stream, seq, run, frame, kind, body, at)",
        7,
    )
});

/// Numbers events, inserts them, and remembers them for the subscribers.
pub(crate) async fn append(
    tx: &mut DbTx,
    stream: &StreamId,
    events: Vec<NewEvent>,
) -> Result<Appended, DbError> {
    let (appended, rows) = number(tx, stream, events).await?;
    if !rows.is_empty() {
        let fresh = [(stream.clone(), rows)];
        insert(tx, &fresh).await?;
        tx.state.show(fresh);
        notify(tx, stream, appended.last).await?;
    }
    Ok(appended)
}

/// Gives events the next numbers of their stream.
pub(crate) async fn number(
    tx: &mut DbTx,
    stream: &StreamId,
    events: Vec<NewEvent>,
) -> Result<(Appended, Vec<StoredEvent>), DbError> {
    let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
    let last = match tx.dialect() {
        Dialect::Sqlite => {
            let head = match tx.state.heads.get(stream) {
                Some(head) => head,
                None => on!(tx, |c| sqlx::query_scalar(sql::LAST_SEQ)
                    .bind(stream.as_str())
                    .fetch_one(c)
                    .await)?,
            };
            tx.state.heads.set(stream, head + count);
            head + count
        }
        Dialect::Postgres => on!(tx, |c| sqlx::query_scalar(sql::NEXT_NUMBERS)
            .bind(stream.as_str())
            .bind(count)
            .fetch_one(c)
            .await)?,
    };
    let first = last - count + 1;
    let rows = (first..)
        .zip(events)
        .map(|(seq, e)| e.numbered(seq))
        .collect();
    Ok((Appended { first, last }, rows))
}

/// Inserts numbered rows, many with each statement.
pub(crate) async fn insert(tx: &mut DbTx, fresh: &[Fresh]) -> Result<(), DbError> {
    let rows: Vec<(&StreamId, &StoredEvent)> = fresh
        .iter()
        .flat_map(|(stream, rows)| rows.iter().map(move |row| (stream, row)))
        .collect();
    let mut rest = rows.as_slice();
    while let Some((chunk, statement)) = EVENT_ROWS.next(&mut rest) {
        on!(tx, |c| {
            let mut query = sqlx::query(AssertSqlSafe(statement));
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
async fn notify(tx: &mut DbTx, stream: &StreamId, last: i64) -> Result<(), DbError> {
    if tx.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let ring = format!("{last} {stream}");
    on!(tx, |c| sqlx::query(sql::NOTIFY)
        .bind(ring.as_str())
        .execute(c)
        .await
        .map(drop))
}
