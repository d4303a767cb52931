//! What the engine asks of a runtime.

use std::{future::Future, ops::Range, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use threadline_artifacts::{ArtifactIdentity, FileList, Kept, Removal};
use threadline_contract::{
    Artifact, ArtifactScope, Code, Deliverable, EmptyReason, Fault, Millis, NewKey, Omitted, Owner,
    QuestionId, QuestionKind, QuestionOption, Removed, RunId, RuntimeId, SessionKey, Sha256, Step,
    ToolKind, Usage, operator::HostState, turn::AttachmentOutline,
};
use tokio::sync::mpsc;

use crate::pieces::{self, Pieces};

/// An answer that is on its way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the log has of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The number of its last frame; 0 if it has none.
    pub frame: i64,
    /// What its texts add up to, for a runtime that [needs it](Runtime::needs_logged_text).
    pub text: String,
}

impl Logged {
    /// Frames up to this number, and no text that matters.
    pub fn up_to(frame: i64) -> Self {
        Self {
            frame,
            text: String::new(),
        }
    }
}

/// Where turns really run, and the only voice that can end them.
pub trait Runtime: Send + Sync + 'static {
    /// Its name.
    fn id(&self) -> &RuntimeId;

    /// Its name for people.
    fn label(&self) -> &str;

    /// How many turns it takes at once.
    fn lane(&self) -> LaneSize;

    /// Whether what tells how its runs stand lies on this host, so that no other node can go on with
    /// a run of it.
    fn is_local(&self) -> bool;

    /// Whether its sessions lie on this host: conversations, work folders and files. Then no other node
    /// can go on with one.
    fn keeps_sessions(&self) -> bool {
        self.is_local()
    }

    /// Whether a turn of this session was ever prepared on this host.
    fn has_session<'a>(&'a self, _session: &'a SessionKey) -> Pending<'a, Result<bool, Fault>> {
        Box::pin(async { Ok(false) })
    }

    /// Whether it can take work now, in words.
    fn probe(&self) -> Pending<'_, Availability>;

    /// Whether it is worth telling about. One that nobody asked for and that is not installed is not.
    fn is_offered(&self) -> bool {
        true
    }

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

    /// Whether a run's files can be collected when other turns of its session have run since.
    fn collects_later(&self) -> bool {
        false
    }

    /// How often its connection was lost since this process started, where it has one.
    fn connections_lost(&self) -> u64 {
        0
    }

    /// The key of a session that has no mapping yet. After the mapping is made, the mapping alone is read.
    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey;

    /// Makes the session's folder its own, before its first turn is admitted: `CONFLICT` when
    /// another session's key leads to the same folder. Can be repeated.
    fn reserve<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>>;

    /// Removes everything of a session for good: its folders, and the records of its runs, all of
    /// which have ended. A folder of the user's own is not touched. Can be repeated.
    fn forget<'a>(
        &'a self,
        session: &'a SessionKey,
        runs: &'a [RunId],
    ) -> Pending<'a, Result<(), Fault>>;

    /// The session was closed: ends what is kept running for it and has nothing to do. Can be repeated.
    fn close<'a>(&'a self, _session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    /// Makes the run's scope and the session's work folder, lists the work folder as it is before
    /// this turn, and puts the attachments in place. Can be repeated.
    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>>;

    /// Begins the turn. Called again for the same run it never executes the turn twice: it finds
    /// the run that is there.
    fn start<'a>(
        &'a self,
        plan: &'a TurnPlan,
        places: &'a Places,
    ) -> Pending<'a, Result<(), Fault>>;

    /// Whether [`follow`](Self::follow) must be told which text the log has.
    fn needs_logged_text(&self) -> bool {
        false
    }

    /// Hands over the run's frames after those that are logged, in order, then its end. What was handed over
    /// before is not handed over again, also when a power cut took it from the runtime's own record.
    /// A run that was interrupted by our crash goes on. The channel is bounded: a slow reader
    /// loses nothing and fills no memory. A channel that closes without [`Signal::End`] means
    /// that the runtime cannot be heard; the registry is asked again later.
    fn follow<'a>(&'a self, run: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>>;

    /// What the registry says about a run. `Err` when it cannot be asked.
    fn ask_registry<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<Registry, Fault>>;

    /// Since when a run waits for room on a disk: what it does cannot be written down until then.
    fn waits_for_room(&self, _run: &RunRef) -> Option<Millis> {
        None
    }

    /// Asks the run to stop. A request, not proof; the registry confirms. Can be repeated.
    fn cancel<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<(), Fault>>;

    /// Hands an answer to the run that asked. `None` means declined. Can be repeated.
    fn answer<'a>(
        &'a self,
        run: &'a RunRef,
        question: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>>;

    /// Brings what the ended run made into its scope, on evidence, lists the scope, and writes the
    /// run's receipt. Can be repeated.
    fn collect<'a>(
        &'a self,
        plan: &'a TurnPlan,
        end: &'a End,
    ) -> Pending<'a, Result<Manifest, Fault>>;

    /// Keeps the run's files from being removed until then (seconds since 1970): asked for before
    /// links of that age are given out. Tells when they are gone already.
    fn hold<'a>(
        &'a self,
        run: &'a RunRef,
        until: i64,
    ) -> Pending<'a, Result<Option<Removed>, Fault>>;

    /// Removes the files of old runs, or only says which would go: never those of a run that goes
    /// on, or that links lead to. What stays of each is its receipt. Can be repeated.
    fn make_room(&self, rules: RoomRules) -> Pending<'_, Result<Room, Fault>>;

    /// Processes that keep agents, of this runtime or of its like. None, where agents need none.
    fn hosts(&self) -> Pending<'_, Result<Vec<AgentHost>, Fault>> {
        Box::pin(async { Ok(vec![]) })
    }

    /// The page of a session in the runtime's own interface, where it has one.
    fn page(&self, _session: &SessionKey) -> Option<String> {
        None
    }

    /// Opens an artifact whose content is proven to be the one that was exported, or will be before
    /// its end is given ([`ReadAt::pieces`]).
    fn open<'a>(&'a self, artifact: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>>;
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

