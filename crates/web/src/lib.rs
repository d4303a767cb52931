//! The pages, and the local API that the command line shares with them.
//!
//! Pages are rendered here, whole, from what the app says ([`Local`]); in the browser, small ES
//! modules keep them live over one event stream and swap what changed. Every page works from its
//! address alone, and its forms also without script.
//!
//! The gate of `threadline-server` must be laid over the routes: it decides who calls. Here it is
//! only asked whether that is the account that this machine's own pages belong to.

mod act;
mod assets;
mod enter;
mod events;
mod files;
mod guard;
mod kind;
mod local;
mod markdown;
mod pages;
mod rpc;
mod seal;
mod shown;
mod table;
mod urls;
mod words;

use std::sync::Arc;

use axum::{
    Router,
    middleware::{from_fn, map_response},
    routing::{any, get, post},
};
use threadline_contract::{Code, Fault};
use threadline_server::Refusal;
use tokio_util::sync::CancellationToken;

pub use enter::Mint;
pub use guard::friendly;
pub use local::{Events, Local, Pending};

/// What is read where there are no pages.
const NO_PAGES: &str = "This is the bridge alone, without pages. End `threadline serve` and run `threadline up`, which is the same bridge with pages.";

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The pages and the local API.
    Pages,
    /// The local API alone: enough for the command line.
    ApiOnly,
}

impl Serving {
    /// Paths that answer without a token, for the gate: the one-time link, and what every page loads;
    /// or the one at which people look for pages.
    pub const fn open_paths(self) -> &'static [&'static str] {
        match self {
            Self::Pages => &["/enter", "/assets/*"],
            Self::ApiOnly => &["/"],
        }
    }
}

/// What the handlers share. Cheap to clone.
#[derive(Clone)]
pub struct Web {
    app: Arc<dyn Local>,
    entry: Arc<enter::Entry>,
    stop: CancellationToken,
}

impl Web {
    /// `port` is the one that people reach the pages at (the cookie's name carries it), `mint`
    /// makes the token that a browser gets, and `stop` ends open streams.
    pub fn new(app: Arc<dyn Local>, port: u16, mint: Mint, stop: CancellationToken) -> Self {
        let entry = Arc::new(enter::Entry::new(port, mint));
        Self { app, entry, stop }
    }

    /// The path of a link that lets one browser in, once, within ten minutes.
    pub fn new_entry_path(&self) -> String {
        self.entry.new_path()
    }
}

/// The routes. The gate must be laid over them, and [`friendly`] over the gate.
pub fn router(web: Web, serving: Serving) -> Router {
    let api = Router::new()
        .route("/app/rpc", any(rpc::handle))
        .route("/app/events", get(events::handle))
        .route("/app/entry", post(enter::new_link))
        .route("/app/files/{thread}/{*path}", get(files::handle))
        .layer(from_fn(guard::local_only));
    let routes = match serving {
        Serving::ApiOnly => api.route("/", get(no_pages)).fallback(nothing_here),
        Serving::Pages => api.merge(pages()),
    };
    routes.with_state(web)
}

fn pages() -> Router<Web> {
    let own = Router::new()
        .route("/", get(pages::home::handle))
        .route("/threads", get(pages::threads::handle))
        .route("/threads/{name}", get(pages::thread::handle))
        .route("/threads/{name}/files/{*path}", get(pages::preview::handle))
        .route("/new", get(pages::new::handle))
        .route("/operator", get(pages::operator::overview))
        .route("/operator/runs", get(pages::operator::runs))
        .route("/operator/sessions", get(pages::operator::sessions))
        .route("/do", post(act::handle))
        .layer(from_fn(guard::local_only));
    let open = Router::new()
        .route("/enter", get(enter::handle))
        .route("/assets/{version}/{name}", get(assets::handle))
        .route("/favicon.ico", get(assets::icon));
    own.merge(open)
        .fallback(nothing_here)
        .layer(map_response(seal::page))
}

async fn nothing_here() -> Refusal {
    Refusal(Fault::new(Code::NotFound, Code::NotFound.advice()))
}

async fn no_pages() -> Refusal {
    Refusal(Fault::new(Code::NotFound, NO_PAGES))
}
