//! Which files in a workspace we put there, and for which run.

use std::{collections::BTreeMap, io::Read as _};

use serde::{Deserialize, Serialize};
use threadline_contract::{ArtifactPath, Fault, RunId, Sha256};
use threadline_files::{Access, Reason, Root, Stamp};

use crate::fault::{internal, storage};

pub(super) const LEDGER: &str = ".xworkmate/ledger.json";
const MOST_BYTES: u64 = 1 << 30;

/// A file that we put in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ours {
    pub(super) run_id: RunId,
    pub(super) size: u64,
    pub(super) sha256: Sha256,
    /// What it looked like when it was put in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stamp: Option<Stamp>,
}

/// The ledger of a workspace.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ledger {
    pub(super) files: BTreeMap<ArtifactPath, Ours>,
}

impl Ledger {
    /// Reads it. One that cannot be read is none: then every file counts as the user's, and none is
    /// moved without being kept.
    pub(super) fn read(root: &Root) -> Result<Self, Fault> {
        let file = match root.open_file(LEDGER) {
            Ok(file) => file,
            Err(e) if e.reason() == Reason::NotFound => return Ok(Self::default()),
            Err(e) => return Err(storage(e)),
        };
        let mut bytes = Vec::new();
        file.take(MOST_BYTES)
            .read_to_end(&mut bytes)
            .map_err(internal)?;
        match serde_json::from_slice(&bytes) {
            Ok(ledger) => Ok(ledger),
            Err(e) => {
                tracing::warn!(
                    "{}/{LEDGER} cannot be read and is begun again: {e}",
                    root.path().display()
                );
                Ok(Self::default())
            }
        }
    }

    pub(super) fn write(&self, root: &Root) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(self).map_err(internal)?;
        root.write_atomic(LEDGER, &bytes, Access::Shared)
            .map_err(storage)?;
        Ok(())
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
