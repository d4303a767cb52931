//! A database of before threads were one kind of owner is opened, and everything in it is found again.

use std::path::Path;

use pretty_assertions::assert_eq;
use sqlx::{Connection as _, migrate::Migrator};
use threadline_contract::{
    Answer, Millis, Owner, QuestionKind, QuestionState, RunStatus, RuntimeId, Sha256, Who,
};
use threadline_store::{
    Admitted, Closed, Deletion, Phase, QuestionEnd, Session, SessionState, StoreConfig, StoreError,
    StoredQuestion, StreamId, Whose,
};

use crate::world::{Place, World, account, event, new_run, thread_named};

/// The last migration of such a database.
const LAST: &str = "0007";

/// Two threads whose names differ by what stands before an owner's name now, and one whose name is reserved now.
const ROWS: &str = r#"
    insert into accounts (id, created_at) values ('local', 1);
    insert into sessions (account, thread, runtime, session_key, expected_dirs, working_directory, state, created_at, updated_at, node) values
        ('local', 'x', 'builtin', 'builtin:main:x', '["out/"]', '/home/me', 'open', 1, 2, 'node-a'),
        ('local', 'thread:x', 'builtin', 'builtin:main:thread:x', '[]', null, 'closed', 3, 4, null),
        ('local', 'build:b1', 'builtin', 'builtin:main:build:b1', '[]', null, 'open', 5, 5, null);
    insert into runs (id, account, thread, runtime, session_key, method, phase, status, created_at, started_at, log_from) values
        ('run-1', 'local', 'x', 'builtin', 'builtin:main:x', 'start', 'running', 'running', 10, 11, 0),
        ('run-2', 'local', 'thread:x', 'builtin', 'builtin:main:thread:x', 'start', 'closed', 'completed', 12, 13, 0),
        ('run-3', 'local', 'build:b1', 'builtin', 'builtin:main:build:b1', 'start', 'closed', 'failed', 14, 15, 0);
    insert into turns (run, turn) values ('run-1', '{"plan":{"thread":"x"}}'), ('run-2', '{}'), ('run-3', '{}');
    insert into requests (account, thread, request_id, digest, run) values
        ('local', 'x', 'req', DIGEST, 'run-1'),
        ('local', 'thread:x', 'req', DIGEST, 'run-2');
    insert into questions (id, account, thread, run, body, state, asked_at) values
        ('q-1', 'local', 'x', 'run-1', '{"kind":"question","text":"Which?","options":[],"free_text":true}', 'open', 20),
        ('q-2', 'local', 'build:b1', 'run-3', '{"kind":"question","text":"Why?","options":[],"free_text":true}', 'withdrawn', 21);
    insert into events (stream, seq, run, frame, kind, body, at) values
        ('thread:5:local:x', 1, 'run-1', 7, 'delta', '"one"', 30),
        ('thread:5:local:build:b1', 1, 'run-3', null, 'delta', '"three"', 31);
    insert into deletions (account, thread, node, asked_at) values
        ('local', 'x', 'node-a', 40), ('local', 'thread:x', 'node-a', 41);
"#;

