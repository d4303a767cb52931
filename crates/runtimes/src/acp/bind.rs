//! Getting a run its host: the one that has the session's agent, or a new one.

use std::{path::PathBuf, time::Duration};

use threadline_contract::{Code, Fault, SessionKey, scope::session_segment};
use threadline_host::{Attached, Frames, HostError, Hosts, Spec, Standing, StartCode, State};
use tokio::time::sleep;

use super::{
    Shared, due,
    past::{Bound, Past},
    session::{self, Session},
    steps::Folders,
    wire,
};
use crate::journaled::Begun;

/// What the numbers of a run's requests begin with: more than any entry that is there, so that no other
/// run on the host can have them.
const AFTER_LAST: u64 = 10;

/// How often, and after what pauses, it is looked whether a run that has ended has let go of its host.
const LETTING_GO: u32 = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(40);

/// A run's host, to be heard and perhaps talked to.
pub(super) enum Link {
    /// It is there, and is heard from after this entry.
    Live(Box<Attached>, u64),
    /// It has gone, and this is what it left.
    Rest(Box<Frames>),
}

impl Shared {
    pub(super) fn hosts(&self) -> &Hosts {
        &self.config.hosts.hosts
    }

    /// Where the agent's program is.
    pub(super) fn program(&self) -> Option<PathBuf> {
        self.config.agent.program(&self.environment)
    }

    /// Where what is kept of a session lies.
    pub(super) fn folder(&self, session: &SessionKey) -> PathBuf {
        self.config.records.join(session_segment(session))
    }

    fn spec(&self, begun: &Begun) -> Spec {
        let agent = &self.config.agent;
        let folder = begun.places.work_folder.clone();
        let session = begun.plan.session.as_str();
        Spec {
            env: self.environment.clone(),
            idle: agent.idle,
            unattended: wire::unattended(),
            ..Spec::new(session, agent.command.clone(), folder)
        }
    }

    /// The host for a run that has none yet. Whoever calls holds the binding.
    pub(super) async fn choose(&self, begun: &Begun) -> Result<Bound, Fault> {
        let (plan, spec) = (&begun.plan, self.spec(begun));
        let known = session::read(self.folder(&plan.session)).await?;
        let known = known.filter(|_| plan.continues);
        let bound = Bound {
            folders: folders(begun),
            cost: known.as_ref().and_then(|k| k.cost),
            instructions: known.as_ref().and_then(|k| k.instructions),
            ..Bound::default()
        };
        if let Some(known) = &known
            && let Some(base) = self.is_ready(known, &spec).await?
        {
            return Ok(Bound {
                boot: known.boot.clone(),
                base,
                agent: Some(known.agent.clone()),
                session: Some(known.session.clone()),
                ..bound
            });
        }
        // Whatever is there, it is not what this turn needs: another session, or half a beginning.
        let stopped = self.hosts().stop(&spec.session).await;
        stopped.map_err(host_fault)?;
        let state = self.start(&spec).await?;
        Ok(Bound {
            boot: state.boot,
            base: AFTER_LAST,
            resume: known.map(|k| k.session),
            ..bound
        })
    }

    /// Whether the session's host is there, with the session in its agent and nothing else to do; gives
    /// the number for the next request.
    async fn is_ready(&self, known: &Session, spec: &Spec) -> Result<Option<u64>, Fault> {
        let Standing::Alive(state) = self.hosts().look(&spec.session).await.map_err(host_fault)?
        else {
            return Ok(None);
        };
        let same = state.boot == known.boot
            && state.command == spec.command
            && state.folder == spec.folder;
        if !same {
            return Ok(None);
        }
        match self.hosts().inspect(&spec.session).await {
            Ok(hello) if hello.open_turns == 0 => Ok(Some(hello.last + AFTER_LAST)),
            // One that does not answer, or is busy with what nobody waits for, is ended.
            _ => Ok(None),
        }
    }