/// Everything a turn needs; stored with the run, so that it can be resumed after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnPlan {
    /// Whose session it is.
    #[serde(flatten, with = "crate::stored_owner")]
    pub owner: Owner,
    /// The session, from the durable mapping.
    pub session: SessionKey,
    /// The run.
    pub run: RunId,
    /// What to do, with the context that the app put in front of the user's words.
    pub prompt: String,
    /// The turn goes on with a conversation rather than beginning one.
    pub continues: bool,
    /// The user's own folder, already checked, when the session works there.
    pub working_directory: Option<PathBuf>,
    /// Folders in which the runtime may leave files.
    pub expected_dirs: Vec<String>,
    /// What the run must deliver.
    pub deliverables: Vec<Deliverable>,
    /// Files that come with the prompt.
    pub attachments: Vec<Attachment>,
}

impl TurnPlan {
    /// The run's name for the registry.
    pub fn run_ref(&self) -> RunRef {
        RunRef {
            session: self.session.clone(),
            run: self.run.clone(),
        }
    }
}

/// A verified input file, kept until its turn is prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its name in the work folder.
    pub name: String,
    /// Where its bytes lie.
    pub path: PathBuf,
    /// Their digest.
    pub sha256: Sha256,
}

/// How a registry knows a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunRef {
    /// The session.
    pub session: SessionKey,
    /// The run.
    pub run: RunId,
}

/// Where a prepared turn works and what leaves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The run's scope.
    pub scope: ArtifactScope,
    /// The scope's absolute folder on the runtime's host.
    pub artifact_directory: PathBuf,
    /// Where the agent works.
    pub work_folder: PathBuf,
    /// The attachments as they lie in the work folder, in the plan's order.
    #[serde(default)]
    pub attachments: Vec<String>,
}

/// One thing a run did, numbered from 1 without gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Its number within the run.
    pub no: i64,
    /// What happened.
    pub update: Update,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// Text to append.
    Text(String),
    /// Only so many characters of the text so far stand: a message was cut off in its middle, and is
    /// said anew.
    Reset {
        /// How many, in Unicode code points over all texts of the run.
        keep: u64,
    },
    /// A step began, went on or ended.
    Step(Step),
    /// It waits for a person.
    Asked(Ask),
    /// A question ended on the runtime's side.
    Unasked(QuestionId),
    /// Something a person should read.
    Note(String),
    /// What it used so far, in all.
    Usage(Usage),
}

