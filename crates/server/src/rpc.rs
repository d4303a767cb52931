//! `POST /acp/rpc`: JSON-RPC 2.0, answered with JSON, or with an event stream when asked for one.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, Request as HttpRequest, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use threadline_contract::{
    Code, Fault, Principal, method,
    rpc::{self, Request},
    sse::CONTENT_TYPE,
};

use crate::{
    Bridge, Refusal, access,
    answer::{json, success, success_text},
    body,
    dispatch::{dispatch, value},
    events::last_event_id,
    forward::{self, AnswerTime, Missed},
    gate::Way,
    sse,
    turn::{self, Begun},
};

pub(crate) async fn handle(
    bridge: &Bridge,
    caller: &Principal,
    way: Way,
    request: HttpRequest<Incoming>,
) -> Response {
    let (headers, request, body) = match body::received(request).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    if let Way::Forwarded { body: sealed } = way
        && Sha256::digest(&body)[..] != sealed
    {
        // Not the request that the other server sealed.
        let fault = Fault::new(Code::Unauthorized, Code::Unauthorized.advice());
        return Refusal(fault).into_response();
    }
    let id = request.id.clone();
    let streams = wants_stream(&headers);
    let asked = Asked {
        bridge,
        caller,
        way,
        headers: &headers,
        body,
        streams,
    };
    match asked.outcome(request).await {
        Ok(Answer::Whole(response)) => response,
        _ if id.is_none() => StatusCode::NO_CONTENT.into_response(),
        Ok(Answer::Result(result)) if streams => sse::only(&success_text(id.as_ref(), &result)),
        Ok(Answer::Result(result)) => success(id.as_ref(), &result),
        Err(fault) if streams => sse::only(&rpc::failure(id.as_ref(), &fault).to_string()),
        Err(fault) => json(&rpc::failure(id.as_ref(), &fault)),
    }
}

enum Answer {
    Result(Arc<RawValue>),
    /// The answer as it goes out: a stream, or what another server said.
    Whole(Response),
}

/// A request and how it came in.
struct Asked<'a> {
    bridge: &'a Bridge,
    caller: &'a Principal,
    way: Way,
    headers: &'a HeaderMap,
    /// As it came, for another server.
    body: Bytes,
    streams: bool,
}

impl Asked<'_> {
    async fn outcome(self, request: Request) -> Result<Answer, Fault> {
        let (bridge, caller) = (self.bridge, self.caller);
        access::check_method(caller, &request.method)?;
        let mut missed = None;
        // The larger futures are boxed, so that every small request does not pay for their size.
        if self.way == Way::Direct && bridge.engine.shares_database() {
            match Box::pin(self.ask_its_server(&request)).await? {
                Some(Ok(response)) => return Ok(Answer::Whole(response)),
                Some(Err(why)) => missed = Some(why),
                None => Box::pin(bridge.tell_others(caller, &request, &self.body)).await?,
            }
        }
        match request.method.as_str() {
            method::START | method::MESSAGE => Box::pin(self.turn(request, missed)).await,
            _ => Box::pin(dispatch(&bridge.engine, caller, request))
                .await
                .map(Answer::Result),
        }
    }

    /// The answer of the server that has what the request is about; none, where that is this one.
    async fn ask_its_server(
        &self,
        request: &Request,
    ) -> Result<Option<Result<Response, Missed>>, Fault> {
        let Some(elsewhere) = self.bridge.engine.elsewhere(self.caller, request).await? else {
            return Ok(None);
        };
        let (node, time) = (&elsewhere.node, AnswerTime::for_answer(&elsewhere));
        let body = self.body.clone();
        let sent = self
            .bridge
            .post_to(node, self.caller, self.headers, body, time);
        let answer = sent.await.map(|answer| self.bridge.passed_back(answer));
        Ok(Some(answer))
    }

    async fn turn(self, request: Request, missed: Option<Missed>) -> Result<Answer, Fault> {
        let (bridge, caller) = (self.bridge, self.caller);
        let seen = last_event_id(self.headers)?;
        let (id, what) = (request.id.clone(), forward::named(&request));
        match turn::begin(bridge, caller, request, seen, "/acp/rpc").await? {
            Begun::Unavailable(resolved) => Ok(Answer::Result(resolved)),
            Begun::Elsewhere(node) => {
                let missed = match missed {
                    Some(missed) => missed,
                    None if self.way != Way::Direct => Missed::NotReached,
                    None => {
                        let (headers, body) = (self.headers, self.body);
                        let sent = bridge.post_to(&node, caller, headers, body, AnswerTime::FULL);
                        match sent.await {
                            Ok(answer) => return Ok(Answer::Whole(bridge.passed_back(answer))),
                            Err(missed) => missed,
                        }
                    }
                };
                Err(forward::refused(&node, &what, &missed, caller))
            }
            Begun::Accepted(turn) if self.streams => {
                let feed = turn.feed(bridge, caller).await?;
                Ok(Answer::Whole(sse::answer(bridge, feed, turn.notice, id)))
            }
            Begun::Accepted(turn) => {
                let handle = bridge.engine.result(caller, &turn.run).await?;
                value(handle).map(Answer::Result)
            }
        }
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|v| v.contains(CONTENT_TYPE))
}
