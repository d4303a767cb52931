//! `GET /artifacts/openclaw/download?ref=…&t=…`: signed, verified, streamed, of any size.

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, Response as HttpResponse, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use threadline_contract::{Code, Fault, Principal, url};
use threadline_engine::{Download, Opened, Pieces};

use crate::{
    Bridge, Refusal,
    answer::Asked,
    gate::Way,
    range::{self, Wanted},
};

/// Seconds after which a runtime that is not there may be back.
const RETRY_AFTER: &str = "5";

#[derive(Deserialize)]
pub(crate) struct Link {
    #[serde(rename = "ref")]
    reference: Option<String>,
    t: Option<String>,
}

pub(crate) async fn handle(
    State(bridge): State<Bridge>,
    Extension(caller): Extension<Principal>,
    Extension(way): Extension<Way>,
    Asked(link): Asked<Link>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (Some(reference), Some(expires)) = (link.reference, link.t.as_deref().and_then(expiry))
    else {
        return Err(Fault::invalid("The link needs `ref` and a number in `t`.").into());
    };
    let opened = bridge.engine.open_link(&caller, &reference, expires).await;
    let download = match opened {
        // The runtime is gone for a moment, not for good.
        Err(fault) if fault.code == Code::ProviderUnavailable => {
            return Ok(come_back(fault));
        }
        Ok(Opened::Elsewhere { node, sha256 }) => {
            if way == Way::Direct
                && let Ok(answer) = bridge
                    .get_from(&node, &caller, method, &uri, &headers, sha256)
                    .await
            {
                return Ok(answer);
            }
            let fault = node.missed(Code::NodeUnavailable, "The file", &caller);
            return Ok(come_back(fault));
        }
        Ok(Opened::Here(download)) => download,
        Err(fault) => return Err(fault.into()),
    };
    respond(download, &headers, method == Method::HEAD).await
}

/// What is not there now and may be soon.
fn come_back(fault: Fault) -> Response {
    ([(header::RETRY_AFTER, RETRY_AFTER)], Refusal(fault)).into_response()
}

/// A file can be read, and nothing else.
pub(crate) async fn other_method() -> Response {
    let fault = Fault::new(Code::MethodNotAllowed, "Use GET or HEAD.");
    ([(header::ALLOW, "GET, HEAD")], Refusal(fault)).into_response()
}

/// The expiry, spelled as we spell it: a link has one form.
fn expiry(text: &str) -> Option<i64> {
    text.parse().ok().filter(|t: &i64| t.to_string() == text)
}

async fn respond(download: Download, headers: &HeaderMap, head: bool) -> Result<Response, Refusal> {
    let artifact = &download.artifact;
    let size = artifact.size;
    let etag = format!("\"{}\"", artifact.sha256);
    let said = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let names = |tags: &str, weak: &str| {
        let mut tags = tags.split(',').map(str::trim);
        tags.any(|tag| tag.trim_start_matches(weak) == etag || tag == "*")
    };
    // Only a strong tag says that the bytes are the same.
    if said(header::IF_MATCH).is_some_and(|tags| !names(tags, "")) {
        return Ok((StatusCode::PRECONDITION_FAILED, [(header::ETAG, etag)]).into_response());
    }
    if said(header::IF_NONE_MATCH).is_some_and(|tags| names(tags, "W/")) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    // A range of another version of the file would be glued to the wrong bytes.
    let same = said(header::IF_RANGE).is_none_or(|tag| tag == etag);
    let wanted = if same {
        range::wanted(said(header::RANGE), size)
    } else {
        Wanted::Whole
    };
    let (status, first, len) = match wanted {
        Wanted::Whole => (StatusCode::OK, 0, size),
        Wanted::Part(first, last) => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Wanted::Invalid => {
            let refusal = Refusal(Fault::new(Code::RangeInvalid, Code::RangeInvalid.advice()));
            return Ok((
                [(header::CONTENT_RANGE, format!("bytes */{size}"))],
                refusal,
            )
                .into_response());
        }
    };
    // What cannot be read at all is said with a code, while there is still room for one.
    let Download { artifact, reader } = download;
    let body = match head || len == 0 {
        true => Body::empty(),
        false => body(reader.pieces(first..first + len)).await?,
    };
    let mut response = HttpResponse::builder()
        .status(status)
        .header(header::CONTENT_TYPE, &*artifact.content_type)
        .header(header::CONTENT_LENGTH, len)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, etag)
        .header(header::CACHE_CONTROL, "private, no-cache")
        .header(
            header::CONTENT_DISPOSITION,
            disposition(artifact.path.file_name()),
        )
        // An agent's file never runs as our page, whatever it claims to be.
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(
            header::CONTENT_SECURITY_POLICY,
            "sandbox; default-src 'none'",
        );
    if status == StatusCode::PARTIAL_CONTENT {
        response = response.header(
            header::CONTENT_RANGE,
            format!("bytes {first}-{}/{size}", first + len - 1),
        );
    }
    response.body(body).map_err(|e| {
        tracing::error!(error = %e, "A download could not be answered");
        Refusal(Fault::internal())
    })
}

/// The bytes, read as the client takes them; an error, if not even the first can be had. A failure in
/// the middle breaks the connection, so that a short file is never taken for a whole one.
async fn body(mut pieces: Pieces) -> Result<Body, Fault> {
    let first = pieces.try_next().await?;
    let first = stream::iter(first.map(Ok));
    Ok(Body::from_stream(first.chain(pieces)))
}

fn disposition(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%') || c == ' ' {
                c
            } else {
                '_'
            }
        })
        .collect();
    let encoded = url::encoded(name);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}
