//! What lies where in the data folder.

use std::path::{Path, PathBuf};

use threadline_contract::{Code, Fault};
use threadline_files::{Access, Error, Reason, atomic};

/// The data folder.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    data: PathBuf,
}

impl Places {
    pub(crate) fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
        }
    }

    /// Makes the folder, for its owner's eyes alone.
    pub(crate) fn make(&self) -> Result<(), Fault> {
        atomic::create_dir_all(&self.data, Access::Private).map_err(storage)?;
        Ok(())
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }
    /// Held by the owner for as long as it lives.
    pub(crate) fn lock(&self) -> PathBuf {
        self.data.join("owner.lock")
    }
    /// Where the owner says how to reach it.
    pub(crate) fn state(&self) -> PathBuf {
        self.data.join("owner.json")
    }
    /// What the owner in the background has to say.
    pub(crate) fn log(&self) -> PathBuf {
        self.data.join("owner.log")
    }
    pub(crate) fn token(&self) -> PathBuf {
        self.data.join("token")
    }
    /// What this owner is called among those that share a database.
    pub(crate) fn node(&self) -> PathBuf {
        self.data.join("node")
    }
    /// The builtin runtime's journals.
    pub(crate) fn builtin(&self) -> PathBuf {
        self.data.join("builtin")
    }
    /// This machine's identity for OpenClaw gateways, and the notes about runs there.
    pub(crate) fn openclaw(&self) -> PathBuf {
        self.data.join("openclaw")
    }
    /// The journals of runs with agents over ACP.
    pub(crate) fn acp(&self) -> PathBuf {
        self.data.join("acp")
    }
    /// Where attachments wait for their turn.
    pub(crate) fn attachments(&self) -> PathBuf {
        self.data.join("attachments")
    }
}

/// A disk that does not take what it must.
pub(crate) fn storage(e: Error) -> Fault {
    let code = match e.reason() {
        Reason::NoSpace => Code::StorageFull,
        // Also a file where a folder should be, and the like.
        _ => Code::StorageReadOnly,
    };
    let what = match e.reason() {
        Reason::NoSpace => "The disk is full",
        Reason::ReadOnly | Reason::Denied => "The data folder cannot be written",
        _ => "The data folder cannot be used",
    };
    Fault::new(code, format!("{what} ({e})."))
}
