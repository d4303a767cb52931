//! `POST /acp/rpc`: JSON-RPC 2.0, answered with JSON, or with an event stream when asked for one.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, Request as HttpRequest, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::body::Incoming;
use serde_json::value::RawValue;
use threadline_contract::{
    Fault, method,
    rpc::{self, Request},
};
use threadline_engine::Caller;

use crate::{
    Bridge,
    answer::{json, success},
    body,
    dispatch::{dispatch, value},
    events::last_event_id,
    sse,
    turn::{self, Begun},
};

pub(crate) async fn handle(
    bridge: &Bridge,
    caller: &Caller,
    request: HttpRequest<Incoming>,
) -> Response {
    let (headers, request) = match body::request(request).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    let id = request.id.clone();
    let streams = wants_stream(&headers);
    // The larger futures are boxed, so that every small request does not pay for their size.
    let outcome = match request.method.as_str() {
        method::START | method::MESSAGE => {
            Box::pin(turn(bridge, caller, request, &headers, streams)).await
        }
        _ => Box::pin(dispatch(&bridge.engine, caller, request))
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
    let seen = last_event_id(headers)?;
    let id = request.id.clone();
    match turn::begin(bridge, caller, request, seen, "/acp/rpc").await? {
        Begun::Unavailable(resolved) => Ok(Answer::Result(resolved)),
        Begun::Accepted(turn) if streams => {
            let feed = turn.feed(bridge, caller).await?;
            Ok(Answer::Stream(sse::answer(bridge, feed, turn.notice, id)))
        }
        Begun::Accepted(turn) => {
            let handle = bridge.engine.result(caller, &turn.run).await?;
            value(handle).map(Answer::Result)
        }
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|v| v.contains(sse::SSE))
}
