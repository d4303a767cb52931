//! Holding a folder against the receipts in it, without a server.
//!
//! A synced folder is shared by all runs of a thread. What a run delivered lies in the open until a
//! later run delivers; then it moves to `.xworkmate/runs/<run>/files`, unless the user had changed it.
//! A file that several runs in a row delivered with the very same bytes lies there once, in the archive
//! of the last of them. So a run's file is looked for in its own archive first. Of the runs that have no
//! archived copy of a path, those whose bytes lie in the open, or under the same path in another run's
//! archive, are intact. For the others the file is missing if another run's lies in the open; if nobody's
//! does, it differs.

mod check;
mod find;

use std::path::{Path, PathBuf};

use serde::Serialize;
use threadline_contract::{ArtifactScope, Code, RunId, SessionKey, Sha256};
use threadline_files::{Reason, Root};

use crate::Error;

/// How to verify.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Receipts to go by, instead of those in the folder. All files are then expected in the open.
    pub receipts: Vec<PathBuf>,
    /// Only what this run delivered. Nothing is extra then.
    pub run: Option<RunId>,
    /// What somebody else's record says of receipts. A folder can only speak for itself: whoever can
    /// write to it can write a receipt that fits.
    pub known: Vec<Known>,
}

/// A receipt as a record elsewhere knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The run.
    pub run: RunId,
    /// The digest of its receipt.
    pub digest: Sha256,
    /// Whether it must be in the folder. If not, it is only held against the one that is there.
    pub required: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files that were checked.
    pub files: u64,
    /// Files to check.
    pub total_files: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes to read.
    pub total_bytes: u64,
}

/// What a folder was found to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The receipts that it was held against, by run.
    pub receipts: Vec<Checked>,
    /// Receipts that could not be used. What they would have said is not known.
    pub refused: Vec<Refused>,
    /// Every file that is not as it should be, by path.
    pub findings: Vec<Finding>,
    /// How many bytes were read.
    pub bytes_read: u64,
}

impl Report {
    /// Whether everything that was delivered is there, byte for byte, and every receipt could be
    /// used. Extra files do not count: a folder may hold more than a run delivered.
    pub fn is_intact(&self) -> bool {
        let extra = |f: &Finding| matches!(f.what, What::Extra { .. });
        self.refused.is_empty() && self.findings.iter().all(extra)
    }
}

/// A receipt that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// The session of the run.
    pub session_key: SessionKey,
    /// The run.
    pub run_id: RunId,
    /// Where its files lay when it ended.
    pub scope: ArtifactScope,
    /// What tells this receipt from every other.
    pub digest: Sha256,
    /// How many files it names.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many of the files are here, byte for byte.
    pub intact: u64,
    /// Whether a record elsewhere names this very receipt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_record: bool,
}

/// A receipt that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Where it lies, relative to the folder.
    pub path: String,
    /// The code from the one list.
    pub code: Code,
    /// What is wrong with it.
    pub why: String,
}

/// A file that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Where, relative to the folder; bytes that are not text are escaped.
    pub path: String,
    /// Whose file it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// What is the matter.
    #[serde(flatten)]
    pub what: What,
}

/// What is the matter with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "what",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum What {
    /// It is there with other bytes.
    Differs {
        /// The size that it should have.
        size: u64,
        /// The size that it has.
        found_size: u64,
        /// The digest that it should have.
        sha256: Sha256,
        /// The digest that it has. Not taken where the size already tells.
        #[serde(skip_serializing_if = "Option::is_none")]
        found_sha256: Option<Sha256>,
    },
    /// Something else stands in its place: a link, a folder, a FIFO.
    NotAFile,
    /// It is not there.
    Missing,
    /// It cannot be read, or changes while it is read.
    Unreadable,
    /// No receipt that could be used speaks for it, but one that could not be may.
    Unchecked,
    /// No receipt speaks for it.
    Extra {
        /// Whether it is a regular file.
        file: bool,
    },
}

/// Holds a folder against the receipts in it (or the given ones) and names everything that differs,
/// is missing, or is extra. `tell` hears how far it is, from several threads.
pub fn verify(
    folder: impl AsRef<Path>,
    options: &VerifyOptions,
    tell: &(dyn Fn(Progress) + Sync),
) -> Result<Report, Error> {
    let root = Root::open(folder.as_ref()).map_err(|e| match e.reason() {
        Reason::NotFound | Reason::NotDirectory => Error::NoWorkFolder {
            folder: folder.as_ref().display().to_string(),
        },
        _ => e.into(),
    })?;
    let found = find::receipts(&root, options)?;
    check::check(&root, found, options, tell)
}
