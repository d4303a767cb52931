//! One writing transaction on either database.

use std::sync::Arc;

use sqlx::{PgConnection, Postgres, SqliteConnection, Transaction};

use crate::{DbError, Dialect};

/// A transaction's connection, for one statement (see [`on!`](crate::on)).
#[derive(Debug)]
pub enum Connection<'c> {
    /// To a SQLite file.
    Sqlite(&'c mut SqliteConnection),
    /// To a PostgreSQL server.
    Postgres(&'c mut PgConnection),
}

pub(crate) enum Conn {
    /// Begin and commit are the writer's business: it shares one among many pieces of work.
    Sqlite(Box<SqliteConnection>),
    Postgres(Box<Transaction<'static, Postgres>>),
}

/// A transaction that a piece of work runs in, with the state that follows its fate.
pub struct Tx<S> {
    pub(crate) conn: Conn,
    file: Option<Arc<str>>,
    /// What is kept in memory beside it.
    pub state: S,
}

impl<S> Tx<S> {
    pub(crate) fn new(conn: Conn, file: Option<Arc<str>>, state: S) -> Self {
        Self { conn, file, state }
    }

    /// Which database is underneath.
    pub const fn dialect(&self) -> Dialect {
        match self.conn {
            Conn::Sqlite(_) => Dialect::Sqlite,
            Conn::Postgres(_) => Dialect::Postgres,
        }
    }

    /// The connection, for one statement.
    pub fn connection(&mut self) -> Connection<'_> {
        match &mut self.conn {
            Conn::Sqlite(conn) => Connection::Sqlite(conn),
            Conn::Postgres(conn) => Connection::Postgres(conn),
        }
    }

    /// A failed statement's error, with what is known about it here.
    pub fn explain(&self, e: sqlx::Error) -> DbError {
        DbError::from(e).in_file(self.file.as_ref())
    }
}

/// Runs one statement on a transaction's connection, whichever kind it is.
#[macro_export]
macro_rules! on {
    ($tx:expr, |$c:ident| $body:expr) => {
        match $tx.connection() {
            $crate::Connection::Sqlite($c) => $body,
            $crate::Connection::Postgres($c) => $body,
        }
        .map_err(|e| $tx.explain(e))
    };
}
