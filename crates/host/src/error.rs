//! What can go wrong between a bridge and its hosts.

use std::{io, path::PathBuf};

use threadline_files::JournalError;

use crate::wire::{Refusal, VERSION};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The host of a running agent is gone, and with it the agent; no end was recorded.
    #[error("the agent's host is gone, and the agent with it")]
    Lost,
    /// The host has gone since. What it wrote down tells whether it ended or was lost.
    #[error("the agent's host has gone")]
    Gone,
    /// The session has no host, or another one than was meant.
    #[error("session {session} has no such host")]
    NotThere {
        /// The session.
        session: String,
    },
    /// The session has a host that is alive.
    #[error("session {session} has a host already")]
    InUse {
        /// The session.
        session: String,
    },
    /// Entries are missing.
    #[error("entry {expected} is missing{}", found.map_or(String::new(), |no| format!("; {no} came instead")))]
    Gap {
        /// The entry that should have come.
        expected: u64,
        /// The one that came instead, if any.
        found: Option<u64>,
    },
    /// Another bridge has attached, so this one is no longer heard.
    #[error("another bridge has attached to the agent")]
    Replaced,
    /// The host is of another version than this program can talk to.
    #[error(
        "the agent's host speaks version {host} of the host protocol, this program version {VERSION}"
    )]
    Version {
        /// What the host speaks.
        host: u32,
    },
    /// The host said no.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The host or its agent could not be started.
    #[error("{message}")]
    NotStarted {
        /// The reason, for programs.
        code: StartCode,
        /// The same, for people.
        message: String,
    },
    /// The host is there and does not answer, or says what nobody understands.
    #[error("the agent's host does not answer: {why}")]
    Unreachable {
        /// What was tried.
        why: String,
    },
    /// A host could not be ended.
    #[error("the agent's host (process {pid}) could not be ended: {why}")]
    NotEnded {
        /// Its process.
        pid: u32,
        /// Why not.
        why: String,
    },
    /// No socket can be made there.
    #[error("{}: the path is too long for a socket", path.display())]
    PathTooLong {
        /// Where it should be.
        path: PathBuf,
    },
    /// A file could not be used.
    #[error(transparent)]
    Files(#[from] threadline_files::Error),
    /// A journal could not be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Something of the system's failed.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
}

/// Why a host or its agent could not be started, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StartCode {
    /// What should be started is not described well.
    BadSpec,
    /// The session has a host already.
    HostRunning,
    /// Another agent works in this folder.
    FolderBusy,
    /// There is no such folder.
    NoFolder,
    /// There is no such program, or it cannot be run.
    NoProgram,
    /// What an earlier host left behind could not be ended.
    NotSwept,
    /// Anything else; the sentence says what.
    Failed,
}

impl HostError {
    pub(crate) fn io(what: impl Into<String>, cause: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            cause,
        }
    }

    pub(crate) fn not_started(code: StartCode, message: impl Into<String>) -> Self {
        Self::NotStarted {
            code,
            message: message.into(),
        }
    }
}
