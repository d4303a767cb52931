//! Putting the parts together: lock, socket, records, runtimes, engine, app, routes; and taking them
//! apart again in the order in which nothing is lost.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::middleware::from_fn_with_state;
use threadline_app::{App, Config as AppConfig, Endpoint};
use threadline_contract::{AccountId, Code, Fault, Millis, RuntimeId};
use threadline_engine::{Engine, EngineConfig, ToolExecutors};
use threadline_files::{Lock, LockError};
use threadline_runtimes::Runtime;
use threadline_server::{Activity, Bridge, Door, Gate, GateConfig};
use threadline_store::{Store, StoreConfig};
use threadline_web::{Mint, Serving, Web};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::{
    Mode, Places, State, VERSION, listen, log,
    node::{self, Name},
    runtimes,
    state::settings,
    stop::{Signals, unneeded},
    storage, token,
};
use crate::config::Config;

/// How long a lock may be held by somebody who only looks who has it. Not longer: whoever waits for
/// an owner's end would become one that nobody asked for.
const LOOKERS: Duration = Duration::from_millis(150);
/// How long the parts may take to end.
const LAST_ORDERS: Duration = Duration::from_secs(20);
/// How long a download link holds.
const LINK_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a lease holds without being renewed.
const LEASE_TTL: Duration = Duration::from_secs(30);

/// An owner that is ready.
pub(crate) struct Started {
    /// Where it answers.
    pub(crate) url: String,
    /// A one-time link to its pages.
    pub(crate) entry: Option<String>,
}

/// The process that started this one, when it speaks with it.
pub(crate) struct Parent {
    says: Box<dyn Read + Send>,
    hears: Box<dyn Write + Send>,
}

impl Parent {
    /// Over standard input and output.
    pub(crate) fn of_this_process() -> Self {
        Self {
            says: Box::new(std::io::stdin()),
            hears: Box::new(std::io::stdout()),
        }
    }
}

/// Owns the data folder until a signal comes, its parent leaves or, in the background, nobody needs it
/// any more. Binds the address, unless that was done before.
pub(crate) async fn run(
    config: Arc<Config>,
    mode: Mode,
    parent: Option<Parent>,
    socket: Option<TcpListener>,
    ready: impl FnOnce(&Started),
) -> Result<(), Fault> {
    listen::allowed(&config.server)?;
    let places = Places::new(&config.data);
    places.make()?;
    let lock = hold(&places).await?;
    log::start(&config.log, mode, &places)?;
    let mut signals = Signals::listen()?;
    let listener = match socket {
        Some(socket) => socket,
        None => listen::bind(&config.server, mode).await?,
    };
    let address = listener
        .local_addr()
        .map_err(|e| Fault::new(Code::Internal, format!("The socket has no address: {e}.")))?;
    let url = listen::url(address);
    let metrics = match config.server.metrics {
        Some(address) => Some(listen::bind_to(address).await?),
        None => None,
    };

    let parts = Parts::open(&config, &places, &url).await?;
    let stop = CancellationToken::new();
    let activity = Activity::new();
    let gate = parts.gate(&config, mode, address);
    let (door, web) = parts.door(&config, gate.clone(), mode, address, &activity, &stop);
    if let Some(metrics) = metrics {
        let (counted, engine) = (door.metrics().clone(), parts.engine.clone());
        let watched = (activity.clone(), stop.clone());
        tokio::spawn(threadline_server::serve_metrics(
            metrics, counted, watched.0, engine, watched.1,
        ));
    }
    let server = tokio::spawn(threadline_server::serve(listener, door, stop.clone()));
    let state = State {
        pid: std::process::id(),
        url: url.clone(),
        version: VERSION.to_owned(),
        started_at: Millis::now(),
        mode,
        settings: settings(&config, &parts.token),
    };
    state.write(&places)?;
    info!(mode = ?mode, version = VERSION, "Ready at {url}, data in {}", config.data.display());
    let public = config.server.public_url.as_deref().unwrap_or(&url);
    let entry = (mode == Mode::Up).then(|| format!("{public}{}", web.new_entry_path()));
    ready(&Started { url, entry });

    let mut ended = Ok(());
    let idle = config.idle.filter(|_| mode == Mode::Background);
    tokio::select! {
        name = signals.next() => info!("Stopping, because {name} came"),
        () = unneeded(idle, &activity, || parts.busy()) => info!("Stopping, because nobody needed it for a while"),
        () = state.keep(&places) => {}
        fault = parts.engine.replaced() => ended = Err(fault),
        heard = parts.parent(parent, gate, &stop) => match heard {
            Ok(()) => info!("Stopping, because the input ended"),
            Err(fault) => error!("Stopping, because the input cannot be read: {fault}"),
        },
    }
    // New commands shall not find an owner that is about to go.
    let _ = std::fs::remove_file(places.state());
    stop.cancel();
    let ending = async {
        parts.close().await;
        if let Err(e) = server.await {
            error!(error = %e, "The server ended badly");
        }
        parts.close_store().await;
    };
    tokio::select! {
        ended = tokio::time::timeout(LAST_ORDERS, ending) => if ended.is_err() {
            error!("Not everything ended in {} seconds; what is left is taken up at the next start", LAST_ORDERS.as_secs());
        },
        name = signals.next() => error!("Ending at once, because {name} came again"),
    }
    drop(lock);
    info!("Stopped");
    ended
}

