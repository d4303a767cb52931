//! Taking turns: which thread, which runtime, now or later.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use threadline_contract::{
    AppThreadKey, Code, Deliverable, Fault, Millis, RequestId, Routing, RuntimeId, method,
    thread::{
        ContextState, ExecutionBinding, ExecutionMode, Lifecycle, LifecycleState, QueuedTurn, Role,
        SCHEMA_VERSION, TaskThread, WorkspaceBinding,
    },
};

use super::{App, Core};
use crate::{
    api::{RetryParams, SendParams, ThreadView},
    bridge::Bridge,
    change,
    config::LaneSize,
    endpoints::LOCAL,
    fault::storage,
    lane::{LaneId, Place},
    records::lock,
    request::{self, Session},
    workspace,
};

/// How long the bridge may take to say where an undecided turn would run.
const RESOLVE: Duration = Duration::from_secs(3);
/// How long a bridge's word about its lane holds.
const SIZE_HOLDS: Duration = Duration::from_secs(60);

/// What a turn consists of, beside its thread.
struct Ask {
    request: RequestId,
    prompt: String,
    deliverables: Vec<Deliverable>,
    attachments: Vec<String>,
}

impl App {
    /// Sends a turn; makes the thread when none is named.
    pub async fn send(&self, params: SendParams) -> Result<ThreadView, Fault> {
        let core = &self.core;
        if params.prompt.trim().is_empty() {
            return Err(Fault::new(
                Code::PromptRequired,
                "The turn has no prompt. Say what to do.",
            ));
        }
        let runtime: Option<RuntimeId> = params.runtime.as_deref().map(str::parse).transpose()?;
        let request = RequestId::fresh();
        let attachments = {
            let (request, paths, inline) = (
                request.clone(),
                params.attach.clone(),
                params.inline.clone(),
            );
            core.outbox(move |outbox| outbox.attach(&request, &paths, &inline))
                .await?
        };
        let prepared = match &params.thread {
            Some(text) => core.existing(text, &params, runtime).await,
            None => core.create(&params, runtime).await.map(|key| (key, None)),
        };
        let ask = Ask {
            request: request.clone(),
            prompt: params.prompt,
            deliverables: params.expect,
            attachments,
        };
        let asked = match prepared {
            Ok((key, notice)) => core.ask(&key, ask).await.map(|()| (key, notice)),
            Err(fault) => Err(fault),
        };
        match asked {
            Ok((key, notice)) => {
                let mut view = core.view(&key).await?;
                view.notice = notice;
                Ok(view)
            }
            Err(fault) => {
                core.outbox(move |outbox| outbox.remove(&request)).await?;
                Err(fault)
            }
        }
    }

    /// Sends the last message of the user again, as a new turn, with its files and declarations.
    ///
    /// A request that perhaps never reached the bridge is sent again as it was, so that nothing can
    /// run twice.
    pub async fn retry(&self, params: RetryParams) -> Result<ThreadView, Fault> {
        let core = &self.core;
        let key = core.find(&params.thread)?;
        let record = core.records.read(&key).await?;
        if record.lifecycle_state.status != Lifecycle::Ready {
            record
                .lifecycle_state
                .status
                .after(threadline_contract::thread::Move::Start)?;
            return Err(busy());
        }
        let last = record.context_state.task_association.as_ref();
        if let Some(last) = last
            && !params.new_session
            && last.run_id.is_none()
            && !last.cancel_requested
            && core.send_again(&key, &last.request_id).await?
        {
            return core.view(&key).await;
        }
        let message = record
            .context_state
            .messages
            .iter()
            .rev()
            .find(|m| m.role == Role::User);
        let Some(message) = message else {
            return Err(Fault::invalid("The thread has no message to send again."));
        };
        let request = RequestId::fresh();
        let (attachments, deliverables) = match last.map(|a| a.request_id.clone()) {
            None => (Vec::new(), Vec::new()),
            Some(old) => {
                let new = request.clone();
                core.outbox(move |outbox| {
                    let files = outbox.reattach(&old, &new)?;
                    let contract = outbox.sealed(&old)?.and_then(|(sealed, _)| {
                        sealed.params.metadata?.xworkmate_task_artifact_contract
                    });
                    Ok((files, contract.map(|c| c.deliverables).unwrap_or_default()))
                })
                .await?
            }
        };
        let prompt = message.text.clone();
        if params.new_session {
            core.new_session(&key).await?;
        }
        let ask = Ask {
            request,
            prompt,
            deliverables,
            attachments,
        };
        core.ask(&key, ask).await?;
        core.view(&key).await
    }
}

