//! `POST /app/rpc`: the local API over JSON-RPC.

use axum::{
    Extension, Json,
    extract::{Request as HttpRequest, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use threadline_contract::{Principal, rpc};
use threadline_server::body;

use crate::{Web, operate};

pub(crate) async fn handle(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
    request: HttpRequest,
) -> Response {
    let request = match body::request(request).await {
        Ok((_, request)) => request,
        Err(refusal) => return refusal,
    };
    let id = request.id;
    let outcome = operate::perform(&web, &by, &request.method, request.params).await;
    if id.is_none() {
        return StatusCode::NO_CONTENT.into_response();
    }
    Json(match outcome {
        Ok(result) => rpc::success(id.as_ref(), &result),
        Err(fault) => rpc::failure(id.as_ref(), &fault),
    })
    .into_response()
}
