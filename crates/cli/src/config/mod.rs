//! The settings: read once, from files, environment and flags, into typed values.
//!
//! All mistakes are reported at once, each with the place it stands at.

mod agents;
mod keys;
mod layers;
mod read;
mod show;
mod sources;
mod value;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use threadline_contract::RuntimeId;
use threadline_engine::{Keep, Rules};
use threadline_runtimes::acp::AgentConfig;

use self::{
    agents::Agents,
    layers::lay,
    read::{Places, Read},
};
pub(crate) use self::{
    agents::{VARIABLE as AGENTS, as_variable as agents_as_variable},
    keys::meant,
    keys::{KEYS, named as key_named},
    layers::{Mistake, Origin, SourceFile, SourceFlag, Sources},
    show::{fault, json, show},
    sources::gather,
};

/// Everything that can be set.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The data folder.
    pub(crate) data: PathBuf,
    /// Where threads get their folders.
    pub(crate) workspaces: PathBuf,
    /// Folders beneath which an agent may be let to work.
    pub(crate) work_roots: Vec<PathBuf>,
    /// Where a task runs when nobody says.
    pub(crate) auto_runtime: RuntimeId,
    /// Who may come in, and where.
    pub(crate) server: Server,
    /// The database's address.
    pub(crate) database: Secret,
    /// The model of the builtin agent.
    pub(crate) model: Option<Model>,
    /// The builtin agent.
    pub(crate) builtin: Builtin,
    /// The OpenClaw gateway.
    pub(crate) openclaw: Option<OpenClaw>,
    /// How many of its turns there may be.
    pub(crate) openclaw_lane: OpenClawLane,
    /// Agents that speak the Agent Client Protocol.
    pub(crate) agents: Vec<AgentConfig>,
    /// Where the hosts of agents keep their things.
    pub(crate) hosts: PathBuf,
    /// What no task may reach, beside the data folder: settings, and what hosts keep.
    pub(crate) protected: Vec<PathBuf>,
    /// What holds for every run.
    pub(crate) rules: Rules,
    /// How long the files of runs stay.
    pub(crate) keep: Keep,
    /// How many bytes of a gateway's files are kept.
    pub(crate) cache_bytes: u64,
    /// Another bridge for new threads.
    pub(crate) bridge: Option<Bridge>,
    /// The token of another bridge.
    pub(crate) bridge_token: Option<Secret>,
    /// When an idle background process ends.
    pub(crate) idle: Option<Duration>,
    /// What is logged.
    pub(crate) log: Log,
    /// Each setting as it is shown.
    pub(crate) shown: Vec<Shown>,
}

/// Who may come in, and where.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// The address to listen on.
    pub(crate) listen: SocketAddr,
    /// Somebody chose it, so no other will do.
    pub(crate) listen_chosen: bool,
    /// It may be beyond this machine.
    pub(crate) allow_remote: bool,
    /// How people reach it.
    pub(crate) public_url: Option<String>,
    /// How other servers on the same database reach it.
    pub(crate) advertise: Option<String>,
    /// Origins whose pages may call with a bearer token.
    pub(crate) allowed_origins: Vec<String>,
    /// The operator's own token.
    pub(crate) token: Option<Secret>,
    /// `serve` serves pages, where people sign in with a token.
    pub(crate) pages: bool,
    /// Requests that one token may make in a second; 0 is any number.
    pub(crate) rate_per_second: u32,
    /// Where metrics are served.
    pub(crate) metrics: Option<SocketAddr>,
}

/// The model of the builtin agent.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Its endpoint.
    pub(crate) url: String,
    /// Its name there.
    pub(crate) model: String,
    /// Its key.
    pub(crate) key: Option<Secret>,
}

/// The builtin agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Builtin {
    /// Turns at once.
    pub(crate) max_active: u32,
    /// Turns that wait.
    pub(crate) max_queued: u32,
    /// Model calls in one turn.
    pub(crate) max_steps: u32,
    /// The demonstration's pauses.
    pub(crate) demo_pause: Duration,
}

/// The OpenClaw gateway.
#[derive(Clone, Debug)]
pub(crate) struct OpenClaw {
    /// Its address.
    pub(crate) url: String,
    /// Its token.
    pub(crate) token: Option<Secret>,
    /// The authorities to believe.
    pub(crate) ca: Option<PathBuf>,
    /// Ask for administrator's rights.
    pub(crate) admin: bool,
    /// The agent for new threads, when not its default one.
    pub(crate) agent: Option<String>,
}

/// How many turns of an OpenClaw gateway there may be: at the bridge, and of the threads of this machine
/// at any bridge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenClawLane {
    /// Turns at once.
    pub(crate) max_active: u32,
    /// Turns that wait.
    pub(crate) max_queued: u32,
}

/// Another bridge.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    /// Its address.
    pub(crate) url: String,
}

/// What is logged.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// How much: a level, or a level for each part.
    pub(crate) filter: String,
    /// In what form.
    pub(crate) format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            filter: "info".to_owned(),
            format: LogFormat::Text,
        }
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);
impl Secret {
    #[cfg(test)]
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

/// A setting as it is shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Which.
    pub(crate) key: Cow<'static, str>,
    /// Its value; `None` when it is not set.
    pub(crate) value: Option<String>,
    /// Its value is not for the screen.
    pub(crate) secret: bool,
    /// Who set it.
    pub(crate) origin: Origin,
    /// What was set could not be taken.
    pub(crate) wrong: bool,
}
impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.key, self.origin)
    }
}

/// What could be read, and everything that is wrong with the rest.
pub(crate) struct Loaded {
    /// Where something is wrong, the default stands; a folder is then empty, because acting on the
    /// usual one instead could do harm.
    pub(crate) config: Config,
    /// In the order of their places.
    pub(crate) mistakes: Vec<Mistake>,
}

impl Loaded {
    /// Reads everything.
    pub(crate) fn of(sources: &Sources) -> Self {
        let mut mistakes = Vec::new();
        let layers = lay(sources, &mut mistakes);
        let mut read = Read {
            layers,
            mistakes,
            shown: BTreeMap::new(),
            wrong: BTreeSet::new(),
        };
        let home = sources.home();
        let mut config = read.config(&Places {
            home: home.as_deref(),
            sources,
        });
        let mut mistakes = read.mistakes;
        let (agents, shown, wrong) = Agents::read(sources).parts();
        config.agents = agents;
        config.protected =
            sources.protected(&config.workspaces, &config.hosts, config.database.expose());
        mistakes.extend(wrong);
        mistakes.sort_by(|a, b| a.origin.cmp(&b.origin));
        config.shown = KEYS
            .iter()
            .filter_map(|k| read.shown.remove(k.name))
            .chain(shown)
            .collect();
        Self { config, mistakes }
    }
}

/// Reads everything, or says everything that is wrong.
#[cfg(test)]
pub(crate) fn load(sources: &Sources) -> Result<Config, Vec<Mistake>> {
    let Loaded { config, mistakes } = Loaded::of(sources);
    match mistakes.is_empty() {
        true => Ok(config),
        false => Err(mistakes),
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
