//! What is really installed and reachable, and where a turn would run.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::value::RawValue;

use threadline_contract::{
    Code, Fault, Millis, Owner, Principal, Routing, RuntimeId,
    method::{
        self, Capabilities, Probe, ProbeParams, Probed, Provider, ProviderState, ResolveParams,
        Resolved,
    },
    routing::Wanted,
    turn::AttachmentOutline,
};
use threadline_runtimes::{Availability, Readiness, RuntimeInfo};

use crate::{Engine, engine::Lane, run::lane, workdir};

/// A runtime that does not answer a probe in this time is not available.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// How long an answer to `acp.capabilities` is given again: apps ask at every turn, and probing
/// may cost a process or a connection.
const REMEMBERED: Duration = Duration::from_secs(1);

/// What was last found out, as the text of the answer.
pub(crate) type Remembered = Mutex<Option<(Instant, Arc<RawValue>)>>;

impl Engine {
    /// `acp.capabilities`, as the text of a [`Capabilities`] that is at most a second old.
    pub async fn capabilities(&self) -> Result<Arc<RawValue>, Fault> {
        if let Some((at, text)) = &*self.remembered()
            && at.elapsed() < REMEMBERED
        {
            return Ok(text.clone());
        }
        let found = self.probe_all().await;
        let text: Arc<RawValue> = serde_json::value::to_raw_value(&found)
            .map_err(|_| Fault::internal())?
            .into();
        *self.remembered() = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<RawValue>)>> {
        self.0
            .capabilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn probe_all(&self) -> Capabilities {
        let mut out = Capabilities {
            single_agent: true,
            multi_agent: false,
            available_execution_targets: vec![],
            provider_catalog: vec![],
            gateway_providers: vec![],
            provider_probe_summary: vec![],
            methods: method::ALL.map(str::to_owned).to_vec(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        for lane in self.lanes().filter(|lane| lane.runtime.is_offered()) {
            let id = lane.runtime.id();
            let target = id.target().to_owned();
            let provider = provider(&*lane.runtime);
            let state = lane.probe().await;
            out.provider_probe_summary.push(Probe {
                provider_id: id.provider().to_owned(),
                available: state.available,
                status: state.readiness.as_str().to_owned(),
                about: state.status,
            });
            if !out.available_execution_targets.contains(&target) {
                out.available_execution_targets.push(target);
            }
            match id.is_gateway() {
                true => out.gateway_providers.push(provider),
                false => out.provider_catalog.push(provider),
            }
        }
        out
    }

    /// `xworkmate.provider.probe`: looks now, at one runtime or all that are offered. What is seen is
    /// what `acp.capabilities` says from now on.
    pub async fn probe(&self, params: &ProbeParams) -> Result<Probed, Fault> {
        let named = params.provider_id.as_deref();
        let wanted = |lane: &&Lane| match named {
            Some(name) => lane.runtime.id().provider() == name,
            None => lane.runtime.is_offered(),
        };
        let mut providers = vec![];
        for lane in self.lanes().filter(wanted) {
            providers.push(self.state_of(lane).await?.0);
        }
        if let (Some(name), true) = (named, providers.is_empty()) {
            return Err(Fault::new(
                Code::ProviderNotFound,
                format!("No runtime is called `{name}` here."),
            ));
        }
        *self.remembered() = None;
        Ok(Probed { providers })
    }

    /// How every runtime that is worth telling about stands now.
    pub(crate) async fn stand(&self) -> Result<Vec<Stand>, Fault> {
        let mut all = vec![];
        for lane in self.lanes().filter(|lane| lane.runtime.is_offered()) {
            let (state, place) = self.state_of(lane).await?;
            all.push(Stand {
                runtime: lane.runtime.id().clone(),
                state,
                place,
            });
        }
        Ok(all)
    }

    /// How a runtime stands, and where it is.
    async fn state_of(&self, lane: &Lane) -> Result<(ProviderState, Option<String>), Fault> {
        let seen = lane.probe().await;
        let (active, queued) = self.load(lane.runtime.id()).await?;
        let available = seen.available;
        let state = ProviderState {
            provider: provider(&*lane.runtime),
            unavailable_code: (!available).then_some(Code::ProviderUnavailable),
            available,
            status: seen.readiness.as_str().to_owned(),
            about: seen.status,
            active,
            queued,
            probed_at: Millis::now(),
        };
        Ok((state, seen.place))
    }

    /// How many turns of a runtime run, and how many wait.
    async fn load(&self, runtime: &RuntimeId) -> Result<(u32, u32), Fault> {
        let entries = self.lane_entries(runtime).await?;
        Ok(lane::load(&entries, &self.own_places(runtime)))
    }

    /// Every runtime's lane as it stands: its provider name, turns that run, turns that wait.
    pub async fn loads(&self) -> Result<Vec<(String, u32, u32)>, Fault> {
        let mut loads = vec![];
        for lane in self.lanes().filter(|lane| lane.runtime.is_offered()) {
            let (active, queued) = self.load(lane.runtime.id()).await?;
            loads.push((lane.runtime.id().provider().to_owned(), active, queued));
        }
        Ok(loads)
    }

    /// The runtime that a turn goes to. An owner's runtime is fixed at its first turn, so `auto`
    /// stays where the owner is.
    pub(crate) async fn route(
        &self,
        caller: &Principal,
        owner: Option<&Owner>,
        routing: &Routing,
    ) -> Result<RuntimeId, Fault> {
        let wanted = routing.wanted()?;
        if let Wanted::Runtime(id) = wanted {
            return Ok(id);
        }
        if let Some(owner) = owner {
            let sessions = self
                .0
                .store
                .sessions_of_owner(&caller.account, owner)
                .await?;
            let fits = |id: &RuntimeId| wanted == Wanted::Auto || !id.is_gateway();
            if let Some(session) = sessions.into_iter().find(|s| fits(&s.runtime)) {
                return Ok(session.runtime);
            }
        }
        let auto = self.0.config.auto_runtime.clone();
        Ok(match wanted == Wanted::AnyAgent && auto.is_gateway() {
            true => self.0.config.agent_runtime.clone(),
            false => auto,
        })
    }

    /// `xworkmate.routing.resolve`: where a turn would run, and whether what else it brings would be
    /// taken. Nothing is made.
    pub async fn resolve(
        &self,
        caller: &Principal,
        params: &ResolveParams,
    ) -> Result<Resolved, Fault> {
        threadline_artifacts::deliverables::check(&params.deliverables)?;
        let folder = workdir::check(params.working_directory.as_deref(), caller, &self.0.config)?;
        let id = self.route(caller, None, &params.routing).await?;
        self.takes(&id, folder.as_deref())?;
        self.takes_files(&id, &params.attachments)?;
        Ok(self.resolved(&id).await)
    }

    /// Whether turns of this runtime can work in the user's folder, where one is named.
    pub(crate) fn takes(&self, id: &RuntimeId, folder: Option<&Path>) -> Result<(), Fault> {
        match (folder, self.lane(id)) {
            (Some(_), Some(lane)) if !lane.runtime.takes_folder() => Err(Fault::new(
                Code::WorkdirNotAllowed,
                format!(
                    "{} works in its own workspace and takes no other folder. Send the task without one, or to another runtime.",
                    lane.runtime.label()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Whether files like these can come with turns of this runtime.
    pub(crate) fn takes_files(
        &self,
        id: &RuntimeId,
        files: &[AttachmentOutline],
    ) -> Result<(), Fault> {
        match self.lane(id) {
            Some(lane) if !files.is_empty() => lane.runtime.takes_files(files),
            _ => Ok(()),
        }
    }

    /// Whether a runtime can take a turn now, as a result and not as an error.
    pub(crate) async fn resolved(&self, id: &RuntimeId) -> Resolved {
        let state = match self.lane(id) {
            Some(lane) => lane.probe().await,
            None => {
                let why = format!("No runtime is called {id} here.");
                Availability::new(Readiness::NotInstalled, why, None)
            }
        };
        let available = state.available;
        let gateway = id.is_gateway();
        let provider = Some(id.provider().to_owned());
        let known = self.lane(id).is_some();
        let code = if known {
            Code::ProviderUnavailable
        } else {
            Code::ProviderNotFound
        };
        Resolved {
            success: available,
            status: if available {
                "available"
            } else {
                "unavailable"
            }
            .to_owned(),
            resolved_execution_target: Some(id.target().to_owned()),
            resolved_provider_id: provider.clone().filter(|_| !gateway),
            resolved_gateway_provider_id: provider.filter(|_| gateway),
            runtime: Some(id.clone()),
            unavailable_code: (!available).then_some(code),
            unavailable_message: (!available).then_some(state.status),
        }
    }
}

/// How a runtime stands, for an operator.
pub(crate) struct Stand {
    pub(crate) runtime: RuntimeId,
    pub(crate) state: ProviderState,
    /// Its address, or where its program lies.
    pub(crate) place: Option<String>,
}

fn provider(runtime: &dyn RuntimeInfo) -> Provider {
    let (id, size) = (runtime.id(), runtime.lane());
    Provider {
        provider_id: id.provider().to_owned(),
        label: runtime.label().to_owned(),
        targets: vec![id.target().to_owned()],
        max_active: size.max_active,
        max_queued: size.max_queued,
    }
}

impl Lane {
    async fn probe(&self) -> Availability {
        let found = tokio::time::timeout(PROBE_TIME, self.runtime.probe())
            .await
            .unwrap_or_else(|_| {
                let why = "did not answer in 5 seconds";
                Availability::new(Readiness::Unreachable, why, None)
            });
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        if stands.is_none_or(|(was, _)| was != found.available) {
            *stands = Some((found.available, Millis::now()));
        }
        found
    }

    /// Since when it can take work, or cannot, as far as this process has seen.
    pub(crate) fn stands_since(&self) -> Option<Millis> {
        let stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = stands.map(|(_, since)| since);
        // What changed between two looks the runtime itself has seen.
        seen.max(self.runtime.stands_since())
    }
}
