//! Threads that are being deleted: one note each, written before anything is removed and removed
//! last. So a deletion that a crash cut short, or whose bridge was away, is finished later.

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use threadline_contract::{AppThreadKey, Fault, RequestId};
use threadline_files::{Access, FileKind, Reason, Root, atomic};

use crate::fault::{internal, storage};

const MOST_BYTES: u64 = 1 << 20;

/// A thread that shall go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deletion {
    pub(crate) thread_id: AppThreadKey,
    /// Its bridge.
    pub(crate) endpoint_id: String,
    /// Its workspace.
    pub(crate) folder: PathBuf,
    /// What the outbox may still hold of it.
    pub(crate) requests: Vec<RequestId>,
    /// The files that the user made or edited go too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) with_own_files: bool,
}

/// The notes. Everything here blocks.
#[derive(Clone, Debug)]
pub(crate) struct Deletions {
    root: Root,
}

impl Deletions {
    pub(crate) fn open(folder: &Path) -> Result<Self, Fault> {
        let root = atomic::create_dir_all(folder, Access::Private).map_err(storage)?;
        Ok(Self { root })
    }

    pub(crate) fn note(&self, deletion: &Deletion) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(deletion).map_err(internal)?;
        self.root
            .write_atomic(file_name(&deletion.thread_id), &bytes, Access::Private)
            .map_err(storage)?;
        Ok(())
    }

    pub(crate) fn done(&self, thread: &AppThreadKey) -> Result<(), Fault> {
        match self.root.remove_file(file_name(thread)) {
            Err(e) if e.reason() != Reason::NotFound => Err(storage(e)),
            _ => Ok(()),
        }
    }

    /// Everything that is not done.
    pub(crate) fn all(&self) -> Result<Vec<Deletion>, Fault> {
        let mut found = Vec::new();
        for entry in self.root.entries("").map_err(storage)? {
            let name = entry.name.to_string_lossy().into_owned();
            if entry.kind != FileKind::File || !name.ends_with(".json") {
                continue;
            }
            let bytes = self.root.read_limited(&name, MOST_BYTES).map_err(storage)?;
            match serde_json::from_slice(&bytes) {
                Ok(deletion) => found.push(deletion),
                Err(e) => tracing::error!("The note {name} of a deletion cannot be read: {e}"),
            }
        }
        Ok(found)
    }
}

fn file_name(thread: &AppThreadKey) -> String {
    format!("{}.json", URL_SAFE_NO_PAD.encode(thread.as_str()))
}
