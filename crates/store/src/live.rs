//! What the store keeps in memory beside its transactions: the last number of each stream, and the events that
//! subscribers will see once they are committed.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::BoxFuture;
use threadline_db::{DbError, TxState};
use tokio::sync::oneshot;

use crate::{
    Appended, Lease, NewEvent, Result, StoreError, StoredEvent, StreamId, bus::Bus, heads::Heads,
    json, sql,
};

/// Rows of events that one commit added to a stream.
pub(crate) type Fresh = (StreamId, Vec<StoredEvent>);
/// The transaction underneath [`crate::Tx`].
pub(crate) type DbTx = threadline_db::Tx<Live>;

#[derive(Debug)]
pub(crate) struct Live {
    /// SQLite only.
    pub(crate) heads: Heads,
    /// What subscribers will want to see once it is committed.
    fresh: Vec<Fresh>,
    /// How much of it comes from work that is kept.
    kept: usize,
    bus: Arc<Bus>,
}

impl Live {
    pub(crate) fn new(bus: Arc<Bus>) -> Self {
        Self {
            heads: Heads::default(),
            fresh: Vec::new(),
            kept: 0,
            bus,
        }
    }

    pub(crate) fn show(&mut self, fresh: impl IntoIterator<Item = Fresh>) {
        self.fresh.extend(fresh);
    }
}

/// Events to be appended to one stream: SQLite's writer numbers those of many callers in memory and inserts them
/// with few statements.
pub(crate) struct Append {
    pub(crate) stream: StreamId,
    pub(crate) fence: Option<Lease>,
    pub(crate) events: Vec<NewEvent>,
    pub(crate) reply: oneshot::Sender<Result<Appended>>,
    /// None until it was written.
    pub(crate) out: Option<Result<Appended>>,
}

impl TxState for Live {
    type Bulk = Append;

    fn write_bulk<'t>(
        tx: &'t mut DbTx,
        group: &'t mut [Append],
    ) -> BoxFuture<'t, Result<(), DbError>> {
        Box::pin(append_all(tx, group))
    }

    fn answer(append: Append, commit: Result<(), DbError>) {
        let out = match (append.out, commit) {
            (Some(Err(e)), _) => Err(e),
            (_, Err(e)) => Err(e.into()),
            (Some(Ok(out)), Ok(())) => Ok(out),
            (None, Ok(())) => Err(StoreError::Closed),
        };
        // The caller may have gone away; then nobody wants the answer.
        let _ = append.reply.send(out);
    }

    fn keep_work(&mut self) {
        self.heads.keep_work();
        self.kept = self.fresh.len();
    }

    fn drop_work(&mut self) {
        self.heads.drop_work();
        self.fresh.truncate(self.kept);
    }

    fn committed(&mut self) {
        self.heads.committed();
        self.kept = 0;
        self.bus.publish(std::mem::take(&mut self.fresh));
    }

    fn failed(&mut self) {
        self.heads.forget();
        self.kept = 0;
        self.fresh.clear();
    }
}

/// Numbers and inserts all appends of a batch. Those whose fence is stale add nothing.
async fn append_all(tx: &mut DbTx, appends: &mut [Append]) -> Result<(), DbError> {
    let epochs = epochs(tx, appends.iter().filter_map(|a| a.fence.as_ref())).await?;
    let mut place: HashMap<StreamId, usize> = HashMap::new();
    let mut fresh: Vec<Fresh> = Vec::new();
    for append in appends {
        if let Some(fence) = &append.fence
            && epochs.get(fence.run.as_str()) != Some(&fence.epoch)
        {
            append.out = Some(Err(StoreError::Stale));
            continue;
        }
        let events = std::mem::take(&mut append.events);
        let (appended, rows) = crate::append::number(tx, &append.stream, events).await?;
        append.out = Some(Ok(appended));
        let at = *place.entry(append.stream.clone()).or_insert_with(|| {
            fresh.push((append.stream.clone(), Vec::new()));
            fresh.len() - 1
        });
        if let Some((_, all)) = fresh.get_mut(at) {
            all.extend(rows);
        }
    }
    crate::append::insert(tx, &fresh).await?;
    tx.state.show(fresh);
    Ok(())
}

/// The current epoch of each run that a fence names.
async fn epochs(
    tx: &mut DbTx,
    fences: impl Iterator<Item = &Lease>,
) -> Result<HashMap<String, i64>, DbError> {
    let runs: std::collections::BTreeSet<&str> = fences.map(|f| f.run.as_str()).collect();
    if runs.is_empty() {
        return Ok(HashMap::new());
    }
    let runs = json::list(runs);
    let statement = sql::RUN_LEASES.epochs.of(tx.dialect());
    let rows: Vec<(String, i64)> = threadline_db::on!(tx, |c| sqlx::query_as(statement)
        .bind(runs.as_str())
        .fetch_all(c)
        .await)?;
    Ok(rows.into_iter().collect())
}