/// Takes the folder's lock. A command that looks who owns it holds it for an instant.
async fn hold(places: &Places) -> Result<Lock, Fault> {
    let begun = std::time::Instant::now();
    loop {
        match Lock::try_acquire(places.lock()) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held { pid, .. }) if begun.elapsed() > LOOKERS => {
                let who = pid.map_or("Another process".to_owned(), |pid| format!("Process {pid}"));
                return Err(Fault::new(
                    Code::DataFolderInUse,
                    format!("{who} owns {}.", places.data().display()),
                ));
            }
            Err(LockError::Held { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(LockError::Files(e)) => return Err(storage(e)),
        }
    }
}

/// What the owner is made of.
struct Parts {
    token: String,
    store: Store,
    runtimes: Vec<Arc<dyn Runtime>>,
    engine: Engine,
    app: App,
}

impl Parts {
    async fn open(config: &Config, places: &Places, url: &str) -> Result<Self, Fault> {
        let token = token::read_or_make(places)?;
        let store = Store::open(StoreConfig::new(config.database.expose()))
            .await
            .map_err(|e| {
                let cause = std::error::Error::source(&e)
                    .map(|c| format!(" ({c})"))
                    .unwrap_or_default();
                let fault = Fault::from(e);
                Fault {
                    message: format!("{}{cause}", fault.message),
                    ..fault
                }
            })?;
        let node = node::read_or_make(places)?;
        let name = &node.name;
        store
            .ensure_account(&AccountId::local(), Millis::now())
            .await?;
        token::admit(&store, &token, &format!("token file of {name}")).await?;
        if let Some(own) = &config.server.token {
            token::admit(&store, own.expose(), &format!("THREADLINE_TOKEN of {name}")).await?;
        }
        let runtimes = runtimes::all(config, places).await?;
        let engine = engine_config(config, places, node);
        let engine = Engine::open(
            engine,
            store.clone(),
            runtimes.clone(),
            ToolExecutors::default(),
        )
        .await?;
        let bridge = Endpoint {
            url: url.to_owned(),
            token: Some(token.clone()),
        };
        let app = App::open(app_config(config, places, bridge)).await?;
        Ok(Self {
            token,
            store,
            runtimes,
            engine,
            app,
        })
    }

    fn gate(&self, config: &Config, mode: Mode, address: SocketAddr) -> Gate {
        let open_paths = serving(config, mode).open_paths();
        let open_paths = ["/health"].iter().chain(open_paths);
        let gate = GateConfig {
            listen: address.to_string(),
            port: address.port(),
            public_url: config.server.public_url.clone(),
            advertise: config.server.advertise.clone(),
            allowed_origins: config.server.allowed_origins.clone(),
            open_paths: open_paths.map(|&path| path.to_owned()).collect(),
            rate_per_second: config.server.rate_per_second,
        };
        Gate::new(gate, self.engine.clone())
    }