impl Core {
    async fn create(
        self: &Arc<Self>,
        params: &SendParams,
        runtime: Option<RuntimeId>,
    ) -> Result<AppThreadKey, Fault> {
        let endpoint = match &params.bridge {
            None => LOCAL.to_owned(),
            Some(bridge) => {
                let (core, bridge) = (self.clone(), bridge.clone());
                self.blocking(move || core.endpoints.remember(&bridge))
                    .await??
            }
        };
        let working_directory = params
            .working_directory
            .as_deref()
            .map(str::trim)
            .filter(|w| !w.is_empty())
            .map(str::to_owned);
        if working_directory
            .as_deref()
            .is_some_and(|w| !w.starts_with('/'))
        {
            return Err(Fault::new(
                Code::WorkdirNotAllowed,
                "The working directory must be named by its absolute path.",
            ));
        }
        let target = match &runtime {
            Some(runtime) => Some(runtime.clone()),
            None => self.would_run_on(&endpoint).await,
        };
        let execution_mode = match target.as_ref().map(RuntimeId::target) {
            Some("gateway") => ExecutionMode::Gateway,
            _ => ExecutionMode::Agent,
        };
        let now = Millis::now();
        let key = loop {
            let n = self.serial.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let key = AppThreadKey::draft(now, n);
            if self.records.index(|i| i.get(&key).is_none()) {
                break key;
            }
        };
        let path = {
            let (base, key) = (self.config.workspaces.clone(), key.clone());
            self.blocking(move || workspace::claim(&base, &key))
                .await?
                .map_err(storage)?
        };
        let record = self
            .records
            .create(|name| TaskThread {
                schema_version: SCHEMA_VERSION,
                thread_id: key,
                name,
                title: change::title(&params.prompt),
                workspace_binding: WorkspaceBinding {
                    workspace_kind: "localFs".into(),
                    workspace_path: path.display().to_string(),
                    working_directory,
                },
                execution_binding: ExecutionBinding {
                    execution_mode,
                    runtime,
                    endpoint_id: endpoint,
                },
                context_state: ContextState::default(),
                lifecycle_state: LifecycleState {
                    status: Lifecycle::Ready,
                    last_run_at_ms: None,
                    last_result_code: None,
                },
                created_at_ms: now,
                updated_at_ms: now,
            })
            .await?;
        Ok(record.thread_id)
    }

    /// Finds a thread that the user goes on with, and says what he should know about it.
    async fn existing(
        self: &Arc<Self>,
        text: &str,
        params: &SendParams,
        runtime: Option<RuntimeId>,
    ) -> Result<(AppThreadKey, Option<String>), Fault> {
        let key = self.find(text)?;
        let record = self.records.read(&key).await?;
        if record.lifecycle_state.status == Lifecycle::Archived {
            record
                .lifecycle_state
                .status
                .after(threadline_contract::thread::Move::Wait)?;
        }
        let folder = record.workspace_binding.working_directory.as_deref();
        if let Some(other) = params.working_directory.as_deref()
            && folder != Some(other)
        {
            return Err(Fault::invalid(
                "A thread's working directory is fixed when it is made. Begin a new thread.",
            ));
        }
        if let Some(bridge) = &params.bridge {
            let url = crate::bridge::base_url(&bridge.url)?.to_string();
            if url.trim_end_matches('/') != record.execution_binding.endpoint_id {
                return Err(Fault::invalid(
                    "A thread's bridge is fixed when it is made. Begin a new thread.",
                ));
            }
        }
        let known = record.execution_binding.runtime.clone();
        let moved = runtime.filter(|wanted| known.as_ref() != Some(wanted));
        if let Some(wanted) = moved {
            return self
                .switch(&key, &record, wanted)
                .await
                .map(|notice| (key, notice));
        }
        if params.new_session {
            self.new_session(&key).await?;
        }
        Ok((key, None))
    }

    /// Moves a thread to another runtime, where a new session begins.
    async fn switch(
        &self,
        key: &AppThreadKey,
        record: &TaskThread,
        wanted: RuntimeId,
    ) -> Result<Option<String>, Fault> {
        let begun = record.context_state.task_association.is_some();
        self.idle(key)?;
        let notice = begun.then(|| {
            format!("The thread runs on {wanted} from here on. Its session there is new and does not know what was said before.")
        });
        self.records
            .update(key, |record| {
                if record.lifecycle_state.status != Lifecycle::Ready {
                    return Err(busy());
                }
                record.execution_binding.execution_mode = match wanted.target() {
                    "gateway" => ExecutionMode::Gateway,
                    _ => ExecutionMode::Agent,
                };
                record.execution_binding.runtime = Some(wanted);
                change::forget_session(record);
                Ok(())
            })
            .await?;
        Ok(notice)
    }

