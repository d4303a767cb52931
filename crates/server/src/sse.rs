//! Event streams: a logged notification has `id:` then `data:`; what is not logged has no id.

use std::{convert::Infallible, fmt::Display, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use threadline_contract::{
    Fault, SessionUpdate, method, rpc,
    sse::{CONTENT_TYPE, DONE, Frame, OPENING},
};
use threadline_engine::{Feed, FeedItem};
use tokio_util::sync::CancellationToken;

use crate::{Bridge, notice};

/// A stream that has nothing to say says so this often.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How often a silent run is asked whether it waits for something that no log can tell.
pub(crate) const LOOK_AT_PROGRESS: Duration = Duration::from_secs(4);

/// The answer to a turn: accepted, the run's events, its result under the caller's id, `[DONE]`.
pub(crate) fn answer(
    bridge: &Bridge,
    feed: Feed,
    accepted: Value,
    id: Option<rpc::Id>,
) -> Response {
    let state = Answering {
        feed,
        id,
        stop: bridge.stop.clone(),
        first: Some(accepted),
        done: false,
    };
    stream_of(stream::unfold(state, |mut state| async move {
        let chunk = state.next().await?;
        Some((chunk, state))
    }))
}

struct Answering {
    feed: Feed,
    id: Option<rpc::Id>,
    stop: CancellationToken,
    first: Option<Value>,
    done: bool,
}

impl Answering {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(unlogged(&first));
        }
        if self.done {
            return None;
        }
        match heard(&mut self.feed, &self.stop).await {
            Heard::Item(Some(FeedItem::Update(event))) => Some(update(event.seq, &event.body)),
            Heard::Item(Some(FeedItem::Result(snapshot))) => {
                Some(self.end(&rpc::success(self.id.as_ref(), &snapshot)))
            }
            Heard::Fault(fault) => Some(self.end(&rpc::failure(self.id.as_ref(), &fault))),
            Heard::Progress(update) => Some(unlogged(&rpc::notification(
                method::UPDATE,
                update.as_ref(),
            ))),
            Heard::Silence => Some(keepalive()),
            Heard::Item(None) | Heard::Stopping => None,
        }
    }

    fn end(&mut self, envelope: &Value) -> Bytes {
        self.done = true;
        last(envelope)
    }
}

/// An answer that is only an envelope: it, and `[DONE]`.
pub(crate) fn only(envelope: &str) -> Response {
    let frames = last(envelope);
    stream_of(stream::once(async move { frames }))
}

fn last(envelope: impl Display) -> Bytes {
    format!("{}{}", Frame::new(envelope), Frame::new(DONE)).into()
}

/// A thread's log, for as long as somebody listens.
pub(crate) fn follow(bridge: &Bridge, feed: Feed) -> Response {
    let state = (feed, bridge.stop.clone(), true);
    stream_of(stream::unfold(
        state,
        |(mut feed, stop, opening)| async move {
            if opening {
                return Some((Bytes::from_static(OPENING.as_bytes()), (feed, stop, false)));
            }
            let chunk = match heard(&mut feed, &stop).await {
                Heard::Item(Some(FeedItem::Update(event))) => update(event.seq, &event.body),
                Heard::Progress(update) => {
                    unlogged(&rpc::notification(method::UPDATE, update.as_ref()))
                }
                Heard::Silence => keepalive(),
                Heard::Fault(fault) => {
                    tracing::error!(code = %fault.code, "A thread's log could not be read: {}", fault.message);
                    return None;
                }
                Heard::Item(_) | Heard::Stopping => return None,
            };
            Some((chunk, (feed, stop, false)))
        },
    ))
}

enum Heard {
    Item(Option<FeedItem>),
    Fault(Fault),
    /// What the run waits for, which no log can tell.
    Progress(Box<SessionUpdate>),
    Silence,
    Stopping,
}

async fn heard(feed: &mut Feed, stop: &CancellationToken) -> Heard {
    let mut silent = Duration::ZERO;
    loop {
        tokio::select! {
            item = feed.next() => return match item {
                Ok(item) => Heard::Item(item),
                Err(fault) => Heard::Fault(fault),
            },
            () = tokio::time::sleep(LOOK_AT_PROGRESS) => silent += LOOK_AT_PROGRESS,
            () = stop.cancelled() => return Heard::Stopping,
        }
        if let Some(update) = feed.progress() {
            return Heard::Progress(Box::new(update));
        }
        if silent >= KEEPALIVE {
            return Heard::Silence;
        }
    }
}

/// A response whose body is a stream of ready-made frames.
pub fn stream_of(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt as _;
    let mut response = Response::new(Body::from_stream(frames.map(Ok::<_, Infallible>)));
    // No larger than needed: the connection keeps it for as long as the stream lives.
    let mut headers = HeaderMap::with_capacity(3);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    *response.headers_mut() = headers;
    response
}

fn unlogged(envelope: &Value) -> Bytes {
    Frame::new(envelope).to_string().into()
}

fn keepalive() -> Bytes {
    unlogged(&rpc::notification(
        method::KEEPALIVE,
        &json!({"intervalMs": KEEPALIVE.as_millis() as u64}),
    ))
}

/// A logged update as a frame.
fn update(seq: i64, body: &str) -> Bytes {
    let (method, params) = (method::UPDATE, notice::params(seq, body));
    let envelope = format_args!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
    Frame::logged(seq, envelope).to_string().into()
}
