//! Turns on an OpenClaw gateway.
//!
//! The gateway is the registry of its runs: it alone ends them, and it is asked, not guessed at. Its
//! plugin keeps the files of runs apart. What is remembered here is that a run was sent, and to which
//! start of the gateway, so that no turn is ever executed twice.

mod answer;
mod asks;
mod attachments;
mod ends;
mod evidence;
mod examine;
mod files;
mod follow;
mod gateway;
mod messages;
mod notes;
mod page;
mod read;
mod reply;
mod route;
mod session;
mod stops;
mod story;
mod transcript;
mod turn;
mod used;
mod waiting;
mod words;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use threadline_contract::{
    Code, Fault, Millis, NewKey, QuestionId, Removed, RunId, RuntimeId, SessionKey, gateway_agent,
    plugin::PREPARE, turn::AttachmentOutline,
};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub use self::examine::{Finding, Mend, Standing, examine};
use self::{
    answer::Answers,
    attachments::Limits,
    evidence::Ruling,
    files::{Files, Plugin},
    gateway::{Gateway, GatewayConfig, Link},
    notes::Notes,
    stops::Stops,
    turn::Turns,
    used::Receipts,
};
use crate::{
    ArtifactIdentity, Availability, Body, End, Files as RunFiles, Follow, LaneSize, Logged,
    Manifest, Pending, Places, Readiness, Registry, Room, RoomRules, RunRef, RuntimeInfo, Sessions,
    TurnPlan, Turns as RunTurns,
};

/// How long a first look at the gateway may take.
const FIRST_LOOK: Duration = Duration::from_secs(4);

/// The agent of a gateway that nobody has heard of yet.
const MAIN: &str = "main";

/// How the gateway is reached.
#[derive(Clone)]
pub struct OpenClawConfig {
    /// Its address: `ws://…` or `wss://…`.
    pub url: String,
    /// Its token.
    pub token: Option<String>,
    /// A PEM file with the authorities to believe behind `wss://`, instead of the public ones.
    pub ca: Option<PathBuf>,
    /// Ask for administrator's rights. An earlier plugin needs them, and so does whoever wants to be
    /// asked for leave when an agent runs a command.
    pub admin: bool,
    /// The agent that works for new threads, when not the gateway's default one.
    pub agent: Option<String>,
    /// Where this machine's identity and the notes about runs lie.
    pub folder: PathBuf,
    /// How many turns it may take; what it reports itself can only make it fewer.
    pub lane: LaneSize,
    /// Our version, for the gateway.
    pub version: String,
}

/// The OpenClaw runtime.
pub struct OpenClaw {
    gateway: Gateway,
    turns: Turns,
    files: Files,
    answers: Answers,
    agent: Option<String>,
    lane: LaneSize,
    reported: Arc<AtomicU32>,
    _watch: AbortOnDropHandle<()>,
}

impl OpenClaw {
    /// Begins to connect. Must be called where tasks can be started, in a process that has installed a
    /// crypto provider.
    pub fn new(config: OpenClawConfig) -> Result<Self, Fault> {
        let tls = config.ca.as_deref().map(gateway::trust).transpose()?;
        let gateway = Gateway::connect(GatewayConfig {
            url: config.url,
            token: config.token,
            tls: tls.clone(),
            identity: config.folder.join("device.json"),
            admin: config.admin,
            version: config.version,
        })?;
        let notes = Notes::new(config.folder.join("runs"));
        let reported = Arc::new(AtomicU32::new(u32::MAX));
        let watch = tokio::spawn(watch_lane(gateway.clone(), Arc::clone(&reported)));
        Ok(Self {
            turns: Turns {
                gateway: gateway.clone(),
                notes,
                stops: Stops::default(),
                receipts: Receipts::default(),
            },
            files: Files {
                gateway: gateway.clone(),
                plugin: Plugin::default(),
                http: route::client(tls)?,
            },
            answers: Answers::default(),
            gateway,
            agent: config.agent.as_deref().and_then(gateway_agent),
            lane: config.lane,
            reported,
            _watch: AbortOnDropHandle::new(watch),
        })
    }

    /// Removes a session at the gateway, with its transcript and mapping, as far as we may: only an
    /// administrator may. Its files on the gateway's host are its owner's to remove.
    async fn remove_session(&self, session: &SessionKey) {
        let removed: Result<Value, _> = match self.gateway.link() {
            Link::Up(conn) if conn.has_scope("operator.admin") => {
                let params = json!({"key": session});
                conn.call("sessions.delete", params, turn::SMALL).await
            }
            _ => return,
        };
        if let Err(error) = removed {
            tracing::warn!("The session {session} stays at the OpenClaw gateway: {error}");
        }
    }
}

