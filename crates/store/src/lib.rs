//! The records and event logs, on SQLite or PostgreSQL, and the live event bus.
//!
//! One set of queries ([`sql`]) serves both databases. They differ in two places only: how a stream's
//! events get their numbers (SQLite: in the memory of the one writer; PostgreSQL: by a counter on the
//! stream's row), and `for update skip locked`.
//!
//! Rules that hold here, whoever calls:
//! - Every read of something that belongs to an account names the account in SQL. A record of
//!   another account is [`StoreError::NotFound`].
//! - Everything that a run's driver writes is fenced by its [`Lease`]: after a takeover the old
//!   holder gets [`StoreError::Stale`] and nothing of its is kept.
//! - A run ends once, a question ends once, a request makes one run.
//! - What was acknowledged is on the disk.
//! - Events of a stream are numbered 1, 2, 3… without gaps, in the order of their commits, and a
//!   [`Subscription`] sees each of them once and in order.

mod accounts;
mod append;
mod artifacts;
mod bus;
mod deletions;
mod error;
mod events;
mod heads;
mod idempotency;
mod json;
mod keys;
mod lease_table;
mod leases;
mod listen;
mod live;
mod lock_order;
mod nodes;
mod open;
mod overview;
mod questions;
mod run;
mod run_writes;
mod runs;
mod sessions;
pub mod sql;
mod tool_calls;
mod tx;

pub use accounts::{NewToken, TokenRecord};
pub use bus::Subscription;
pub use deletions::{Deletion, being_deleted};
pub use error::StoreError;
pub use events::{Appended, NewEvent, StoredEvent, StreamId};
pub use idempotency::Request;
pub use keys::SigningKey;
pub use leases::{Lease, Takeover};
pub use lock_order::Rank;
pub use nodes::{NodeClaim, NodeRecord};
pub use open::Store;
pub use overview::{LastEvent, RunOverview};
pub use questions::{Closed, QuestionEnd, StoredQuestion, Whose};
pub use run::{ArtifactState, LaneEntry, Method, NewLease, NewRun, Phase, Run, RunChange, RunEnd};
pub use runs::{Admitted, Cancel, Ended};
pub use sessions::{Bound, NewSession, Session, SessionState};
pub use threadline_db::{DbConfig as StoreConfig, DbError, Dialect};
pub use tool_calls::StoredToolCall;
pub use tx::Tx;

/// What every operation of the store answers.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
