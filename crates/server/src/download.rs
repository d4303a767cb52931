//! `GET /artifacts/openclaw/download?ref=…&t=…`: signed, verified, streamed, of any size.

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, Response as HttpResponse, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use threadline_contract::{Code, Fault, url};
use threadline_engine::{Caller, Download};

use crate::{
    Bridge, Refusal,
    answer::Asked,
    range::{self, Wanted},
};

/// Seconds after which a runtime that is not there may be back.
const RETRY_AFTER: &str = "5";
/// Bytes that are read at once.
const CHUNK: u64 = 256 << 10;

#[derive(Deserialize)]
pub(crate) struct Link {
    #[serde(rename = "ref")]
    reference: Option<String>,
    t: Option<String>,
}

pub(crate) async fn handle(
    State(bridge): State<Bridge>,
    Extension(caller): Extension<Caller>,
    Asked(link): Asked<Link>,
    method: Method,
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
            return Ok(([(header::RETRY_AFTER, RETRY_AFTER)], Refusal(fault)).into_response());
        }
        other => other?,
    };
    respond(download, &headers, method == Method::HEAD).await
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
    if said(header::IF_NONE_MATCH).is_some_and(|tags| {
        tags.split(',')
            .any(|t| t.trim().trim_start_matches("W/") == etag || t.trim() == "*")
    }) {
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
    let begin = match head || len == 0 {
        true => None,
        false => Some(piece(&download, first, first + len).await?),
    };
    let artifact = &download.artifact;
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
    let body = match begin {
        Some(begin) => body(download, begin, first, len),
        None => Body::empty(),
    };
    response.body(body).map_err(|e| {
        tracing::error!(error = %e, "A download could not be answered");
        Refusal(Fault::internal())
    })
}

/// The bytes, read as the client takes them. A failure in the middle breaks the connection, so
/// that a short file is never taken for a whole one.
fn body(download: Download, begin: Bytes, first: u64, len: u64) -> Body {
    let end = first + len;
    Body::from_stream(stream::try_unfold(
        (download, Some(begin), first),
        move |(download, begin, at)| async move {
            if at >= end {
                return Ok::<_, Fault>(None);
            }
            let bytes = match begin {
                Some(begin) => begin,
                None => piece(&download, at, end).await?,
            };
            let next = at + bytes.len() as u64;
            Ok(Some((bytes, (download, None, next))))
        },
    ))
}

/// The next bytes, which are never none.
async fn piece(download: &Download, at: u64, end: u64) -> Result<Bytes, Fault> {
    let len = CHUNK.min(end - at) as usize;
    let bytes = download.reader.read_at(at, len).await?;
    if bytes.is_empty() {
        return Err(Fault::new(
            Code::ArtifactChanged,
            "The file became shorter while it was read.",
        ));
    }
    Ok(bytes)
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
