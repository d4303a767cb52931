//! `session.start` and `session.message`: from a request to an admitted run.

use std::collections::HashMap;

use serde_json::{Value, json};
use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, NewKey, Owner, PermissionPolicy, Principal, QueuePlace,
    RunId, RunStatus, RuntimeId, SessionKey, canonical,
    method::{self, Resolved},
    rpc,
    turn::{Turn, TurnParams},
};
use threadline_runtimes::TurnPlan;
use threadline_store::{
    Admitted, Method, NewLease, NewRun, NewSession, Phase, Run, Session, SessionState, StoreError,
    being_deleted,
};

use crate::{
    Engine, Node, TurnExtras, attachments,
    engine::Lane,
    run::{
        kept::Kept,
        lane::{self, Entry, Place, Pool},
    },
    wire, workdir,
};

/// Case twins and other accounts' keys that a new session key steps around at most.
const TWINS: u32 = 64;
/// The numbers in the keys of accounts other than the machine's own begin here.
const FIRST_ACCOUNT_TWIN: u32 = 1_000_000_000;

/// What became of a turn.
pub enum TurnAnswer {
    /// It has a run.
    Accepted(Box<Accepted>),
    /// Its runtime cannot take it now: a result, not an error.
    Unavailable(Box<Resolved>),
    /// Another server has its session. Nothing was begun.
    Elsewhere(Node),
}

/// A turn that has a run.
pub struct Accepted {
    /// The run, new or the one that the same request made before.
    pub run: RunId,
    /// Its thread.
    pub thread: AppThreadKey,
}

impl Engine {
    /// Takes a turn. The same `requestId` and body give the same run, whenever they come again.
    pub async fn turn(
        &self,
        caller: &Principal,
        method: &str,
        params: Value,
    ) -> Result<TurnAnswer, Fault> {
        self.turn_with(caller, method, params, TurnExtras::default())
            .await
    }

    /// The same, with instructions and tools.
    pub async fn turn_with(
        &self,
        caller: &Principal,
        method: &str,
        params: Value,
        extras: TurnExtras,
    ) -> Result<TurnAnswer, Fault> {
        let digest = canonical::digest(&json!({"method": method, "params": params}));
        let turn = rpc::params::<TurnParams>(params)?.check()?;
        let owner = Owner::Thread(turn.thread.clone());
        if let Some(request) = &turn.request
            && let Some(run) = self
                .0
                .store
                .requested(&caller.account, &owner, request, &digest)
                .await
                .map_err(conflict)?
        {
            return Ok(accepted(&run));
        }
        let continues = method == method::MESSAGE;
        let runtime = self.route(caller, Some(&owner), &turn.routing).await?;
        let existing = self.session_of(caller, &owner, &runtime).await?;
        if let Some(session) = &existing
            && let Some(node) = self.session_elsewhere(session).await?
        {
            return Ok(TurnAnswer::Elsewhere(node));
        }
        let resolved = self.resolved(&runtime).await;
        let waits = |lane: &Lane| lane.runtime.waits_for().is_some();
        if !resolved.success && !self.lane(&runtime).is_some_and(waits) {
            return Ok(TurnAnswer::Unavailable(Box::new(resolved)));
        }
        extras.check(&*self.runtime(&runtime)?.runtime)?;
        let files = attachments::verify(&turn.attachments)?;
        self.takes_files(&runtime, &attachments::outlines(&files))?;
        threadline_artifacts::deliverables::check(&turn.deliverables)?;
        // The database knows it too, unless there was no room to tell it.
        if self.is_being_removed(&caller.account, &owner) {
            return Err(conflict(StoreError::Conflict(being_deleted(&owner))));
        }
        let session = self.session_for(caller, &turn, &runtime, continues, existing);
        let session = session.await?;
        // Another server was asked for the thread's first turn at the same moment, and was quicker.
        if let Some(node) = self.session_elsewhere(&session).await? {
            return Ok(TurnAnswer::Elsewhere(node));
        }

        let run = RunId::fresh();
        let folder = self.0.config.attachments.clone();
        let kept = {
            let (run, folder) = (run.clone(), folder.clone());
            tokio::task::spawn_blocking(move || attachments::keep(&folder, &run, files))
                .await
                .map_err(|_| Fault::internal())??
        };
        let plan = TurnPlan {
            owner: owner.clone(),
            session: session.session_key.clone(),
            run: run.clone(),
            prompt: turn.prompt,
            instructions: extras.instructions,
            tools: extras.tools,
            continues,
            working_directory: session.working_directory.as_ref().map(Into::into),
            expected_dirs: turn.expected_dirs,
            deliverables: turn.deliverables,
            attachments: kept,
        };
        let policy = match turn.permission_policy {
            Some(policy) => policy,
            None => self.policy_of(caller, &owner, continues).await?,
        };
        let kept = Kept {
            load_class: turn.load_class,
            executor: extras.executor,
            budget_minutes: Some(self.0.config.rules.budgets.minutes(turn.load_class)),
            ..Kept::new(plan, policy)
        };
        let admitted = self
            .admit(caller, &runtime, kept, turn.request.map(|r| (r, digest)))
            .await;
        match admitted {
            Ok(Admitted::New(made)) => {
                self.drive(&made, self.runtime(&runtime)?.runtime.is_local());
                Ok(accepted(&made))
            }
            Ok(Admitted::Same(earlier)) => {
                attachments::forget(&folder, &run);
                Ok(accepted(&earlier))
            }
            Err(fault) => {
                attachments::forget(&folder, &run);
                Err(fault)
            }
        }
    }

