//! Who may call: the Host, the Origin, and a token or our own page's cookie.
//!
//! A page of another origin must never be able to act for the user, not even one that an agent
//! serves on another port of the same machine: browsers send a cookie across ports, so a cookie
//! counts only with our exact Origin, or where the browser itself says that the request comes from
//! our own page.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest as _, Sha256};
use threadline_contract::{Code, Fault, Principal};
use threadline_engine::{Engine, FORWARDED_SCHEME, Passed};

use crate::{Refusal, access, rate::Rate};

/// How long a token that was looked up is not looked up again; a revoked one dies within it.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Tokens remembered at most.
const REMEMBERED_MOST: usize = 1024;

/// The header in which a server proves to another one that it is the one that was asked.
pub(crate) const ANSWERED_BY: &str = "threadline-node";

/// A token as the records hold it.
pub(crate) type TokenHash = [u8; 32];

/// What the operator decided about callers.
#[derive(Clone, Debug, Default)]
pub struct GateConfig {
    /// The address that the server listens on, as `host:port`.
    pub listen: String,
    /// The port, which the cookie's name carries.
    pub port: u16,
    /// How people reach the server, when that is not the listen address.
    pub public_url: Option<String>,
    /// How other servers on the same database reach it.
    pub advertise: Option<String>,
    /// Origins that may call with a bearer token. `http://localhost:*` stands for any port.
    pub allowed_origins: Vec<String>,
    /// Paths that answer without a token. A trailing `*` stands for anything.
    pub open_paths: Vec<String>,
    /// Requests that one token may make in a second, on average; 0 is any number.
    pub rate_per_second: u32,
}

/// The gate in front of every route.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    config: GateConfig,
    engine: Engine,
    remembered: RwLock<HashMap<TokenHash, (Instant, Principal)>>,
    rate: Option<Rate>,
}

impl Gate {
    /// A gate that knows its callers from the engine's records.
    pub fn new(config: GateConfig, engine: Engine) -> Self {
        Self(Arc::new(Inner {
            rate: Rate::new(config.rate_per_second),
            config,
            engine,
            remembered: RwLock::default(),
        }))
    }

    /// The cookie of our own pages. Its name carries the port: browsers share cookies across ports.
    pub fn cookie_name(port: u16) -> String {
        format!("threadline_{port}")
    }

    /// The layer itself, for `axum::middleware::from_fn_with_state`.
    pub async fn check(State(gate): State<Self>, mut request: Request, next: Next) -> Response {
        let (method, uri) = (request.method(), request.uri());
        match gate.pass(method, uri, request.headers()).await {
            Ok(mut pass) => {
                if let Some(caller) = pass.caller.take() {
                    let path = request.uri().path();
                    if let Err(fault) = access::check_route(&caller, request.method(), path) {
                        return pass.marked(Refusal(fault).into_response());
                    }
                    request.extensions_mut().insert(caller);
                }
                request.extensions_mut().insert(pass.way);
                pass.marked(next.run(request).await)
            }
            Err(answer) => answer,
        }
    }

    /// Lets a request in, or answers it here.
    pub(crate) async fn pass(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Pass, Response> {
        let origin = self
            .origin(uri, headers)
            .map_err(|fault| Refusal(fault).into_response())?;
        let cross = match &origin {
            Origin::Allowed(value) => Some(value.clone()),
            Origin::None | Origin::Ours => None,
        };
        let mut pass = Pass {
            caller: None,
            token: None,
            way: Way::Direct,
            passed: None,
            cross,
        };
        if *method == Method::OPTIONS && pass.cross.is_some() {
            return Err(pass.marked(StatusCode::NO_CONTENT.into_response()));
        }
        if let Some(sealed) = forwarded(headers) {
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            let passed = self.0.engine.passed(sealed, method.as_str(), path).await;
            let passed = passed.map_err(|fault| Refusal(fault).into_response())?;
            pass.caller = passed.caller.clone();
            pass.way = Way::Forwarded { body: passed.body };
            pass.passed = Some((self.0.engine.clone(), passed));
            return Ok(pass);
        }
        match self.caller(headers, method, &origin).await {
            Ok((caller, token)) => {
                if let Err(wait) = self.count(&token) {
                    return Err(pass.marked(too_many(wait)));
                }
                pass.caller = Some(caller);
                pass.token = Some(token);
            }
            Err(_) if self.is_open(uri.path()) => {}
            Err(fault) => return Err(pass.marked(Refusal(fault).into_response())),
        }
        Ok(pass)
    }

    fn is_open(&self, path: &str) -> bool {
        self.0
            .config
            .open_paths
            .iter()
            .any(|open| match open.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == open,
            })
    }

