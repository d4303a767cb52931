//! What can go wrong in the store, in words that a caller can act on.

use threadline_contract::{Code, Fault};
use threadline_db::{DbError, WorkError};

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
    /// The session key belongs to another owner or account.
    #[error("the session key belongs to another thread")]
    KeyTaken,
    /// The request id was used for another body.
    #[error("the request id was used for another request")]
    IdempotencyConflict,
    /// A value that cannot be stored; the text says which.
    #[error("{0}")]
    Invalid(String),
    /// A stored value cannot be read back; the text says which.
    #[error("a stored value cannot be read: {0}")]
    Corrupt(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A decision came out against it; the fault says why.
    #[error("{0}")]
    Refused(Box<Fault>),
    /// The database cannot be opened, reached, read or written.
    #[error(transparent)]
    Database(DbError),
}

impl StoreError {
    pub(crate) fn corrupt(what: &str, why: impl std::fmt::Display) -> Self {
        DbError::corrupt(what, why).into()
    }
}

impl From<DbError> for StoreError {
    fn from(e: DbError) -> Self {
        match e {
            DbError::NotFound => Self::NotFound,
            DbError::Duplicate => Self::Duplicate,
            DbError::Invalid(what) => Self::Invalid(what),
            DbError::Corrupt(what) => Self::Corrupt(what),
            DbError::Closed => Self::Closed,
            other => Self::Database(other),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self::Refused(Box::new(fault))
    }
}

impl WorkError for StoreError {
    fn database(&self) -> Option<&DbError> {
        match self {
            Self::Database(e) => Some(e),
            _ => None,
        }
    }
}

impl From<StoreError> for Fault {
    /// The sentence never carries the cause. The log does, from here: whoever gets the fault can no
    /// longer tell.
    fn from(e: StoreError) -> Self {
        if matches!(e, StoreError::Database(_) | StoreError::Corrupt(_)) {
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
            StoreError::Corrupt(_) => (
                Code::DatabaseDamaged,
                "The database holds something that Threadline did not write so. The log says what; put a back-up in its place.",
            ),
            StoreError::Closed => (
                Code::ShuttingDown,
                "The server is stopping. Send the same request again when it is back.",
            ),
            StoreError::Refused(fault) => return *fault,
            StoreError::Database(e) => return of_database(e),
        };
        Self::new(code, message)
    }
}

fn of_database(e: DbError) -> Fault {
    let (code, message) = match e {
        DbError::BadUrl => (
            Code::ConfigInvalid,
            "The database address must be `sqlite:<path>` or `postgres://…`.",
        ),
        DbError::TooNew { .. } => (
            Code::DatabaseTooNew,
            "A newer Threadline made this database. Use that one, or another data folder.",
        ),
        DbError::Unreachable(_) => (
            Code::DatabaseUnreachable,
            "The database does not answer. Check its address and that it runs.",
        ),
        DbError::Full(_) => (
            Code::StorageFull,
            "The disk is full. Nothing half-written was kept; make room and try again.",
        ),
        DbError::ReadOnly(_) => (
            Code::StorageReadOnly,
            "The database cannot be written. Mend its permissions, or choose another data folder.",
        ),
        DbError::Damaged {
            file: Some(file), ..
        } => {
            let sentence = format!(
                "The database {file} is damaged. Stop Threadline, keep a copy of the file, and put a back-up in its place; without one, move it away to begin with an empty one."
            );
            return Fault::new(Code::DatabaseDamaged, sentence).with("file", &*file);
        }
        DbError::Damaged { file: None, .. } => (
            Code::DatabaseDamaged,
            "The database says that its data is damaged. Its server's log says more; restore it from a back-up.",
        ),
        DbError::Contended(_) => (
            Code::DatabaseUnreachable,
            "The database was busy with other writers, also when it was tried again. Nothing was changed; send the same request again.",
        ),
        // The others have a name of their own in the store.
        _ => return Fault::internal(),
    };
    Fault::new(code, message)
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
