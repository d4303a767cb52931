//! Signing in with a token, where pages are served to people who cannot run a command on the server: a form that
//! takes a token and leaves the cookie of a browser behind, and the way out again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Extension,
    extract::{Form, Query, State, rejection::FormRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::Markup;
use serde::Deserialize;
use threadline_contract::{Code, Fault, Principal};
use threadline_server::Refusal;

use crate::{Pending, Web, enter, pages::sign_in as page, urls};

/// Wrong tokens that may be tried at once.
const WRONG_TRIES: u32 = 10;
/// How long it takes until one more may be tried.
const TRY_EVERY: Duration = Duration::from_secs(3);
/// A token is short; a form with much more is not ours.
const MAX_TOKEN_BYTES: usize = 512;

/// Who lets a browser in by a token, and out again.
pub trait SignIn: Send + Sync + 'static {
    /// A token for one browser, which may what the given one may and ends with it. `UNAUTHORIZED`: it opens nothing.
    fn open<'a>(&'a self, token: &'a str) -> Pending<'a, Result<String, Fault>>;

    /// Makes a browser's token open nothing any more. One that is no browser's is left as it is.
    fn close<'a>(&'a self, principal: &'a Principal) -> Pending<'a, Result<(), Fault>>;
}

/// What the sign-in needs.
#[derive(Clone)]
pub(crate) struct Desk {
    sign_in: Arc<dyn SignIn>,
    tries: Arc<Tries>,
}

impl Desk {
    pub(crate) fn new(sign_in: Arc<dyn SignIn>) -> Self {
        Self {
            sign_in,
            tries: Arc::new(Tries::default()),
        }
    }
}

/// Wrong tries of everybody together: who is behind a request cannot be told before it is let in. Each is remembered
/// for [`TRY_EVERY`] after the one before it; this is when the last of them is forgotten.
#[derive(Default)]
struct Tries(Mutex<Option<Instant>>);

impl Tries {
    /// After how long a token may be tried again, where too many wrong ones came.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let forgotten = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = forgotten.map(|at| at.saturating_duration_since(now))?;
        let wait = remembered.saturating_sub(TRY_EVERY * (WRONG_TRIES - 1));
        (!wait.is_zero()).then_some(wait)
    }

    fn wrong(&self, now: Instant) {
        let mut forgotten = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *forgotten = Some(forgotten.map_or(now, |at| at.max(now)) + TRY_EVERY);
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    next: String,
}

/// `GET /sign-in`.
pub(crate) async fn form(Query(wanted): Query<Wanted>) -> Markup {
    page::form(urls::back(Some(&wanted.next)), None)
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Fields {
    token: String,
    next: String,
}

/// Refuses a form of another page, also of one on another port of this machine: it must sign nobody in or out.
fn of_our_page(headers: &HeaderMap) -> Result<(), Fault> {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Fault::new(
            Code::OriginNotAllowed,
            "Only this server's own page can sign you in or out.",
        )),
    }
}

/// `POST /sign-in`.
pub(crate) async fn enter(
    State(web): State<Web>,
    headers: HeaderMap,
    fields: Result<Form<Fields>, FormRejection>,
) -> Result<Response, Refusal> {
    of_our_page(&headers)?;
    let Some(desk) = &web.desk else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let fields = fields.map(|Form(fields)| fields).unwrap_or_default();
    let next = urls::back(Some(&fields.next));
    if let Some(wait) = desk.tries.wait(Instant::now()) {
        let seconds = wait.as_secs().max(1);
        let why = format!("Too many wrong tokens were tried. Try again in {seconds} s.");
        let after = [(header::RETRY_AFTER, seconds.to_string())];
        let page = page::form(next, Some(&why));
        return Ok((StatusCode::TOO_MANY_REQUESTS, after, page).into_response());
    }
    let token = fields.token.trim();
    let again = |why: &str| {
        let page = page::form(next, Some(why));
        Ok((StatusCode::UNAUTHORIZED, page).into_response())
    };
    if token.is_empty() {
        return again("Type or paste a token first.");
    }
    let opened = match token.len() > MAX_TOKEN_BYTES {
        true => None,
        false => match desk.sign_in.open(token).await {
            Ok(browser) => Some(browser),
            Err(fault) if fault.code == Code::Unauthorized => None,
            Err(fault) => return Err(fault.into()),
        },
    };
    let Some(browser) = opened else {
        desk.tries.wrong(Instant::now());
        return again(
            "This token is not known here, or was revoked. Check that it was copied whole.",
        );
    };
    let cookie = [(header::SET_COOKIE, web.entry.cookie(&browser, enter::STAYS))];
    Ok((StatusCode::SEE_OTHER, cookie, [(header::LOCATION, next)]).into_response())
}

/// `GET /sign-out`: who is signed in, and a button.
pub(crate) async fn leaving(
    State(web): State<Web>,
    principal: Option<Extension<Principal>>,
) -> Response {
    match principal {
        Some(Extension(by)) => page::leave(&web, &by).into_response(),
        None => page::form("/", None).into_response(),
    }
}

/// `POST /sign-out`.
pub(crate) async fn leave(
    State(web): State<Web>,
    principal: Option<Extension<Principal>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    of_our_page(&headers)?;
    if let (Some(desk), Some(Extension(by))) = (&web.desk, &principal) {
        desk.sign_in.close(by).await?;
    }
    let cookie = [(header::SET_COOKIE, web.entry.cookie("", Duration::ZERO))];
    let to = [(header::LOCATION, "/sign-in")];
    Ok((StatusCode::SEE_OTHER, cookie, to).into_response())
}

#[cfg(test)]
#[path = "sign_in_tests.rs"]
mod tests;
