//! A run as it is stored, and what may be said about one.

use serde_json::Value;
use threadline_contract::{
    AccountId, Actor, Code, EmptyReason, Millis, Missing, Omitted, Owner, RequestId, RunId,
    RunStatus, RuntimeId, SessionKey, Sha256, Usage,
};

use crate::{Lease, Result, StoreError, StreamId, json};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }
        impl $name {
            /// Its spelling in the database.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
            pub(crate) fn find(what: &str, word: &str) -> Result<Self> {
                match word {
                    $($word => Ok(Self::$variant),)*
                    other => Err(StoreError::corrupt(what, other)),
                }
            }
        }
    };
}

words! {
    /// How a run came about.
    Method {
        /// The session's first turn.
        Start = "start",
        /// A later one.
        Message = "message",
    }
}
words! {
    /// How far a run's driver has come. Only the engine knows what leads where.
    Phase {
        /// It waits for its turn.
        Queued = "queued",
        /// Its folders are being made.
        Preparing = "preparing",
        /// The runtime is being asked to begin.
        Starting = "starting",
        /// The runtime works.
        Running = "running",
        /// It ended; its files are being collected.
        Collecting = "collecting",
        /// Nothing is left to do.
        Closed = "closed",
    }
}
words! {
    /// How a run's files stand.
    ArtifactState {
        /// They were not collected yet.
        Pending = "pending",
        /// They were.
        Done = "done",
        /// They could not be.
        Failed = "failed",
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The account.
    pub account: AccountId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it runs.
    pub runtime: RuntimeId,
    /// The session that it is a turn of.
    pub session_key: SessionKey,
    /// How it came about.
    pub method: Method,
    /// How far its driver has come.
    pub phase: Phase,
    /// How it stands. Everything but `running` is an end and never changes again.
    pub status: RunStatus,
    /// Why it did not complete.
    pub code: Option<Code>,
    /// The same, as a sentence.
    pub message: Option<String>,
    /// The final text.
    pub text: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Declared deliverables that are missing.
    pub missing: Vec<Missing>,
    /// Who began it, where that is known.
    pub begun_by: Option<Actor>,
    /// When somebody asked for it to stop.
    pub cancel_requested_at: Option<Millis>,
    /// Who asked, where that is known.
    pub cancel_requested_by: Option<Actor>,
    /// When it was accepted.
    pub created_at: Millis,
    /// When the runtime began.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// When nothing was left to do.
    pub closed_at: Option<Millis>,
    /// How its files stand.
    pub artifact_state: ArtifactState,
    /// Files that were seen and not taken.
    pub omitted: Vec<Omitted>,
    /// Why there are no files.
    pub empty_reason: Option<EmptyReason>,
    /// What was said about the run and contradicts its record; never applied.
    pub anomalies: Vec<Value>,
    /// Who drives it.
    pub lease_owner: Option<String>,
    /// How often the lease was given. Writes of an older epoch are refused.
    pub lease_epoch: i64,
    /// Until when the lease holds; zero when nobody has it.
    pub lease_until: Millis,
    /// The last number of the owner's log before the run: all its events come after it.
    pub log_from: i64,
    /// The last number of the owner's log when the run was closed: none of its events come after it, but the
    /// end of a question that outlived it.
    pub log_to: Option<i64>,
}

impl Run {
    /// The log that its events go to.
    pub fn stream(&self) -> StreamId {
        StreamId::of(&self.account, &self.owner)
    }

    /// The lease as this record shows it. It holds for whoever it was given to.
    pub fn lease(&self) -> Lease {
        Lease {
            run: self.id.clone(),
            epoch: self.lease_epoch,
        }
    }
}

/// A run to be admitted.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// The account.
    pub account: AccountId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it will run.
    pub runtime: RuntimeId,
    /// The session that it is a turn of.
    pub session_key: SessionKey,
    /// How it came about.
    pub method: Method,
    /// What to do: JSON text that only the engine reads (see [`crate::Store::turn`]).
    pub turn: String,
    /// The client's idempotency key and the digest of the request's body.
    pub request: Option<(RequestId, Sha256)>,
    /// Who begins it.
    pub begun_by: Actor,
    /// Whoever admits a run may drive it at once.
    pub lease: Option<NewLease>,
    /// Now.
    pub at: Millis,
}

/// A lease that is given with the run itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLease {
    /// Who will drive the run.
    pub owner: String,
    /// Until when.
    pub until: Millis,
}

/// What changes on a run. `None` leaves things as they are.
#[derive(Clone, Debug, Default)]
pub struct RunChange {
    /// How far the driver has come.
    pub phase: Option<Phase>,
    /// Why it will not complete.
    pub code: Option<Code>,
    /// The same, as a sentence.
    pub message: Option<String>,
    /// The final text.
    pub text: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Declared deliverables that are missing.
    pub missing: Option<Vec<Missing>>,
    /// When the runtime began.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// When nothing was left to do.
    pub closed_at: Option<Millis>,
    /// How its files stand.
    pub artifact_state: Option<ArtifactState>,
    /// Something to add to the anomalies.
    pub anomaly: Option<Value>,
    /// Replaces what the engine keeps about the turn.
    pub turn: Option<String>,
}

