//! Where the database is, what its tables are, and how much of the machine it may use.

use std::time::Duration;

use sqlx::migrate::Migrator;

/// How to open a [`crate::Db`].
#[derive(Clone)]
pub struct DbConfig {
    /// `sqlite:<path>` or `postgres://…`.
    pub url: String,
    /// Connections for reading (SQLite) or for everything (PostgreSQL).
    pub connections: u32,
    /// How long an operation waits for a free connection or for another's lock, and the first connection for its
    /// server.
    pub patience: Duration,
    /// The most bytes that a SQLite file may have. A write beyond it is `Full`.
    pub max_bytes: Option<u64>,
}

impl DbConfig {
    /// The usual settings for an address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 8,
            patience: Duration::from_secs(10),
            max_bytes: None,
        }
    }
}

impl std::fmt::Debug for DbConfig {
    /// Without the address: it may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbConfig")
            .field("dialect", &Dialect::of_url(&self.url))
            .field("connections", &self.connections)
            .field("patience", &self.patience)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// The migrations of both databases, as `sqlx::migrate!` compiles them in.
#[derive(Clone, Copy, Debug)]
pub struct Migrations {
    /// For SQLite.
    pub sqlite: &'static Migrator,
    /// For PostgreSQL. Without them, an address of PostgreSQL is refused as a bad one.
    pub postgres: Option<&'static Migrator>,
}

/// Which database is underneath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite, in this process.
    Sqlite,
    /// PostgreSQL, over the network.
    Postgres,
}

impl Dialect {
    /// The database that an address names.
    pub fn of_url(url: &str) -> Option<Self> {
        if url.starts_with("sqlite:") {
            Some(Self::Sqlite)
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Some(Self::Postgres)
        } else {
            None
        }
    }
}
