//! Streams and their events: one ordered, durable, replayable log per owner.

use std::{fmt, sync::Arc};

use threadline_contract::{AccountId, Millis, Owner, RunId};

use crate::{Lease, Result, Run, Store, Subscription, json, open::read, sql};

/// Names a log. It contains the account, so that two accounts never share one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(Arc<str>);

impl StreamId {
    /// The log of an owner: its text with the account after the first word (`thread:5:local:draft:1`). The
    /// length of the account stands in front of it, so that no two pairs of account and owner can be spelled
    /// the same.
    pub fn of(account: &AccountId, owner: &Owner) -> Self {
        let (account, owner) = (account.as_str(), owner.to_string());
        let (kind, name) = owner.split_once(':').unwrap_or((&owner, ""));
        Self::new(format!("{kind}:{}:{account}:{name}", account.len()))
    }

    /// A log by its full name.
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// An event that has no number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The run that it belongs to.
    pub run: Option<RunId>,
    /// The runtime's own number of the frame that it came from (see [`Store::last_frame`]).
    pub frame: Option<i64>,
    /// A short word for what happened.
    pub kind: Arc<str>,
    /// JSON text.
    pub body: Arc<str>,
    /// When it happened.
    pub at: Millis,
}

impl NewEvent {
    pub(crate) fn numbered(self, seq: i64) -> StoredEvent {
        let Self {
            run,
            frame,
            kind,
            body,
            at,
        } = self;
        StoredEvent {
            seq,
            run,
            frame,
            kind,
            body,
            at,
        }
    }
}

/// An event of a log. Cloning it copies no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in the stream: 1, 2, 3…
    pub seq: i64,
    /// The run that it belongs to.
    pub run: Option<RunId>,
    /// The runtime's own number of the frame that it came from.
    pub frame: Option<i64>,
    /// A short word for what happened.
    pub kind: Arc<str>,
    /// JSON text.
    pub body: Arc<str>,
    /// When it happened.
    pub at: Millis,
}

/// The numbers that appended events got. For no events at all, `last` is the stream's last number
/// and `first` the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The number of the first.
    pub first: i64,
    /// The number of the last.
    pub last: i64,
}

#[derive(sqlx::FromRow)]
pub(crate) struct EventRow {
    seq: i64,
    run: Option<String>,
    frame: Option<i64>,
    kind: String,
    body: String,
    at: i64,
}

impl TryFrom<EventRow> for StoredEvent {
    type Error = crate::StoreError;
    fn try_from(row: EventRow) -> Result<Self> {
        Ok(Self {
            seq: row.seq,
            run: row.run.map(|r| json::id("events.run", &r)).transpose()?,
            frame: row.frame,
            kind: row.kind.into(),
            body: row.body.into(),
            at: Millis(row.at),
        })
    }
}

impl Store {
    /// Adds events to a stream, all or none. With a fence, only while that lease holds. When this
    /// returns, they are on the disk.
    pub async fn append(
        &self,
        stream: &StreamId,
        fence: Option<&Lease>,
        events: Vec<NewEvent>,
    ) -> Result<Appended> {
        self.append_events(stream.clone(), fence.cloned(), events)
            .await
    }

    /// At most `limit` events after a number, in order.
    pub async fn events_after(
        &self,
        stream: &StreamId,
        seq: i64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>> {
        let rows: Vec<EventRow> = read!(self, |db| sqlx::query_as(sql::EVENTS_AFTER)
            .bind(stream.as_str())
            .bind(seq)
            .bind(i64::from(limit))
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Events of one run, numbered after the range's start and up to its end: at most `limit`, in order.
    /// A run's events lie between its `log_from` and `log_to`.
    pub async fn run_events(
        &self,
        stream: &StreamId,
        run: &RunId,
        (after, until): (i64, i64),
        limit: u32,
    ) -> Result<Vec<StoredEvent>> {
        let rows: Vec<EventRow> = read!(self, |db| sqlx::query_as(sql::RUN_EVENTS)
            .bind(stream.as_str())
            .bind(after)
            .bind(until)
            .bind(run.as_str())
            .bind(i64::from(limit))
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The number of a stream's last event; 0 when there is none.
    pub async fn last_seq(&self, stream: &StreamId) -> Result<i64> {
        read!(self, |db| sqlx::query_scalar(sql::LAST_SEQ)
            .bind(stream.as_str())
            .fetch_one(db)
            .await)
    }

    /// The last frame of a run that was logged, and when: a driver that re-attaches goes on after
    /// it, and so neither loses nor doubles an event.
    pub async fn last_frame(&self, run: &Run) -> Result<Option<(i64, Millis)>> {
        let stream = run.stream();
        let last: Option<(i64, i64)> = read!(self, |db| sqlx::query_as(sql::LAST_FRAME)
            .bind(stream.as_str())
            .bind(run.log_from)
            .bind(run.id.as_str())
            .fetch_optional(db)
            .await)?;
        Ok(last.map(|(frame, at)| (frame, Millis(at))))
    }

    /// Follows a stream from after a number, for as long as the subscription is held.
    pub fn subscribe(&self, stream: &StreamId, after: i64) -> Subscription {
        Subscription::new(self.clone(), stream.clone(), after)
    }
}
