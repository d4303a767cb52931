//! What is kept of a session between its turns: which conversation of the agent's it is.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use threadline_contract::{Fault, Sha256};
use threadline_files::{Access, Reason, atomic};
use tokio::task::spawn_blocking;

use super::wire::AgentFacts;
use crate::local::storage_fault;

const NAME: &str = "session.json";
const MOST: u64 = 64 * 1024;

/// A conversation of an agent's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    /// Its name with the agent.
    pub(super) session: String,
    /// The host whose agent has it open.
    pub(super) boot: String,
    pub(super) agent: AgentFacts,
    /// What it has cost so far.
    pub(super) cost: Option<f64>,
    /// The digest of the instructions that it was last given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<Sha256>,
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// What is kept. A file that cannot be understood is as good as none: the agent is asked anew.
pub(super) async fn read(folder: PathBuf) -> Result<Option<Session>, Fault> {
    blocking(move || match atomic::read_limited(path(&folder), MOST) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)
            .inspect_err(|e| tracing::warn!(error = %e, "what is kept of a session is damaged"))
            .ok()),
        Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => Ok(None),
        Err(e) => Err(storage_fault(e)),
    })
    .await
}

pub(super) async fn write(folder: PathBuf, session: Session) -> Result<(), Fault> {
    blocking(move || {
        let bytes = serde_json::to_vec(&session).map_err(|_| Fault::internal())?;
        atomic::create_dir_all(&folder, Access::Private).map_err(storage_fault)?;
        atomic::write(path(&folder), &bytes, Access::Private).map_err(storage_fault)?;
        Ok(())
    })
    .await
}

/// Removes what is kept. Can be repeated.
pub(super) async fn forget(folder: PathBuf) -> Result<(), Fault> {
    blocking(move || match std::fs::remove_file(path(&folder)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(error = %e, "what is kept of a session cannot be removed");
            Err(Fault::internal())
        }
        _ => Ok(()),
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Fault::internal()))
}
