//! Handing a request to the server that has what it is about, where several share a database.

use std::{sync::LazyLock, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, Uri, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use threadline_contract::{AppThreadKey, Code, Fault, method, rpc::Request};
use threadline_engine::{Caller, FORWARDED_SCHEME, Node};
use tracing::{debug, warn};

use crate::{Bridge, gate::ANSWERED_BY, sse::SSE};

/// How long another server may take to accept a connection.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// How long it may take to begin its answer: longer than a runtime may take to say how a run stands.
const ANSWER_TIME: Duration = Duration::from_secs(30);
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
        .connect_timeout(CONNECT_TIME)
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
pub(crate) fn refused(node: &Node, what: &str, missed: &Missed) -> Fault {
    match missed {
        Missed::NotReached => node.missed(Code::ContinuationUnavailable, what),
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

impl Bridge {
    /// Hands a body for the public entry to another server, and gives its answer as it comes.
    pub(crate) async fn post_to(
        &self,
        node: &Node,
        caller: &Caller,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, Missed> {
        self.send(node, caller, Method::POST, ENTRY, headers, Some(body))
            .await
    }

    /// Asks another server for what is at an address of this one.
    pub(crate) async fn get_from(
        &self,
        node: &Node,
        caller: &Caller,
        method: Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Response, Missed> {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let answer = self.send(node, caller, method, path, headers, None).await?;
        Ok(self.passed_back(answer))
    }

    async fn send(
        &self,
        node: &Node,
        caller: &Caller,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: Option<Bytes>,
    ) -> Result<reqwest::Response, Missed> {
        let (Some(url), Some(client)) = (&node.url, &*CLIENT) else {
            return Err(Missed::NotReached);
        };
        let pass = self.engine.pass_to(node, caller).map_err(|fault| {
            warn!(code = %fault.code, "No pass could be made for the server {}: {}", node.name, fault.message);
            Missed::NotReached
        })?;
        let address = format!("{}{path}", url.trim_end_matches('/'));
        let mut request = client
            .request(method, address)
            .header(header::AUTHORIZATION, format!("{FORWARDED_SCHEME} {pass}"));
        for name in &PASSED_ON {
            for value in headers.get_all(name) {
                request = request.header(name, value);
            }
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let answer = match tokio::time::timeout(ANSWER_TIME, request.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(e)) => {
                debug!(error = %e, "The server {} at {url} did not answer", node.name);
                return Err(match e.is_connect() {
                    true => Missed::NotReached,
                    false => Missed::NoAnswer,
                });
            }
            Err(_) => return Err(Missed::NoAnswer),
        };
        // Whoever has its address now took nothing that it could use.
        let by = answer.headers().get(ANSWERED_BY);
        if by.is_none_or(|by| by.as_bytes() != node.name.as_bytes()) {
            warn!(status = %answer.status(), "What answers at {url} is not the server {}", node.name);
            return Err(Missed::NotReached);
        }
        Ok(answer)
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
        caller: &Caller,
        request: &Request,
        body: &Bytes,
    ) -> Result<(), Fault> {
        if !matches!(request.method.as_str(), method::CLOSE | method::DELETE) {
            return Ok(());
        }
        let Ok(Named { session_id }) = Named::deserialize(&request.params) else {
            return Ok(());
        };
        for node in self.engine.others_with(caller, &session_id).await? {
            let (bridge, caller, body) = (self.clone(), caller.clone(), body.clone());
            tokio::spawn(async move {
                let headers = HeaderMap::new();
                let told = bridge.post_to(&node, &caller, &headers, body);
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

/// The headers of a request whose answer is to be an event stream.
pub(crate) fn as_stream() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, header::HeaderValue::from_static(SSE));
    headers
}

/// Whether an answer is an event stream.
pub(crate) fn is_stream(answer: &reqwest::Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(SSE.as_bytes()))
}
