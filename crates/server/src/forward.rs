//! Handing a request to the server that has what it is about, where several share a database. That one proves
//! itself before it is sent anything, and again with its answer.

use std::{sync::LazyLock, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, StatusCode, Uri, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{
    AppThreadKey, Code, Fault, Owner, Principal, Sha256, method, rpc::Request,
    sse::CONTENT_TYPE as EVENT_STREAM,
};
use threadline_engine::{Elsewhere, FORWARDED_SCHEME, HELLO_PATH, Handed, Node, SealedPass};
use tracing::{debug, warn};

use crate::{Bridge, gate::ANSWERED_BY};

/// How long another server is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerTime {
    /// Until it said that it is there.
    hello: Duration,
    /// Until it begins its answer.
    answer: Duration,
}

impl AnswerTime {
    /// Only its answer will do. A runtime may take long to say how a run stands.
    pub(crate) const FULL: Self = Self {
        hello: Duration::from_secs(3),
        answer: Duration::from_secs(30),
    };
    /// Its answer would be better than the record, but not by much.
    const RECORDED: Self = Self {
        hello: Duration::from_millis(300),
        answer: Duration::from_secs(1),
    };

    pub(crate) const fn for_answer(elsewhere: &Elsewhere) -> Self {
        match elsewhere.on_record {
            true => Self::RECORDED,
            false => Self::FULL,
        }
    }
}

/// The public entry there.
const ENTRY: &str = "/acp/rpc";

/// What of a request's head is for the server that answers it.
const PASSED_ON: [HeaderName; 7] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    HeaderName::from_static("last-event-id"),
];
/// What of an answer's head is about the connection between the two servers only.
const NOT_PASSED_BACK: [HeaderName; 3] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    HeaderName::from_static(ANSWERED_BY),
];

/// One client for all, which keeps connections open. None where no TLS can be had.
static CLIENT: LazyLock<Option<reqwest::Client>> = LazyLock::new(|| {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none());
    let built = client.build();
    built
        .inspect_err(|e| warn!(error = %e, "Requests cannot be handed to other servers: {e}"))
        .ok()
});

/// Another server did not answer.
pub(crate) enum Missed {
    /// Nothing of the request reached it.
    NotReached,
    /// It may have taken the request.
    NoAnswer,
}

/// The thread that a turn names, for people.
pub(crate) fn named(request: &Request) -> String {
    let thread = request.params.get("sessionId").and_then(Value::as_str);
    format!("Thread `{}`", thread.unwrap_or_default())
}

/// What is said to a caller whose turn belongs to a server that does not answer.
pub(crate) fn refused(node: &Node, what: &str, missed: &Missed, caller: &Principal) -> Fault {
    match missed {
        Missed::NotReached => node.missed(Code::ContinuationUnavailable, what, caller),
        Missed::NoAnswer => Fault::new(
            Code::NodeUnavailable,
            format!(
                "The server {} was sent the turn and did not answer. Send it again with the same requestId: it is not done twice.",
                node.name
            ),
        )
        .with("node", node.name.as_str()),
    }
}

/// Says that this server is there. What proves it is in the head.
pub(crate) async fn here() -> StatusCode {
    StatusCode::NO_CONTENT
}

impl Bridge {
    /// Hands a body for the public entry to another server, and gives its answer as it comes.
    pub(crate) async fn post_to(
        &self,
        node: &Node,
        caller: &Principal,
        headers: &HeaderMap,
        body: Bytes,
        time: AnswerTime,
    ) -> Result<reqwest::Response, Missed> {
        let handed = Handed::new("POST", ENTRY, &body);
        self.send(node, caller, handed, headers, body, time).await
    }

    /// Asks another server for a file that is at an address of this one. What arrives is the file with this
    /// digest, or breaks off.
    pub(crate) async fn get_from(
        &self,
        node: &Node,
        caller: &Principal,
        method: Method,
        uri: &Uri,
        headers: &HeaderMap,
        sha256: Sha256,
    ) -> Result<Response, Missed> {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let handed = Handed::new(method.as_str(), path, &[]);
        let (empty, time) = (Bytes::new(), AnswerTime::FULL);
        let sent = self.send(node, caller, handed, headers, empty, time);
        let answer = sent.await?;
        // A part has no digest of its own, and what has no body has none.
        let whole = answer.status() == StatusCode::OK && method == Method::GET;
        let response = self.passed_back(answer);
        Ok(match whole {
            false => response,
            true => response
                .map(|body| Body::from_stream(with_digest(body.into_data_stream(), sha256.0))),
        })
    }

    /// Sends a request to another server, after that one has shown that it is there.
    async fn send(
        &self,
        node: &Node,
        caller: &Principal,
        handed: Handed<'_>,
        headers: &HeaderMap,
        body: Bytes,
        time: AnswerTime,
    ) -> Result<reqwest::Response, Missed> {
        if self.engine.is_silent(node, time.hello) {
            return Err(Missed::NotReached);
        }
        let (hello, no_headers) = (Handed::new("GET", HELLO_PATH, &[]), HeaderMap::new());
        let hello = self.exchange(node, None, hello, &no_headers, Bytes::new());
        match tokio::time::timeout(time.hello, hello).await {
            Ok(Ok(_)) => self.engine.note_answer(node),
            Ok(Err(_)) => return Err(Missed::NotReached),
            Err(_) => {
                warn!("The server {} does not answer", node.name);
                self.engine.note_silence(node, time.hello);
                return Err(Missed::NotReached);
            }
        }
        let sent = self.exchange(node, Some(caller), handed, headers, body);
        let answer = tokio::time::timeout(time.answer, sent).await;
        answer.unwrap_or(Err(Missed::NoAnswer))
    }

