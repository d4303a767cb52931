//! Agents that speak the Agent Client Protocol, each as a runtime of its own: `acp:<agent>`.
//!
//! The agent's process belongs to its *host*, which outlives us and writes down every frame. A run's
//! journal holds what came of each of the host's entries, so a run goes on after the last entry that
//! it has, loses none and takes none twice. What is to be said to the agent follows from the journal
//! alone ([`due`]), and the host takes each frame once, by its name; so nothing here needs to remember
//! what it was doing when it was killed.
//!
//! | file | decides | acts |
//! | --- | --- | --- |
//! | `hear` | what an entry of the host means | |
//! | `due` | what the agent should be told | |
//! | `end` | how a turn ended | |
//! | `terminal` | what of an agent's words for a terminal is for people | |
//! | `bind` | | gets a run its host |
//! | `hosts` | | looks at the hosts, for operators |
//! | `watch` | | waits for the end of each host, and ends what a killed one left |
//! | `version` | | finds out which version of the agent there is |
//! | `no_room` | | remembers which runs wait for room on a disk |
//! | `drive` | | carries entries and frames between the host and the journal |

mod bind;
mod config;
mod drive;
mod due;
mod end;
mod hear;
mod hosts;
mod no_room;
mod past;
#[cfg(test)]
mod reattach_properties;
mod session;
mod steps;
mod terminal;
mod version;
mod watch;
mod wire;

use std::{collections::BTreeMap, sync::Arc};

use threadline_contract::{Fault, Millis, RuntimeId, SessionKey};
use tokio::sync::Mutex;

pub use self::config::{AcpConfig, AgentConfig, AgentHosts};
use self::{bind::host_fault, no_room::NoRoom};
use crate::{
    AgentHost, Availability, LaneSize, LocalWorkspace, Pending, Readiness, RunRef, RuntimeInfo,
    journaled::{JournaledRuntime, Runs},
};

/// What all runs share.
pub(crate) struct Shared {
    config: AcpConfig,
    /// What the agent sees of the environment.
    environment: BTreeMap<String, String>,
    /// What of it nobody else should read.
    secrets: Arc<Vec<String>>,
    /// Held while the program is asked for its version.
    asking: Arc<Mutex<()>>,
    /// Runs that wait for room on a disk.
    no_room: NoRoom,
}

/// The runtime of one agent.
pub struct Acp {
    id: RuntimeId,
    shared: Arc<Shared>,
    runs: Runs<Shared>,
}

impl Acp {
    /// Sets the runtime up. Nothing is opened or started before it is asked for.
    pub fn new(config: AcpConfig) -> Self {
        let id = RuntimeId::Acp(config.agent.name.clone());
        let records = config.records.clone();
        let environment = config.agent.environment(std::env::vars_os());
        let shared = Arc::new(Shared {
            secrets: Arc::new(config::secrets(&environment)),
            environment,
            config,
            asking: Arc::default(),
            no_room: NoRoom::default(),
        });
        let runs = Runs::new(Arc::clone(&shared), records);
        Self { id, shared, runs }
    }
}

impl RuntimeInfo for Acp {
    fn id(&self) -> &RuntimeId {
        &self.id
    }

    fn label(&self) -> &str {
        &self.shared.config.agent.label
    }

    fn lane(&self) -> LaneSize {
        self.shared.config.agent.lane
    }

    fn is_local(&self) -> bool {
        true
    }

    fn takes_instructions(&self) -> bool {
        true
    }

    fn is_offered(&self) -> bool {
        self.shared.config.agent.configured || self.shared.program().is_some()
    }

    fn probe(&self) -> Pending<'_, Availability> {
        Box::pin(async {
            let Some(program) = self.shared.program() else {
                let command = &self.shared.config.agent.command;
                let name = command.first().map_or("", String::as_str);
                let name = name.rsplit('/').next().unwrap_or(name);
                let why = format!("`{name}` is not installed, or not on the PATH.");
                return Availability::new(Readiness::NotInstalled, why, None);
            };
            let about = match self.shared.version().await {
                Some(version) => format!("version {version}"),
                None => "installed".to_owned(),
            };
            let program = program.display().to_string();
            Availability::new(Readiness::Ready, about, Some(program))
        })
    }

    fn hosts(&self) -> Pending<'_, Result<Vec<AgentHost>, Fault>> {
        Box::pin(self.shared.config.hosts.look())
    }
}

impl JournaledRuntime for Acp {
    type Work = Shared;

    fn runs(&self) -> &Runs<Shared> {
        &self.runs
    }

    fn workspace(&self) -> &LocalWorkspace {
        &self.shared.config.workspace
    }

    fn key_head(&self) -> String {
        format!("acp:{}", self.shared.config.agent.name)
    }

    fn no_room_since(&self, run: &RunRef) -> Option<Millis> {
        self.shared.no_room.since(run)
    }

    async fn close_session(&self, session: &SessionKey) -> Result<(), Fault> {
        self.shared.close(session).await
    }

    async fn forget_session(&self, session: &SessionKey) -> Result<(), Fault> {
        let hosts = &self.shared.config.hosts.hosts;
        hosts.stop(session.as_str()).await.map_err(host_fault)?;
        hosts.forget(session.as_str()).await.map_err(host_fault)?;
        session::forget(self.runs.folder(session)).await
    }
}