    fn origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<Origin, Fault> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts
            .next()
            .and_then(|h| h.to_str().ok())
            .unwrap_or_default();
        // Said twice or said otherwise in the request's first line, it could mean either.
        let said_once =
            hosts.next().is_none() && uri.authority().is_none_or(|a| a.as_str() == host);
        if !said_once || !self.host_is_ours(host) {
            return Err(Fault::new(
                Code::HostNotAllowed,
                format!(
                    "The Host `{host}` is not this server's. {}",
                    Code::HostNotAllowed.advice()
                ),
            ));
        }
        let Some(value) = headers.get(header::ORIGIN) else {
            return Ok(Origin::None);
        };
        let text = value.to_str().unwrap_or("not text");
        if text == format!("http://{host}")
            || self
                .0
                .config
                .public_url
                .as_deref()
                .is_some_and(|url| url.trim_end_matches('/') == text)
        {
            return Ok(Origin::Ours);
        }
        let fits = |allowed: &String| match allowed.strip_suffix(":*") {
            Some(prefix) => text
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix(':'))
                .is_some_and(|port| port.parse::<u16>().is_ok()),
            None => text == allowed.trim_end_matches('/'),
        };
        if self.0.config.allowed_origins.iter().any(fits) {
            return Ok(Origin::Allowed(value.clone()));
        }
        Err(Fault::new(
            Code::OriginNotAllowed,
            format!(
                "The Origin `{text}` may not call this server. {}",
                Code::OriginNotAllowed.advice()
            ),
        ))
    }

    /// An address can only be reached as itself; a name could be anybody's (DNS rebinding), so
    /// only the names that the operator gave count.
    fn host_is_ours(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => host,
        };
        let bare = name
            .strip_prefix('[')
            .and_then(|n| n.strip_suffix(']'))
            .unwrap_or(name);
        let named = |url: &str| {
            url.split("://")
                .last()
                .unwrap_or(url)
                .split(['/', ':'])
                .next()
                .is_some_and(|h| h.eq_ignore_ascii_case(name))
        };
        name.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok()
            || named(&self.0.config.listen)
            || self.0.config.public_url.as_deref().is_some_and(named)
            || self.0.config.advertise.as_deref().is_some_and(named)
    }

    async fn caller(
        &self,
        headers: &HeaderMap,
        method: &Method,
        origin: &Origin,
    ) -> Result<(Principal, TokenHash), Fault> {
        let token = match headers.get(header::AUTHORIZATION) {
            Some(value) => bearer(value).ok_or_else(refused)?,
            None if cookie_counts(headers, method, origin) => {
                self.cookie(headers).ok_or_else(refused)?
            }
            None => return Err(refused()),
        };
        let hash = hash_of(&token);
        Ok((self.known(&hash).await?, hash))
    }

    /// Counts a request of this token, or says after how many seconds it may come again.
    pub(crate) fn count(&self, token: &TokenHash) -> Result<(), u64> {
        match &self.0.rate {
            Some(rate) => rate.take(token),
            None => Ok(()),
        }
    }

    /// Whose token this is, as far as is known by now: a connection that stays open asks again for
    /// each of its requests.
    pub(crate) async fn known(&self, hash: &TokenHash) -> Result<Principal, Fault> {
        if let Some(caller) = self.recall(hash) {
            return Ok(caller);
        }
        let record = self
            .0
            .engine
            .store()
            .token_by_hash(hash)
            .await?
            .ok_or_else(refused)?;
        let caller = record.principal();
        let mut remembered = self
            .0
            .remembered
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_MOST {
            remembered.clear();
        }
        remembered.insert(*hash, (Instant::now(), caller.clone()));
        Ok(caller)
    }

    fn recall(&self, hash: &TokenHash) -> Option<Principal> {
        let remembered = self
            .0
            .remembered
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        remembered
            .get(hash)
            .filter(|(at, _)| at.elapsed() < REMEMBERED)
            .map(|(_, caller)| caller.clone())
    }

    fn cookie(&self, headers: &HeaderMap) -> Option<String> {
        let wanted = Self::cookie_name(self.0.config.port);
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(';'))
            .find_map(|pair| {
                let (name, value) = pair.trim().split_once('=')?;
                (name == wanted).then(|| value.to_owned())
            })
    }
}

