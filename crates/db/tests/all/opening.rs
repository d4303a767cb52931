//! Opening, refusing, closing.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use pretty_assertions::assert_eq;
use threadline_db::{DbConfig, DbError};

use crate::world::{World, on_both, open};

on_both![
    a_database_is_opened_again,
    a_newer_database_is_refused,
    a_changed_migration_is_refused,
    a_closed_database_says_so,
];

async fn a_database_is_opened_again(world: World) {
    world.put("kept", 7).await.unwrap();
    world.db.close().await.unwrap();
    let again = World {
        db: open(world.config.clone()).await.unwrap(),
        ..world
    };
    assert_eq!(again.value("kept").await.unwrap(), 7);
    again.db.close().await.unwrap();
}

async fn a_newer_database_is_refused(world: World) {
    world.db.close().await.unwrap();
    let newer = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
                 values (9001, 'from the future', true, 'x', 0)";
    world.run(newer.to_owned()).await;
    let refused = open(world.config.clone()).await;
    let Err(DbError::TooNew { migration: 9001 }) = refused else {
        panic!("{refused:?}")
    };
    let known = "delete from _sqlx_migrations where version = 9001";
    world.run(known.to_owned()).await;
    open(world.config.clone())
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
}

async fn a_changed_migration_is_refused(world: World) {
    world.db.close().await.unwrap();
    let changed = "update _sqlx_migrations set checksum = 'x' where version = 1";
    world.run(changed.to_owned()).await;
    let refused = open(world.config.clone()).await;
    assert!(matches!(refused, Err(DbError::Corrupt(_))), "{refused:?}");
}

async fn a_closed_database_says_so(world: World) {
    world.db.close().await.unwrap();
    let read = world.value("x").await;
    assert!(matches!(read, Err(DbError::Closed)), "{read:?}");
    let written = world.put("x", 1).await;
    assert!(matches!(written, Err(DbError::Closed)), "{written:?}");
    // Closing it again changes nothing.
    world.db.close().await.unwrap();
}

#[tokio::test]
async fn an_address_of_no_database_is_refused() {
    for url in ["", "mysql://x/y", "threadline.db", "postgres//x", "sqlite"] {
        let refused = open(DbConfig::new(url)).await;
        assert!(matches!(refused, Err(DbError::BadUrl)), "{refused:?}");
    }
    let config = DbConfig::new("postgres://user:hunter2@host/db");
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let config = DbConfig {
        patience: Duration::from_secs(1),
        // Port 1 of loopback: nobody listens there.
        ..DbConfig::new("postgres://nobody@127.0.0.1:1/none")
    };
    let refused = open(config).await;
    assert!(
        matches!(refused, Err(DbError::Unreachable(_))),
        "{refused:?}"
    );
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no/such/folder/x.db");
    let refused = open(DbConfig::new(format!("sqlite:{}", nowhere.display()))).await;
    assert!(
        matches!(refused, Err(DbError::Unreachable(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_damaged_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let text = "this is a letter, not a database\n".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let refused = open(DbConfig::new(format!("sqlite:{}", path.display()))).await;
    let Err(DbError::Damaged { file, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(file.as_deref(), path.to_str());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_read_only() {
    // Nobody, not even root, makes files there.
    let refused = open(DbConfig::new("sqlite:/sys/kernel/threadline.db")).await;
    assert!(matches!(refused, Err(DbError::ReadOnly(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_postgres_is_read_only() {
    let world = World::postgres().await;
    world.db.close().await.unwrap();
    let (_, name) = world.config.url.rsplit_once('/').unwrap();
    let name = name.split('?').next().unwrap();
    let alter = format!("alter database {name} set default_transaction_read_only = on");
    world.run(alter).await;
    let refused = open(world.config.clone()).await;
    assert!(matches!(refused, Err(DbError::ReadOnly(_))), "{refused:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_may_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    // Made by somebody careless.
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let config = DbConfig::new(format!("sqlite:{}", path.display()));
    let db = open(config).await.unwrap();
    let modes: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            (entry.file_name().into_string().unwrap(), mode)
        })
        .collect();
    assert_eq!(modes.len(), 3, "{modes:?}");
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
    db.close().await.unwrap();
    // Closed in order: everything is in the one file.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
