//! The connection to an OpenClaw gateway: kept up by one task, used by everybody.

mod backoff;
mod closed_door;
mod conn;
mod handshake;
mod identity;
mod refusal;
mod seen;
mod silence;
mod tls;
mod wire;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use threadline_contract::{Fault, Millis, gateway_agent};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    closed_door::NO_ANSWER,
    conn::{CallError, Conn, Second},
    tls::trust,
    wire::{Hello, WireError},
};
use self::{
    conn::TURNED_AWAY,
    handshake::NotOpened,
    identity::Identity,
    seen::Seen,
    wire::{Defaults, OfRun},
};

/// Events about what people are asked.
const ASKING: [&str; 4] = [
    "question.requested",
    "question.resolved",
    "exec.approval.requested",
    "exec.approval.resolved",
];
/// What is said to somebody who waited for one that is not there.
const START_IT: &str =
    "Start it with `openclaw gateway run`, or check `openclaw.url`, and send the task again.";
/// How long a gateway that is up may take to greet once more.
const GREETING: Duration = Duration::from_secs(3);
/// How long a gateway that stops waits for its runs, at most.
const DRAINING: Duration = Duration::from_secs(330);

/// How a gateway is reached.
#[derive(Clone)]
pub(crate) struct GatewayConfig {
    /// Its address: `ws://` or `wss://`.
    pub(crate) url: String,
    /// Its token.
    pub(crate) token: Option<String>,
    /// Whom to believe behind `wss://`, when not everybody whom browsers believe.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// Where this machine's identity lies.
    pub(crate) identity: PathBuf,
    /// Ask for admin rights, which the plugin of others wants.
    pub(crate) admin: bool,
    /// Our version.
    pub(crate) version: String,
}

impl GatewayConfig {
    /// What we want to be allowed: no more than turns, their questions and files need. A gateway asks
    /// only administrators for leave to run the commands of our turns.
    fn scopes(&self) -> &'static [&'static str] {
        match self.admin {
            false => &["operator.read", "operator.write", "operator.questions"],
            true => &[
                "operator.read",
                "operator.write",
                "operator.questions",
                "operator.approvals",
                "operator.admin",
            ],
        }
    }

    /// What we can do beside that.
    fn caps(&self) -> &'static [&'static str] {
        match self.admin {
            false => &["tool-events"],
            true => &["tool-events", "approvals"],
        }
    }
}

/// How the connection stands.
#[derive(Clone)]
pub(crate) enum Link {
    /// Nobody knows yet.
    New,
    /// It is up.
    Up(Arc<Conn>),
    /// It is not, and is tried again. `worked`: it was up before.
    Down {
        /// Why.
        why: String,
        /// It was up before, and not long ago: it may be restarting.
        restarting: bool,
    },
    /// Somebody has to do something.
    Refused {
        /// What.
        instruction: String,
        /// When somebody who asks may have it tried again.
        again: Instant,
    },
}

impl Link {
    /// Why it cannot be asked.
    fn why(&self) -> String {
        match self {
            Self::New => "The OpenClaw gateway does not answer.".to_owned(),
            Self::Up(_) => "The OpenClaw gateway is stopping.".to_owned(),
            Self::Down { why, .. } => why.clone(),
            Self::Refused { instruction, .. } => instruction.clone(),
        }
    }
}

/// Somebody who follows a run: told of its events as they come, on the socket's task, so it only
/// takes note.
pub(crate) trait Listener: Send + Sync {
    /// An event of the run.
    fn hear(&self, event: &str, payload: &RawValue);
}

/// A gateway. Cloning is cheap; the connection ends with [`Gateway::stop`].
#[derive(Clone)]
pub(crate) struct Gateway(Arc<Inner>);