/// Learns from every gateway that comes up how many turns it works on at once.
async fn watch_lane(gateway: Gateway, reported: Arc<AtomicU32>) {
    loop {
        let Ok(conn) = gateway.wait_up(FIRST_LOOK, FIRST_LOOK).await else {
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        let config: Result<Value, _> = conn.call("config.get", json!({}), turn::SMALL).await;
        match config {
            Ok(config) => {
                let most = most_at_once(&config);
                tracing::info!(most, "The OpenClaw gateway's lane");
                reported.store(most.unwrap_or(u32::MAX), Ordering::Relaxed);
            }
            Err(error) => tracing::debug!("the gateway does not tell its lane: {error}"),
        }
        conn.gone().await;
    }
}

/// `agents.defaults.maxConcurrent`, as it is in force.
fn most_at_once(config: &Value) -> Option<u32> {
    let of = |config: &Value| {
        let most = config.pointer("/agents/defaults/maxConcurrent")?.as_u64()?;
        u32::try_from(most).ok().filter(|most| *most > 0)
    };
    let places = ["runtimeConfig", "resolved", "config", "parsed"];
    places
        .iter()
        .find_map(|place| of(config.get(place)?))
        .or_else(|| of(config))
}

impl RuntimeInfo for OpenClaw {
    fn id(&self) -> &RuntimeId {
        &RuntimeId::OpenClaw
    }

    fn label(&self) -> &str {
        "OpenClaw"
    }

    fn lane(&self) -> LaneSize {
        LaneSize {
            max_active: self
                .lane
                .max_active
                .min(self.reported.load(Ordering::Relaxed)),
            max_queued: self.lane.max_queued,
        }
    }

    fn busy_code(&self) -> Code {
        Code::GatewayBusy
    }

    fn is_local(&self) -> bool {
        // The notes about what was sent lie here, and without them a turn could be executed twice.
        true
    }

    fn keeps_sessions(&self) -> bool {
        // The gateway has them, and their files.
        false
    }

    fn probe(&self) -> Pending<'_, Availability> {
        Box::pin(async move {
            match self.gateway.link() {
                // Somebody may have done what was asked for.
                Link::Refused { again, .. } if again <= Instant::now() => self.gateway.try_again(),
                _ => {}
            }
            if matches!(self.gateway.link(), Link::New) {
                let _ = self.gateway.wait_up(FIRST_LOOK, FIRST_LOOK).await;
            }
            let (readiness, about) = match self.gateway.link() {
                Link::Up(conn) if conn.hello().has(PREPARE) && conn.is_draining() => (
                    Readiness::Restarting,
                    "OpenClaw is stopping; turns wait".to_owned(),
                ),
                Link::Up(conn) if self.files.has_plugin(&conn).await => {
                    let version = &conn.hello().server.version;
                    (Readiness::Ready, format!("OpenClaw {version}"))
                }
                Link::Up(_) => (Readiness::Incomplete, files::NO_PLUGIN.to_owned()),
                Link::Refused { instruction, .. } => (Readiness::Refused, instruction),
                // Turns wait for it, so it takes them.
                Link::Down {
                    restarting: true, ..
                } => (
                    Readiness::Restarting,
                    "OpenClaw is restarting; turns wait".to_owned(),
                ),
                Link::Down { why, .. } => (Readiness::Unreachable, why),
                Link::New => (
                    Readiness::Unreachable,
                    "The OpenClaw gateway does not answer.".to_owned(),
                ),
            };
            Availability::new(readiness, about, Some(self.gateway.url().to_owned()))
        })
    }

    fn stands_since(&self) -> Option<Millis> {
        self.gateway.stands_since()
    }

    fn waits_for(&self) -> Option<String> {
        let away = |why: &str| format!("{why} The turn waits for it, for two minutes at most.");
        match self.gateway.link() {
            Link::Up(conn) if conn.is_draining() => {
                Some("The OpenClaw gateway is stopping. The turn begins when it is back.".into())
            }
            Link::Up(conn) if conn.hello().has(PREPARE) => {
                Some(away("The OpenClaw gateway does not answer yet."))
            }
            Link::New => Some(away("The OpenClaw gateway does not answer yet.")),
            Link::Down { why, .. } => Some(away(&why)),
            Link::Up(_) | Link::Refused { .. } => None,
        }
    }

    fn takes_instructions(&self) -> bool {
        true
    }

    fn takes_folder(&self) -> bool {
        false
    }

    fn takes_files(&self, files: &[AttachmentOutline]) -> Result<(), Fault> {
        let limits = match self.gateway.link() {
            Link::Up(conn) => Limits::of(conn.hello()),
            _ => Limits::UNKNOWN,
        };
        attachments::check(files, limits).map(drop)
    }

    fn collects_later(&self) -> bool {
        // By the plugin's books, which know when each run began and ended.
        true
    }

    fn connections_lost(&self) -> u64 {
        self.gateway.lost()
    }
}

impl Sessions for OpenClaw {
    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey {
        let agent = new.agent.or(self.agent.as_deref()).map(str::to_owned);
        let agent = agent.or_else(|| self.gateway.default_agent());
        let agent = agent.as_deref().unwrap_or(MAIN);
        match new.owner.thread() {
            Some(thread) => SessionKey::for_openclaw(thread, agent, new.twin),
            None => SessionKey::for_owner(&format!("agent:{agent}"), new),
        }
    }

