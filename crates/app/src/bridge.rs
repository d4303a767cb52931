//! The bridge, as seen from here: requests, streams of events and downloads over HTTP.

pub(crate) mod lenient;
pub(crate) mod patience;
pub(crate) mod snapshot;
pub(crate) mod sse;
pub(crate) mod trouble;

use bytes::Bytes;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RANGE},
    redirect::Policy,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use threadline_contract::{AppThreadKey, Code, Fault, rpc, sse::CONTENT_TYPE as EVENT_STREAM};

use self::{sse::Frames, trouble::Trouble};
use crate::config::{Endpoint, Timings};

/// An error's body is a sentence; more of it is not read.
const ERROR_BYTES: usize = 64 << 10;
/// More than any answer: a page of files is the largest.
const ANSWER_BYTES: usize = 64 << 20;
const LAST_EVENT_ID: &str = "last-event-id";

/// A bridge.
#[derive(Clone)]
pub(crate) struct Bridge {
    base: Url,
    token: Option<String>,
    http: Client,
    pub(crate) timings: Timings,
}

/// How a turn's request is being answered.
pub(crate) enum Opened {
    /// With one JSON body: its result.
    Answer(Value),
    /// With events.
    Stream(Frames),
}

impl Bridge {
    pub(crate) fn new(endpoint: &Endpoint, timings: Timings) -> Result<Self, Fault> {
        let base = base_url(&endpoint.url)?;
        let mut http = Client::builder()
            .connect_timeout(timings.connect)
            // Our token must not travel to where a redirect points.
            .redirect(Policy::none());
        if is_loopback(&base) {
            http = http.no_proxy();
        }
        Ok(Self {
            base,
            token: endpoint.token.clone(),
            http: http.build().map_err(crate::fault::internal)?,
            timings,
        })
    }

