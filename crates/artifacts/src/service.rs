//! Everything that a gateway's plugin asks about a run's files, as one service: parameters in,
//! answers out, both as the protocol has them. A door (a stdio sidecar, a test) only carries them.
//!
//! Every request names its session and run, and every scope that it names is held against them. What
//! a request says about where the workspace lies is resolved anew each time, and the answer tells
//! who had the say.

mod collect;
mod export;
mod gc;
mod inline;
mod prepare;
mod read;
mod warn;

use std::sync::{Arc, PoisonError, RwLock};

use threadline_contract::{
    ArtifactScope, Fault, OmitReason, RunId, SessionKey,
    plugin::{Place, Whose, WorkspaceSource},
};

use crate::{
    Error, KeyRing, Ledger, OutputRoot, ScopeStyle, Workspace, WorkspaceSources,
    clock::now_ns,
    outputs::{Gathered, Outputs},
    verified::Verified,
};

pub use self::{export::MAX_PAGE, gc::GcResult};

/// What the service works with.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    /// What may name the workspace, beside the request.
    pub workspace: WorkspaceSources,
    /// Folders that the gateway's tools write to, for all runs alike.
    pub output_roots: Vec<OutputRoot>,
    /// Who took which file out of them. All who collect from the same folders share one.
    pub ledger: Ledger,
    /// The secret that the earlier plugin signed with, if its references shall still be honoured.
    pub peer_secret: Option<String>,
}

/// Answers for the files of runs. Can be shared by any number of threads.
#[derive(Debug)]
pub struct Service {
    settings: ServiceSettings,
    keys: RwLock<KeyRing>,
    verified: Arc<Verified>,
}

/// A request whose session, run and workspace are known.
struct Request {
    session: SessionKey,
    run: RunId,
    workspace: Workspace,
    source: WorkspaceSource,
    warnings: Vec<String>,
}

impl Service {
    /// A service with these keys.
    pub fn new(settings: ServiceSettings, keys: KeyRing) -> Self {
        Self {
            settings,
            keys: RwLock::new(keys),
            verified: Arc::default(),
        }
    }

    /// Takes other keys into use, after a rotation.
    pub fn use_keys(&self, keys: KeyRing) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The workspace of a request, for what this service does not do itself.
    pub fn workspace(&self, whose: &Whose) -> Result<Workspace, Fault> {
        Ok(self.locate(whose)?.0)
    }

    fn locate(&self, whose: &Whose) -> Result<(Workspace, WorkspaceSource, Vec<String>), Fault> {
        let sources = &self.settings.workspace;
        let found = sources.resolve(
            whose.workspace_dir.as_deref(),
            whose.agent_workspace_dir.as_deref(),
        )?;
        let workspace = Workspace::open_with(found.path, Arc::clone(&self.verified))?;
        Ok((workspace, found.source, found.warnings))
    }

    fn request(&self, whose: &Whose) -> Result<Request, Fault> {
        let (session, run) = keys_of(whose)?;
        // Before anything is looked at: the request must be about itself.
        if let Some(scope) = &whose.artifact_scope {
            ArtifactScope::check_to_read(scope, &session, &run)?;
        }
        let (workspace, source, warnings) = self.locate(whose)?;
        workspace.restore(&session, &run, &self.settings.ledger)?;
        Ok(Request {
            session,
            run,
            workspace,
            source,
            warnings,
        })
    }

    /// Brings into the run's scope what it left elsewhere. A scope that somebody took away is made
    /// again for it, and named: what lay in it cannot be delivered any more.
    fn gather(&self, request: &Request, outputs: &Outputs<'_>) -> Result<Gathered, Error> {
        let (session, run) = (&request.session, &request.run);
        let workspace = &request.workspace;
        let ledger = &self.settings.ledger;
        let Some(prepared_ns) = workspace.gone(session, run, ledger)? else {
            return workspace.gather(session, run, ledger, outputs);
        };
        workspace.remake(session, run, prepared_ns)?;
        let mut gathered = workspace.gather(session, run, ledger, outputs)?;
        let scope = ArtifactScope::of(session, run)?;
        gathered
            .collected
            .omitted
            .add(format!("{scope}/"), OmitReason::Vanished);
        Ok(gathered)
    }

    fn keys(&self) -> KeyRing {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }
}

impl Request {
    fn place(&self, scope: ArtifactScope) -> Place {
        let workspace = self.workspace.path();
        Place {
            run_id: self.run.clone(),
            session_key: self.session.clone(),
            openclaw_session_key: self.session.clone(),
            remote_working_directory: workspace.to_string_lossy().into_owned(),
            remote_workspace_ref_kind: "remotePath".to_owned(),
            workspace_source: self.source,
            artifact_directory: workspace
                .join(scope.as_str())
                .to_string_lossy()
                .into_owned(),
            artifact_scope: scope,
            scope_kind: "task".to_owned(),
        }
    }

    /// Keeps the scope from being cleaned up while references to it are good. What the earlier
    /// plugin left is never cleaned up by us.
    fn hold(&self, until: i64) -> Result<(), Error> {
        match self.workspace.hold(&self.session, &self.run, until) {
            Err(Error::NotPrepared { .. }) => Ok(()),
            done => done,
        }
    }

    /// The scope to read from. The earlier plugin's is read only when the request names it; where
    /// both rules give the same name, the owner's stamp tells whose it is.
    fn scope_to_read(&self, whose: &Whose) -> Result<(ArtifactScope, ScopeStyle), Fault> {
        let (session, run) = (&self.session, &self.run);
        let own = ArtifactScope::of(session, run)?;
        let Some(text) = &whose.artifact_scope else {
            return Ok((own, ScopeStyle::Own));
        };
        let named = ArtifactScope::check_to_read(text, session, run)?;
        let is_peers = named != own
            || (own == ArtifactScope::peer(session, run)
                && self.workspace.scope(session, run)?.1.is_none());
        let style = if is_peers {
            ScopeStyle::Peer
        } else {
            ScopeStyle::Own
        };
        Ok((named, style))
    }
}

/// The session and run of a request.
fn keys_of(whose: &Whose) -> Result<(SessionKey, RunId), Fault> {
    let missing = |what: &str| Fault::invalid(format!("`{what}` is required."));
    let session = whose.openclaw_session_key.as_deref();
    let session = session.ok_or_else(|| missing("openclawSessionKey"))?;
    let run = whose.run_id.as_deref();
    let run =
        run.ok_or_else(|| Fault::invalid("`runId` is required: a run id that is not blank."))?;
    Ok((SessionKey::new(session)?, RunId::new(run)?))
}

/// Seconds since 1970.
fn now() -> i64 {
    now_ns().div_euclid(1_000_000_000)
}

/// A number that must be above zero to count.
fn positive(number: Option<i64>) -> Option<usize> {
    number
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n > 0)
}
