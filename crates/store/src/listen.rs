//! PostgreSQL's LISTEN/NOTIFY as the bell between nodes.
//!
//! A notification says a stream and its last number. A node where somebody follows that stream reads
//! what is new once and shows it to all of them. The notification is only a hint: whenever the
//! connection was lost, every subscriber looks at the log.

use std::{sync::Weak, time::Duration};

use sqlx::{PgPool, postgres::PgListener};

use crate::{Result, Store, StreamId, open::Inner};

const CHANNEL: &str = "threadline_events";
/// Rows that are read for a bell at once. Followers of a stream that moved further look themselves.
const PAGE: u32 = 256;
/// The pause after a failed attempt to listen.
const PAUSE: Duration = Duration::from_millis(500);

/// Listens for as long as the store is open.
pub(crate) async fn listen(pool: PgPool, store: Weak<Inner>) {
    loop {
        let heard = listen_once(&pool, &store).await;
        if pool.is_closed() || store.strong_count() == 0 {
            return;
        }
        if let Err(e) = heard {
            tracing::warn!(error = %e, "The database's bell is not heard; trying again");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen_once(pool: &PgPool, store: &Weak<Inner>) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    loop {
        // What was committed before we listened, or while the connection was lost, rang for nobody.
        let Some(open) = store.upgrade() else {
            return Ok(());
        };
        open.bus.look_all();
        drop(open);
        while let Some(note) = listener.try_recv().await? {
            let Some(open) = store.upgrade() else {
                return Ok(());
            };
            heard(&Store::from(open), note.payload()).await;
        }
    }
}

async fn heard(store: &Store, payload: &str) {
    let Some((last, stream)) = payload.split_once(' ') else {
        return;
    };
    let (Ok(last), stream) = (last.parse::<i64>(), StreamId::new(stream)) else {
        return;
    };
    let Some(known) = store.bus().behind(&stream, last) else {
        return;
    };
    match store.events_after(&stream, known, PAGE).await {
        Ok(rows) if !rows.is_empty() && rows.len() < PAGE as usize => {
            store.bus().publish(vec![(stream, rows)]);
        }
        // Too far behind to carry, or not readable at this moment: each follower goes by the log.
        _ => store.bus().look(&stream),
    }
}
