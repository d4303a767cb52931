//! What a bridge and a host say to each other over the socket: one JSON object per line.
//!
//! A connection begins with `hello` from the bridge and `hello` from the host, and then is one of two:
//!
//! - `attach {boot, after}` → `attached {lease}`, then every [`Entry`] after that number, in order,
//!   as it comes. The bridge says nothing more; closing the connection detaches. A later `attach`
//!   takes over: the earlier connection is closed and its lease is worth nothing any more. When the
//!   journal cannot be read, `refused` is said before the connection is closed.
//! - `control {lease}`, then any of `send {key, frame}` → `sent {no, again}`, `ack {no}` → nothing,
//!   `stop` → `stopping`. What cannot be done is `refused {code, message}`.
//!
//! Two connections, so that a reader who takes its time never stands between a command and its
//! answer.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Entry, Frame, What, segments::Numbered};

/// The version of what is said here. A host outlives an upgrade, so a bridge may meet an older one.
pub const VERSION: u32 = 1;

/// The longest line: a frame and what stands around it.
pub(crate) const LONGEST_LINE: usize = crate::LONGEST_FRAME + 64 * 1024;
/// How much of a line that is not kept is shown.
pub(crate) const STRAY_HEAD: usize = 4 * 1024;

/// What a bridge says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToHost {
    Hello { version: u32 },
    Attach { boot: String, after: u64 },
    Control { lease: Option<u64> },
    Send { key: String, frame: Frame },
    Ack { no: u64 },
    Stop,
}

/// An entry on its way from the journal to the bridge. What it holds was checked when it was written, and
/// is not looked at again.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Passing {
    pub(crate) no: u64,
    at: i64,
    what: Box<RawValue>,
}

impl Passing {
    /// Without the frame that the bridge itself has handed in.
    pub(crate) fn shortened(mut self) -> serde_json::Result<Self> {
        if self.what.get().starts_with("{\"sent\":")
            && let What::Sent { key, .. } = serde_json::from_str(self.what.get())?
        {
            self.what = serde_json::value::to_raw_value(&What::Sent { key, frame: None })?;
        }
        Ok(self)
    }

    /// Its line.
    pub(crate) fn line(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Said<'a> {
            entry: &'a Passing,
        }
        line(&Said { entry: self })
    }
}

impl Numbered for Passing {
    fn no(&self) -> u64 {
        self.no
    }
}

/// What a host says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromHost {
    Hello(Hello),
    Attached { lease: u64 },
    Entry(Entry),
    Sent { no: u64, again: bool },
    Stopping,
    Refused(Refusal),
}

/// Who a host is and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it speaks.
    pub version: u32,
    /// Which life of the session's host this is.
    pub boot: String,
    /// The session.
    pub session: String,
    /// The oldest entry that it still has.
    pub first: u64,
    /// The newest entry; 0 when there is none.
    pub last: u64,
    /// Up to where the bridge has acknowledged.
    pub acked: u64,
    /// Whether a bridge is attached.
    pub attached: bool,
    /// Requests to the agent that it has not answered yet.
    pub open_turns: usize,
    /// Requests of the agent that wait for their answers.
    pub waiting: usize,
    /// Since when nothing can be journaled for want of room on the disk, in milliseconds since 1970. The agent
    /// waits meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_room_since: Option<i64>,
}

/// Why a host did not do something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, for programs.
    pub code: RefusalCode,
    /// The same, for people.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Why a host did not do something, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefusalCode {
    /// It does not speak this version.
    Version,
    /// It does not understand.
    BadMessage,
    /// The session's host that was meant has gone; this is another one.
    OtherBoot,
    /// Entries that were asked for are gone.
    Gap,
    /// Entries that were named do not exist yet.
    Ahead,
    /// Another bridge has taken over.
    Replaced,
    /// A key is empty or too long.
    BadKey,
    /// Another frame has this key.
    KeyReused,
    /// The agent does not wait for this answer.
    NotWaiting,
    /// The agent takes nothing at the moment, and enough is waiting for it. Try again.
    AgentBusy,
    /// The agent has closed its input.
    AgentDeaf,
    /// The frame could not be journaled, so it was not given to the agent. Try again.
    NotJournaled,
    /// The host is about to end.
    Ending,
}

/// The line of a message.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    // Everything here has text keys and no maps of its own: it cannot fail.
    if serde_json::to_writer(&mut line, message).is_err() {
        line.clear();
    }
    line.push(b'\n');
    line
}
