use pretty_assertions::assert_eq;

use super::*;

#[test]
fn codes_of_both_databases_are_read() {
    for (code, kind) in [
        ("13", Kind::Full),
        ("53100", Kind::Full),
        ("8", Kind::ReadOnly),
        ("264", Kind::ReadOnly),
        ("1544", Kind::ReadOnly),
        ("25006", Kind::ReadOnly),
        ("11", Kind::Damaged),
        ("267", Kind::Damaged),
        ("26", Kind::Damaged),
        ("522", Kind::Damaged),
        ("10", Kind::Other),
        ("14", Kind::Unreachable),
        ("08006", Kind::Unreachable),
        ("57P03", Kind::Unreachable),
        ("22021", Kind::Invalid),
        ("1", Kind::Other),
        ("40P01", Kind::Other),
    ] {
        assert_eq!(kind_of(code), kind, "{code}");
    }
}

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
        (StoreError::BadUrl, Code::ConfigInvalid),
        (StoreError::TooNew { migration: 9 }, Code::DatabaseTooNew),
        (StoreError::Unreachable(cause()), Code::DatabaseUnreachable),
        (StoreError::Full(cause()), Code::StorageFull),
        (StoreError::ReadOnly(cause()), Code::StorageReadOnly),
        (
            StoreError::Corrupt("secret path".to_owned()),
            Code::DatabaseDamaged,
        ),
        (
            StoreError::Damaged {
                file: None,
                source: cause(),
            },
            Code::DatabaseDamaged,
        ),
        (
            StoreError::Damaged {
                file: Some("/data/threadline.db".into()),
                source: cause(),
            },
            Code::DatabaseDamaged,
        ),
        (StoreError::Closed, Code::ShuttingDown),
        (
            StoreError::Database(Arc::new(sqlx::Error::RowNotFound)),
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
