//! What can go wrong in the store, in words that a caller can act on.

use std::sync::Arc;

use sqlx::{error::ErrorKind, migrate::MigrateError};
use threadline_contract::{Code, Fault};

/// Why an operation of the store did not happen. Nothing of it was kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such record, or it belongs to another account.
    #[error("there is no such record")]
    NotFound,
    /// The lease was taken over by another owner: stop working on this run.
    #[error("the lease on this run was taken over")]
    Stale,
    /// A record with this id exists.
    #[error("a record with this id exists already")]
    Duplicate,
    /// The record exists and says something else; the text says what.
    #[error("{0}")]
    Conflict(&'static str),
    /// The session key belongs to another thread or account.
    #[error("the session key belongs to another thread")]
    KeyTaken,
    /// The request id was used for another body.
    #[error("the request id was used for another request")]
    IdempotencyConflict,
    /// A value that cannot be stored; the text says which.
    #[error("{0}")]
    Invalid(String),
    /// The address is neither `sqlite:<path>` nor `postgres://…`.
    #[error("the database address must be `sqlite:<path>` or `postgres://…`")]
    BadUrl,
    /// A newer version made this database.
    #[error("the database has migration {migration}, which this version does not know")]
    TooNew {
        /// The number of the unknown migration.
        migration: i64,
    },
    /// The database cannot be reached.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The disk is full.
    #[error("the disk of the database is full")]
    Full(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The database cannot be written.
    #[error("the database cannot be written")]
    ReadOnly(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The database is damaged: its own pages do not make sense.
    #[error("the database{} is damaged", file.as_ref().map(|f| format!(" {f}")).unwrap_or_default())]
    Damaged {
        /// The file, where it is one of ours.
        file: Option<Arc<str>>,
        /// What the database said.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A stored value cannot be read back; the text says which.
    #[error("a stored value cannot be read: {0}")]
    Corrupt(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Anything else that the database said.
    #[error("the database failed")]
    Database(#[source] Arc<sqlx::Error>),
}

impl StoreError {
    /// Names the file that is damaged, which whoever found it could not know.
    pub(crate) fn in_file(self, name: Option<&Arc<str>>) -> Self {
        match self {
            Self::Damaged { file: None, source } => Self::Damaged {
                file: name.cloned(),
                source,
            },
            other => other,
        }
    }

    pub(crate) fn corrupt(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Corrupt(format!("{what}: {why}"))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(e: sqlx::Error) -> Self {
        use sqlx::Error as E;
        let kind = match &e {
            E::RowNotFound => return Self::NotFound,
            E::PoolClosed => return Self::Closed,
            E::Io(io) => return io_error(io.kind(), Arc::new(e)),
            E::Tls(_) | E::PoolTimedOut | E::WorkerCrashed => Kind::Unreachable,
            E::ColumnDecode { .. } | E::Decode(_) | E::ColumnNotFound(_) => {
                return Self::corrupt("a row", &e);
            }
            E::Database(db) => match db.kind() {
                ErrorKind::UniqueViolation => return Self::Duplicate,
                ErrorKind::ForeignKeyViolation => return Self::NotFound,
                _ => db.code().map_or(Kind::Other, |code| kind_of(&code)),
            },
            _ => Kind::Other,
        };
        match kind {
            Kind::Unreachable => Self::Unreachable(Arc::new(e)),
            Kind::Full => Self::Full(Arc::new(e)),
            Kind::ReadOnly => Self::ReadOnly(Arc::new(e)),
            Kind::Damaged => Self::Damaged {
                file: None,
                source: Arc::new(e),
            },
            Kind::Invalid => Self::Invalid(e.to_string()),
            Kind::Other => Self::Database(Arc::new(e)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Unreachable,
    Full,
    ReadOnly,
    Damaged,
    Invalid,
    Other,
}

/// Reads a SQLSTATE (five characters) or a SQLite result code (a number whose low byte is the
/// primary code).
fn kind_of(code: &str) -> Kind {
    if code.len() == 5 {
        return match code {
            "53100" => Kind::Full,
            "25006" => Kind::ReadOnly,
            "22021" | "54000" => Kind::Invalid,
            "XX001" | "XX002" => Kind::Damaged,
            "53300" | "57P01" | "57P02" | "57P03" | "3D000" | "28000" | "28P01" => {
                Kind::Unreachable
            }
            _ if code.starts_with("08") => Kind::Unreachable,
            _ => Kind::Other,
        };
    }
    // A page that ends early: the file was cut off.
    const SHORT_READ: &str = "522";
    if code == SHORT_READ {
        return Kind::Damaged;
    }
    match code.parse::<i64>().map(|n| n & 0xff) {
        Ok(13) => Kind::Full,
        Ok(8) => Kind::ReadOnly,
        Ok(11 | 26) => Kind::Damaged,
        Ok(14) => Kind::Unreachable,
        Ok(18) => Kind::Invalid,
        _ => Kind::Other,
    }
}

fn io_error(
    kind: std::io::ErrorKind,
    source: Arc<dyn std::error::Error + Send + Sync>,
) -> StoreError {
    use std::io::ErrorKind as K;
    match kind {
        K::StorageFull | K::QuotaExceeded => StoreError::Full(source),
        K::PermissionDenied | K::ReadOnlyFilesystem => StoreError::ReadOnly(source),
        _ => StoreError::Unreachable(source),
    }
}

impl From<std::io::Error> for StoreError {
    fn from(e: std::io::Error) -> Self {
        io_error(e.kind(), Arc::new(e))
    }
}

impl From<MigrateError> for StoreError {
    fn from(e: MigrateError) -> Self {
        match e {
            MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => e.into(),
            MigrateError::VersionMissing(migration) => Self::TooNew { migration },
            // A migration that this version also knows, with another text: not our database.
            other => Self::corrupt("the migrations", other),
        }
    }
}

impl From<StoreError> for Fault {
    /// The sentence never carries the cause. The log does, from here: whoever gets the fault can no
    /// longer tell.
    fn from(e: StoreError) -> Self {
        if matches!(
            e,
            StoreError::Unreachable(_)
                | StoreError::Full(_)
                | StoreError::ReadOnly(_)
                | StoreError::Damaged { .. }
                | StoreError::Corrupt(_)
                | StoreError::Database(_)
        ) {
            tracing::error!(error = ?e, "The database failed: {e}");
        }
        let (code, message) = match e {
            StoreError::NotFound => (Code::NotFound, "There is no such record."),
            StoreError::Stale => (
                Code::Internal,
                "Another server has taken over this run. Ask again.",
            ),
            StoreError::Duplicate => (Code::Conflict, "A record with this id exists already."),
            StoreError::Conflict(what) => {
                return Self::new(Code::Conflict, sentence(what));
            }
            StoreError::KeyTaken => (
                Code::Conflict,
                "The session key belongs to another thread. Use another thread key.",
            ),
            StoreError::IdempotencyConflict => (
                Code::IdempotencyConflict,
                "This requestId was used for another request. Use a new one.",
            ),
            StoreError::Invalid(what) => return Self::invalid(sentence(&what)),
            StoreError::BadUrl => (
                Code::ConfigInvalid,
                "The database address must be `sqlite:<path>` or `postgres://…`.",
            ),
            StoreError::TooNew { .. } => (
                Code::DatabaseTooNew,
                "A newer Threadline made this database. Use that one, or another data folder.",
            ),
            StoreError::Unreachable(_) => (
                Code::DatabaseUnreachable,
                "The database does not answer. Check its address and that it runs.",
            ),
            StoreError::Full(_) => (
                Code::StorageFull,
                "The disk is full. Nothing half-written was kept; make room and try again.",
            ),
            StoreError::ReadOnly(_) => (
                Code::StorageReadOnly,
                "The database cannot be written. Mend its permissions, or choose another data folder.",
            ),
            StoreError::Closed => (
                Code::ShuttingDown,
                "The server is stopping. Send the same request again when it is back.",
            ),
            StoreError::Damaged {
                file: Some(file), ..
            } => {
                let sentence = format!(
                    "The database {file} is damaged. Stop Threadline, keep a copy of the file, and put a back-up in its place; without one, move it away to begin with an empty one."
                );
                return Self::new(Code::DatabaseDamaged, sentence).with("file", &*file);
            }
            StoreError::Damaged { file: None, .. } => (
                Code::DatabaseDamaged,
                "The database says that its data is damaged. Its server's log says more; restore it from a back-up.",
            ),
            StoreError::Corrupt(_) => (
                Code::DatabaseDamaged,
                "The database holds something that Threadline did not write so. The log says what; put a back-up in its place.",
            ),
            StoreError::Database(_) => return Self::internal(),
        };
        Self::new(code, message)
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let mut out: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    out.push_str(chars.as_str());
    if !out.ends_with('.') {
        out.push('.');
    }
    out
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
