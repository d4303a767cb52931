//! The engine's entry for a turn, whichever door it comes through: from a request that was read, checked and
//! routed to an admitted run.

use std::path::PathBuf;

use threadline_contract::{
    Code, Deliverable, Fault, LoadClass, Millis, Owner, PermissionPolicy, Principal, RequestId,
    RunId, RuntimeId, Sha256, method::Resolved,
};
use threadline_runtimes::TurnPlan;
use threadline_store::{
    Admitted, Method, NewLease, NewRun, Run, Session, StoreError, being_deleted,
};

use crate::{
    Engine, Node, TurnExtras,
    attachments::{self, InputFile},
    engine::Lane,
    run::{kept::Kept, lane},
};

/// Where a turn goes, before anything is begun.
pub enum Destination {
    /// This server takes it.
    Here(Box<Here>),
    /// Its runtime cannot take it now.
    Unavailable(Box<Resolved>),
    /// Another server has its session.
    Elsewhere(Node),
}

/// A runtime that this server can send an owner's turn to.
pub struct Here {
    /// The owner.
    pub(crate) owner: Owner,
    /// The runtime.
    pub(crate) runtime: RuntimeId,
    /// The owner's newest session there.
    pub(crate) session: Option<Session>,
}

/// What a turn has to do with its owner's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionUse {
    /// It goes on with the one that is open.
    Continue,
    /// It begins the one of this version, or goes on with it if it is there. One that was closed is opened again.
    Start {
        /// Which of the owner's sessions on the runtime.
        version: u32,
    },
}

/// A turn whose request was read and checked.
pub struct NewTurn {
    /// What it has to do with its owner's session.
    pub session: SessionUse,
    /// What to do, with the context in front of it.
    pub prompt: String,
    /// Instructions and tools that come with it.
    pub extras: TurnExtras,
    /// Whom it names, on a runtime that has several agents.
    pub agent: Option<String>,
    /// The user's own folder, already checked.
    pub working_directory: Option<PathBuf>,
    /// Folders in which the runtime may leave files.
    pub expected_dirs: Vec<String>,
    /// What the run must deliver.
    pub deliverables: Vec<Deliverable>,
    /// Verified files that come with it.
    pub files: Vec<InputFile>,
    /// How long it may take.
    pub load_class: LoadClass,
    /// What becomes of permissions; as in the owner's turn before, when nothing is said.
    pub policy: Option<PermissionPolicy>,
    /// The key under which the same request is known again, and the digest of its body.
    pub request: Option<(RequestId, Sha256)>,
}

/// What became of a turn.
pub enum Begun {
    /// Its run: new, or the one that the same request made before.
    Run(Box<Run>),
    /// Another server was asked at the same moment, and has its session.
    Elsewhere(Node),
}

impl Engine {
    /// Where a turn of an owner on a runtime goes. Nothing is made.
    pub async fn destination(
        &self,
        caller: &Principal,
        owner: Owner,
        runtime: RuntimeId,
    ) -> Result<Destination, Fault> {
        let session = self.session_of(caller, &owner, &runtime).await?;
        if let Some(session) = &session
            && let Some(node) = self.session_elsewhere(session).await?
        {
            return Ok(Destination::Elsewhere(node));
        }
        let resolved = self.resolved(&runtime).await;
        let waits = |lane: &Lane| lane.runtime.waits_for().is_some();
        if !resolved.success && !self.lane(&runtime).is_some_and(waits) {
            return Ok(Destination::Unavailable(Box::new(resolved)));
        }
        Ok(Destination::Here(Box::new(Here {
            owner,
            runtime,
            session,
        })))
    }

    /// Binds the turn's session, admits its run and begins to drive it.
    pub async fn begin(
        &self,
        caller: &Principal,
        here: Here,
        turn: NewTurn,
    ) -> Result<Begun, Fault> {
        let lane = self.runtime(&here.runtime)?;
        turn.extras.check(&*lane.runtime)?;
        self.takes_files(&here.runtime, &attachments::outlines(&turn.files))?;
        threadline_artifacts::deliverables::check(&turn.deliverables)?;
        // The database knows it too, unless there was no room to tell it.
        if self.is_being_removed(&caller.account, &here.owner) {
            let going = StoreError::Conflict(being_deleted(&here.owner));
            return Err(refused(going));
        }
        let Here { owner, runtime, .. } = &here;
        let session = self.bind(caller, &here, &turn).await?;
        // Another server was asked for the owner's first turn at the same moment, and was quicker.
        if let Some(node) = self.session_elsewhere(&session).await? {
            return Ok(Begun::Elsewhere(node));
        }
        let run = RunId::fresh();
        let folder = self.0.config.attachments.clone();
        let attachments = {
            let (run, folder) = (run.clone(), folder.clone());
            tokio::task::spawn_blocking(move || attachments::keep(&folder, &run, turn.files))
                .await
                .map_err(|_| Fault::internal())??
        };
        let continues = turn.session == SessionUse::Continue;
        let policy = match turn.policy {
            Some(policy) => policy,
            None => self.policy_of(caller, owner, continues).await?,
        };
        let plan = TurnPlan {
            owner: owner.clone(),
            session: session.session_key,
            run: run.clone(),
            prompt: turn.prompt,
            instructions: turn.extras.instructions,
            tools: turn.extras.tools,
            continues,
            working_directory: session.working_directory.map(Into::into),
            expected_dirs: turn.expected_dirs,
            deliverables: turn.deliverables,
            attachments,
        };
        let kept = Kept {
            load_class: turn.load_class,
            executor: turn.extras.executor,
            budget_minutes: Some(self.0.config.rules.budgets.minutes(turn.load_class)),
            ..Kept::new(plan, policy)
        };
        let admitted = self.admit(caller, runtime, kept, turn.request).await;
        if !matches!(admitted, Ok(Admitted::New(_))) {
            attachments::forget(&folder, &run);
        }
        Ok(Begun::Run(Box::new(match admitted? {
            Admitted::New(made) => {
                self.drive(&made, self.runtime(runtime)?.runtime.is_local());
                made
            }
            Admitted::Same(earlier) => earlier,
        })))
    }

    async fn admit(
        &self,
        caller: &Principal,
        runtime: &RuntimeId,
        kept: Kept,
        request: Option<(RequestId, Sha256)>,
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
        self.0.store.admit(new, vec![]).await.map_err(refused)
    }

    /// What becomes of permissions in a turn that does not say: as in the owner's turn before it,
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
}

/// Why a turn was not taken, in words that say that nothing was changed by it.
pub(crate) fn refused(e: StoreError) -> Fault {
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
