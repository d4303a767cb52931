//! Opens SQLite or PostgreSQL, brings the database up to date, and runs reads and transactions on either.
//! No table is known here: whoever uses this crate brings migrations and statements.
//!
//! What holds, whoever calls:
//! - A piece of work is one transaction: it is done as a whole or not at all, even when the caller goes away.
//! - What was acknowledged is on the disk.
//! - SQLite has one writer, and pieces of work that wait for it share a commit.
//! - Work that met another transaction (a deadlock, a serialization failure, a busy file) is run again a bounded
//!   number of times, then it is [`DbError::Contended`].
//!
//! State in memory that must follow commits and rollbacks, such as counters or a live bus, is hooked in by
//! [`TxState`]; who has none uses `Db<()>`.

mod config;
mod error;
mod many;
mod open;
mod sqlite;
mod state;
mod statement;
mod tx;
mod write;
mod writer;

pub use config::{DbConfig, Dialect, Migrations};
pub use error::{DbError, WorkError};
pub use many::Many;
pub use open::{Db, Reader};
pub use sqlx;
pub use state::TxState;
pub use statement::Both;
pub use tx::{Connection, Tx};

/// What the operations of this crate answer.
pub type Result<T, E = DbError> = std::result::Result<T, E>;
