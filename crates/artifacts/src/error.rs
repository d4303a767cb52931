//! What can go wrong between a workspace and an artifact.

use threadline_contract::{
    BadGlob, BadReceipt, Code, Fault, misleads, plugin::WorkspaceSource, scope::BadScope,
};
use threadline_files::Reason;

/// What can go wrong between a workspace and an artifact.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder belongs to another session or run. Nothing was changed.
    #[error("`{folder}` belongs to another session or run ({why})")]
    Conflict {
        /// The folder, relative to the workspace.
        folder: String,
        /// How that is known.
        why: &'static str,
    },
    /// Another session's key leads to the same folder, and that session was first. Nothing was changed.
    #[error(
        "`{folder}` is the folder of another thread, whose key leads to the same name: characters such as / and : become -, and a name ends after 96 characters. Use another thread key"
    )]
    SharedFolder {
        /// The folder, relative to the workspace.
        folder: String,
    },
    /// The session or run cannot have a scope.
    #[error(transparent)]
    BadScope(#[from] BadScope),
    /// A symlink, or something else that is not a folder, stands where a folder of the workspace
    /// should be.
    #[error("`{folder}` escapes the workspace: a folder on the way is a symlink or no folder")]
    Escapes {
        /// The folder, relative to the workspace.
        folder: String,
    },
    /// The user's folder is not there.
    #[error("the working directory `{folder}` is not there")]
    NoWorkFolder {
        /// The folder.
        folder: String,
    },
    /// The user's folder is one of ours, or lies in one.
    #[error(
        "the working directory `{folder}` is Threadline's own, so nothing may work there; choose another folder"
    )]
    ProtectedWorkFolder {
        /// The folder.
        folder: String,
    },
    /// The folder that should be the workspace is not there.
    #[error("the workspace `{}` is not there", shown(&folder.display().to_string()))]
    NoWorkspace {
        /// The folder.
        folder: std::path::PathBuf,
        /// Who named it.
        named_by: WorkspaceSource,
    },
    /// What should be the workspace is no path at all.
    #[error("the workspace cannot be used: {why}")]
    BadWorkspace {
        /// Who named it.
        named_by: WorkspaceSource,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An expected folder that does not lie in the workspace.
    #[error("the expected folder `{folder}` cannot be used: {why}")]
    BadExpectedDir {
        /// The folder as it was named.
        folder: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The record of who took which file is damaged. It is left as it is: without it two runs could
    /// get the same file.
    #[error(
        "the record of claimed files (`claims.journal`) is damaged; restore it, or move it away to begin anew"
    )]
    BadLedger(#[source] threadline_files::JournalError),
    /// The scope was never prepared for this session and run.
    #[error("`{scope}` was never prepared")]
    NotPrepared {
        /// The scope.
        scope: String,
    },
    /// The scope was removed by retention; its tombstone and receipt stay.
    #[error("`{scope}` was removed")]
    Removed {
        /// The scope.
        scope: String,
    },
    /// Nothing says what a folder should hold.
    #[error("`{folder}` has no receipt")]
    NoReceipt {
        /// The folder.
        folder: String,
    },
    /// Nothing says what a run delivered, but there are receipts of others.
    #[error("there is no receipt of run {run}; there are: {}", there.join(", "))]
    NoReceiptOfRun {
        /// The run.
        run: String,
        /// The runs that have one.
        there: Vec<String>,
    },
    /// A receipt that cannot be used.
    #[error("the receipt cannot be used: {0}")]
    BadReceipt(#[from] BadReceipt),
    /// Nobody noted what the work folder looked like before the turn.
    #[error("`{scope}` has no listing from before the turn, so nothing can be told apart")]
    NotListed {
        /// The scope.
        scope: String,
    },
    /// The listing from before the turn is for another folder, or cannot be read.
    #[error("the listing from before the turn in `{scope}` cannot be used: {why}")]
    BadListing {
        /// The scope.
        scope: String,
        /// What is wrong with it.
        why: String,
    },
    /// The list of a run's files, which was just written, cannot be read.
    #[error("the list of the run's files cannot be read: {why}")]
    BadList {
        /// What is wrong with it.
        why: String,
    },
    /// A cursor that this export did not give out.
    #[error("the cursor does not belong to this export")]
    BadCursor,
    /// A declared deliverable is not a glob.
    #[error(transparent)]
    BadGlob(#[from] BadGlob),
    /// The artifact is not there.
    #[error("`{path}` is not there")]
    NotFound {
        /// Where it was looked for, relative to the scope.
        path: String,
    },
    /// What stands there is not a regular file of ours.
    #[error("`{path}` is not a file that can be delivered")]
    NotAFile {
        /// Where it lies, relative to the scope.
        path: String,
    },
    /// A symlink stands in the way.
    #[error("`{path}` leads through a symlink")]
    SymlinkRejected {
        /// Where it lies, relative to the scope.
        path: String,
    },
    /// The bytes are no longer those of the identity.
    #[error("`{path}` changed after the run delivered it")]
    Changed {
        /// Where it lies, relative to the scope.
        path: String,
    },
    /// A range with a negative number.
    #[error("`offset` and `length` cannot be below zero")]
    RangeBelowZero,
    /// A range outside the file.
    #[error("{length} bytes from {offset} are not a range of a file of {size} bytes")]
    RangeInvalid {
        /// Where the range begins.
        offset: u64,
        /// How long it is.
        length: u64,
        /// How long the file is.
        size: u64,
    },
    /// The file with the signing keys is damaged. It is left as it is: a new one would end every
    /// link without a word.
    #[error("{}: these are not signing keys; restore the file, or move it away to begin anew (that ends every link)", path.display())]
    BadKeys {
        /// The file.
        path: std::path::PathBuf,
    },
    /// An open file could not be read.
    #[error("`{path}` cannot be read ({cause})")]
    Io {
        /// Where it lies, relative to the scope.
        path: String,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// The disk said no.
    #[error(transparent)]
    Files(#[from] threadline_files::Error),
}

impl Error {
    /// For folders of the workspace: what stands in the way of one is told apart from a disk that
    /// fails.
    pub(crate) fn folder(e: threadline_files::Error, folder: &str) -> Self {
        match e.reason() {
            Reason::Symlink | Reason::NotDirectory => Self::Escapes {
                folder: folder.to_owned(),
            },
            _ => e.into(),
        }
    }

    pub(crate) fn io(cause: std::io::Error, path: &str) -> Self {
        Self::Io {
            path: path.to_owned(),
            cause,
        }
    }

    /// The code from the one list.
    pub fn code(&self) -> Code {
        match self {
            Self::Conflict { .. } | Self::SharedFolder { .. } => Code::Conflict,
            Self::Removed { .. } => Code::ArtifactsRemoved,
            Self::NoReceipt { .. } | Self::NoReceiptOfRun { .. } => Code::ReceiptMissing,
            Self::BadReceipt(_) => Code::ReceiptInvalid,
            Self::BadScope(_)
            | Self::BadCursor
            | Self::BadGlob(_)
            | Self::BadExpectedDir { .. }
            | Self::BadWorkspace {
                named_by: WorkspaceSource::Params | WorkspaceSource::AgentConfig,
                ..
            }
            | Self::NoWorkspace {
                named_by: WorkspaceSource::Params,
                ..
            } => Code::InvalidRequest,
            Self::NoWorkFolder { .. } | Self::ProtectedWorkFolder { .. } => Code::WorkdirNotAllowed,
            Self::Escapes { .. }
            | Self::NoWorkspace { .. }
            | Self::BadWorkspace { .. }
            | Self::NotPrepared { .. }
            | Self::NotListed { .. }
            | Self::BadListing { .. } => Code::PrepareFailed,
            Self::NotFound { .. } => Code::ArtifactNotFound,
            Self::NotAFile { .. } => Code::NotAFile,
            Self::SymlinkRejected { .. } => Code::SymlinkRejected,
            Self::Changed { .. } => Code::ArtifactChanged,
            Self::RangeInvalid { .. } | Self::RangeBelowZero => Code::RangeInvalid,
            Self::BadKeys { .. } | Self::BadLedger(_) => Code::StateDamaged,
            Self::Io { .. } | Self::BadList { .. } => Code::RuntimeReadFailed,
            Self::Files(e) => match e.reason() {
                Reason::NoSpace => Code::StorageFull,
                Reason::ReadOnly | Reason::Denied => Code::StorageReadOnly,
                Reason::Protected => Code::PathProtected,
                _ => Code::Internal,
            },
        }
    }

    /// A word that is finer than the code, where there is one.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::NoWorkspace { .. } => Some("workspace_missing"),
            Self::NotPrepared { .. } => Some("scope_missing"),
            Self::Removed { .. } => Some("scope_removed"),
            Self::NotListed { .. } | Self::BadListing { .. } => Some("listing_missing"),
            _ => None,
        }
    }
}

/// How much of a name is shown.
const SHOWN: usize = 300;

/// Somebody's text as it may stand in a line: on one line, and not without end.
fn shown(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == SHOWN {
            out.push('…');
            break;
        }
        if misleads(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn sentence(text: &str) -> String {
    let mut first = text.chars();
    let head = first.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}.", head.unwrap_or_default(), first.as_str())
}

impl From<Error> for Fault {
    fn from(e: Error) -> Self {
        let sentence = match &e {
            // A path of this machine goes to the log, not to a client.
            Error::Files(_) => {
                tracing::warn!("A file could not be used: {}", shown(&e.to_string()));
                e.code().advice().to_owned()
            }
            Error::BadLedger(cause) => {
                tracing::warn!("A file could not be used: {}", shown(&cause.to_string()));
                sentence(&e.to_string())
            }
            // Told to whoever starts the program, and to nobody else. The path stays as it is.
            Error::BadKeys { .. } => format!("{e}."),
            Error::BadGlob(bad) => return bad.clone().into(),
            other => sentence(&other.to_string()),
        };
        let fault = Self::new(e.code(), sentence);
        match e.reason() {
            Some(reason) => fault.with("reason", reason),
            None => fault,
        }
    }
}
