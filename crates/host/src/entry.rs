//! What a host's journal holds: everything that the two said to each other, and how it ended.

use serde::{Deserialize, Serialize};

use crate::{Frame, Kind, NotAFrame};

/// One thing that happened, numbered from 1 without gaps for as long as the host lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub no: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The agent wrote a frame.
    Said(Frame),
    /// The agent wrote a line that is not a frame.
    Stray(Stray),
    /// A frame was taken for the agent.
    Sent {
        /// The name under which it was handed in.
        key: String,
        /// The frame. In the journal alone: whoever handed it in has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<Frame>,
    },
    /// The agent and all that it started are gone. Always the last entry.
    Ended(Ended),
}

/// A line that is not a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// Why not.
    pub reason: StrayReason,
    /// How long it was.
    pub bytes: u64,
    /// How it begins; what is not UTF-8 in it is replaced.
    pub head: String,
    /// What it was meant to be, as far as can be told: nothing where it is no message at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meant: Option<Kind>,
}

/// Why a line is not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StrayReason {
    /// It is not UTF-8.
    NotUtf8,
    /// It is not JSON.
    NotJson,
    /// It is JSON, but not one JSON-RPC message.
    NotRpc,
    /// It is longer than [`LONGEST_FRAME`](crate::LONGEST_FRAME).
    TooLong,
    /// The agent ended in its middle.
    CutOff,
}

impl From<NotAFrame> for StrayReason {
    fn from(why: NotAFrame) -> Self {
        match why {
            NotAFrame::NotUtf8 => Self::NotUtf8,
            NotAFrame::NotJson => Self::NotJson,
            NotAFrame::NotRpc => Self::NotRpc,
        }
    }
}

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Why.
    pub cause: EndCause,
    /// Its exit status, if it had one.
    pub status: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The end of what it wrote to standard error, since its last turn began.
    pub stderr: String,
}

/// Why an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// It did so by itself, or somebody killed it.
    Exited,
    /// A bridge asked the host to stop.
    Stopped,
    /// The host was told to end by a signal.
    Terminated,
    /// Nobody needed it for so long.
    Idle,
    /// The host's folder went away, so that nobody could ever find it.
    Abandoned,
    /// The journal could not be written any more.
    JournalFailed,
    /// The host itself broke.
    Broken,
    /// It closed its output, so that nothing could come from it any more.
    Mute,
}
