//! Whose pages these are, and how a refusal looks to a person with a browser.

use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::Value;
use threadline_contract::{Code, Fault, Principal};
use threadline_server::Refusal;

use crate::{Serving, pages, seal, urls};

/// A refusal is a sentence; more than this is none of ours.
const REFUSAL_BYTES: usize = 64 << 10;

/// Lets only this machine's own account in: the app has one user. To another account there is
/// nothing here.
pub(crate) async fn local_only(request: Request, next: Next) -> Response {
    let fault = match request.extensions().get::<Principal>() {
        Some(caller) if caller.account.is_local() => return next.run(request).await,
        Some(_) => Fault::new(Code::NotFound, Code::NotFound.advice()),
        None => Fault::new(Code::Unauthorized, Code::Unauthorized.advice()),
    };
    Refusal(fault).into_response()
}

/// Lets anybody in whom the gate knows: what is asked for decides what each sees.
pub(crate) async fn signed_in(request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>() {
        Some(_) => next.run(request).await,
        None => {
            Refusal(Fault::new(Code::Unauthorized, Code::Unauthorized.advice())).into_response()
        }
    }
}

/// Turns a refusal into a page when a browser asked for a page. To be laid over the gate, so that
/// a person who comes without a cookie reads what to do instead of JSON.
pub async fn friendly(State(serving): State<Serving>, request: Request, next: Next) -> Response {
    let wanted = wants_page(request.method(), request.headers());
    let from = request.uri().clone();
    let response = next.run(request).await;
    if wanted && is_refusal(&response) {
        return as_page(response, serving, &from).await;
    }
    response
}

fn wants_page(method: &Method, headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    method == Method::GET && accept.is_some_and(|accept| accept.contains("text/html"))
}

fn is_refusal(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    json && (response.status().is_client_error() || response.status().is_server_error())
}

async fn as_page(response: Response, serving: Serving, from: &Uri) -> Response {
    let status = response.status();
    let sentence = match to_bytes(response.into_body(), REFUSAL_BYTES).await {
        Ok(bytes) => sentence(&bytes),
        Err(_) => None,
    };
    let markup = match (serving, status) {
        (Serving::ApiOnly, StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND) => {
            pages::refused::no_pages()
        }
        (Serving::Pages, StatusCode::UNAUTHORIZED) => pages::refused::no_cookie(from),
        (Serving::PagesWithSignIn, StatusCode::UNAUTHORIZED) => {
            let path = from.path_and_query().map_or("/", |p| p.as_str());
            pages::sign_in::form(urls::back(Some(path)), None)
        }
        (_, status) => pages::refused::sentence(status, sentence.as_deref()),
    };
    seal::page((status, markup).into_response()).await
}

fn sentence(refusal: &[u8]) -> Option<String> {
    let refusal: Value = serde_json::from_slice(refusal).ok()?;
    refusal["error"]["message"].as_str().map(str::to_owned)
}