    /// Answers the parent until it leaves; waits for ever where there is none.
    async fn parent(
        &self,
        parent: Option<Parent>,
        gate: Gate,
        stop: &CancellationToken,
    ) -> Result<(), Fault> {
        let Some(parent) = parent else {
            return std::future::pending().await;
        };
        let bridge = Bridge {
            engine: self.engine.clone(),
            stop: stop.clone(),
        };
        threadline_server::stdio(bridge, gate, &self.token, parent.says, parent.hears).await
    }

    fn door(
        &self,
        config: &Config,
        gate: Gate,
        mode: Mode,
        address: SocketAddr,
        activity: &Activity,
        stop: &CancellationToken,
    ) -> (Door, Web) {
        let store = self.store.clone();
        let mint: Mint = Arc::new(move || {
            let store = store.clone();
            Box::pin(async move { token::mint(&store, "browser").await })
        });
        let mut web = Web::new(
            Arc::new(self.app.clone()),
            Arc::new(self.engine.clone()),
            address.port(),
            mint,
            stop.clone(),
        );
        let serving = serving(config, mode);
        if serving == Serving::PagesWithSignIn {
            let public = config.server.public_url.as_deref();
            let only_https = public.is_some_and(|url| url.starts_with("https://"));
            let sign_in = token::BrowserTokens(self.store.clone());
            web = web.with_sign_in(Arc::new(sign_in), only_https);
        }
        let bridge = Bridge {
            engine: self.engine.clone(),
            stop: stop.clone(),
        };
        let routes = threadline_server::router(bridge.clone())
            .merge(threadline_web::router(web.clone(), serving));
        let friendly = from_fn_with_state(serving, threadline_web::friendly);
        let routes = threadline_server::gated(routes, gate.clone()).layer(friendly);
        (Door::new(gate, bridge, routes, activity.clone()), web)
    }

    /// Whether anything goes on that nobody may be looking at.
    fn busy(&self) -> bool {
        self.engine.active() > 0 || self.app.busy() > 0
    }

    /// Ends the work: first who asks for it, then who does it. Every run goes on at the next start.
    async fn close(&self) {
        if let Err(fault) = self.app.close().await {
            error!("The app did not end well: {fault}");
        }
        self.engine.stop().await;
        for runtime in &self.runtimes {
            runtime.stop().await;
        }
    }

    /// Closes the records, after the last request that may read them.
    async fn close_store(&self) {
        if let Err(e) = self.store.close().await {
            error!(error = %e, "The database was not closed well: {e}");
        }
    }
}

const fn serving(config: &Config, mode: Mode) -> Serving {
    match mode {
        Mode::Serve if config.server.pages => Serving::PagesWithSignIn,
        Mode::Serve => Serving::ApiOnly,
        Mode::Up | Mode::Background => Serving::Pages,
    }
}

/// The app, with the same lane as the bridge: the smaller of the two would else be the only one that counts.
fn app_config(config: &Config, places: &Places, bridge: Endpoint) -> AppConfig {
    let turns = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    AppConfig {
        lane: threadline_app::LaneSize {
            active: turns(config.openclaw_lane.max_active),
            queued: turns(config.openclaw_lane.max_queued),
        },
        ..AppConfig::new(places.data().to_owned(), config.workspaces.clone(), bridge)
    }
}

fn engine_config(config: &Config, places: &Places, node: Name) -> EngineConfig {
    EngineConfig {
        node: node.name,
        renamed: node.renamed,
        advertise: config.server.advertise.clone(),
        data: places.data().to_owned(),
        protected: config.protected.clone(),
        attachments: places.attachments(),
        work_roots: config.work_roots.clone(),
        thread_folders: config.workspaces.clone(),
        auto_runtime: config.auto_runtime.clone(),
        agent_runtime: RuntimeId::Builtin,
        link_ttl: LINK_TTL,
        lease_ttl: LEASE_TTL,
        result_wait: Duration::from_secs(10),
        verify_wait: Duration::from_secs(5 * 60),
        keep: config.keep,
        cache_bytes: config.cache_bytes,
        rules: config.rules.clone(),
    }
}

#[cfg(test)]
#[path = "compose_tests.rs"]
mod tests;
