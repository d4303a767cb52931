//! What a runtime is and offers, and how it stands.

use threadline_contract::{
    Code, Fault, Millis, RuntimeId, SessionKey, operator::HostState, turn::AttachmentOutline,
};

use super::Pending;

/// What a runtime is and offers.
pub trait RuntimeInfo: Send + Sync + 'static {
    /// Its name.
    fn id(&self) -> &RuntimeId;

    /// Its name for people.
    fn label(&self) -> &str;

    /// How many turns it takes at once.
    fn lane(&self) -> LaneSize;

    /// What a turn is refused with that finds no place in its lane.
    fn busy_code(&self) -> Code {
        Code::RuntimeBusy
    }

    /// Whether what tells how its runs stand lies on this host, so that no other node can go on with
    /// a run of it.
    fn is_local(&self) -> bool;

    /// Whether its sessions lie on this host: conversations, work folders and files. Then no other node
    /// can go on with one.
    fn keeps_sessions(&self) -> bool {
        self.is_local()
    }

    /// Whether it is worth telling about. One that nobody asked for and that is not installed is not.
    fn is_offered(&self) -> bool {
        true
    }

    /// Whether it can take work now, in words.
    fn probe(&self) -> Pending<'_, Availability>;

    /// Since when it can be reached, or cannot, where it watches that by itself.
    fn stands_since(&self) -> Option<Millis> {
        None
    }

    /// What a turn waits for that cannot begin now, and for how long at most, as a sentence. A runtime
    /// that is not available but says this takes turns all the same.
    fn waits_for(&self) -> Option<String> {
        None
    }

    /// Whether turns can work in a folder of the user's own.
    fn takes_folder(&self) -> bool {
        true
    }

    /// Whether files like these can come with a turn; a refusal names the one that cannot. Where it cannot
    /// be known now, it shows when the turn begins.
    fn takes_files(&self, _files: &[AttachmentOutline]) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether turns can bring instructions.
    fn takes_instructions(&self) -> bool {
        false
    }

    /// Whether turns can bring tools, whose calls it then reports.
    fn takes_tools(&self) -> bool {
        false
    }

    /// Whether a run's files can be collected when other turns of its session have run since.
    fn collects_later(&self) -> bool {
        false
    }

    /// How often its connection was lost since this process started, where it has one.
    fn connections_lost(&self) -> u64 {
        0
    }

    /// Processes that keep agents, of this runtime or of its like. None, where agents need none.
    fn hosts(&self) -> Pending<'_, Result<Vec<AgentHost>, Fault>> {
        Box::pin(async { Ok(vec![]) })
    }
}

/// How many turns a runtime takes at once, and how many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSize {
    /// Turns that run.
    pub max_active: u32,
    /// Turns that wait.
    pub max_queued: u32,
}

/// Whether a runtime can take work now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// How it stands, in a word.
    pub readiness: Readiness,
    /// It takes work.
    pub available: bool,
    /// What it is, or why it cannot, in words for every caller: without addresses and paths.
    pub status: String,
    /// Its address, or where its program lies: for the operator.
    pub place: Option<String>,
}

impl Availability {
    /// A runtime that stands so.
    pub fn new(readiness: Readiness, status: impl Into<String>, place: Option<String>) -> Self {
        Self {
            readiness,
            available: readiness.takes_work(),
            status: status.into(),
            place,
        }
    }
}

/// How a runtime stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It takes work.
    Ready,
    /// It takes work and only shows how it would be done.
    Demonstration,
    /// It takes work, which waits until it is back.
    Restarting,
    /// It does not answer.
    Unreachable,
    /// It does not let us in.
    Refused,
    /// Its program is not there.
    NotInstalled,
    /// It is there without what we need of it.
    Incomplete,
}

impl Readiness {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Demonstration => "demonstration",
            Self::Restarting => "restarting",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::NotInstalled => "not_installed",
            Self::Incomplete => "incomplete",
        }
    }

    const fn takes_work(self) -> bool {
        matches!(self, Self::Ready | Self::Demonstration | Self::Restarting)
    }
}

/// A process that keeps an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentHost {
    /// The session whose agent it is.
    pub session: SessionKey,
    /// How it stands.
    pub state: HostState,
    /// The host's process.
    pub pid: u32,
    /// The agent's process.
    pub agent_pid: u32,
    /// When it began.
    pub began: Millis,
    /// When it was looked at.
    pub seen_at: Millis,
    /// Since when what its agent says cannot be written down for want of room on the disk.
    pub no_room_since: Option<Millis>,
    /// Where it was killed: what was ended of what it left. Absent as long as something may be left.
    pub cleanup: Option<HostCleanup>,
}

/// What was ended of what a killed host left running: nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCleanup {
    /// When.
    pub at: Millis,
    /// How many processes had to be ended.
    pub ended: usize,
}
