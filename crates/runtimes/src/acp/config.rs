//! Which agents there are, and how each is started.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use threadline_host::{Hosts, allowed};
use tokio::sync::Mutex;

use super::{hosts::Seen, watch::Watchers};
use crate::{LaneSize, LocalWorkspace};

/// An agent that is known by its name: how it is started, and what it may see of our environment.
struct Profile {
    name: &'static str,
    label: &'static str,
    command: &'static [&'static str],
    pass: &'static [&'static str],
    suggested: &'static [(&'static str, &'static str)],
}

const PROFILES: [Profile; 4] = [
    Profile {
        name: "codex",
        label: "Codex",
        command: &["codex-acp"],
        pass: &["CODEX_*", "OPENAI_*", "INITIAL_AGENT_MODE"],
        // In its own mode another model judges what is allowed, and nobody is asked.
        suggested: &[
            ("INITIAL_AGENT_MODE", "workspace-write"),
            ("NO_BROWSER", "1"),
        ],
    },
    Profile {
        name: "gemini",
        label: "Gemini CLI",
        command: &["gemini", "--acp"],
        pass: &["GEMINI_*", "GOOGLE_*"],
        suggested: &[],
    },
    Profile {
        name: "hermes",
        label: "Hermes",
        command: &["hermes", "acp"],
        pass: &[
            "HERMES_*",
            "OPENAI_*",
            "OPENROUTER_*",
            "ANTHROPIC_*",
            "NOUS_*",
        ],
        suggested: &[],
    },
    Profile {
        name: "opencode",
        label: "OpenCode",
        command: &["opencode", "acp"],
        pass: &["OPENCODE_*", "OPENAI_*", "ANTHROPIC_*", "OPENROUTER_*"],
        suggested: &[],
    },
];

/// How an agent is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Its name; the runtime is `acp:<name>`.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// The program (a path, or a name to be found on the `PATH`) and its arguments.
    pub command: Vec<String>,
    /// Variables that it gets where ours have none of that name.
    pub suggested: BTreeMap<String, String>,
    /// Variables that it gets whatever ours are.
    pub env: BTreeMap<String, String>,
    /// Further variables of ours that it gets; a `*` at the end stands for all that begin so.
    pub pass: Vec<String>,
    /// Somebody asked for it, so its absence is worth telling.
    pub configured: bool,
    /// How many turns it takes at once.
    pub lane: LaneSize,
    /// How long it may take until it has a session.
    pub startup: Duration,
    /// How long a turn may take; time in which a question is open does not count.
    pub turn: Option<Duration>,
    /// How long its process stays when nobody needs it.
    pub idle: Duration,
}

impl AgentConfig {
    /// Any agent, by its command line.
    pub fn new(name: impl Into<String>, command: Vec<String>) -> Self {
        let name = name.into();
        Self {
            label: name.clone(),
            name,
            command,
            suggested: BTreeMap::new(),
            env: BTreeMap::new(),
            pass: vec![],
            configured: true,
            lane: LaneSize {
                max_active: 5,
                max_queued: 20,
            },
            startup: Duration::from_secs(90),
            turn: Some(Duration::from_secs(4 * 60 * 60)),
            idle: Duration::from_secs(15 * 60),
        }
    }

    /// The agents that are known by their names.
    pub fn known() -> Vec<Self> {
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        let agent = |profile: &Profile| Self {
            label: profile.label.into(),
            suggested: profile
                .suggested
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            pass: words(profile.pass),
            configured: false,
            ..Self::new(profile.name, words(profile.command))
        };
        PROFILES.iter().map(agent).collect()
    }

    /// Whether its program is one that is known to say its version when it is asked for it. What
    /// another command line would do with that is its own affair.
    pub(super) fn tells_version(&self) -> bool {
        let name = self
            .command
            .first()
            .map(Path::new)
            .and_then(Path::file_name);
        let known = |profile: &Profile| profile.command.first().map(OsStr::new) == name;
        name.is_some() && PROFILES.iter().any(known)
    }

    /// Everything that the agent gets of this environment, and its own.
    pub(super) fn environment(
        &self,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<String, String> {
        let mut all = self.suggested.clone();
        all.extend(allowed(ours, &self.pass));
        all.extend(self.env.clone());
        all
    }

    /// Where its program is, with this environment.
    pub(super) fn program(&self, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
        let name = self.command.first()?;
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| can_run(path));
        }
        let path = environment.get("PATH")?;
        std::env::split_paths(path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|path| can_run(path))
    }
}

/// What stands in the names of variables that hold keys.
const SECRET: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
/// Anything shorter would be found in any text.
const SHORTEST_SECRET: usize = 8;

/// Values that are keys, by the names of their variables.
pub(super) fn secrets(environment: &BTreeMap<String, String>) -> Vec<String> {
    let is_secret = |name: &str| SECRET.iter().any(|word| name.contains(word));
    let keys = environment
        .iter()
        .filter(|(name, value)| is_secret(name) && value.len() >= SHORTEST_SECRET);
    keys.map(|(_, value)| value.clone()).collect()
}

fn can_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The hosts of all agents.
#[derive(Clone, Debug)]
pub struct AgentHosts {
    pub(super) hosts: Hosts,
    /// Held while a run gets its host, so that nobody takes a host away that is about to be used.
    pub(super) binding: Arc<Mutex<()>>,
    /// What was last seen of them.
    pub(super) seen: Seen,
    /// Who waits for the end of each.
    pub(super) watchers: Watchers,
}

impl AgentHosts {
    /// All agents share these hosts.
    pub fn new(hosts: Hosts) -> Self {
        Self {
            hosts,
            binding: Arc::default(),
            seen: Seen::default(),
            watchers: Watchers::default(),
        }
    }
}

/// Everything that the runtime of one agent needs.
#[derive(Clone, Debug)]
pub struct AcpConfig {
    /// The agent.
    pub agent: AgentConfig,
    /// The folder that holds the runs' journals.
    pub records: PathBuf,
    /// Where turns work and what leaves them.
    pub workspace: LocalWorkspace,
    /// The agents' hosts.
    pub hosts: AgentHosts,
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