    async fn admit(
        &self,
        caller: &Principal,
        runtime: &RuntimeId,
        kept: Kept,
        request: Option<(threadline_contract::RequestId, threadline_contract::Sha256)>,
    ) -> Result<Admitted, Fault> {
        let lane = self.runtime(runtime)?;
        let _deciding = lane.deciding.lock().await;
        let entries = self.lane_entries(runtime).await?;
        if !lane::has_room(&entries, &self.own_places(runtime), lane.runtime.lane()) {
            return Err(busy(lane));
        }
        let (now, turn) = (Millis::now(), kept.text()?);
        let plan = kept.plan;
        let new = NewRun {
            id: plan.run.clone(),
            account: caller.account.clone(),
            owner: plan.owner.clone(),
            runtime: runtime.clone(),
            session_key: plan.session.clone(),
            method: if plan.continues {
                Method::Message
            } else {
                Method::Start
            },
            turn,
            request,
            begun_by: caller.actor(),
            lease: Some(NewLease {
                owner: self.0.config.node.clone(),
                until: now.plus(self.0.config.lease_ttl.as_millis() as i64),
            }),
            at: now,
        };
        self.0.store.admit(new, vec![]).await.map_err(conflict)
    }

    /// What becomes of permissions in a turn that does not say: as in the thread's turn before it,
    /// else as this server does it.
    async fn policy_of(
        &self,
        caller: &Principal,
        owner: &Owner,
        continues: bool,
    ) -> Result<PermissionPolicy, Fault> {
        if continues && let Some(last) = self.0.store.latest_run(&caller.account, owner).await? {
            return Ok(Kept::read(&self.0.store, &last.id).await?.policy);
        }
        Ok(self.0.config.rules.policy.clone())
    }

