//! What the program says to a shell when it ends.

use threadline_contract::{Code, ResultCode, SetBy, thread::SyncStatus};

/// Why the program ends. The numbers are a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was done.
    Done,
    /// The run failed, a runtime or program cannot be used, or something is broken.
    Failed,
    /// The command line or the settings are wrong.
    Usage,
    /// The run ended, but something it had to deliver is not there.
    NotDelivered,
    /// The run was cancelled.
    Cancelled,
    /// The bridge or the background process cannot be reached.
    Unreachable,
    /// Not every file of the run is here as it was delivered.
    FilesIncomplete,
    /// There is no such thread or question, or several fit.
    NotFound,
    /// Not now: the thread is busy or archived, a queue is full, the question is closed.
    NotNow,
    /// This machine: the disk, the data folder, the port or the database.
    Machine,
    /// Threadline itself broke.
    Broken,
    /// Left by Ctrl-C, or because nobody reads its output; the run goes on.
    Detached,
}

impl Exit {
    /// Every one, in the order of the documentation.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 12] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::NotDelivered,
        Self::Cancelled,
        Self::Unreachable,
        Self::FilesIncomplete,
        Self::NotFound,
        Self::NotNow,
        Self::Machine,
        Self::Broken,
        Self::Detached,
    ];

    /// The number.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotDelivered => 3,
            Self::Cancelled => 4,
            Self::Unreachable => 5,
            Self::FilesIncomplete => 6,
            Self::NotFound => 7,
            Self::NotNow => 8,
            Self::Machine => 9,
            Self::Broken => 70,
            Self::Detached => 130,
        }
    }

    /// How a thread's last run is told to the shell.
    pub(crate) fn of_result(result: Option<ResultCode>, sync: Option<SyncStatus>) -> Self {
        match result {
            // Nothing ran yet, or it still does: there is nothing to complain about.
            None => Self::Done,
            Some(ResultCode::Success) => match sync {
                Some(SyncStatus::Partial | SyncStatus::Failed) => Self::FilesIncomplete,
                _ => Self::Done,
            },
            Some(ResultCode::Failed) => Self::Failed,
            Some(ResultCode::Aborted | ResultCode::Code(Code::StoppedAtGateway)) => Self::Cancelled,
            Some(ResultCode::ArtifactMissing) => Self::NotDelivered,
            Some(ResultCode::AcpHttp(_)) => Self::Unreachable,
            // A run that a runtime could not finish has failed, whatever the reason.
            Some(ResultCode::Code(code)) if code.set_by() == SetBy::Runtime => Self::Failed,
            Some(ResultCode::Code(code)) => Self::of_code(code),
        }
    }

    /// How an error is told to the shell. Every code is placed: a new one does not compile until
    /// somebody has thought about it.
    pub(crate) const fn of_code(code: Code) -> Self {
        use Code as C;
        match code {
            C::InvalidJson
            | C::InvalidEnvelope
            | C::InvalidRequest
            | C::MethodNotFound
            | C::MethodNotAllowed
            | C::BodyTooLarge
            | C::UpgradeRequired
            | C::RoutingRequired
            | C::RoutingFailed
            | C::ProviderNotFound
            | C::PromptRequired
            | C::AttachmentInvalid
            | C::AttachmentTooLarge
            | C::WorkdirNotAllowed
            | C::UnsupportedByRuntime
            | C::InvalidLookup
            | C::QuestionOptionNotOffered
            | C::ConfigInvalid
            | C::ListenNotAllowed => Self::Usage,

            C::NotFound
            | C::MappingNotFound
            | C::NoNativeRecord
            | C::TaskNotFound
            | C::ScopeNotOwned
            | C::QuestionNotFound
            | C::ReceiptMissing
            | C::ThreadNotFound
            | C::ThreadAmbiguous => Self::NotFound,

            C::IdempotencyConflict
            | C::Conflict
            | C::ContinuationUnavailable
            | C::GatewayBusy
            | C::RuntimeBusy
            | C::QueueTimeout
            | C::RateLimited
            | C::QuestionAlreadyClosed
            | C::RequestCancelled
            | C::QueueFull
            | C::ThreadArchived
            | C::TurnNotWaiting
            | C::ThreadBusy => Self::NotNow,

            C::RequiredArtifactMissing => Self::NotDelivered,

            C::LinkExpired
            | C::LinkForged
            | C::RuntimeReadFailed
            | C::ArtifactPathMismatch
            | C::ArtifactEncodingInvalid
            | C::ArtifactHashMismatch
            | C::ArtifactNotFound
            | C::SymlinkRejected
            | C::NotAFile
            | C::ArtifactChanged
            | C::ArtifactsRemoved
            | C::RangeInvalid
            | C::ScopeMismatch
            | C::OutFileExists => Self::FilesIncomplete,

            // A program that is not installed is not there a moment later either.
            C::ProviderUnavailable
            | C::PrepareFailed
            | C::OpenClawPrepareFailed
            | C::SessionMismatch
            | C::ExecutionFailed
            | C::AgentLost
            | C::TurnDeclined
            | C::PathProtected
            | C::StoppedAtGateway
            | C::ModelUnreachable
            | C::ModelFailed
            | C::AnswerIncomplete
            | C::ModelRefusesTools
            | C::BudgetExceeded
            | C::TerminalWithoutEvidence
            | C::RunLost
            | C::ReceiptInvalid
            | C::Internal => Self::Failed,

            C::Unauthorized
            | C::ScopeMissing
            | C::OriginNotAllowed
            | C::HostNotAllowed
            | C::PathDisabled
            | C::ShuttingDown
            | C::ConnectFailed
            | C::ConnectTimeout
            | C::ConnectionClosed
            | C::SseNoResult
            | C::BadBridgeAnswer
            | C::PollTimeout
            | C::RunDeadlineExceeded
            | C::NodeUnavailable
            | C::GatewayLost
            | C::WaitFailed
            | C::OwnerUnreachable => Self::Unreachable,

            C::ThreadCorrupt
            | C::DataFolderInUse
            | C::NodeNameInUse
            | C::PortInUse
            | C::DatabaseDamaged
            | C::StateDamaged
            | C::DatabaseTooNew
            | C::DatabaseUnreachable
            | C::StorageFull
            | C::StorageReadOnly => Self::Machine,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}

/// The end of `--help`: how to begin, and how it ends.
pub(crate) const HELP: &str = "\
Try it, with nothing configured:
  threadline run \"Write a short report about rivers, with a table and a picture\"
  threadline up          the same in a browser
  threadline doctor      what is configured, and what is not in order

Exit codes:
    0  done
    1  the run failed, a runtime or program cannot be used, or something is broken
    2  the command line or the settings are wrong
    3  the run ended, but something it had to deliver (--expect) is not there
    4  the run was cancelled
    5  the bridge or the background process cannot be reached
    6  not every file of the run is here as it was delivered
    7  there is no such thread or question, or several fit
    8  not now: the thread is busy or archived, a queue is full, a question is closed
    9  this machine: the disk, the data folder, the port or the database
   70  Threadline itself broke: a fault in it, please report it
  130  left by Ctrl-C, or because nobody reads the output; the run goes on";

#[cfg(test)]
#[path = "exit_tests.rs"]
mod tests;
