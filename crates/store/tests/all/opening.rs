//! Opening again; damaged files and full disks.

use std::path::Path;

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use sqlx::Connection as _;
use threadline_contract::{Code, Fault, Millis, RuntimeId, Scopes};
use threadline_store::{DbError, NewSession, Store, StoreConfig, StoreError};

use crate::world::{Place, World, account, event, on_both, run_on, stream, thread};

on_both![
    a_database_is_opened_again,
    rows_from_before_principals_say_that_nobody_is_known,
];

async fn a_database_is_opened_again(world: World) {
    let run = world.run().await;
    world
        .store
        .append(&stream(), None, vec![event("kept")])
        .await
        .unwrap();
    world.store.close().await.unwrap();
    let again = world.second().await;
    assert_eq!(again.run_any(&run.id).await.unwrap(), run);
    let appended = again.append(&stream(), None, vec![event("more")]).await;
    assert_eq!(appended.unwrap().first, 2);
    again.close().await.unwrap();
}

async fn migrations(world: &World, statement: &'static str) {
    match &*world.place {
        Place::Folder(_) => {
            let mut conn = sqlx::SqliteConnection::connect(&world.config.url)
                .await
                .unwrap();
            sqlx::query(statement).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        }
        Place::Database(..) => run_on(&world.config.url, statement.to_owned()).await,
    }
}

/// The rows as they were before anybody noted who did what: without the columns that came with it.
async fn rows_from_before_principals_say_that_nobody_is_known(world: World) {
    let run = world.run().await;
    let session = NewSession {
        account: account(),
        owner: thread(),
        runtime: RuntimeId::Builtin,
        version: 1,
        session_key: run.session_key.clone(),
        expected_dirs: vec![],
        working_directory: None,
        node: None,
        at: Millis(1),
    };
    world.store.bind_session(session).await.unwrap();
    for statement in [
        "update runs set begun_by = null, cancel_requested_at = 5",
        "update sessions set state = 'closed'",
        "insert into tokens (id, account, hash, label, created_at) \
         select 'old', id, cast('00000000000000000000000000000000' as bytea), 'laptop', 7 from accounts limit 1",
    ] {
        let statement = match &*world.place {
            Place::Folder(_) => statement.replace("bytea", "blob"),
            Place::Database(..) => statement.to_owned(),
        };
        migrations(&world, Box::leak(statement.into_boxed_str())).await;
    }
    let store = &world.store;
    let found = store.run_any(&run.id).await.unwrap();
    assert_eq!((found.begun_by, found.cancel_requested_by), (None, None));
    let sessions = store.sessions_of_owner(&account(), &thread()).await;
    assert_eq!(sessions.unwrap()[0].closed_by, None);
    let token = store.token_by_hash(&[b'0'; 32]).await.unwrap().unwrap();
    assert_eq!((token.scopes, token.made_by), (Scopes::FULL, None));
}

#[test]
fn both_folders_hold_the_same_migrations() {
    let names = |folder: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut names: Vec<String> = std::fs::read_dir(path.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let sqlite = names("sqlite");
    assert_eq!(sqlite, names("postgres"));
    for (n, name) in sqlite.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}_", n + 1)), "{name}");
    }
}

/// The code is its own, and the sentence names the file and what to do.
fn told_as_damaged(e: StoreError, path: &Path) {
    assert!(
        matches!(e, StoreError::Database(DbError::Damaged { .. })),
        "{e:?}"
    );
    let fault = Fault::from(e);
    assert_eq!(
        (fault.code, fault.message),
        (
            Code::DatabaseDamaged,
            format!(
                "The database {} is damaged. Stop Threadline, keep a copy of the file, and put a back-up in its place; without one, move it away to begin with an empty one.",
                path.display()
            )
        )
    );
}

/// A database with something in it, closed.
async fn filled(folder: &Path) -> (StoreConfig, std::path::PathBuf) {
    let path = folder.join("threadline.db");
    let config = StoreConfig::new(format!("sqlite:{}", path.display()));
    let store = Store::open(config.clone()).await.unwrap();
    for _ in 0..20 {
        let events = (0..50).map(|_| event(&"x".repeat(400))).collect();
        store.append(&stream(), None, events).await.unwrap();
    }
    store.close().await.unwrap();
    (config, path)
}

/// Whatever a damaged database is first asked that touches the damage.
async fn first_failure(config: StoreConfig) -> StoreError {
    let store = match Store::open(config).await {
        Ok(store) => store,
        Err(e) => return e,
    };
    let read = store.events_after(&stream(), 0, 100_000).await;
    let written = store.append(&stream(), None, vec![event("more")]).await;
    let _ = store.close().await;
    match (read, written) {
        (Err(e), _) | (_, Err(e)) => e,
        done => panic!("nothing was noticed: {done:?}"),
    }
}

#[tokio::test]
async fn pages_that_were_overwritten_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = filled(folder.path()).await;
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    told_as_damaged(first_failure(config).await, &path);

    let folder = tempfile::tempdir().unwrap();
    let (config, path) = filled(folder.path()).await;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    told_as_damaged(first_failure(config).await, &path);
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_damage() {
    for part in [2, 3, 10] {
        let folder = tempfile::tempdir().unwrap();
        let (config, path) = filled(folder.path()).await;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length / part + 17).unwrap();
        told_as_damaged(first_failure(config).await, &path);
    }
}

/// Writers that share a commit with one that does not fit fail with it, keep nothing, and succeed
/// when they try again; numbers stay dense and followers see no more than the log has.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_leaves_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let config = StoreConfig {
        max_bytes: Some(4 << 20),
        ..StoreConfig::new(format!("sqlite:{}", path.display()))
    };
    let store = Store::open(config).await.unwrap();
    let mut follower = store.subscribe(&stream(), 0);
    let large = "x".repeat(8 << 20);
    let writers = (0..32).map(|w| {
        let (store, large) = (store.clone(), large.clone());
        tokio::spawn(async move {
            let mut failed_with_others = 0;
            for n in 0..20 {
                if w % 8 == 0 && n % 5 == 0 {
                    let refused = store.append(&stream(), None, vec![event(&large)]).await;
                    assert!(
                        matches!(refused, Err(StoreError::Database(DbError::Full(_)))),
                        "{refused:?}"
                    );
                }
                let body = format!("{w}/{n}");
                loop {
                    match store.append(&stream(), None, vec![event(&body)]).await {
                        Ok(_) => break,
                        Err(StoreError::Database(DbError::Full(_))) => failed_with_others += 1,
                        Err(e) => panic!("{e:?}"),
                    }
                }
            }
            failed_with_others
        })
    });
    let mut failed_with_others = 0;
    for writer in join_all(writers).await {
        failed_with_others += writer.unwrap();
    }
    assert!(failed_with_others > 0, "no group was rolled back");
    let log = store.events_after(&stream(), 0, 9999).await.unwrap();
    let mut bodies: Vec<_> = log.iter().map(|e| e.body.to_string()).collect();
    for (at, e) in log.iter().enumerate() {
        assert_eq!(e.seq, at as i64 + 1);
    }
    bodies.sort();
    bodies.dedup();
    assert_eq!((log.len(), bodies.len()), (640, 640));
    let mut seen = vec![];
    while seen.len() < log.len() {
        seen.extend(follower.next().await.unwrap().iter().cloned());
    }
    assert_eq!(seen, log);
    store.close().await.unwrap();
}