    /// Ends the session's host, unless its agent works. Whoever has just followed it may still be there.
    pub(super) async fn close(&self, session: &SessionKey) -> Result<(), Fault> {
        for _ in 0..LETTING_GO {
            let binding = self.config.hosts.binding.lock().await;
            match self.hosts().inspect(session.as_str()).await {
                Ok(hello) if hello.open_turns > 0 => return Ok(()),
                Ok(hello) if !hello.attached => {
                    let stopped = self.hosts().stop(session.as_str()).await;
                    return stopped.map_err(host_fault);
                }
                Ok(_) => {}
                // None is there, or it ends by itself.
                Err(_) => return Ok(()),
            }
            drop(binding);
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    async fn start(&self, spec: &Spec) -> Result<State, Fault> {
        let started = match self.hosts().start(spec).await {
            Err(HostError::NotStarted {
                code: StartCode::FolderBusy,
                ..
            }) if self.evict(spec).await? => self.hosts().start(spec).await,
            started => started,
        };
        let state = started.map_err(host_fault)?;
        self.config.hosts.watch(state.clone());
        Ok(state)
    }

    /// Ends the agent of another session that has the folder and nothing to do there. Its session
    /// goes on in a new process when it is needed.
    async fn evict(&self, spec: &Spec) -> Result<bool, Fault> {
        let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
        let mut evicted = false;
        for standing in self.hosts().present().await.map_err(host_fault)? {
            let Standing::Alive(state) = standing else {
                continue;
            };
            if state.session == spec.session || real(&state.folder) != real(&spec.folder) {
                continue;
            }
            let hello = self.hosts().inspect(&state.session).await;
            if hello.is_ok_and(|h| !h.attached && h.open_turns == 0) {
                let stopped = self.hosts().stop(&state.session).await;
                stopped.map_err(host_fault)?;
                evicted = true;
            }
        }
        Ok(evicted)
    }

    /// Attaches to a run's host after the last entry that is in our keeping.
    pub(super) async fn attach(
        &self,
        session: &str,
        bound: &Bound,
        heard: u64,
    ) -> Result<Link, HostError> {
        let acked = match self.hosts().inspect(session).await {
            Ok(hello) if hello.boot == bound.boot => hello.acked,
            // Attaching tells what is the matter.
            _ => 0,
        };
        let after = heard.max(acked);
        match self.hosts().attach(session, &bound.boot, after).await {
            Ok(attached) => Ok(Link::Live(Box::new(attached), after)),
            Err(HostError::Gone) => {
                let rest = self.hosts().rest(session, &bound.boot, after).await?;
                Ok(Link::Rest(Box::new(rest)))
            }
            // Another one has its place, or its folder is gone: of this one nothing is left.
            Err(HostError::NotThere { .. }) => Err(HostError::Lost),
            Err(e) => Err(e),
        }
    }

    /// Keeps which conversation of the agent's the session is.
    pub(super) async fn keep_session(&self, kept: Kept) -> Result<(), Fault> {
        self.saw(&kept.session.agent).await;
        session::write(self.folder(&kept.key), kept.session).await
    }
}

/// What is to be kept of a session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    key: SessionKey,
    session: Session,
}

impl Kept {
    /// Whether the session was there before this run.
    pub(super) fn is_there(past: &Past) -> bool {
        past.bound.as_ref().is_some_and(|b| b.session.is_some())
    }

    /// As soon as the agent has a session.
    pub(super) fn of(past: &Past) -> Option<Self> {
        let bound = past.bound.as_ref()?;
        let plan = &past.run.begun.as_ref()?.plan;
        let given = past.prompted.and_then(|_| due::instructions(plan));
        Some(Self {
            key: plan.session.clone(),
            session: Session {
                session: past.session.clone()?,
                boot: bound.boot.clone(),
                agent: past.agent.clone()?,
                cost: past.cost.or(bound.cost),
                instructions: given.or(bound.instructions),
            },
        })
    }
}

fn folders(begun: &Begun) -> Folders {
    let both = |path: &PathBuf| {
        let real = std::fs::canonicalize(path).ok();
        let real = real.filter(|real| real != path);
        [path.clone()].into_iter().chain(real).collect()
    };
    Folders {
        work: both(&begun.places.work_folder),
        scope: both(&begun.places.artifact_directory),
    }
}

/// What a caller can be told about a host.
pub(super) fn host_fault(error: HostError) -> Fault {
    tracing::warn!(%error, "an agent's host cannot be used");
    let code = match &error {
        HostError::NotStarted { code, .. } => match code {
            StartCode::NoProgram => Code::ProviderUnavailable,
            StartCode::FolderBusy | StartCode::HostRunning | StartCode::NotSwept => Code::Conflict,
            StartCode::NoFolder => Code::WorkdirNotAllowed,
            StartCode::BadSpec | StartCode::Failed => Code::ExecutionFailed,
        },
        HostError::Lost | HostError::Gone => Code::AgentLost,
        HostError::InUse { .. } => Code::Conflict,
        _ => Code::ExecutionFailed,
    };
    let message = error.to_string();
    Fault::new(
        code,
        match message.ends_with('.') {
            true => message,
            false => format!("The agent cannot be used: {message}."),
        },
    )
}
