//! `session.start` and `session.message`: what an app asks for becomes a turn of its thread.

use serde_json::{Value, json};
use threadline_contract::{
    AppThreadKey, Fault, Owner, Principal, RunId, canonical,
    method::{self, Resolved},
    owner::is_reserved_thread,
    rpc,
    turn::TurnParams,
};
use threadline_store::Run;

use crate::{
    Engine, Node, TurnExtras, attachments,
    turn::{Begun, Destination, NewTurn, SessionUse, refused},
    wire, workdir,
};

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
                .map_err(refused)?
        {
            return Ok(accepted(&run));
        }
        if is_reserved_thread(&turn.thread) {
            self.is_begun(caller, &owner).await?;
        }
        let runtime = self.route(caller, Some(&owner), &turn.routing).await?;
        let here = match self.destination(caller, owner, runtime).await? {
            Destination::Here(here) => *here,
            Destination::Unavailable(resolved) => return Ok(TurnAnswer::Unavailable(resolved)),
            Destination::Elsewhere(node) => return Ok(TurnAnswer::Elsewhere(node)),
        };
        let files = attachments::verify(&turn.attachments)?;
        let folder = workdir::check(turn.working_directory.as_deref(), caller, &self.0.config)?;
        let new = NewTurn {
            session: match method == method::MESSAGE {
                true => SessionUse::Continue,
                false => SessionUse::Start { version: 1 },
            },
            prompt: turn.prompt,
            extras,
            agent: turn.agent,
            working_directory: folder,
            expected_dirs: turn.expected_dirs,
            deliverables: turn.deliverables,
            files,
            load_class: turn.load_class,
            policy: turn.permission_policy,
            request: turn.request.map(|request| (request, digest)),
        };
        Ok(match self.begin(caller, here, new).await? {
            Begun::Run(run) => accepted(&run),
            Begun::Elsewhere(node) => TurnAnswer::Elsewhere(node),
        })
    }

    /// Refuses to begin a thread by this name, which belongs to the board and to builds. One that is there goes on.
    async fn is_begun(&self, caller: &Principal, owner: &Owner) -> Result<(), Fault> {
        let store = &self.0.store;
        let sessions = store.sessions_of_owner(&caller.account, owner).await?;
        if sessions.is_empty() {
            return Err(Fault::invalid(
                "A thread's key may not begin with `board:`, `build:` or `mc:`: these names belong to the board and to builds. Use another key.",
            ));
        }
        Ok(())
    }
}

fn accepted(run: &Run) -> TurnAnswer {
    TurnAnswer::Accepted(Box::new(Accepted {
        run: run.id.clone(),
        thread: wire::name(&run.owner),
    }))
}