struct Inner {
    config: GatewayConfig,
    identity: Mutex<Identity>,
    link: watch::Sender<Link>,
    /// Whether it is up, and since when.
    stands: Mutex<Option<(bool, Millis)>>,
    poke: Notify,
    /// How many turns wait for it.
    wanted: AtomicUsize,
    listeners: Mutex<HashMap<String, Weak<dyn Listener>>>,
    seen: Mutex<Seen>,
    /// How often the connection was lost.
    lost: AtomicU64,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Gateway {
    /// How often the connection was lost.
    pub(crate) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Begins to connect, and to stay connected.
    pub(crate) fn connect(config: GatewayConfig) -> Result<Self, Fault> {
        let identity = Identity::open(config.identity.clone())?;
        let (link, _) = watch::channel(Link::New);
        let inner = Arc::new(Inner {
            config,
            identity: Mutex::new(identity),
            link,
            stands: Mutex::default(),
            poke: Notify::new(),
            wanted: AtomicUsize::new(0),
            listeners: Mutex::default(),
            seen: Mutex::default(),
            lost: AtomicU64::new(0),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        inner.tasks.spawn(keep(Arc::clone(&inner)));
        Ok(Self(inner))
    }

    /// Ends the connection.
    pub(crate) async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// How the connection stands now.
    pub(crate) fn link(&self) -> Link {
        self.0.link.borrow().clone()
    }

    /// Since when the connection is up, or is not.
    pub(crate) fn stands_since(&self) -> Option<Millis> {
        lock(&self.0.stands).map(|(_, since)| since)
    }

    /// Waits until the gateway refuses us, and tells what somebody has to do.
    pub(crate) async fn refused(&self) -> String {
        let mut link = self.0.link.subscribe();
        let refused = link.wait_for(|link| matches!(link, Link::Refused { .. }));
        match refused.await.map(|link| link.why()) {
            Ok(why) => why,
            // It will not any more.
            Err(_) => std::future::pending().await,
        }
    }

    /// Where it leads, without secrets.
    pub(crate) fn url(&self) -> &str {
        &self.0.config.url
    }

    /// The agent that works there when none is named, by what it said last.
    pub(crate) fn default_agent(&self) -> Option<String> {
        let identity = lock(&self.0.identity);
        identity.default_agent(self.url()).map(str::to_owned)
    }

    /// Waits for the connection. A gateway that is restarting is waited for longer than one that was
    /// never there.
    pub(crate) async fn wait_up(
        &self,
        never: Duration,
        restarting: Duration,
    ) -> Result<Arc<Conn>, CallError> {
        self.wait_for(Conn::is_open, never, restarting).await
    }

    /// Waits for the connection for as long as it takes, also after a refusal: somebody may do what it
    /// asks for.
    pub(crate) async fn wait_back(&self) -> Arc<Conn> {
        let mut link = self.0.link.subscribe();
        loop {
            if let Link::Up(conn) = &*link.borrow_and_update()
                && conn.is_open()
            {
                return Arc::clone(conn);
            }
            if link.changed().await.is_err() {
                // It will not come back.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The same, for new work: a gateway that is about to stop does not count.
    pub(crate) async fn wait_for_work(
        &self,
        never: Duration,
        restarting: Duration,
    ) -> Result<Arc<Conn>, CallError> {
        self.wait_for(Conn::takes_work, never, restarting).await
    }

    /// The same, for a turn that shall begin: it is in no hurry, and as long as it waits the gateway is
    /// looked for closely, also one that was never there.
    pub(crate) async fn wait_to_begin(&self, patience: Duration) -> Result<Arc<Conn>, CallError> {
        let _wanted = Wanted::new(&self.0);
        let waited = self.wait_for(Conn::takes_work, patience, patience).await;
        waited.map_err(|error| match (error, self.link()) {
            (CallError::Offline(why), Link::New | Link::Down { .. }) => {
                CallError::Offline(format!("{why} {START_IT}"))
            }
            (error, _) => error,
        })
    }

    /// Reads anew what the gateway can do. A plugin comes and goes while the gateway runs, which says so
    /// only when it greets: so it is made to greet once more, beside the connection that is in use.
    pub(crate) async fn read_features(&self, conn: &Conn) {
        let opening = Box::pin(handshake::open(&self.0.config, &self.0.identity));
        match timeout(GREETING, opening).await {
            Ok(Ok((mut socket, hello))) => {
                if hello.server.boot == conn.boot() {
                    conn.hello().learn(hello);
                }
                let _ = timeout(GREETING, socket.close(None)).await;
            }
            Ok(Err(not_opened)) => {
                tracing::debug!("its features stay as they were: {not_opened:?}")
            }
            Err(_) => tracing::debug!("its features stay as they were: it does not greet"),
        }
    }

    async fn wait_for(
        &self,
        fits: fn(&Conn) -> bool,
        never: Duration,
        restarting: Duration,
    ) -> Result<Arc<Conn>, CallError> {
        let mut since = Instant::now();
        let mut stopping = false;
        let mut link = self.0.link.subscribe();
        loop {
            let now = link.borrow_and_update().clone();
            let most = match &now {
                Link::Up(conn) if fits(conn) => return Ok(Arc::clone(conn)),
                // It waits for its runs, or just went: what comes next will be told.
                Link::Up(_) => {
                    stopping = true;
                    DRAINING
                }
                Link::Refused { .. } => return Err(CallError::Offline(now.why())),
                Link::New => never,
                Link::Down {
                    restarting: away, ..
                } => {
                    // Only now does it restart.
                    if std::mem::take(&mut stopping) {
                        since = Instant::now();
                    }
                    if *away { restarting } else { never }
                }
            };
            let why = now.why();
            let left = most.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(CallError::Offline(why));
            }
            let pause = if stopping { TURNED_AWAY } else { left };
            let changed = timeout(pause.min(left), link.changed()).await;
            if changed.is_err() && !stopping {
                return Err(CallError::Offline(why));
            }
        }
    }

    /// Tries at once, also after a refusal: somebody may have done what it asked for.
    pub(crate) fn try_again(&self) {
        if matches!(&*self.0.link.borrow(), Link::Refused { .. }) {
            self.0.set(Link::New);
            self.0.poke.notify_one();
        }
    }

    /// Lets somebody hear the events of a run, as long as they are there.
    pub(crate) fn listen(&self, run: &str, listener: &Arc<impl Listener + 'static>) {
        let weak: Weak<dyn Listener> = Arc::downgrade(listener) as Weak<dyn Listener>;
        let mut listeners = self.listeners();
        listeners.retain(|_, l| l.strong_count() > 0);
        listeners.insert(run.to_owned(), weak);
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<String, Weak<dyn Listener>>> {
        lock(&self.0.listeners)
    }

    /// Whether a run of another session was seen at work between two times of ours.
    pub(crate) fn others_between(&self, session: &str, from: Millis, to: Millis) -> bool {
        lock(&self.0.seen).others_between(session, from, to)
    }
}

impl Inner {
    fn set(&self, link: Link) {
        let is_up = matches!(link, Link::Up(_));
        {
            let mut stands = lock(&self.stands);
            if stands.is_none_or(|(was_up, _)| was_up != is_up) {
                *stands = Some((is_up, Millis::now()));
            }
        }
        self.link.send_replace(link);
    }

    fn note_defaults(&self, defaults: &Defaults) {
        let Some(agent) = defaults.agent.as_deref().and_then(gateway_agent) else {
            return;
        };
        if let Err(fault) = lock(&self.identity).keep_default_agent(&self.config.url, &agent) {
            tracing::warn!(%fault, "the gateway's default agent could not be kept");
        }
    }

    fn hear(&self, event: &str, payload: &RawValue) {
        if event == "health" {
            // Its settings may have changed while it runs.
            self.note_defaults(&serde_json::from_str(payload.get()).unwrap_or_default());
            return;
        }
        let work = matches!(event, "agent" | "chat");
        if !work && !ASKING.contains(&event) {
            return;
        }
        let Ok(of) = serde_json::from_str::<OfRun>(payload.get()) else {
            return;
        };
        let listeners: Vec<_> = match of.run() {
            Some(run) => {
                if work {
                    lock(&self.seen).note(run, &of.session_key, Millis::now(), of.is_last());
                }
                let listener = lock(&self.listeners).get(run).and_then(Weak::upgrade);
                listener.into_iter().collect()
            }
            // The end of a question names the question alone. Whoever asked it knows it.
            None if !work => lock(&self.listeners)
                .values()
                .filter_map(Weak::upgrade)
                .collect(),
            None => return,
        };
        for listener in listeners {
            listener.hear(event, payload);
        }
    }
}

/// A turn that waits for the gateway.
struct Wanted<'a>(&'a Inner);

impl<'a> Wanted<'a> {
    fn new(inner: &'a Inner) -> Self {
        inner.wanted.fetch_add(1, Ordering::Relaxed);
        if matches!(&*inner.link.borrow(), Link::Down { .. }) {
            inner.poke.notify_one();
        }
        Self(inner)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.wanted.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the connection up until it is stopped.
async fn keep(inner: Arc<Inner>) {
    // When a gateway that worked went away, and how many tries failed since.
    let mut gone: Option<Instant> = None;
    let mut tries = 0;
    // What it refused us for, and how often in a row.
    let mut refused: Option<(String, u32)> = None;
    while !inner.stop.is_cancelled() {
        let opening = handshake::open(&inner.config, &inner.identity);
        let opened = tokio::select! {
            opened = opening => opened,
            () = inner.stop.cancelled() => return,
        };
        let (why, asked) = match opened {
            Ok((socket, hello)) => {
                tracing::info!(version = %hello.server.version, boot = %hello.server.boot, scopes = ?hello.auth.scopes, "Connected to the OpenClaw gateway at {}", inner.config.url);
                inner.note_defaults(&hello.snapshot.session_defaults);
                refused = None;
                let (conn, wires) = Conn::new(socket, hello);
                let conn = Arc::new(conn);
                inner.set(Link::Up(Arc::clone(&conn)));
                let hear = |event: &str, payload: &RawValue| inner.hear(event, payload);
                let why = conn.carry(wires, &inner.stop, hear).await;
                tracing::warn!(
                    "The OpenClaw gateway at {} is gone: {why}",
                    inner.config.url
                );
                inner.lost.fetch_add(1, Ordering::Relaxed);
                (gone, tries) = (Some(Instant::now()), 0);
                (why, None)
            }
            Err(NotOpened::Refused { instruction, again }) => {
                let times = match refused.take() {
                    Some((before, times)) if before == instruction => times + 1,
                    _ => {
                        tracing::error!("{instruction}");
                        0
                    }
                };
                refused = Some((instruction.clone(), times));
                let dice = threadline_retry::dice();
                let pause = backoff::after_refusal(times, again, dice);
                let again = Instant::now() + again;
                inner.set(Link::Refused { instruction, again });
                tokio::select! {
                    () = sleep(pause) => continue,
                    () = inner.poke.notified() => continue,
                    () = inner.stop.cancelled() => return,
                }
            }
            Err(NotOpened::Failed { why, asked }) => {
                tracing::debug!("{why}");
                (why, asked)
            }
        };
        let dice = threadline_retry::dice();
        let away = gone.map(|gone| gone.elapsed());
        let close = backoff::is_close(away) || inner.wanted.load(Ordering::Relaxed) > 0;
        let pause = backoff::pause(close, tries, asked, dice);
        if !close {
            tries = tries.saturating_add(1);
        }
        inner.set(Link::Down {
            why,
            restarting: backoff::is_close(away),
        });
        tokio::select! {
            () = sleep(pause) => {}
            () = inner.poke.notified() => {}
            () = inner.stop.cancelled() => {}
        }
    }
}
