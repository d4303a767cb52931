//! `GET /app/events`: what happens in one thread, or what changes in any.

use std::time::Duration;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    http::HeaderMap,
    response::Response,
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use threadline_app::api::{AppEvent, Begin};
use threadline_contract::{
    Fault,
    sse::{Frame, OPENING},
};
use threadline_server::{Refusal, last_event_id, stream_of};
use tokio_util::sync::CancellationToken;

use crate::{Events, Web};

/// A stream that has nothing to say says so this often.
const KEEPALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
pub(crate) struct Wanted {
    thread: Option<String>,
    /// For a first connection. After a cut the browser's header wins: its address still carries
    /// the old number.
    after: Option<i64>,
    /// Begins with the last so many events of the log instead.
    last: Option<u32>,
    /// Ends the stream with this event of the log: a piece of the past, for a page that began in
    /// the middle. Nothing but the log is told then.
    until: Option<i64>,
}

pub(crate) async fn handle(
    State(web): State<Web>,
    wanted: Result<Query<Wanted>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Query(wanted) = wanted.map_err(|e| Fault::invalid(format!("{}.", e.body_text())))?;
    let seen = last_event_id(&headers)?;
    let after = seen.or(wanted.after).unwrap_or(0);
    if after < 0 {
        return Err(Fault::invalid("`after` must not be negative.").into());
    }
    if wanted.last.is_some() && (wanted.after.is_some() || wanted.until.is_some()) {
        return Err(Fault::invalid("`last` excludes `after` and `until`.").into());
    }
    if wanted.until.is_some_and(|until| until <= after) {
        return Err(Fault::invalid("`until` must be larger than `after`.").into());
    }
    if wanted.until.is_some() && wanted.thread.is_none() {
        return Err(Fault::invalid("`until` needs a thread.").into());
    }
    let begin = match wanted.last.filter(|_| seen.is_none()) {
        Some(count) => Begin::Last(count),
        None => Begin::After(after),
    };
    let events = match wanted.thread.as_deref() {
        Some(thread) => web.app.events(thread, begin).await?,
        None => web.app.changes(),
    };
    let events = match wanted.until {
        Some(until) => past(events, until),
        None => events,
    };
    let telling = Telling {
        events,
        stop: web.stop.clone(),
        opening: true,
    };
    Ok(stream_of(stream::unfold(
        telling,
        |mut telling| async move {
            let frame = telling.next().await?;
            Some((frame, telling))
        },
    )))
}

/// The log's events up to a number, and no others.
fn past(events: Events, until: i64) -> Events {
    Box::pin(stream::unfold(Some(events), move |events| async move {
        let mut events = events?;
        loop {
            let event = events.next().await?;
            match event.id() {
                Some(id) if id > until => return None,
                Some(id) => return Some((event, (id < until).then_some(events))),
                None => {}
            }
        }
    }))
}

struct Telling {
    events: Events,
    stop: CancellationToken,
    opening: bool,
}

impl Telling {
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.opening) {
            return Some(Bytes::from_static(OPENING.as_bytes()));
        }
        tokio::select! {
            event = self.events.next() => frame(&event?),
            () = tokio::time::sleep(KEEPALIVE) => Some(Bytes::from_static(b": still here\n\n")),
            () = self.stop.cancelled() => None,
        }
    }
}

/// An event as it travels. `None` ends the stream: an event that cannot be written must not look
/// as if it had not happened.
fn frame(event: &AppEvent) -> Option<Bytes> {
    let data = match event.data() {
        Ok(data) => data,
        Err(e) => {
            tracing::error!(error = %e, "An event could not be written as JSON");
            return None;
        }
    };
    let frame = Frame {
        event: Some(event.name().to_owned()),
        id: event.id(),
        data,
    };
    Some(frame.to_string().into())
}
