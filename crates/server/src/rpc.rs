//! `POST /acp/rpc`: JSON-RPC 2.0, answered with JSON, or with an event stream when asked for one.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Request as HttpRequest, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Value, json, value::RawValue};
use threadline_contract::{
    Code, Fault, Millis, method,
    rpc::{self, Request},
};
use threadline_engine::{Accepted, Caller, TurnAnswer};

use crate::{
    BODY_BYTES, Bridge, Refusal,
    answer::{json, success},
    dispatch::{dispatch, value},
    events::last_event_id,
    sse,
};

/// A body from this size on counts as large.
const LARGE: usize = 1 << 20;
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(120);

pub(crate) async fn handle(
    State(bridge): State<Bridge>,
    Extension(caller): Extension<Caller>,
    request: HttpRequest,
) -> Response {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let fault = Fault::new(
            Code::MethodNotAllowed,
            "Use POST with a JSON-RPC 2.0 request.",
        );
        return ([(header::ALLOW, "POST")], Refusal(fault)).into_response();
    }
    let request = match read(&bridge, &parts.headers, body)
        .await
        .and_then(|bytes| Request::parse(&bytes))
    {
        Ok(request) => request,
        // The envelope itself is wrong, so the HTTP status says so; a fault in `params` has an id.
        Err(fault) => return Refusal(fault).into_response(),
    };
    let id = request.id.clone();
    let streams = wants_stream(&parts.headers);
    // The larger futures are boxed, so that every small request does not pay for their size.
    let outcome = match request.method.as_str() {
        method::START | method::MESSAGE => {
            Box::pin(turn(&bridge, &caller, request, &parts.headers, streams)).await
        }
        _ => Box::pin(dispatch(&bridge.engine, &caller, request))
            .await
            .map(Answer::Result),
    };
    match outcome {
        Ok(Answer::Stream(response)) => response,
        _ if id.is_none() => StatusCode::NO_CONTENT.into_response(),
        Ok(Answer::Result(result)) => success(id.as_ref(), &result),
        Err(fault) => json(&rpc::failure(id.as_ref(), &fault)),
    }
}

enum Answer {
    Result(Arc<RawValue>),
    Stream(Response),
}

async fn turn(
    bridge: &Bridge,
    caller: &Caller,
    request: Request,
    headers: &HeaderMap,
    streams: bool,
) -> Result<Answer, Fault> {
    let after = last_event_id(headers)?.unwrap_or(0);
    let (name, id) = (request.method, request.id);
    match bridge.engine.turn(caller, &name, request.params).await? {
        TurnAnswer::Unavailable(resolved) => value(resolved).map(Answer::Result),
        TurnAnswer::Accepted(accepted) if streams => {
            let feed = bridge.engine.run_feed(caller, &accepted.run, after).await?;
            Ok(Answer::Stream(sse::answer(
                bridge,
                feed,
                accepted_notice(&accepted, &name),
                id,
            )))
        }
        TurnAnswer::Accepted(accepted) => {
            let handle = bridge.engine.result(caller, &accepted.run).await?;
            value(handle).map(Answer::Result)
        }
    }
}

fn accepted_notice(accepted: &Accepted, name: &str) -> Value {
    rpc::notification(
        method::ACCEPTED,
        &json!({
            "sessionId": accepted.thread, "threadId": accepted.thread, "runId": accepted.run, "turnId": accepted.run,
            "method": name, "path": "/acp/rpc", "acceptedAt": Millis::now(),
        }),
    )
}

/// Reads a body. Large ones are read a few at a time, so that many at once cannot take all memory,
/// and none may take for ever.
async fn read(bridge: &Bridge, headers: &HeaderMap, body: Body) -> Result<bytes::Bytes, Fault> {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    let _turn = if length.is_none_or(|l| l > LARGE) {
        bridge.large.acquire().await.ok()
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
        Err(e) if e.is::<LengthLimitError>() => Err(Fault::new(
            Code::BodyTooLarge,
            format!(
                "The body has more than {} MiB. {}",
                BODY_BYTES >> 20,
                Code::BodyTooLarge.advice()
            ),
        )),
        Err(e) => Err(Fault::new(
            Code::InvalidJson,
            format!("The body ended early: {e}."),
        )),
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|v| v.contains(sse::SSE))
}
