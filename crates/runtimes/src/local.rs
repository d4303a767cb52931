//! What every runtime on this host shares: the folders a turn works in, and what leaves them.

mod attachments;
mod reader;
mod room;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use threadline_artifacts::{
    ArtifactIdentity, ChangeKind, CollectOptions, Collected, Error, Evidence, Omissions,
    WorkFolder, Workspace,
};
use threadline_contract::{
    Artifact, Code, EmptyReason, Fault, OmitReason, Omitted, RunId, SessionKey, shown_name,
};
use threadline_files::{Access, Protected, Reason, atomic};
use tokio::task::spawn_blocking;

use self::reader::LocalReader;
use crate::{Body, End, Manifest, Places, TurnPlan};

/// The workspace on this host: `tasks/` beneath the data folder. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct LocalWorkspace {
    workspace: Workspace,
}

impl LocalWorkspace {
    /// Holds the workspace in a data folder, which is made (0700) if it is not there. Blocks; done
    /// once, at start-up.
    pub fn at(data: &Path) -> Result<Self, Fault> {
        atomic::create_dir_all(data, Access::Private).map_err(storage_fault)?;
        let workspace = Workspace::open(data)?;
        Ok(Self { workspace })
    }

    /// Keeps these folders and files too from being reached by a turn, whatever folder it works in. The data
    /// folder itself always is.
    #[must_use]
    pub fn protecting(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.workspace = self.workspace.protecting(paths);
        self
    }

    /// What a turn must not reach. Blocks.
    pub(crate) fn protected(&self, session: &SessionKey, run: &RunId) -> Result<Protected, Fault> {
        Ok(self.workspace.protected(session, run)?)
    }

    /// Makes the session's folder its own. Can be repeated.
    pub async fn reserve(&self, session: &SessionKey) -> Result<(), Fault> {
        let (workspace, session) = (self.workspace.clone(), session.clone());
        off_thread(move || workspace.reserve(&session).map_err(not_reserved)).await
    }

    /// Whether a turn of the session was ever prepared here.
    pub async fn has(&self, session: &SessionKey) -> Result<bool, Fault> {
        let (workspace, session) = (self.workspace.clone(), session.clone());
        off_thread(move || Ok(workspace.has(&session)?)).await
    }

    /// Removes the session's folder with everything in it, unless it is another's. Can be repeated.
    pub async fn forget(&self, session: &SessionKey) -> Result<(), Fault> {
        let (workspace, session) = (self.workspace.clone(), session.clone());
        off_thread(move || Ok(workspace.forget(&session).map(drop)?)).await
    }

    /// Makes the run's scope and the session's work folder, puts the attachments in place, and then
    /// lists the work folder: so inputs never count as outputs. Can be repeated.
    pub async fn prepare(&self, plan: &TurnPlan) -> Result<Places, Fault> {
        let (workspace, plan) = (self.workspace.clone(), plan.clone());
        off_thread(move || prepare(&workspace, &plan)).await
    }

    /// Copies into the scope what the turn provably wrote, lists the scope, and writes the receipt.
    /// Can be repeated.
    pub async fn collect(&self, plan: &TurnPlan, end: &End) -> Result<Manifest, Fault> {
        let (workspace, plan, end) = (self.workspace.clone(), plan.clone(), end.clone());
        off_thread(move || collect(&workspace, &plan, end)).await
    }

    /// How many bytes of file contents were read so far to list and to check artifacts.
    pub fn content_bytes_read(&self) -> u64 {
        self.workspace.content_bytes_read()
    }

    /// Opens an artifact whose bytes are proven to be those that were exported, or will be before the
    /// last of them is given.
    pub async fn open(&self, artifact: &ArtifactIdentity) -> Result<Body, Fault> {
        let (workspace, identity) = (self.workspace.clone(), artifact.clone());
        let reader = off_thread(move || Ok(workspace.read_promised(&identity)?)).await?;
        Ok(Body {
            artifact: Artifact {
                path: artifact.path.clone(),
                size: artifact.size,
                sha256: artifact.sha256,
                content_type: reader.content_type().into(),
            },
            reader: Box::new(LocalReader(Arc::new(reader))),
        })
    }
}

fn prepare(workspace: &Workspace, plan: &TurnPlan) -> Result<Places, Fault> {
    let prepared = workspace
        .prepare(&plan.session, &plan.run)
        .map_err(not_prepared)?;
    let work_folder = plan.working_directory.clone().unwrap_or(prepared.work_dir);
    let protected = workspace.protected(&plan.session, &plan.run)?;
    let attachments = attachments::place(
        &plan.attachments,
        &work_folder,
        &prepared.artifact_dir,
        &protected,
    )?;
    workspace
        .list_before(&plan.session, &plan.run, &folder_of(plan))
        .map_err(not_prepared)?;
    Ok(Places {
        scope: prepared.scope,
        artifact_directory: prepared.artifact_dir,
        work_folder,
        attachments,
    })
}