    fn reserve<'a>(&'a self, _: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        // The folder is the plugin's to give, in `prepare`.
        Box::pin(async { Ok(()) })
    }

    fn forget<'a>(
        &'a self,
        session: &'a SessionKey,
        runs: &'a [RunId],
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.remove_session(session).await;
            self.turns.notes.forget(session, runs).await
        })
    }

    fn page(&self, session: &SessionKey) -> Option<String> {
        page::of(self.gateway.url(), session)
    }
}

impl RunTurns for OpenClaw {
    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>> {
        Box::pin(async move {
            self.gateway.try_again();
            self.files.prepare(plan).await
        })
    }

    fn start<'a>(
        &'a self,
        plan: &'a TurnPlan,
        _places: &'a Places,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.turns.begin(plan))
    }

    fn needs_logged_text(&self) -> bool {
        // The gateway keeps less of a run than it told.
        true
    }

    fn follow<'a>(&'a self, run: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>> {
        Box::pin(async move {
            match self.turns.notes.read(run).await {
                Ok(Some(note)) => Ok(match note.end {
                    Some(end) => follow::only(end),
                    None => follow::follow(self.turns.clone(), note, logged),
                }),
                Ok(None) => Err(turn::no_record()),
                Err(fault) => match fault.code {
                    Code::RunLost => Ok(follow::only(End::failed(fault.code, fault.message))),
                    _ => Err(fault),
                },
            }
        })
    }

    fn ask_registry<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<Registry, Fault>> {
        Box::pin(async move {
            let note = match self.turns.notes.read(run).await {
                Ok(Some(note)) => note,
                Ok(None) => return Ok(Registry::NoRecord),
                Err(fault) if fault.code == Code::RunLost => {
                    return Ok(Registry::Ended(End::failed(fault.code, fault.message)));
                }
                Err(fault) => return Err(fault),
            };
            if let Some(end) = note.end {
                return Ok(Registry::Ended(end));
            }
            if note.refused {
                return Ok(Registry::NoRecord);
            }
            let conn = self.gateway.wait_up(turn::AT_ONCE, turn::AT_ONCE).await;
            let conn = conn.map_err(turn::unreachable)?;
            if conn.is_draining() {
                return Err(turn::stopping());
            }
            let looked = tokio::select! {
                looked = self.turns.look(&conn, &note) => looked.map_err(turn::unsaid)?,
                () = conn.unheard() => return Err(turn::unheard()),
            };
            Ok(match looked.0 {
                Ruling::Running | Ruling::Renamed(_) | Ruling::GivenBack | Ruling::Unclear => {
                    Registry::Running
                }
                // It is about to be sent anew.
                Ruling::NoRecord if note.anew > 0 => Registry::Running,
                Ruling::Ended(told) => Registry::Ended(told.end),
                Ruling::NoRecord => Registry::NoRecord,
            })
        })
    }

    fn lost_run(&self) -> End {
        End::failed(
            Code::TerminalWithoutEvidence,
            "The OpenClaw gateway has no record of this run. Files that it left are no proof that it was done.",
        )
    }

    fn cancel<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.turns.cancel(run))
    }

    fn answer<'a>(
        &'a self,
        _run: &'a RunRef,
        question: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            let conn = self.gateway.wait_up(turn::AT_ONCE, turn::AT_ONCE).await;
            let conn = conn.map_err(turn::unreachable)?;
            self.answers.give(&conn, question, answer).await
        })
    }

    fn stop(&self) -> Pending<'_, ()> {
        // The connection ends; runs go on at the gateway.
        Box::pin(self.gateway.stop())
    }
}

impl RunFiles for OpenClaw {
    fn collect<'a>(
        &'a self,
        plan: &'a TurnPlan,
        end: &'a End,
    ) -> Pending<'a, Result<Manifest, Fault>> {
        Box::pin(async move {
            let run = plan.run_ref();
            let note = self.turns.notes.read(&run).await?;
            let note = note.ok_or_else(turn::no_record)?;
            let files = self.files.collect(plan, end, &note);
            let (manifest, usage) = tokio::join!(files, self.turns.used(&note, end));
            Ok(Manifest { usage, ..manifest? })
        })
    }

    fn hold<'a>(
        &'a self,
        _run: &'a RunRef,
        _until: i64,
    ) -> Pending<'a, Result<Option<Removed>, Fault>> {
        // Nothing of ours removes files on the gateway's host.
        Box::pin(async { Ok(None) })
    }

    fn make_room(&self, _rules: RoomRules) -> Pending<'_, Result<Room, Fault>> {
        Box::pin(async { Ok(Room::default()) })
    }

    fn open<'a>(&'a self, artifact: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>> {
        Box::pin(read::open(&self.files, artifact))
    }
}