    async fn new_session(&self, key: &AppThreadKey) -> Result<(), Fault> {
        self.idle(key)?;
        self.records
            .update(key, |record| {
                if record.lifecycle_state.status != Lifecycle::Ready {
                    return Err(busy());
                }
                change::forget_session(record);
                Ok(())
            })
            .await?;
        Ok(())
    }

    fn idle(&self, key: &AppThreadKey) -> Result<(), Fault> {
        if lock(&self.lanes).busy(key) {
            return Err(busy());
        }
        Ok(())
    }

    /// Takes a turn: it starts, waits, or is turned away.
    async fn ask(self: &Arc<Self>, key: &AppThreadKey, ask: Ask) -> Result<(), Fault> {
        let request = ask.request.clone();
        let mut offered: Option<(LaneId, Place)> = None;
        let stored = self
            .records
            .update(key, |record| {
                // Its own moment, by which its message is found again.
                let last = record
                    .context_state
                    .messages
                    .last()
                    .map(|m| m.timestamp_ms.plus(1));
                let now = Millis::now();
                let turn = QueuedTurn {
                    request_id: ask.request,
                    prompt: ask.prompt,
                    deliverables: ask.deliverables,
                    attachments: ask.attachments,
                    queued_at_ms: last.map_or(now, |last| last.max(now)),
                };
                // Under the record's lock: whoever starts this turn finds it stored.
                let place = {
                    let mut lanes = lock(&self.lanes);
                    let lane = lanes.lane_for(key, lane_of(record));
                    let place = lanes.lane(&lane).offer(key, &turn.request_id);
                    offered = place.ok().map(|place| (lane, place));
                    place
                };
                match place {
                    Ok(place) => change::asked(record, turn, place).map(Ok),
                    Err(_) => {
                        let fault = Fault::new(Code::QueueFull, Code::QueueFull.advice())
                            .with("threadId", key.as_str())
                            .with("name", record.name.clone());
                        change::turned_away(record, &turn, &fault);
                        Ok(Err(fault))
                    }
                }
            })
            .await;
        let record = match (stored, &offered) {
            (Ok((record, taken)), _) => {
                taken?;
                record
            }
            (Err(fault), offered) => {
                // The record was not written: the turn does not exist.
                if let Some((lane, place)) = offered {
                    let mut lanes = lock(&self.lanes);
                    match place {
                        Place::Start => lanes.lane(lane).finish(key),
                        Place::Wait => lanes.lane(lane).retract(&request),
                    }
                }
                return Err(fault);
            }
        };
        if record.execution_binding.execution_mode == ExecutionMode::Gateway {
            self.ask_lane_size(&record.execution_binding.endpoint_id);
        }
        match offered {
            Some((lane, Place::Start)) => self.start(lane, key.clone(), request).await,
            _ => self.pump(),
        }
        Ok(())
    }

    /// Starts every turn that may start now.
    pub(crate) fn pump(self: &Arc<Self>) {
        loop {
            let next = lock(&self.lanes).start_next();
            let Some((lane, key, request)) = next else {
                break;
            };
            let core = self.clone();
            self.spawn(async move { core.start(lane, key, request).await });
        }
        for key in lock(&self.lanes).waiting() {
            self.records.touch(&key);
        }
    }

    /// Starts a turn that has its place in the lane.
    pub(crate) async fn start(
        self: &Arc<Self>,
        lane: LaneId,
        key: AppThreadKey,
        request: RequestId,
    ) {
        match self.begin(&key, &request).await {
            Ok(Some(order)) => {
                let core = self.clone();
                self.spawn(async move { core.run(lane, order).await });
            }
            Ok(None) => self.free(&lane, &key),
            Err(fault) => {
                tracing::warn!(thread = %key, "A turn of {key} could not be sent: {fault}");
                let failed = self
                    .surely("The end of a turn", || {
                        self.records
                            .update(&key, |r| change::unsent(r, &request, &fault))
                    })
                    .await;
                if let Err(fault) = failed {
                    tracing::error!(thread = %key, "The failure of a turn of {key} was not stored: {fault}");
                }
                self.free(&lane, &key);
            }
        }
    }

    /// The thread's turn is over: its place goes to the next.
    pub(crate) fn free(self: &Arc<Self>, lane: &LaneId, key: &AppThreadKey) {
        lock(&self.lanes).lane(lane).finish(key);
        self.pump();
    }