    async fn session_of(
        &self,
        caller: &Principal,
        owner: &Owner,
        runtime: &RuntimeId,
    ) -> Result<Option<Session>, Fault> {
        match self.0.store.session(&caller.account, owner, runtime).await {
            Ok(session) => Ok(Some(session)),
            Err(StoreError::NotFound) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// The session of a thread on a runtime: from the mapping, or made once by the runtime's
    /// creation policy. A message never makes one: that would be a silent restart.
    async fn session_for(
        &self,
        caller: &Principal,
        turn: &Turn,
        runtime: &RuntimeId,
        continues: bool,
        existing: Option<Session>,
    ) -> Result<Session, Fault> {
        let lane = self.runtime(runtime)?;
        let folder = workdir::check(turn.working_directory.as_deref(), caller, &self.0.config)?;
        self.takes(runtime, folder.as_deref())?;
        let folder = folder.map(|p| p.display().to_string());
        if continues {
            let session = existing.filter(|s| s.state == SessionState::Open).ok_or_else(|| {
                Fault::new(Code::ContinuationUnavailable, format!("Thread `{}` has no open session on {runtime}. Start a new one with session.start.", turn.thread))
            })?;
            if folder.is_some() && folder != session.working_directory {
                return Err(other_folder(&session));
            }
            self.check_continuation(&session, &*lane.runtime, None)
                .await?;
            return Ok(session);
        }
        if let Some(session) = &existing
            && folder.is_some()
            && folder != session.working_directory
        {
            return Err(other_folder(session));
        }
        let known = existing.map(|s| s.session_key);
        let owner = Owner::Thread(turn.thread.clone());
        let first = first_twin(caller, &turn.thread);
        for twin in first..first + TWINS {
            let session_key = known.clone().unwrap_or_else(|| {
                lane.runtime.new_session_key(&NewKey {
                    account: &caller.account,
                    owner: &owner,
                    version: 1,
                    agent: turn.agent.as_deref(),
                    twin,
                })
            });
            if known.is_none() {
                SessionKey::new(session_key.as_str())
                    .map_err(|e| Fault::invalid(format!("The thread's key is too long: {e}.")))?;
                // Told now rather than by a run that was accepted: another's folder stays another's.
                lane.runtime.reserve(&session_key).await?;
            }
            let new = NewSession {
                account: caller.account.clone(),
                owner: owner.clone(),
                runtime: runtime.clone(),
                version: 1,
                session_key,
                expected_dirs: turn.expected_dirs.clone(),
                working_directory: folder.clone(),
                node: (lane.runtime.keeps_sessions()).then(|| self.0.config.node.clone()),
                at: Millis::now(),
            };
            match self.0.store.bind_session(new).await {
                Ok(bound) => {
                    let session = bound.session();
                    if session.state == SessionState::Open {
                        return Ok(session);
                    }
                    return Ok(self
                        .0
                        .store
                        .set_session_state(
                            &caller.account,
                            &session.session_key,
                            SessionState::Open,
                            &caller.actor(),
                            Millis::now(),
                        )
                        .await?);
                }
                Err(StoreError::KeyTaken) => {}
                Err(other) => return Err(conflict(other)),
            }
        }
        Err(Fault::new(
            Code::Conflict,
            format!(
                "No session key is free for thread `{}`. Use another thread key.",
                turn.thread
            ),
        ))
    }

    /// The open runs of a runtime, each with the places that it takes one of.
    pub(crate) async fn lane_entries(&self, runtime: &RuntimeId) -> Result<Vec<Entry>, Fault> {
        let local = self.has_own_places(runtime);
        let mut pools: HashMap<String, Pool> = HashMap::new();
        let mut entries = vec![];
        for open in self.0.store.lane(runtime).await? {
            // Whatever is in a database of our own is ours, whatever name we had then.
            let driver = open.lease_owner.filter(|_| !self.is_sole());
            let driver = driver.unwrap_or_else(|| self.node_name().to_owned());
            let places = match pools.get(&driver) {
                Some(known) => known.clone(),
                None => {
                    let away = !local && self.is_away(&driver).await?;
                    let places = lane::pool(&driver, local, away);
                    pools.insert(driver, places.clone());
                    places
                }
            };
            entries.push(Entry {
                phase: open.phase,
                run: open.run,
                session: open.session_key,
                places,
            });
        }
        Ok(entries)
    }

    /// The places that a turn takes one of when this server takes it.
    pub(crate) fn own_places(&self, runtime: &RuntimeId) -> Pool {
        lane::pool(self.node_name(), self.has_own_places(runtime), false)
    }

    /// Whether a runtime's agents run on the host of each server. A gateway is shared.
    fn has_own_places(&self, runtime: &RuntimeId) -> bool {
        self.lane(runtime)
            .is_some_and(|lane| lane.runtime.keeps_sessions())
    }

    /// Where a waiting run stands now.
    pub(crate) async fn queue_place(&self, run: &Run) -> Result<Option<QueuePlace>, Fault> {
        if run.phase != Phase::Queued || run.status != RunStatus::Running {
            return Ok(None);
        }
        let Some(lane) = self.lane(&run.runtime) else {
            return Ok(None);
        };
        let entries = self.lane_entries(&run.runtime).await?;
        Ok(match lane::place(&entries, &run.id, lane.runtime.lane()) {
            Place::Wait(place) => Some(place),
            Place::Go => None,
        })
    }
}

/// The number that a thread's key is first tried with. Every key of another account has one, made from its own
/// name: whether a key without one is taken must not tell it what the machine's own account has.
fn first_twin(caller: &Principal, thread: &AppThreadKey) -> u32 {
    if caller.account.is_local() {
        return 1;
    }
    let named = canonical::digest(&json!([caller.account, thread]));
    let [a, b, c, d, ..] = named.0;
    FIRST_ACCOUNT_TWIN + u32::from_be_bytes([a, b, c, d]) % FIRST_ACCOUNT_TWIN
}

fn accepted(run: &Run) -> TurnAnswer {
    TurnAnswer::Accepted(Box::new(Accepted {
        run: run.id.clone(),
        thread: wire::name(&run.owner),
    }))
}

fn conflict(e: StoreError) -> Fault {
    match e {
        StoreError::IdempotencyConflict => Fault::new(
            Code::IdempotencyConflict,
            Code::IdempotencyConflict.advice(),
        ),
        StoreError::Conflict(what) => {
            Fault::new(Code::Conflict, format!("{what}. Nothing was changed."))
        }
        other => other.into(),
    }
}

fn other_folder(session: &Session) -> Fault {
    let held = session
        .working_directory
        .as_deref()
        .unwrap_or("its own folder");
    Fault::new(
        Code::Conflict,
        format!("This session works in {held} for life. Start a new thread to work elsewhere."),
    )
}

fn busy(lane: &Lane) -> Fault {
    let size = lane.runtime.lane();
    Fault::new(
        lane.runtime.busy_code(),
        format!(
            "{} runs {} turns at once and {} wait already. Try again when one has ended.",
            lane.runtime.label(),
            size.max_active,
            size.max_queued
        ),
    )
    .with("reason", "queue_full")
}
