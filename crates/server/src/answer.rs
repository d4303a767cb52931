//! How a fault looks to a caller that never reached a method.

use axum::{
    extract::{FromRequestParts, Query},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use threadline_contract::{Code, Fault, rpc};

/// A fault on its way out over HTTP, as a JSON-RPC error without an id.
pub struct Refusal(pub Fault);

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        refused(None, &self.0)
    }
}

/// A fault as a JSON-RPC error, with the HTTP status of its code.
pub(crate) fn refused(id: Option<&rpc::Id>, fault: &Fault) -> Response {
    let status =
        StatusCode::from_u16(fault.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, json(&rpc::failure(id, fault))).into_response()
}

/// A query string, refused with a code when it is not what it should be.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(e) => {
                let why = e.body_text();
                let why = why
                    .rsplit_once("query string: ")
                    .map_or(&*why, |(_, why)| why);
                let why = format!("The query of the address is not right: {why}.");
                Err(Refusal(Fault::invalid(why)))
            }
        }
    }
}

/// A JSON body.
pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        Err(e) => {
            tracing::error!(error = %e, "An answer could not be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A success envelope around a result that is text already.
pub(crate) fn success(id: Option<&rpc::Id>, result: &RawValue) -> Response {
    let body = success_text(id, result);
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// The same, as its text.
pub(crate) fn success_text(id: Option<&rpc::Id>, result: &RawValue) -> String {
    let id = serde_json::to_string(&id).unwrap_or_else(|_| "null".to_owned());
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// Paths of older bridges that are not for apps.
pub(crate) async fn disabled() -> Refusal {
    Refusal(Fault::new(Code::PathDisabled, Code::PathDisabled.advice()))
}
