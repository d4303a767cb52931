//! A statement that the two databases spell differently.

use crate::Dialect;

/// The two spellings of one statement, side by side.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    /// For SQLite.
    pub sqlite: &'static str,
    /// For PostgreSQL.
    pub postgres: &'static str,
}

impl Both {
    /// The spelling for this database.
    pub const fn of(self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
        }
    }
}
