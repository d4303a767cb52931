//! The agent host: a small process that owns one agent, writes down everything that is said to it and
//! by it, and outlives the bridge.
//!
//! An agent is any program that speaks JSON-RPC, one object per line, over its standard input and
//! output. A bridge that is killed, upgraded or slow is no concern of the agent's: its frames go into the
//! host's journal, and the bridge reads them from there, from the entry after the last one that it has
//! in its own keeping. What the frames mean is the bridge's business; the host knows requests
//! from answers, and no more. While the bridge waits for nothing of the agent's, nobody will answer what the agent
//! asks: the host does, with what it was given for that ([`Spec::unattended`]).
//!
//! The two sides:
//!
//! - [`main`] is the host's process (`threadline agent-host`).
//! - [`Hosts`] is the bridge's side: start, attach, read on, stop, list, sweep.
//!
//! **Invariants.** A session has at most one host, a work folder at most one agent: the locks say so,
//! and the agent's whole family holds the folder's. An entry is in the journal before a bridge or the
//! agent sees it. Entries are numbered without gaps; what is missing is an error, never skipped. A frame
//! that is handed in twice reaches the agent once. When a host ends, in whatever way but SIGKILL, nothing
//! that its agent started is left; after SIGKILL the agent is gone, and sweeping finds the rest.

#![deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "they panic where nothing can be written: `complain!` does not"
)]

mod client;
mod entry;
mod error;
mod exec;
mod family;
mod frame;
mod host;
mod ledger;
mod leftovers;
mod mend;
mod place;
mod procs;
mod segments;
mod spec;
mod wire;

pub use client::{Attached, Control, Frames, Hosts, Launch, Sent, Standing, Sweep, Swept};
pub use entry::{EndCause, Ended, Entry, Stray, StrayReason, What};
pub use error::{HostError, StartCode};
pub use frame::{Frame, Id, Kind, LONGEST_FRAME, NotAFrame};
pub use host::main;
pub use ledger::reply_key;
pub use mend::mend;
pub use place::{CleanedUp, State};
pub use procs::ProcessId;
pub use spec::{ALLOWED, Spec, allowed};
pub use wire::{Hello, Refusal, RefusalCode, VERSION};
