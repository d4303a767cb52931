//! Putting the service together: where it keeps its keys and what it knows about whose files are
//! whose.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use threadline_artifacts::{
    Error, KeyRing, Ledger, OutputRoot, Service, ServiceSettings, WorkspaceSources,
};
use threadline_contract::Fault;
use threadline_files::{Access, atomic};

/// The file of the signing keys.
const KEYS: &str = "keys.json";

/// What the service is put together from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the signing keys (0600) and the record of claimed files lie. The folder is made (0700).
    /// All sidecars of one user share it: references of one are good at the others, and no file of a
    /// shared folder is given to two runs.
    pub state: PathBuf,
    /// What may name the workspace, beside the request.
    pub workspace: WorkspaceSources,
    /// Folders that the gateway's tools write to, for all runs alike.
    pub output_roots: Vec<OutputRoot>,
    /// The secret that the earlier plugin signed with, if its references shall still be honoured.
    pub peer_secret: Option<String>,
}

/// Opens the service, with the keys that are there or with new ones.
pub fn open(settings: Settings) -> Result<Service, Fault> {
    atomic::create_dir_all(&settings.state, Access::Private).map_err(Error::from)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let keys = KeyRing::load_or_create(settings.state.join(KEYS), now)?;
    Ok(Service::new(
        ServiceSettings {
            workspace: settings.workspace,
            output_roots: settings.output_roots,
            ledger: Ledger::at(settings.state),
            peer_secret: settings.peer_secret,
        },
        keys,
    ))
}
