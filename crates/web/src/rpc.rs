//! `POST /app/rpc`: the local API over JSON-RPC.

use axum::{
    Json,
    extract::{Request as HttpRequest, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use threadline_contract::rpc;
use threadline_server::body;

use crate::Web;

pub(crate) async fn handle(State(web): State<Web>, request: HttpRequest) -> Response {
    let request = match body::request(request).await {
        Ok((_, request)) => request,
        Err(refusal) => return refusal,
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