    /// One request and the head of its answer, which is proven to be the other server's.
    async fn exchange(
        &self,
        node: &Node,
        caller: Option<&Principal>,
        handed: Handed<'_>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, Missed> {
        let (Some(url), Some(client)) = (&node.url, &*CLIENT) else {
            return Err(Missed::NotReached);
        };
        let unsealed = |fault: Fault| {
            warn!(code = %fault.code, "No pass could be made for the server {}: {}", node.name, fault.message);
            Missed::NotReached
        };
        let pass = self
            .engine
            .pass_to(node, caller, handed)
            .map_err(unsealed)?;
        let method = Method::from_bytes(handed.method.as_bytes());
        let method = method.map_err(|_| Missed::NotReached)?;
        let address = format!("{}{}", url.trim_end_matches('/'), handed.path);
        let mut request = client.request(method, address).header(
            header::AUTHORIZATION,
            format!("{FORWARDED_SCHEME} {}", pass.text),
        );
        for name in &PASSED_ON {
            for value in headers.get_all(name) {
                request = request.header(name, value);
            }
        }
        if !body.is_empty() {
            request = request.body(body);
        }
        let answer = request.send().await.map_err(|e| {
            debug!(error = %e, "The server {} at {url} did not answer", node.name);
            match e.is_connect() {
                true => Missed::NotReached,
                false => Missed::NoAnswer,
            }
        })?;
        match self.is_from(node, &pass, &answer).await {
            true => Ok(answer),
            // Whoever has its address now took nothing that it could use.
            false => {
                warn!(status = %answer.status(), "What answers at {url} is not the server {}", node.name);
                Err(Missed::NotReached)
            }
        }
    }

    async fn is_from(&self, node: &Node, pass: &SealedPass, answer: &reqwest::Response) -> bool {
        let seal = answer.headers().get(ANSWERED_BY);
        let Some(seal) = seal.and_then(|seal| seal.to_str().ok()) else {
            return false;
        };
        let status = answer.status().as_u16();
        let proven = self.engine.is_answered_by(node, pass, status, seal).await;
        proven.unwrap_or_else(|fault| {
            warn!(code = %fault.code, "It cannot be told who answered for the server {}: {}", node.name, fault.message);
            false
        })
    }

    /// Another server's answer as ours, for as long as both run.
    pub(crate) fn passed_back(&self, answer: reqwest::Response) -> Response {
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        for name in NOT_PASSED_BACK {
            headers.remove(name);
        }
        let stop = self.stop.clone();
        let bytes = answer
            .bytes_stream()
            .take_until(async move { stop.cancelled().await });
        let mut response = Response::new(Body::from_stream(bytes));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    /// Tells the other servers that have something of a thread about its close or its deletion, so that they
    /// do their part at once. One that is away does it when it is back.
    pub(crate) async fn tell_others(
        &self,
        caller: &Principal,
        request: &Request,
        body: &Bytes,
    ) -> Result<(), Fault> {
        if !matches!(request.method.as_str(), method::CLOSE | method::DELETE) {
            return Ok(());
        }
        let Ok(Named { session_id }) = Named::deserialize(&request.params) else {
            return Ok(());
        };
        for node in self
            .engine
            .others_with(caller, &Owner::Thread(session_id))
            .await?
        {
            let (bridge, caller, body) = (self.clone(), caller.clone(), body.clone());
            tokio::spawn(async move {
                let headers = HeaderMap::new();
                let told = bridge.post_to(&node, &caller, &headers, body, AnswerTime::FULL);
                if told.await.is_err() {
                    debug!("The server {} was not told and does it later", node.name);
                }
            });
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    session_id: AppThreadKey,
}

/// A file as it comes, with an error in place of its last piece if it is another one. That piece is held back:
/// a client that has as many bytes as were promised looks no further.
fn with_digest<E: Into<axum::BoxError>>(
    bytes: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    sha256: [u8; 32],
) -> impl Stream<Item = Result<Bytes, axum::BoxError>> + Send + 'static {
    let start = (Box::pin(bytes), Some(Hasher::new()), None);
    stream::unfold(start, move |(mut bytes, hasher, mut held)| async move {
        let mut hasher = hasher?;
        loop {
            match bytes.next().await {
                Some(Ok(piece)) => {
                    hasher.update(&piece);
                    if let Some(before) = held.replace(piece) {
                        return Some((Ok(before), (bytes, Some(hasher), held)));
                    }
                }
                Some(Err(e)) => return Some((Err(e.into()), (bytes, None, None))),
                None if hasher.finalize()[..] == sha256 => {
                    return Some((Ok(held?), (bytes, None, None)));
                }
                None => {
                    warn!("Another server handed over other bytes than the run delivered");
                    let broken = "the file is not the one that was asked for".into();
                    return Some((Err(broken), (bytes, None, None)));
                }
            }
        }
    })
}

/// The headers of a request whose answer is to be an event stream.
pub(crate) fn as_stream() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::ACCEPT,
        header::HeaderValue::from_static(EVENT_STREAM),
    );
    headers
}

/// Whether an answer is an event stream.
pub(crate) fn is_stream(answer: &reqwest::Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes()))
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
