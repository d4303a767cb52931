//! The live event bus. The log is the truth; a channel per stream is a bell that carries the rows.
//!
//! A subscriber is a cursor. It reads the log until it has caught up, then waits for the bell. Rows
//! that follow its cursor it takes from the bell, without touching the log; rows that it has, it
//! ignores; anything else (a gap, too many missed rings, a ring without rows) sends it back to the
//! log. So nothing is lost or doubled, whatever the bell does.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::broadcast::{self, error::RecvError};

use crate::{Result, Store, StoreError, StoredEvent, StreamId, live::Fresh};

/// Rings that a subscriber may miss before it has to read the log.
const RINGS: usize = 16;
/// Rows of more bytes than this are not kept in memory for subscribers: they read the log.
const RING_BYTES: usize = 256 << 10;
/// Rows that a subscriber reads from the log at once.
const PAGE: u32 = 64;

/// One ring of a stream's bell.
#[derive(Clone, Debug)]
pub(crate) enum Ring {
    /// Rows that were just committed.
    Rows(Arc<[StoredEvent]>),
    /// There may be something new in the log.
    Look,
}

#[derive(Debug, Default)]
pub(crate) struct Bus {
    /// Only streams that somebody follows.
    topics: Mutex<Topics>,
}

#[derive(Debug, Default)]
struct Topics {
    closed: bool,
    by_stream: HashMap<StreamId, Topic>,
}

#[derive(Debug)]
struct Topic {
    bell: broadcast::Sender<Ring>,
    /// The highest number that the bell has carried; `None` before the first.
    known: Option<i64>,
}

impl Bus {
    fn topics(&self) -> MutexGuard<'_, Topics> {
        // Nothing under this lock can leave the map half changed.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self, stream: &StreamId) -> Option<broadcast::Receiver<Ring>> {
        let mut topics = self.topics();
        if topics.closed {
            return None;
        }
        let topic = topics.by_stream.entry(stream.clone());
        let topic = topic.or_insert_with(|| Topic {
            bell: broadcast::Sender::new(RINGS),
            known: None,
        });
        Some(topic.bell.subscribe())
    }

    /// Removes the stream when nobody follows it any more.
    fn leave(&self, stream: &StreamId) {
        let mut topics = self.topics();
        if topics
            .by_stream
            .get(stream)
            .is_some_and(|t| t.bell.receiver_count() == 0)
        {
            topics.by_stream.remove(stream);
        }
    }

    /// Shows committed rows to those who follow their streams.
    pub(crate) fn publish(&self, fresh: Vec<Fresh>) {
        for (stream, rows) in fresh {
            if let Some(last) = rows.last().map(|r| r.seq)
                && let Some(bell) = self.bell(&stream, last)
            {
                let bytes: usize = rows.iter().map(|r| r.body.len()).sum();
                ring(
                    &bell,
                    if bytes > RING_BYTES {
                        Ring::Look
                    } else {
                        Ring::Rows(rows.into())
                    },
                );
            }
        }
    }

    /// The bell of a stream that somebody follows; from now on it is known to have carried `last`.
    fn bell(&self, stream: &StreamId, last: i64) -> Option<broadcast::Sender<Ring>> {
        let mut topics = self.topics();
        let topic = topics.by_stream.get_mut(stream)?;
        topic.known = Some(topic.known.map_or(last, |known| known.max(last)));
        Some(topic.bell.clone())
    }

    /// Up to where the bell of a stream has carried rows, when somebody follows it and `last` is
    /// news to it. An unknown stream counts as known up to just before `last`.
    pub(crate) fn behind(&self, stream: &StreamId, last: i64) -> Option<i64> {
        let known = self.topics().by_stream.get(stream)?.known;
        let known = known.unwrap_or(last - 1);
        (known < last).then_some(known)
    }

    /// Sends the followers of a stream to the log.
    pub(crate) fn look(&self, stream: &StreamId) {
        let bell = self.topics().by_stream.get(stream).map(|t| t.bell.clone());
        if let Some(bell) = bell {
            ring(&bell, Ring::Look);
        }
    }

    /// Sends everybody to the log: rings may have been missed.
    pub(crate) fn look_all(&self) {
        let mut topics = self.topics();
        let bells: Vec<_> = topics
            .by_stream
            .values_mut()
            .map(|topic| {
                topic.known = None;
                topic.bell.clone()
            })
            .collect();
        drop(topics);
        for bell in bells {
            ring(&bell, Ring::Look);
        }
    }

    /// Ends the subscriptions of a stream that is gone.
    pub(crate) fn end(&self, stream: &StreamId) {
        self.topics().by_stream.remove(stream);
    }

    /// Ends every subscription.
    pub(crate) fn close(&self) {
        let mut topics = self.topics();
        topics.closed = true;
        topics.by_stream.clear();
    }

    pub(crate) fn followed(&self) -> usize {
        self.topics().by_stream.len()
    }
}

fn ring(bell: &broadcast::Sender<Ring>, ring: Ring) {
    // An error means that the last follower has just left.
    let _ = bell.send(ring);
}

/// Follows one stream from a number on: every event once and in order.
#[derive(Debug)]
pub struct Subscription {
    store: Store,
    stream: StreamId,
    /// `None` when the store was closed already.
    bell: Option<broadcast::Receiver<Ring>>,
    cursor: i64,
    caught_up: bool,
}

impl Subscription {
    pub(crate) fn new(store: Store, stream: StreamId, after: i64) -> Self {
        // Listen first, read the log afterwards: there is no moment in which an event can be missed.
        let bell = store.bus().subscribe(&stream);
        Self {
            store,
            stream,
            bell,
            cursor: after,
            caught_up: false,
        }
    }

    /// The number of the last event that was handed over.
    pub fn cursor(&self) -> i64 {
        self.cursor
    }

    /// Waits for the next events; never empty. May be dropped while it waits, and called again:
    /// nothing is lost. The same holds after an error; only `Closed`, when the store was closed, is
    /// the end.
    pub async fn next(&mut self) -> Result<Arc<[StoredEvent]>> {
        loop {
            if !self.caught_up {
                // Boxed: thousands wait below at once, and few of them read the log.
                let page = self.store.events_after(&self.stream, self.cursor, PAGE);
                let page = Box::pin(page).await?;
                self.caught_up = page.len() < PAGE as usize;
                if let Some(last) = page.last() {
                    self.cursor = last.seq;
                    return Ok(page.into());
                }
            }
            let bell = self.bell.as_mut().ok_or(StoreError::Closed)?;
            match bell.recv().await {
                Ok(Ring::Rows(rows)) => {
                    if let Some(rows) = self.take(rows) {
                        return Ok(rows);
                    }
                }
                Ok(Ring::Look) | Err(RecvError::Lagged(_)) => self.caught_up = false,
                Err(RecvError::Closed) => return Err(StoreError::Closed),
            }
        }
    }

    /// What of these rows comes next, if they join on to what was handed over.
    fn take(&mut self, rows: Arc<[StoredEvent]>) -> Option<Arc<[StoredEvent]>> {
        let (first, last) = (rows.first()?.seq, rows.last()?.seq);
        if last <= self.cursor {
            return None;
        }
        if first > self.cursor + 1 {
            self.caught_up = false;
            return None;
        }
        let known = rows.partition_point(|row| row.seq <= self.cursor);
        self.cursor = last;
        match known {
            0 => Some(rows),
            _ => rows.get(known..).map(Into::into),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        drop(self.bell.take());
        self.store.bus().leave(&self.stream);
    }
}
