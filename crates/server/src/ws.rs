//! `GET /acp`: the methods of `/acp/rpc` over a WebSocket. One text message is one request, one answer
//! or one notification.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, Method, Request, Response, StatusCode, header},
    response::IntoResponse as _,
};
use futures_util::{SinkExt as _, StreamExt as _, stream::SplitSink, stream::SplitStream};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use threadline_contract::{Code, Fault};
use tokio::sync::mpsc;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::CapacityError,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::{
    BODY_BYTES, Limits, Metrics, Refusal, body,
    meter::{Meter, Seen},
    peer::Peer,
};

/// Where it is served.
pub(crate) const PATH: &str = "/acp";
/// Small, because many may be open and most say little.
const BUFFER: usize = 4 << 10;
/// Messages that are written together have about so many bytes.
const BATCH: usize = 64 << 10;
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long answers that are on their way may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

type Socket = WebSocketStream<Meter<TokioIo<Upgraded>>>;

/// Whether a request asks for a WebSocket as it should; the answer that makes it one, or refuses.
pub(crate) fn handshake(
    request: &Request<Incoming>,
) -> Result<Response<Body>, Box<Response<Body>>> {
    let headers = request.headers();
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let version = headers
        .get(header::SEC_WEBSOCKET_VERSION)
        .is_some_and(|v| v.as_bytes() == b"13");
    let asked = *request.method() == Method::GET
        && says(headers, header::CONNECTION, "upgrade")
        && says(headers, header::UPGRADE, "websocket");
    let Some(key) = key.filter(|_| asked && version) else {
        let fault = Fault::new(Code::UpgradeRequired, Code::UpgradeRequired.advice());
        let headers = [
            (header::UPGRADE, "websocket"),
            (header::CONNECTION, "Upgrade"),
            (header::SEC_WEBSOCKET_VERSION, "13"),
        ];
        return Err(Box::new((headers, Refusal(fault)).into_response()));
    };
    let headers = [
        (header::UPGRADE, "websocket".to_owned()),
        (header::CONNECTION, "Upgrade".to_owned()),
        (
            header::SEC_WEBSOCKET_ACCEPT,
            derive_accept_key(key.as_bytes()),
        ),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// Whether one of the header's words is this one.
fn says(headers: &HeaderMap, name: header::HeaderName, word: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|w| w.trim().eq_ignore_ascii_case(word))
}

/// Speaks with a client until one of both leaves.
pub(crate) async fn speak(
    upgraded: Upgraded,
    peer: Peer,
    mut queue: mpsc::Receiver<String>,
    limits: Limits,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let (io, seen) = Meter::new(TokioIo::new(upgraded));
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(BODY_BYTES))
        .max_frame_size(Some(BODY_BYTES));
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (mut sink, mut stream) = socket.split();
    let why = {
        let mut writing = std::pin::pin!(write(&mut sink, &mut queue, limits));
        let why = tokio::select! {
            why = read(&mut stream, &peer, &seen, &metrics, limits) => why,
            why = &mut writing => why,
            () = stop.cancelled() => Ended::Close(CloseCode::Away, "the server stops"),
        };
        if why.hears() {
            // Answers that are on their way still go out; turns go on without a listener.
            tokio::select! {
                _ = tokio::time::timeout(LAST_ANSWERS, peer.finish()) => {}
                _ = &mut writing => {}
            }
        }
        why
    };
    peer.leave();
    let farewell = async {
        queue.close();
        while let (true, Some(message)) = (why.hears(), queue.recv().await) {
            sink.feed(Message::text(message)).await?;
        }
        if let Ended::Close(code, reason) = why {
            let frame = CloseFrame {
                code,
                reason: reason.into(),
            };
            sink.send(Message::Close(Some(frame))).await?;
        }
        sink.close().await
    };
    match tokio::time::timeout(FAREWELL, farewell).await {
        Ok(Ok(())) => debug!(?why, "A WebSocket ended"),
        Ok(Err(e)) => debug!(?why, error = %e, "A WebSocket ended"),
        Err(_) => debug!(?why, "A WebSocket ended, and its client did not hear it"),
    }
}

/// Why a conversation ended.
#[derive(Clone, Copy, Debug)]
enum Ended {
    /// We end it, and say why.
    Close(CloseCode, &'static str),
    /// The client left.
    Left,
}

impl Ended {
    /// Whether the client still reads what is said to it.
    fn hears(self) -> bool {
        matches!(
            self,
            Self::Close(CloseCode::Away | CloseCode::Size | CloseCode::Policy, _)
        )
    }
}

const SLOW: Ended = Ended::Close(CloseCode::Again, "what was sent to you was not read");

async fn read(
    stream: &mut SplitStream<Socket>,
    peer: &Peer,
    seen: &Seen,
    metrics: &Metrics,
    limits: Limits,
) -> Ended {
    let mut watch = tokio::time::interval((limits.silence / 8).max(Duration::from_millis(10)));
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            () = peer.revoked() => return Ended::Close(CloseCode::Policy, "the token is no longer one"),
            _ = watch.tick() => {
                if seen.taking() > limits.message {
                    return Ended::Close(CloseCode::Policy, "the message took too long");
                }
                if seen.silence() > limits.silence {
                    return Ended::Left;
                }
                continue;
            }
        };
        match message {
            Some(Ok(Message::Text(text))) => {
                seen.complete();
                metrics.message();
                peer.hear(text.into()).await;
            }
            Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => {
                seen.control(payload.len());
            }
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => {
                return Ended::Close(CloseCode::Unsupported, "requests are text");
            }
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                peer.refuse(None, &body::too_large()).await;
                return Ended::Close(CloseCode::Size, "the message is too large");
            }
            Some(Err(Error::Utf8(_))) => {
                return Ended::Close(CloseCode::Invalid, "text must be UTF-8");
            }
            Some(Err(Error::Protocol(_))) => {
                return Ended::Close(CloseCode::Protocol, "that is not a WebSocket frame");
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Ended::Left,
        }
    }
}

async fn write(
    sink: &mut SplitSink<Socket, Message>,
    queue: &mut mpsc::Receiver<String>,
    limits: Limits,
) -> Ended {
    let mut ping = tokio::time::interval(limits.ping);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ping.tick().await;
    loop {
        let first = tokio::select! {
            message = queue.recv() => match message {
                Some(message) => Message::text(message),
                None => return Ended::Left,
            },
            _ = ping.tick() => Message::Ping(bytes::Bytes::new()),
        };
        let sending = async {
            let mut size = first.len();
            sink.feed(first).await?;
            while size < BATCH
                && let Ok(message) = queue.try_recv()
            {
                size += message.len();
                sink.feed(Message::text(message)).await?;
            }
            sink.flush().await
        };
        match tokio::time::timeout(limits.unread, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ended::Left,
            Err(_) => return SLOW,
        }
    }
}
