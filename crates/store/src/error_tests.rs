use std::sync::Arc;

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn every_failure_has_its_code_and_a_sentence_without_the_cause() {
    let cause = || Arc::new(std::io::Error::other("secret path"));
    let all = [
        (StoreError::NotFound, Code::NotFound),
        (StoreError::Stale, Code::Internal),
        (StoreError::Duplicate, Code::Conflict),
        (StoreError::Conflict("the one is the other"), Code::Conflict),
        (StoreError::KeyTaken, Code::Conflict),
        (StoreError::IdempotencyConflict, Code::IdempotencyConflict),
        (
            StoreError::Invalid("no end".to_owned()),
            Code::InvalidRequest,
        ),
        (StoreError::Database(DbError::BadUrl), Code::ConfigInvalid),
        (
            StoreError::Database(DbError::TooNew { migration: 9 }),
            Code::DatabaseTooNew,
        ),
        (
            StoreError::Database(DbError::Unreachable(cause())),
            Code::DatabaseUnreachable,
        ),
        (
            StoreError::Database(DbError::Full(cause())),
            Code::StorageFull,
        ),
        (
            StoreError::Database(DbError::ReadOnly(cause())),
            Code::StorageReadOnly,
        ),
        (
            StoreError::Corrupt("secret path".to_owned()),
            Code::DatabaseDamaged,
        ),
        (
            StoreError::Database(DbError::Damaged {
                file: None,
                source: cause(),
            }),
            Code::DatabaseDamaged,
        ),
        (
            StoreError::Database(DbError::Damaged {
                file: Some("/data/threadline.db".into()),
                source: cause(),
            }),
            Code::DatabaseDamaged,
        ),
        (StoreError::Closed, Code::ShuttingDown),
        (
            Fault::new(Code::RuntimeBusy, "Too many wait already.").into(),
            Code::RuntimeBusy,
        ),
        (
            StoreError::Database(DbError::Contended(None)),
            Code::DatabaseUnreachable,
        ),
        (
            StoreError::Database(DbError::Other(Arc::new(sqlx::Error::RowNotFound))),
            Code::Internal,
        ),
    ];
    for (error, code) in all {
        let fault = Fault::from(error);
        assert_eq!(fault.code, code);
        assert!(fault.message.ends_with('.'), "{}", fault.message);
        assert!(
            fault.message.chars().next().is_some_and(char::is_uppercase),
            "{}",
            fault.message
        );
        assert!(!fault.message.contains("secret"), "{}", fault.message);
    }
}
