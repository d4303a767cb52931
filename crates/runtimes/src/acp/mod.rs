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
mod session;
mod steps;
mod terminal;
mod version;
mod watch;
mod wire;

use std::{collections::BTreeMap, sync::Arc};

use threadline_contract::{
    Code, Fault, Millis, NewKey, QuestionId, Removed, RunId, RuntimeId, SessionKey,
};
use tokio::sync::Mutex;

pub use self::config::{AcpConfig, AgentConfig, AgentHosts};
use self::{
    bind::host_fault,
    no_room::NoRoom,
    past::{Line, Past},
};
use crate::{
    AgentHost, ArtifactIdentity, Availability, Body, End, Follow, LaneSize, Logged, Manifest,
    Pending, Places, Readiness, Registry, Room, RoomRules, RunRef, Runtime, TurnPlan,
    journaled::{Runs, Want},
};

/// What all runs share.
struct Shared {
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

    /// Lets go of every run. The agents work on, and their hosts write down what they say, until the
    /// runs are followed again.
    pub async fn stop(&self) {
        self.runs.stop().await;
    }
}

impl Runtime for Acp {
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

    fn has_session<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<bool, Fault>> {
        Box::pin(self.shared.config.workspace.has(session))
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

    fn is_offered(&self) -> bool {
        self.shared.config.agent.configured || self.shared.program().is_some()
    }

    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey {
        SessionKey::for_owner(&format!("acp:{}", self.shared.config.agent.name), new)
    }

    fn reserve<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.shared.config.workspace.reserve(session))
    }

    fn forget<'a>(
        &'a self,
        session: &'a SessionKey,
        runs: &'a [RunId],
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            let hosts = &self.shared.config.hosts.hosts;
            hosts.stop(session.as_str()).await.map_err(host_fault)?;
            hosts.forget(session.as_str()).await.map_err(host_fault)?;
            self.shared.config.workspace.forget(session).await?;
            session::forget(self.runs.folder(session)).await?;
            self.runs.forget(session, runs).await
        })
    }

    fn close<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.shared.close(session))
    }

    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>> {
        Box::pin(self.shared.config.workspace.prepare(plan))
    }

    fn start<'a>(
        &'a self,
        plan: &'a TurnPlan,
        places: &'a Places,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            let run = plan.run_ref();
            self.runs.find(&run, Want::Begin(plan, places)).await?;
            Ok(())
        })
    }

    fn follow<'a>(&'a self, run: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>> {
        Box::pin(self.runs.follow(run, logged.frame))
    }

    fn ask_registry<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<Registry, Fault>> {
        Box::pin(self.runs.ask(run))
    }

    fn waits_for_room(&self, run: &RunRef) -> Option<Millis> {
        self.shared.no_room.since(run)
    }

    fn cancel<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.runs.cancel(run))
    }

    fn answer<'a>(
        &'a self,
        run: &'a RunRef,
        question: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>> {
        let (question, answer) = (question.clone(), answer.map(str::to_owned));
        let take = move |past: &Past| take_answer(past, question, answer);
        Box::pin(self.runs.change(run, take))
    }

    fn collect<'a>(
        &'a self,
        plan: &'a TurnPlan,
        end: &'a End,
    ) -> Pending<'a, Result<Manifest, Fault>> {
        Box::pin(self.shared.config.workspace.collect(plan, end))
    }

    fn hold<'a>(
        &'a self,
        run: &'a RunRef,
        until: i64,
    ) -> Pending<'a, Result<Option<Removed>, Fault>> {
        Box::pin(self.shared.config.workspace.hold(run, until))
    }

    fn make_room(&self, rules: RoomRules) -> Pending<'_, Result<Room, Fault>> {
        Box::pin(self.shared.config.workspace.make_room(rules))
    }

    fn hosts(&self) -> Pending<'_, Result<Vec<AgentHost>, Fault>> {
        Box::pin(self.shared.config.hosts.look())
    }

    fn open<'a>(&'a self, artifact: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>> {
        Box::pin(self.shared.config.workspace.open(artifact))
    }
}

/// The line that an answer adds; none when it is the answer that is there already.
fn take_answer(
    past: &Past,
    question: QuestionId,
    answer: Option<String>,
) -> Result<Option<Line>, Fault> {
    let closed = || {
        Fault::new(
            Code::QuestionAlreadyClosed,
            "The agent does not wait for this answer any more.",
        )
    };
    if past.answered.get(&question) == Some(&answer) {
        return Ok(None);
    }
    let mut open = past.open();
    let permission = open
        .find_map(|w| w.asked.question.as_ref().filter(|p| p.id == question))
        .filter(|_| past.ended.is_none() && !past.stops())
        .ok_or_else(closed)?;
    if answer.is_some() && permission.chosen(answer.as_deref()).is_none() {
        return Err(Fault::new(
            Code::QuestionOptionNotOffered,
            "The agent did not offer this.",
        ));
    }
    Ok(Some(Line::Answered { question, answer }))
}