    /// Seals the request of a waiting turn and marks the thread as running.
    async fn begin(
        &self,
        key: &AppThreadKey,
        request: &RequestId,
    ) -> Result<Option<super::run::Run>, Fault> {
        // Under the record's lock: the turn may be just about to be stored.
        let (record, ()) = self.records.update(key, |_| Ok(())).await?;
        let turns = &record.context_state.queued_turns;
        let Some(turn) = turns.iter().find(|t| t.request_id == *request) else {
            return Ok(None);
        };
        let sealed = request::build(&record, turn, Session::of(&record));
        let asked_at = sealed.asked_at_ms;
        let body = {
            let request = request.clone();
            self.outbox(move |outbox| {
                outbox.seal(&request, &sealed)?;
                outbox.sealed(&request)
            })
            .await?
        };
        let now = Millis::now();
        let (begun, turn) = self
            .records
            .update(key, |record| change::begin(record, request, now))
            .await?;
        if turn.is_none() {
            let request = request.clone();
            self.outbox(move |outbox| outbox.remove(&request)).await?;
            return Ok(None);
        }
        let old = record.context_state.task_association.map(|a| a.request_id);
        if let Some(old) = old.filter(|old| !lock(&self.to_sync).contains(old)) {
            self.outbox(move |outbox| outbox.remove(&old)).await?;
        }
        let bridge = self
            .endpoints
            .bridge(&begun.execution_binding.endpoint_id)?;
        Ok(super::run::Run::of(
            &begun,
            bridge,
            body.map(|(_, body)| body),
            asked_at,
        ))
    }

    /// Sends a request again that perhaps never arrived. `false`: it is not there any more.
    async fn send_again(
        self: &Arc<Self>,
        key: &AppThreadKey,
        request: &RequestId,
    ) -> Result<bool, Fault> {
        let sealed = {
            let request = request.clone();
            self.outbox(move |outbox| outbox.sealed(&request)).await?
        };
        if sealed.is_none() {
            return Ok(false);
        }
        self.reattach(key, request).await?;
        Ok(true)
    }

    /// Where an undecided turn would run, as far as the bridge says so in time.
    async fn would_run_on(&self, endpoint: &str) -> Option<RuntimeId> {
        let bridge: Bridge = self.endpoints.bridge(endpoint).ok()?;
        let params = method::ResolveParams {
            routing: Routing {
                routing_mode: Some("auto".into()),
                ..Routing::default()
            },
        };
        let asked = bridge.call::<method::Resolved>(method::ROUTING_RESOLVE, &params);
        // Not knowing is fine: such a turn is not held back here, and the bridge's queue holds it.
        tokio::time::timeout(RESOLVE, asked)
            .await
            .ok()?
            .ok()?
            .runtime
    }

    /// Asks the bridge, now and then, how large its lane is.
    pub(crate) fn ask_lane_size(self: &Arc<Self>, endpoint: &str) {
        {
            let mut sized = lock(&self.sized);
            let known = sized
                .get(endpoint)
                .is_some_and(|at| at.elapsed() < SIZE_HOLDS);
            if known {
                return;
            }
            sized.insert(endpoint.to_owned(), Instant::now());
        }
        let (core, endpoint) = (self.clone(), endpoint.to_owned());
        self.spawn(async move {
            if let Err(fault) = core.capabilities(&endpoint).await {
                lock(&core.sized).remove(&endpoint);
                tracing::debug!("The bridge did not say how large its lane is: {fault}");
            }
        });
    }

    /// What the bridge offers; its lane is sized by it.
    pub(crate) async fn capabilities(
        self: &Arc<Self>,
        endpoint: &str,
    ) -> Result<method::Capabilities, Fault> {
        let bridge = self.endpoints.bridge(endpoint)?;
        let found: method::Capabilities = bridge
            .call(method::CAPABILITIES, &serde_json::json!({}))
            .await?;
        let gateway = found
            .gateway_providers
            .iter()
            .find(|p| p.provider_id == "openclaw");
        if let Some(gateway) = gateway {
            let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
            let reported = LaneSize {
                active: size(gateway.max_active),
                queued: size(gateway.max_queued),
            };
            lock(&self.lanes).resize(endpoint, reported);
            self.pump();
        }
        Ok(found)
    }
}

/// The lane of a thread's turns.
pub(crate) fn lane_of(record: &TaskThread) -> LaneId {
    let binding = &record.execution_binding;
    LaneId::of(binding.execution_mode, &binding.endpoint_id)
}

pub(crate) fn busy() -> Fault {
    Fault::new(
        Code::ThreadBusy,
        "The thread has a run. Wait for its end or stop it first.",
    )
}
