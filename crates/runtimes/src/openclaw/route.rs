//! The plugin's HTTP route: whole files in one stream, as fast as they are taken.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use bytes::Bytes;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_RANGE, ETAG, HeaderMap, RANGE},
    redirect::Policy,
};
use rustls::ClientConfig;
use threadline_contract::{Code, Fault};
use tokio::time::timeout;

use super::files::LARGE;
use crate::ArtifactIdentity;

/// How long the connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the gateway may be silent in the middle of a file.
const SILENCE: Duration = Duration::from_secs(30);

/// What speaks HTTP to a gateway: with its own host alone, as the WebSocket does.
pub(super) fn client(tls: Option<Arc<ClientConfig>>) -> Result<Client, Fault> {
    let mut client = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(CONNECT);
    if let Some(tls) = tls {
        client = client.tls_backend_preconfigured(ClientConfig::clone(&tls));
    }
    client
        .build()
        .map_err(|e| Fault::new(Code::Internal, format!("HTTP cannot be spoken: {e}.")))
}

/// Where a file is handed over, and the reference that opens it.
pub(super) struct Route {
    http: Client,
    url: Url,
    reference: String,
}

impl Route {
    /// The route at this path of a gateway; nothing, when that is no path.
    pub(super) fn new(http: &Client, gateway: &str, path: &str, reference: String) -> Option<Self> {
        Some(Self {
            http: http.clone(),
            url: address(gateway, path)?,
            reference,
        })
    }

    /// Begins to read a file somewhere. It must be the file that is meant, in the state that is meant.
    pub(super) async fn open(
        &self,
        identity: &ArtifactIdentity,
        offset: u64,
    ) -> Result<Streamed, String> {
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("openclawSessionKey", identity.session.as_str())
            .append_pair("runId", identity.run.as_str());
        let asked = self
            .http
            .get(url)
            // A reference may hold a name in any script; a header may not.
            .bearer_auth(BASE64.encode(&self.reference))
            .header(RANGE, format!("bytes={offset}-"));
        let response = timeout(LARGE, asked.send())
            .await
            .map_err(|_| "the gateway did not answer in time".to_owned())?
            // Without the address: it says nothing, and is long.
            .map_err(|e| e.without_url().to_string())?;
        let (status, size) = (response.status(), identity.size);
        if status != StatusCode::PARTIAL_CONTENT {
            return Err(format!("the gateway answered {status}"));
        }
        let header = |name| text(response.headers(), name);
        let range = format!("bytes {offset}-{}/{size}", size - 1);
        let tag = format!("\"{}\"", identity.sha256);
        if header(CONTENT_RANGE) != Some(&range) || header(ETAG) != Some(&tag) {
            return Err("the gateway answered with something else".to_owned());
        }
        Ok(Streamed {
            response,
            offset,
            size,
        })
    }
}

fn text(headers: &HeaderMap, name: reqwest::header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The same host, by HTTP. A proxy in front may have the gateway in a folder of its own.
fn address(gateway: &str, path: &str) -> Option<Url> {
    let rest = gateway.strip_prefix("ws")?;
    let mut url = Url::parse(&format!("http{rest}")).ok()?;
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return None;
    }
    let folder = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{folder}{path}"));
    url.set_query(None);
    url.set_fragment(None);
    Some(url)
}

/// A file on its way.
pub(super) struct Streamed {
    response: Response,
    offset: u64,
    size: u64,
}

impl Streamed {
    /// Where the next bytes belong.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes, which are never none.
    pub(super) async fn next(&mut self) -> Result<Bytes, String> {
        let chunk = timeout(SILENCE, self.response.chunk())
            .await
            .map_err(|_| "the gateway sends nothing more".to_owned())?
            .map_err(|e| e.without_url().to_string())?;
        let bytes = chunk.filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| "the file ended too early".to_owned())?;
        self.offset += bytes.len() as u64;
        if self.offset > self.size {
            return Err("the gateway sends more than the file has".to_owned());
        }
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
