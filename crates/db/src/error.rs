//! What can go wrong with a database, in kinds that a caller can act on.

use std::sync::Arc;

use sqlx::{error::ErrorKind, migrate::MigrateError};

/// Why something did not happen. Nothing of it was kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DbError {
    /// There is no such row, or none that a row refers to.
    #[error("there is no such record")]
    NotFound,
    /// A row with this key exists.
    #[error("a record with this id exists already")]
    Duplicate,
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
    /// Other transactions were in the way, also when it was tried again.
    #[error("other writers of the database were in the way")]
    Contended(#[source] Option<Arc<dyn std::error::Error + Send + Sync>>),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// Anything else that the database said.
    #[error("the database failed")]
    Other(#[source] Arc<sqlx::Error>),
}

/// The error of a piece of work, which may be the database's.
pub trait WorkError: From<DbError> + Send + 'static {
    /// What the database said, where the work failed by it.
    fn database(&self) -> Option<&DbError>;
}

impl WorkError for DbError {
    fn database(&self) -> Option<&DbError> {
        Some(self)
    }
}

impl DbError {
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

    /// A stored value that cannot be read back.
    pub fn corrupt(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Corrupt(format!("{what}: {why}"))
    }
}

impl From<sqlx::Error> for DbError {
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
            Kind::Contended => Self::Contended(Some(Arc::new(e))),
            Kind::NotText => {
                let why = "a text holds a character that cannot be stored (NUL)";
                Self::Invalid(why.to_owned())
            }
            Kind::TooLarge => Self::Invalid("a value is too large to be stored".to_owned()),
            Kind::Other => Self::Other(Arc::new(e)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Unreachable,
    Full,
    ReadOnly,
    Damaged,
    /// PostgreSQL takes no text with a NUL character, also not to look for it.
    NotText,
    TooLarge,
    Contended,
    Other,
}

/// Reads a SQLSTATE (five characters) or a SQLite result code (a number whose low byte is the
/// primary code).
fn kind_of(code: &str) -> Kind {
    if code.len() == 5 {
        return match code {
            "53100" => Kind::Full,
            "25006" => Kind::ReadOnly,
            "22021" => Kind::NotText,
            "54000" => Kind::TooLarge,
            "XX001" | "XX002" => Kind::Damaged,
            // A serialization failure, a deadlock.
            "40001" | "40P01" => Kind::Contended,
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
        Ok(18) => Kind::TooLarge,
        // Busy, locked.
        Ok(5 | 6) => Kind::Contended,
        _ => Kind::Other,
    }
}

fn io_error(kind: std::io::ErrorKind, source: Arc<dyn std::error::Error + Send + Sync>) -> DbError {
    use std::io::ErrorKind as K;
    match kind {
        K::StorageFull | K::QuotaExceeded => DbError::Full(source),
        K::PermissionDenied | K::ReadOnlyFilesystem => DbError::ReadOnly(source),
        _ => DbError::Unreachable(source),
    }
}

impl From<std::io::Error> for DbError {
    fn from(e: std::io::Error) -> Self {
        io_error(e.kind(), Arc::new(e))
    }
}

impl From<MigrateError> for DbError {
    fn from(e: MigrateError) -> Self {
        match e {
            MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => e.into(),
            MigrateError::VersionMissing(migration) => Self::TooNew { migration },
            // A migration that this version also knows, with another text: not our database.
            other => Self::corrupt("the migrations", other),
        }
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
