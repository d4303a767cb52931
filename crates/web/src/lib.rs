//! The pages, and the local API that the command line shares with them.
//!
//! Pages are rendered here, whole: those about threads from what the app says ([`Local`]), those about runs,
//! sessions and questions from what the engine says ([`EngineDoor`]), with the names that the app knows. In the
//! browser, small ES modules keep them live over one event stream and swap what changed. Every page works from
//! its address alone, and its forms also without script.
//!
//! The gate of `threadline-server` must be laid over the routes: it decides who calls. Here it is
//! only asked whether that is the account that the app belongs to.

mod access;
mod act;
mod assets;
mod engine_door;
mod enter;
mod events;
mod files;
mod guard;
mod kind;
mod local;
mod markdown;
mod operate;
mod pages;
mod rpc;
mod seal;
mod shown;
mod sign_in;
mod table;
mod urls;
mod words;

use std::sync::Arc;

use axum::{
    Router,
    middleware::{from_fn, map_response},
    routing::{any, get, post},
};
use threadline_contract::{Code, Fault, Principal};
use threadline_server::Refusal;
use tokio_util::sync::CancellationToken;

pub use engine_door::EngineDoor;
pub use enter::Mint;
pub use guard::friendly;
pub use local::{Events, Local, Pending};
pub use sign_in::SignIn;

/// What is read where there are no pages.
const NO_PAGES: &str = "This is the bridge alone, without pages. Start it as `threadline serve --pages` to have them here, or run `threadline up` on a machine of your own.";

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The pages and the local API, for whoever has a one-time link.
    Pages,
    /// The same, for whoever has a token of any account: each sees what is the account's.
    PagesWithSignIn,
    /// The local API alone: enough for the command line.
    ApiOnly,
}

impl Serving {
    /// Paths that answer without a token, for the gate: the one-time link, and what every page loads;
    /// or the one at which people look for pages.
    pub const fn open_paths(self) -> &'static [&'static str] {
        match self {
            Self::Pages => &["/enter", "/assets/*"],
            Self::PagesWithSignIn => &["/sign-in", "/sign-out", "/assets/*"],
            Self::ApiOnly => &["/"],
        }
    }
}

/// What the handlers share. Cheap to clone.
#[derive(Clone)]
pub struct Web {
    app: Arc<dyn Local>,
    engine: Arc<dyn EngineDoor>,
    desk: Option<sign_in::Desk>,
    entry: Arc<enter::Entry>,
    stop: CancellationToken,
}

impl Web {
    /// `port` is the one that people reach the pages at (the cookie's name carries it), `mint`
    /// makes the token that a browser gets, and `stop` ends open streams.
    pub fn new(
        app: Arc<dyn Local>,
        engine: Arc<dyn EngineDoor>,
        port: u16,
        mint: Mint,
        stop: CancellationToken,
    ) -> Self {
        Self {
            app,
            engine,
            desk: None,
            entry: Arc::new(enter::Entry::new(port, mint, false)),
            stop,
        }
    }

    /// The same, where people sign in with a token. `only_https` keeps the cookie from ever being sent unencrypted.
    #[must_use]
    pub fn with_sign_in(mut self, sign_in: Arc<dyn SignIn>, only_https: bool) -> Self {
        let entry = enter::Entry::new(self.entry.port, self.entry.mint.clone(), only_https);
        self.entry = Arc::new(entry);
        self.desk = Some(sign_in::Desk::new(sign_in));
        self
    }

    /// What somebody sees around every page.
    pub(crate) fn viewer(&self, by: &Principal) -> pages::Viewer {
        pages::Viewer {
            has_threads: by.account.is_local(),
            signs_out: self.desk.is_some(),
        }
    }

    /// The path of a link that lets one browser in, once, within ten minutes.
    pub fn new_entry_path(&self) -> String {
        self.entry.new_path()
    }
}

/// The routes. The gate must be laid over them, and [`friendly`] over the gate.
pub fn router(web: Web, serving: Serving) -> Router {
    let own = Router::new()
        .route("/app/events", get(events::handle))
        .route("/app/entry", post(enter::new_link))
        .route("/app/files/{thread}/{*path}", get(files::handle));
    let shared = Router::new().route("/app/rpc", any(rpc::handle));
    let routes = match serving {
        Serving::ApiOnly => guarded(own, shared, serving)
            .route("/", get(no_pages))
            .fallback(nothing_here),
        Serving::Pages | Serving::PagesWithSignIn => {
            let pages = guarded(
                own.merge(thread_pages()),
                shared.merge(shared_pages()),
                serving,
            );
            let ways_in = match serving {
                Serving::PagesWithSignIn => Router::new()
                    .route("/sign-in", get(sign_in::form).post(sign_in::enter))
                    .route("/sign-out", get(sign_in::leaving).post(sign_in::leave)),
                _ => Router::new().route("/enter", get(enter::handle)),
            };
            pages
                .merge(ways_in)
                .route("/assets/{version}/{name}", get(assets::handle))
                .route("/favicon.ico", get(assets::icon))
                .fallback(nothing_here)
                .layer(map_response(seal::page))
        }
    };
    routes.with_state(web)
}

/// `own` is the app's, which belongs to the machine's own account; `shared` has something for every account, where
/// all may sign in.
fn guarded(own: Router<Web>, shared: Router<Web>, serving: Serving) -> Router<Web> {
    let own = own.layer(from_fn(guard::local_only));
    own.merge(match serving {
        Serving::PagesWithSignIn => shared.layer(from_fn(guard::signed_in)),
        Serving::Pages | Serving::ApiOnly => shared.layer(from_fn(guard::local_only)),
    })
}

fn thread_pages() -> Router<Web> {
    Router::new()
        .route("/threads", get(pages::threads::handle))
        .route("/threads/{name}", get(pages::thread::handle))
        .route("/threads/{name}/files/{*path}", get(pages::preview::handle))
        .route("/new", get(pages::new::handle))
}

fn shared_pages() -> Router<Web> {
    Router::new()
        .route("/", get(pages::home::handle))
        .route("/operator", get(pages::operator::overview))
        .route("/operator/runs", get(pages::operator::runs))
        .route("/operator/sessions", get(pages::operator::sessions))
        .route("/do", post(act::handle))
}

async fn nothing_here() -> Refusal {
    Refusal(Fault::new(Code::NotFound, Code::NotFound.advice()))
}

async fn no_pages() -> Refusal {
    Refusal(Fault::new(Code::NotFound, NO_PAGES))
}