fn collect(workspace: &Workspace, plan: &TurnPlan, end: End) -> Result<Manifest, Fault> {
    let evidence = Evidence {
        written: end.wrote.clone(),
        deliverables: plan.deliverables.clone(),
    };
    let options = CollectOptions {
        max_named: 0,
        ..CollectOptions::default()
    };
    let folder = folder_of(plan);
    let take = || workspace.collect(&plan.session, &plan.run, &folder, &evidence, &options);
    let collected = match take() {
        // Somebody took the work folder away: an empty one has as little in it.
        Err(Error::Files(e)) if e.reason() == Reason::NotFound => {
            workspace.prepare(&plan.session, &plan.run)?;
            take()
        }
        taken => taken,
    };
    let collected = match collected {
        // A link or a file lies there now. What is already in the scope is still delivered.
        Err(
            e @ (Error::Escapes { .. }
            | Error::NoWorkFolder { .. }
            | Error::ProtectedWorkFolder { .. }),
        ) => {
            tracing::warn!(run.id = %plan.run, "Run {} has no work folder any more: {e}", plan.run);
            Collected::default()
        }
        other => other?,
    };
    let delivery = workspace.deliver(&plan.session, &plan.run)?;
    for warning in collected.warnings.iter().chain(&delivery.warnings) {
        tracing::warn!(run.id = %plan.run, "Run {}: {warning}", plan.run);
    }
    let all_named = [&collected.omitted, &delivery.omitted]
        .iter()
        .all(|o| o.total() <= o.named.len() as u64);
    // Only of names that somebody speaks of it matters whether they were delivered.
    let omitted = collected.omitted.named.iter().map(|o| o.path.clone());
    let left = collected.summary.iter().flat_map(|c| &c.first);
    let spoken_of: Vec<String> = omitted
        .chain(left.clone().map(|change| change.path.clone()))
        .chain(end.wrote.iter().cloned())
        .collect();
    let spoken_of = spoken_of.iter().map(String::as_str).collect();
    let delivered = delivery.files.find(spoken_of)?;
    let is_delivered = |path: &str| delivered.contains(path);
    let mut omitted = named(collected.omitted.with(delivery.omitted, is_delivered));
    // In a user's own folder nothing else proves whose these are: they stay, and the user knows.
    omitted.extend(
        left.filter(|c| c.kind != ChangeKind::Removed && !is_delivered(&c.path))
            .map(|c| Omitted {
                path: shown_name(&c.path).into_owned(),
                reason: OmitReason::OutsideScope,
            }),
    );
    // Where there are too many to name each, one that is not named need not be gone.
    if all_named {
        let gone = end.wrote.iter().filter(|path| !is_delivered(path));
        omitted.extend(vanished(gone, &omitted));
    }
    let empty_reason = match delivery.empty_reason {
        Some(EmptyReason::ScopeEmpty) if !omitted.is_empty() => Some(EmptyReason::AllOmitted),
        reason => reason,
    };
    Ok(Manifest {
        receipt: delivery.receipt,
        artifacts: delivery.files,
        omitted,
        empty_reason,
        usage: None,
    })
}

/// Files that the run wrote, as its own record says, and of which nothing is left: somebody took them
/// away before they were collected, perhaps with their whole folder. That must not look like a run
/// that made nothing.
fn vanished<'a>(wrote: impl Iterator<Item = &'a String>, omitted: &[Omitted]) -> Vec<Omitted> {
    let told: HashSet<&str> = omitted.iter().map(|o| o.path.as_str()).collect();
    let gone = wrote
        .map(|path| shown_name(path).into_owned())
        .filter(|path| !told.contains(path.as_str()));
    gone.map(|path| Omitted {
        path,
        reason: OmitReason::Vanished,
    })
    .collect()
}

/// Omissions one by one; those beyond what is named are still counted.
fn named(omissions: Omissions) -> Vec<Omitted> {
    let mut all = omissions.named;
    for (reason, count) in omissions.counts {
        let listed = all.iter().filter(|o| o.reason == reason).count() as u64;
        if count > listed {
            let path = format!("(and {} more)", count - listed);
            all.push(Omitted { path, reason });
        }
    }
    all
}

fn folder_of(plan: &TurnPlan) -> WorkFolder {
    match &plan.working_directory {
        Some(folder) => WorkFolder::User(folder.clone()),
        None => WorkFolder::Session,
    }
}

/// Runs something that blocks where blocking is allowed.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let span = tracing::Span::current();
    let work = move || span.in_scope(work);
    spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "work on the disk broke");
        Err(Fault::internal())
    })
}

/// What a caller is told when the disk said no. Paths of this machine go to the log.
pub(crate) fn storage_fault(error: threadline_files::Error) -> Fault {
    Error::from(error).into()
}

/// What a caller is told when a session's folder is not its own. Whose it is may be another account's secret.
fn not_reserved(error: Error) -> Fault {
    match &error {
        Error::SharedFolder { .. } => {
            Fault::new(Code::Conflict, format!("{error}, or delete that thread."))
        }
        _ => not_prepared(error),
    }
}

/// What a caller is told when a turn's folders could not be made.
fn not_prepared(error: Error) -> Fault {
    tracing::warn!(%error, "a turn could not be prepared");
    match error.code() {
        Code::Internal => Fault::new(
            Code::PrepareFailed,
            "The run's folder could not be made: the disk reported an error. The server's log says which.",
        ),
        _ => error.into(),
    }
}
