//! `POST /app/rpc`: the local API over JSON-RPC.

use axum::{
    Json,
    body::Body,
    extract::{Request as HttpRequest, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use threadline_contract::{
    Code, Fault,
    rpc::{self, Request},
};
use threadline_server::{BODY_BYTES, Refusal};

use crate::Web;

pub(crate) async fn handle(State(web): State<Web>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let fault = Fault::new(
            Code::MethodNotAllowed,
            "Use POST with a JSON-RPC 2.0 request.",
        );
        return ([(header::ALLOW, "POST")], Refusal(fault)).into_response();
    }
    let request = match read(body).await.and_then(|bytes| Request::parse(&bytes)) {
        Ok(request) => request,
        Err(fault) => return Refusal(fault).into_response(),
    };
    let id = request.id;
    let outcome = web.app.dispatch(&request.method, request.params).await;
    if id.is_none() {
        return StatusCode::NO_CONTENT.into_response();
    }
    Json(match outcome {
        Ok(result) => rpc::success(id.as_ref(), &result),
        Err(fault) => rpc::failure(id.as_ref(), &fault),
    })
    .into_response()
}

async fn read(body: Body) -> Result<Bytes, Fault> {
    match Limited::new(body, BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => Err(Fault::new(
            Code::BodyTooLarge,
            format!(
                "The request has more than {} MiB. {}",
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