/// The end of a run, as its registry says it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// The end; not `running`.
    pub status: RunStatus,
    /// Why it did not complete.
    pub code: Option<Code>,
    /// The same, as a sentence.
    pub message: Option<String>,
    /// The final text; `None` keeps what was recorded.
    pub text: Option<String>,
    /// What it used; `None` keeps what was recorded.
    pub usage: Option<Usage>,
    /// Declared deliverables that are missing; `None` keeps what was recorded.
    pub missing: Option<Vec<Missing>>,
    /// When it ended.
    pub ended_at: Millis,
    /// Where the driver goes from here; `None` leaves it where it is.
    pub phase: Option<Phase>,
}

/// An open run in a runtime's lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneEntry {
    /// The run.
    pub run: RunId,
    /// The account.
    pub account: AccountId,
    /// Whose it is.
    pub owner: Owner,
    /// The session, which takes one turn at a time.
    pub session_key: SessionKey,
    /// How far it has come.
    pub phase: Phase,
    /// The node that drives it, or drove it last.
    pub lease_owner: Option<String>,
}

#[derive(sqlx::FromRow)]
pub(crate) struct RunRow {
    id: String,
    account: String,
    owner: String,
    runtime: String,
    session_key: String,
    method: String,
    phase: String,
    status: String,
    code: Option<String>,
    message: Option<String>,
    text: Option<String>,
    usage: Option<String>,
    missing: String,
    begun_by: Option<String>,
    cancel_requested_at: Option<i64>,
    cancel_requested_by: Option<String>,
    created_at: i64,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    closed_at: Option<i64>,
    artifact_state: String,
    omitted: String,
    empty_reason: Option<String>,
    anomalies: String,
    lease_owner: Option<String>,
    lease_epoch: i64,
    lease_until: i64,
    log_from: i64,
    log_to: Option<i64>,
}

impl TryFrom<RunRow> for Run {
    type Error = StoreError;
    fn try_from(row: RunRow) -> Result<Self> {
        let anomaly = |line| json::from_text("runs.anomalies", line);
        Ok(Self {
            id: json::id("runs.id", &row.id)?,
            account: json::id("runs.account", &row.account)?,
            owner: json::id("runs.owner", &row.owner)?,
            runtime: json::id("runs.runtime", &row.runtime)?,
            session_key: json::id("runs.session_key", &row.session_key)?,
            method: Method::find("runs.method", &row.method)?,
            phase: Phase::find("runs.phase", &row.phase)?,
            status: RunStatus::find(&row.status)
                .ok_or_else(|| StoreError::corrupt("runs.status", &row.status))?,
            code: row
                .code
                .map(|c| json::from_word("runs.code", &c))
                .transpose()?,
            message: json::maybe_from_text("runs.message", row.message.as_deref())?,
            text: json::maybe_from_text("runs.text", row.text.as_deref())?,
            usage: json::maybe_from_text("runs.usage", row.usage.as_deref())?,
            missing: json::from_text("runs.missing", &row.missing)?,
            begun_by: json::maybe_from_text("runs.begun_by", row.begun_by.as_deref())?,
            cancel_requested_at: json::millis(row.cancel_requested_at),
            cancel_requested_by: json::maybe_from_text(
                "runs.cancel_requested_by",
                row.cancel_requested_by.as_deref(),
            )?,
            created_at: Millis(row.created_at),
            started_at: json::millis(row.started_at),
            ended_at: json::millis(row.ended_at),
            closed_at: json::millis(row.closed_at),
            artifact_state: ArtifactState::find("runs.artifact_state", &row.artifact_state)?,
            omitted: json::from_text("runs.omitted", &row.omitted)?,
            empty_reason: row
                .empty_reason
                .map(|r| json::from_word("runs.empty_reason", &r))
                .transpose()?,
            anomalies: row.anomalies.lines().map(anomaly).collect::<Result<_>>()?,
            lease_owner: row.lease_owner,
            lease_epoch: row.lease_epoch,
            lease_until: Millis(row.lease_until),
            log_from: row.log_from,
            log_to: row.log_to,
        })
    }
}

#[derive(sqlx::FromRow)]
pub(crate) struct LaneRow {
    id: String,
    account: String,
    owner: String,
    session_key: String,
    phase: String,
    lease_owner: Option<String>,
}

impl TryFrom<LaneRow> for LaneEntry {
    type Error = StoreError;
    fn try_from(row: LaneRow) -> Result<Self> {
        Ok(Self {
            run: json::id("runs.id", &row.id)?,
            account: json::id("runs.account", &row.account)?,
            owner: json::id("runs.owner", &row.owner)?,
            session_key: json::id("runs.session_key", &row.session_key)?,
            phase: Phase::find("runs.phase", &row.phase)?,
            lease_owner: row.lease_owner,
        })
    }
}