/// A question as the runtime asks it. The id is the runtime's and survives restarts; asking it again
/// changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Its id.
    pub id: QuestionId,
    /// Question or permission.
    pub kind: QuestionKind,
    /// What is asked.
    pub text: String,
    /// What can be chosen.
    pub options: Vec<QuestionOption>,
    /// Whether own words are taken.
    pub free_text: bool,
    /// For permissions: what the runtime wants to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolKind>,
}

/// Stands in a message before what an agent wrote to its standard error, which is for the operator.
pub const LAST_WORDS: &str = "Its last words:";

/// How a run ended, in its registry's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The end.
    pub status: EndStatus,
    /// Why it did not complete.
    pub code: Option<Code>,
    /// The same, as a sentence.
    pub message: Option<String>,
    /// The final text.
    pub text: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Files that the runtime itself names as written in this turn: evidence for collecting.
    pub wrote: Vec<String>,
}

/// The three ends that a registry knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// Stopped.
    Cancelled,
}

impl End {
    /// A failure that the registry (or its absence) tells.
    pub fn failed(code: Code, message: impl Into<String>) -> Self {
        Self {
            status: EndStatus::Failed,
            code: Some(code),
            message: Some(message.into()),
            text: None,
            usage: None,
            wrote: vec![],
        }
    }
}

/// What the registry says about a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Registry {
    /// It goes on, or can go on.
    Running,
    /// It ended.
    Ended(End),
    /// It was never there, or is forgotten.
    NoRecord,
}

/// What comes out of [`Runtime::follow`].
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// The next frame.
    Frame(Frame),
    /// The end, after the last frame.
    End(End),
}

/// A run being followed.
pub type Follow = mpsc::Receiver<Signal>;

/// The files of an ended run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Manifest {
    /// Every artifact.
    pub artifacts: FileList,
    /// Everything that was seen and not taken.
    pub omitted: Vec<Omitted>,
    /// Why there are none.
    pub empty_reason: Option<EmptyReason>,
    /// The digest of the receipt that says so for ever, where one could be written.
    pub receipt: Option<Sha256>,
    /// What the run used, where that is told only after its end.
    pub usage: Option<Usage>,
}

/// Which files may go.
#[derive(Clone)]
pub struct RoomRules {
    /// Those that did not change for so long.
    pub max_age: Option<Duration>,
    /// The oldest, while all together have more bytes.
    pub max_bytes: Option<u64>,
    /// Touch nothing.
    pub dry_run: bool,
    /// How each run stands. Asked where blocking is allowed.
    pub stands: Arc<dyn Fn(&RunRef) -> Stands + Send + Sync>,
}

/// How a run stands, for whoever makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It has ended.
    Ended,
    /// It goes on, or nobody knows: its files stay.
    GoesOn,
    /// It is not one of those that are looked at.
    NotOurs,
}

/// What making room came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What is gone, or would be, the oldest first.
    pub removed: Vec<Removal>,
    /// What stays although a rule would have it go.
    pub kept: Vec<Kept>,
    /// Bytes of all that were looked at, afterwards.
    pub bytes_after: u64,
    /// Folders that nobody can tell the owner of. They are left alone.
    pub unknown: u64,
    /// It took so long that the rest was left for the next time.
    pub more: bool,
}

/// An open artifact. Chunks are read on demand, so any size takes constant memory.
pub trait ReadAt: Send + Sync + 'static {
    /// Reads up to `len` bytes at `offset`; an empty answer is the end.
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>>;

    /// The bytes of a range, which the artifact has, as they are taken. Of a whole artifact that
    /// turns out not to be the exported one, the end is not given.
    fn pieces(self: Box<Self>, range: Range<u64>) -> Pieces {
        pieces::of_reader(self, range)
    }
}

/// An artifact that can be read.
pub struct Body {
    /// What it is.
    pub artifact: Artifact,
    /// Its bytes.
    pub reader: Box<dyn ReadAt>,
}