/// The migrations up to [`LAST`], in a folder of their own.
async fn old_migrations(dialect: &str) -> Migrator {
    let all = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("migrations")
        .join(dialect);
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(all).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if &name[..4] <= LAST {
            std::fs::copy(file.path(), folder.path().join(name)).unwrap();
        }
    }
    Migrator::new(folder.path()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_finds_everything_again() {
    let (config, place) = World::empty_sqlite();
    let url = format!("{}?mode=rwc", config.url);
    let mut conn = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let old = old_migrations("sqlite").await;
    old.run_direct(None, &mut conn, false).await.unwrap();
    let rows = ROWS.replace("DIGEST", &format!("x'{}'", "07".repeat(32)));
    sqlx::raw_sql(sqlx::AssertSqlSafe(rows))
        .execute(&mut conn)
        .await
        .unwrap();
    conn.close().await.unwrap();
    everything_is_there(config, place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_finds_everything_again() {
    let (config, place) = World::empty_postgres().await;
    let mut conn = sqlx::PgConnection::connect(&config.url).await.unwrap();
    let old = old_migrations("postgres").await;
    old.run_direct(None, &mut conn, false).await.unwrap();
    let rows = ROWS.replace("DIGEST", &format!("'\\x{}'", "07".repeat(32)));
    let streams = "insert into streams (stream, last_seq) values ('thread:5:local:x', 1), ('thread:5:local:build:b1', 1);";
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("{rows} {streams}")))
        .execute(&mut conn)
        .await
        .unwrap();
    conn.close().await.unwrap();
    everything_is_there(config, place).await;
}

async fn everything_is_there(config: StoreConfig, place: Place) {
    let world = World::open(config, place).await;
    let store = &world.store;
    let [x, thread_x, reserved] = ["x", "thread:x", "build:b1"].map(thread_named);

    assert_eq!(
        store
            .session(&account(), &x, &RuntimeId::Builtin)
            .await
            .unwrap(),
        Session {
            account: account(),
            owner: x.clone(),
            runtime: RuntimeId::Builtin,
            version: 1,
            session_key: "builtin:main:x".parse().unwrap(),
            expected_dirs: vec!["out/".to_owned()],
            working_directory: Some("/home/me".to_owned()),
            state: SessionState::Open,
            node: Some("node-a".to_owned()),
            created_at: Millis(1),
            updated_at: Millis(2),
            closed_by: None,
        }
    );
    let key = "builtin:main:thread:x".parse().unwrap();
    let closed = store.session_by_key(&account(), &key).await.unwrap();
    assert_eq!(
        (closed.owner, closed.state),
        (thread_x.clone(), SessionState::Closed)
    );

    // Runs go on where they were, with their turns, frames and requests.
    let open = store.open_runs(None, 9).await.unwrap();
    assert_eq!(open.len(), 1);
    let run = &open[0];
    assert_eq!(
        (&run.owner, run.phase, run.status, run.stream()),
        (
            &x,
            Phase::Running,
            RunStatus::Running,
            StreamId::of(&account(), &x)
        )
    );
    assert_eq!(
        store.turn(&run.id).await.unwrap(),
        r#"{"plan":{"thread":"x"}}"#
    );
    assert_eq!(store.last_frame(run).await.unwrap(), Some((7, Millis(30))));
    for (owner, run) in [(&x, "run-1"), (&thread_x, "run-2")] {
        let request = "req".parse().unwrap();
        let made = store
            .requested(&account(), owner, &request, &Sha256([7; 32]))
            .await;
        assert_eq!(made.unwrap().map(|run| run.id), Some(run.parse().unwrap()));
        let again = new_run(&account(), owner, Some(("req", 7)));
        let Admitted::Same(same) = store.admit(again, vec![]).await.unwrap() else {
            panic!("the request was forgotten")
        };
        assert_eq!(same.id.as_str(), run);
    }

    // An open question is answered, in the log that it was asked in.
    let asked = StoredQuestion {
        id: "q-1".parse().unwrap(),
        owner: x.clone(),
        run: run.id.clone(),
        kind: QuestionKind::Question,
        text: "Which?".to_owned(),
        options: vec![],
        free_text: true,
        tool: None,
        state: QuestionState::Open,
        asked_at: Millis(20),
        closed_at: None,
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    };
    let open = store.questions(&account(), Whose::Threads, false, 9).await;
    assert_eq!(open.unwrap(), std::slice::from_ref(&asked));
    let end = QuestionEnd {
        state: QuestionState::Answered,
        answer: Some(Answer::Text("that".to_owned())),
        by: "me".to_owned(),
        principal: Who::Server,
        at: Millis(50),
    };
    let closed = store
        .close_question(&account(), &asked.id, end, |_| vec![event("two")])
        .await;
    assert!(matches!(closed.unwrap(), Closed::Now(_)));
    let log = world.log(&StreamId::of(&account(), &x)).await;
    assert_eq!(log, [(1, "\"one\"".to_owned()), (2, "\"two\"".to_owned())]);

    // A thread that has the name of a build now is still the thread, and not the build.
    let build: Owner = "build:b1".parse().unwrap();
    let last = store
        .latest_run(&account(), &reserved)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(last.id.as_str(), "run-3");
    assert_eq!(store.latest_run(&account(), &build).await.unwrap(), None);
    assert_eq!(
        world.log(&StreamId::of(&account(), &reserved)).await.len(),
        1
    );
    assert_eq!(world.log(&StreamId::of(&account(), &build)).await, []);
    world.run_of(&reserved).await;

    // What was being deleted still is.
    let going = store.deletions().await.unwrap();
    let deletion = |owner: &Owner| Deletion {
        account: account(),
        owner: owner.clone(),
        node: "node-a".to_owned(),
        asked_by: None,
    };
    assert_eq!(going, [deletion(&x), deletion(&thread_x)]);
    let refused = store.admit(new_run(&account(), &x, None), vec![]).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(_))),
        "{refused:?}"
    );
    world.end().await;
}