    /// A short request: sent once, answered in time or not at all.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, Trouble> {
        let value = self.call_value(method, params).await?;
        serde_json::from_value(value).map_err(|e| strange(&format!("{method}: {e}")))
    }

    /// As [`call`](Self::call), with the result as it came.
    pub(crate) async fn call_value(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Value, Trouble> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self
            .authorized(self.http.post(self.at("/acp/rpc")))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .timeout(self.timings.answer)
            .body(body.to_string());
        let response = request.send().await.map_err(|e| Trouble::unsent(&e))?;
        answer(accepted(response).await?).await
    }

    /// Sends a turn, or the same turn again to go on hearing it after the event `after`.
    pub(crate) async fn open_turn(&self, body: Bytes, after: i64) -> Result<Opened, Trouble> {
        let mut request = self
            .authorized(self.http.post(self.at("/acp/rpc")))
            .header(ACCEPT, format!("{EVENT_STREAM}, application/json"))
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        if after > 0 {
            request = request.header(LAST_EVENT_ID, after);
        }
        let response = self.sent(request).await?;
        if is_stream(&response) {
            return Ok(Opened::Stream(self.frames(response)));
        }
        in_time(self.timings.silence, answer(response))
            .await
            .map(Opened::Answer)
    }

    /// A thread's log after an event, and then what is added to it.
    pub(crate) async fn events(
        &self,
        thread: &AppThreadKey,
        after: i64,
    ) -> Result<Frames, Trouble> {
        let mut url = self.at("/acp/events");
        url.query_pairs_mut()
            .append_pair("threadId", thread.as_str());
        let mut request = self
            .authorized(self.http.get(url))
            .header(ACCEPT, EVENT_STREAM);
        if after > 0 {
            request = request.header(LAST_EVENT_ID, after);
        }
        let response = self.sent(request).await?;
        if !is_stream(&response) {
            return Err(strange("the log of a thread is not a stream of events"));
        }
        Ok(self.frames(response))
    }

    /// The number of the last event in a thread's log.
    pub(crate) async fn last_event(&self, thread: &AppThreadKey) -> Result<i64, Trouble> {
        let mut url = self.at("/acp/events");
        url.query_pairs_mut()
            .append_pair("threadId", thread.as_str())
            .append_pair("last", "0");
        let request = self
            .authorized(self.http.get(url))
            .timeout(self.timings.answer);
        let response = request.send().await.map_err(|e| Trouble::unsent(&e))?;
        let page: Value = json_body(accepted(response).await?).await?;
        let next = page.get("next").and_then(Value::as_i64);
        next.ok_or_else(|| strange("a page of a thread's log has no `next`"))
    }

    /// A file from the byte `from` on. Any answer but 200 and 206 is trouble.
    pub(crate) async fn download(&self, url: Url, from: u64) -> Result<Response, Trouble> {
        let mut request = self
            .authorized(self.http.get(url))
            .header(ACCEPT_ENCODING, "identity");
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        let response = self.sent(request).await?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(response),
            other => Err(Trouble::status(other, b"")),
        }
    }

    /// A download link as an address of this bridge. A link to anywhere else is refused.
    pub(crate) fn link(&self, link: &str) -> Result<Url, Fault> {
        let foreign = || {
            Fault::new(
                Code::BadBridgeAnswer,
                format!("The link `{link}` does not lead to the bridge and was not followed."),
            )
        };
        if link.starts_with('/') && !link.starts_with("//") && !link.contains('\\') {
            let base = self.base.as_str().trim_end_matches('/');
            return Url::parse(&format!("{base}{link}")).map_err(|_| foreign());
        }
        let url = Url::parse(link).map_err(|_| foreign())?;
        if url.origin() == self.base.origin() && url.username().is_empty() {
            Ok(url)
        } else {
            Err(foreign())
        }
    }

    /// Sends a request whose answer may go on for long, but must begin.
    async fn sent(&self, request: reqwest::RequestBuilder) -> Result<Response, Trouble> {
        in_time(self.timings.silence, async {
            let response = request.send().await.map_err(|e| Trouble::unsent(&e))?;
            accepted(response).await
        })
        .await
    }

    fn frames(&self, response: Response) -> Frames {
        Frames::new(response.bytes_stream(), self.timings.silence)
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let path = format!("{}{path}", self.base.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// Checks and normalises a bridge's address.
pub(crate) fn base_url(text: &str) -> Result<Url, Fault> {
    let bad = |why: &str| Fault::invalid(format!("The bridge's address `{text}` {why}."));
    let url = Url::parse(text.trim()).map_err(|e| bad(&format!("cannot be read ({e})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("must begin with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(bad("must be plain: no user, no `?` and no `#`"));
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

fn is_stream(response: &Response) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|v| v.trim_start().starts_with(EVENT_STREAM))
}

async fn in_time<T>(
    limit: std::time::Duration,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(Trouble::again(
            Code::ConnectionClosed,
            "The bridge did not answer in time.",
        )),
    }
}

async fn accepted(response: Response) -> Result<Response, Trouble> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    Err(Trouble::status(status, &beginning(response).await))
}

/// The beginning of a body; what cannot be read is left out.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > ERROR_BYTES {
            break;
        }
    }
    body
}

async fn answer(response: Response) -> Result<Value, Trouble> {
    Ok(rpc::outcome(json_body(response).await?)?)
}

async fn json_body<T: DeserializeOwned>(mut response: Response) -> Result<T, Trouble> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| Trouble::cut(&e))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES {
            return Err(strange("an answer without an end"));
        }
    }
    serde_json::from_slice(&bytes).map_err(|e| strange(&e.to_string()))
}

/// An answer that is not the protocol.
pub(crate) fn strange(why: &str) -> Trouble {
    Trouble::final_(
        Code::BadBridgeAnswer,
        format!(
            "The bridge answered something that is not the protocol ({why}). Check its address and version."
        ),
    )
}

#[cfg(test)]
#[path = "bridge_tests.rs"]
mod tests;
