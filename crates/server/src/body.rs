//! From an HTTP request to a JSON-RPC request, for every door that takes one.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{
    BoxError,
    http::{HeaderMap, Method, Request as HttpRequest, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body;
use threadline_contract::{
    Code, Fault, amounts,
    rpc::{Malformed, Request},
};
use tokio::sync::Semaphore;

use crate::{Refusal, answer::refused};

/// Bytes that a request body may have: 25 MiB of attachments in base64, and room.
pub const BODY_BYTES: usize = 40 << 20;
/// A body from this size on counts as large.
pub(crate) const LARGE: usize = 1 << 20;
/// How long a body may take.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(120);
/// Large bodies are read a few at a time, so that many at once cannot take all memory.
static LARGE_BODIES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(3)));

/// The places for large bodies, for other doors that read some.
pub(crate) fn large_bodies() -> Arc<Semaphore> {
    LARGE_BODIES.clone()
}

/// What is said about a body over the limit.
pub(crate) fn too_large() -> Fault {
    Fault::new(
        Code::BodyTooLarge,
        format!(
            "The body has more than {}. {}",
            amounts::limit(BODY_BYTES as u64),
            Code::BodyTooLarge.advice()
        ),
    )
}

/// Reads a request, or gives the answer that refuses it: with the HTTP status of what is wrong with
/// the envelope, and under the request's id where that could be read.
pub async fn request<B>(request: HttpRequest<B>) -> Result<(HeaderMap, Request), Response>
where
    B: Body<Error: Into<BoxError>>,
{
    let (headers, request, _) = received(request).await?;
    Ok((headers, request))
}

/// The same, with the bytes as they came.
pub(crate) async fn received<B>(
    request: HttpRequest<B>,
) -> Result<(HeaderMap, Request, Bytes), Response>
where
    B: Body<Error: Into<BoxError>>,
{
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let fault = Fault::new(
            Code::MethodNotAllowed,
            "Use POST with a JSON-RPC 2.0 request.",
        );
        return Err(([(header::ALLOW, "POST")], Refusal(fault)).into_response());
    }
    let bytes = read(&parts.headers, body).await.map_err(Malformed::from);
    match bytes.and_then(|bytes| Ok((Request::parse(&bytes)?, bytes))) {
        Ok((request, bytes)) => Ok((parts.headers, request, bytes)),
        Err(Malformed { id, fault }) => Err(refused(id.as_ref(), &fault)),
    }
}

async fn read<B>(headers: &HeaderMap, body: B) -> Result<Bytes, Fault>
where
    B: Body<Error: Into<BoxError>>,
{
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|l| l > BODY_BYTES as u64) {
        return Err(too_large());
    }
    let _turn = if length.is_none_or(|l| l > LARGE as u64) {
        LARGE_BODIES.acquire().await.ok()
    } else {
        None
    };
    let whole = tokio::time::timeout(BODY_TIME, Limited::new(body, BODY_BYTES).collect());
    let whole = whole.await.map_err(|_| {
        let seconds = BODY_TIME.as_secs();
        Fault::new(
            Code::InvalidJson,
            format!("The body did not arrive within {seconds} seconds. Send it again."),
        )
    })?;
    match whole {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => Err(too_large()),
        Err(e) => Err(Fault::new(
            Code::InvalidJson,
            format!("The body ended early: {e}."),
        )),
    }
}