/// The pass of another server on the same database, where one asks.
fn forwarded(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, pass) = value.split_once(' ')?;
    (scheme == FORWARDED_SCHEME).then_some(pass)
}

/// What is said to whoever asks too often.
pub(crate) fn too_often(wait: u64) -> Fault {
    Fault::new(
        Code::RateLimited,
        format!("That is more than one token may ask for. Come again in {wait} seconds."),
    )
    .with("retryAfter", wait)
}

fn too_many(wait: u64) -> Response {
    let after = [(header::RETRY_AFTER, wait.to_string())];
    (after, Refusal(too_often(wait))).into_response()
}

fn refused() -> Fault {
    Fault::new(Code::Unauthorized, Code::Unauthorized.advice())
}

/// How the records know a token.
pub(crate) fn hash_of(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

enum Origin {
    None,
    Ours,
    Allowed(HeaderValue),
}

fn bearer(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.trim();
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            Some(token.trim().to_owned())
        }
        Some(_) => None,
        None => Some(text.to_owned()),
    }
}

/// `Sec-Fetch-*` headers are the browser's own word; no page can forge them. `none` is a person who
/// typed the address or used a bookmark, which can only ever open a page.
fn cookie_counts(headers: &HeaderMap, method: &Method, origin: &Origin) -> bool {
    let said = |name: &str| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    match origin {
        Origin::Ours => true,
        Origin::Allowed(_) => false,
        Origin::None => match said("sec-fetch-site").as_str() {
            "same-origin" => true,
            "none" => *method == Method::GET && said("sec-fetch-mode") == "navigate",
            _ => false,
        },
    }
}

/// What the gate found out about a request that it let in.
pub(crate) struct Pass {
    /// Who calls; nobody where the path is open to all.
    pub(crate) caller: Option<Principal>,
    /// By which token.
    pub(crate) token: Option<TokenHash>,
    /// Straight from its caller, or by way of another server.
    pub(crate) way: Way,
    /// The pass of another server, to which the answer is proven.
    passed: Option<(Engine, Passed)>,
    /// The other origin that may read the answer.
    cross: Option<HeaderValue>,
}

/// How a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From its caller.
    Direct,
    /// From another server on the same database: it is answered here and goes no further.
    Forwarded {
        /// The digest that its body must have.
        body: [u8; 32],
    },
}

impl Pass {
    /// The answer, with what a browser needs to show it to the page of another origin.
    pub(crate) fn marked(self, mut response: Response) -> Response {
        if let Some((engine, passed)) = &self.passed {
            let seal = engine.seal_answer(passed, response.status().as_u16());
            let seal = seal.ok().and_then(|s| HeaderValue::from_str(&s).ok());
            // Without one the answer is not believed, which is all that can be done about it.
            if let Some(seal) = seal {
                response.headers_mut().insert(ANSWERED_BY, seal);
            }
        }
        if let Some(origin) = self.cross {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::VARY, HeaderValue::from_static("Origin"));
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static("GET, POST, OPTIONS"),
            );
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static("authorization, content-type, last-event-id"),
            );
        }
        response
    }
}
