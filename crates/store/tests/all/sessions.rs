//! The mapping from threads to sessions: unique both ways, and fixed where it must be.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_contract::{AccountId, Millis, Owner, RuntimeId, SessionKey};
use threadline_store::{Bound, NewSession, Session, SessionState, StoreError};

use crate::world::{World, account, by, on_both, other, thread, thread_named};

on_both![
    a_mapping_is_made_once_and_confirmed,
    a_key_has_one_thread_over_all_accounts,
    a_thread_has_one_session_per_runtime,
    the_working_directory_is_fixed_for_life,
    racing_bindings_of_one_key_have_one_winner,
    racing_bindings_of_one_thread_agree,
    sessions_are_listed_newest_first,
    accounts_do_not_see_each_others_sessions,
];

fn new(account: AccountId, owner: Owner, key: &str, at: i64) -> NewSession {
    NewSession {
        account,
        owner,
        runtime: RuntimeId::OpenClaw,
        version: 1,
        session_key: SessionKey::new(key).unwrap(),
        expected_dirs: vec!["reports/".to_owned()],
        working_directory: None,
        node: None,
        at: Millis(at),
    }
}

async fn a_mapping_is_made_once_and_confirmed(world: World) {
    let first = NewSession {
        working_directory: Some("/home/me/project".to_owned()),
        node: Some("node-a".to_owned()),
        ..new(account(), thread(), "agent:main:draft:1", 10)
    };
    let session = Session {
        account: account(),
        owner: thread(),
        runtime: RuntimeId::OpenClaw,
        version: 1,
        session_key: SessionKey::new("agent:main:draft:1").unwrap(),
        expected_dirs: vec!["reports/".to_owned()],
        working_directory: Some("/home/me/project".to_owned()),
        state: SessionState::Open,
        node: Some("node-a".to_owned()),
        closed_by: None,
        created_at: Millis(10),
        updated_at: Millis(10),
    };
    let store = &world.store;
    assert_eq!(
        store.bind_session(first.clone()).await.unwrap(),
        Bound::Made(session.clone())
    );
    let again = NewSession {
        expected_dirs: vec!["a \"b\"/".to_owned(), "ü/".to_owned()],
        // It stays where it is, whoever asks.
        node: Some("node-b".to_owned()),
        at: Millis(20),
        ..first
    };
    let session = Session {
        expected_dirs: again.expected_dirs.clone(),
        updated_at: Millis(20),
        ..session
    };
    assert_eq!(
        store.bind_session(again).await.unwrap(),
        Bound::Existing(session.clone())
    );
    assert_eq!(
        store
            .session(&account(), &thread(), &RuntimeId::OpenClaw)
            .await
            .unwrap(),
        session
    );
    assert_eq!(
        store
            .session_by_key(&account(), &session.session_key)
            .await
            .unwrap(),
        session
    );
    let closed = store
        .set_session_state(
            &account(),
            &session.session_key,
            SessionState::Closed,
            &by("ann"),
            Millis(30),
        )
        .await
        .unwrap();
    assert_eq!(
        closed,
        Session {
            state: SessionState::Closed,
            closed_by: Some(by("ann")),
            updated_at: Millis(30),
            ..session.clone()
        }
    );
    let open = store
        .set_session_state(
            &account(),
            &session.session_key,
            SessionState::Open,
            &by("bob"),
            Millis(40),
        )
        .await
        .unwrap();
    assert_eq!(
        open,
        Session {
            updated_at: Millis(40),
            ..session
        }
    );
}

async fn a_key_has_one_thread_over_all_accounts(world: World) {
    let store = &world.store;
    store
        .bind_session(new(account(), thread(), "key", 1))
        .await
        .unwrap();
    for twin in [
        new(account(), thread_named("draft:2"), "key", 2),
        new(other(), thread(), "key", 2),
        NewSession {
            runtime: RuntimeId::Builtin,
            ..new(account(), thread(), "key", 2)
        },
    ] {
        let answer = store.bind_session(twin).await;
        assert!(matches!(answer, Err(StoreError::KeyTaken)), "{answer:?}");
    }
}

async fn a_thread_has_one_session_per_runtime(world: World) {
    let store = &world.store;
    store
        .bind_session(new(account(), thread(), "key", 1))
        .await
        .unwrap();
    store
        .bind_session(new(other(), thread(), "key-2", 1))
        .await
        .unwrap();
    // Both a free key and one that is taken: the thread's own mapping is the first contradiction.
    for key in ["free", "key-2"] {
        let answer = store.bind_session(new(account(), thread(), key, 2)).await;
        assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    }
    let untouched = store
        .session(&account(), &thread(), &RuntimeId::OpenClaw)
        .await
        .unwrap();
    assert_eq!(untouched.session_key.as_str(), "key");
    assert_eq!(untouched.updated_at, Millis(1));
}

async fn the_working_directory_is_fixed_for_life(world: World) {
    let store = &world.store;
    let with = |dir: Option<&str>, n: i64| NewSession {
        working_directory: dir.map(str::to_owned),
        ..new(
            account(),
            thread_named(&format!("draft:{n}")),
            &format!("key-{n}"),
            n,
        )
    };
    store.bind_session(with(Some("/a"), 1)).await.unwrap();
    let moved = store.bind_session(with(Some("/b"), 1)).await;
    assert!(matches!(moved, Err(StoreError::Conflict(_))), "{moved:?}");
    // A turn that says nothing keeps it.
    let kept = store.bind_session(with(None, 1)).await.unwrap().session();
    assert_eq!(kept.working_directory.as_deref(), Some("/a"));
    // A session that began without one never gets one.
    store.bind_session(with(None, 2)).await.unwrap();
    let late = store.bind_session(with(Some("/a"), 2)).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))), "{late:?}");
}

async fn racing_bindings_of_one_key_have_one_winner(world: World) {
    let tries = (0..32).map(|n| {
        let store = world.store.clone();
        let who = if n % 2 == 0 { account() } else { other() };
        let wanted = new(who, thread_named(&format!("draft:{n}")), "key", n);
        tokio::spawn(async move { store.bind_session(wanted).await })
    });
    let (mut made, mut taken) = (0, 0);
    for answer in join_all(tries).await {
        match answer.unwrap() {
            Ok(Bound::Made(_)) => made += 1,
            Err(StoreError::KeyTaken) => taken += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, taken), (1, 31));
}

async fn racing_bindings_of_one_thread_agree(world: World) {
    let tries = (0..32).map(|n| {
        let store = world.store.clone();
        let wanted = new(account(), thread(), "key", n);
        tokio::spawn(async move { store.bind_session(wanted).await })
    });
    let (mut made, mut existing) = (0, 0);
    for answer in join_all(tries).await {
        match answer.unwrap() {
            Ok(Bound::Made(_)) => made += 1,
            Ok(Bound::Existing(_)) => existing += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, existing), (1, 31));
}

async fn sessions_are_listed_newest_first(world: World) {
    let store = &world.store;
    for (n, runtime) in ["builtin", "acp:codex", "openclaw"].iter().enumerate() {
        let wanted = NewSession {
            runtime: runtime.parse().unwrap(),
            ..new(account(), thread(), runtime, 100 - n as i64)
        };
        store.bind_session(wanted).await.unwrap();
    }
    let listed = store.sessions_of_owner(&account(), &thread()).await;
    let names: Vec<String> = listed
        .unwrap()
        .iter()
        .map(|s| s.runtime.to_string())
        .collect();
    assert_eq!(names, ["openclaw", "acp:codex", "builtin"]);
}

async fn accounts_do_not_see_each_others_sessions(world: World) {
    let store = &world.store;
    let session = store
        .bind_session(new(account(), thread(), "key", 1))
        .await
        .unwrap()
        .session();
    let theirs = [
        store
            .session(&other(), &thread(), &RuntimeId::OpenClaw)
            .await,
        store.session_by_key(&other(), &session.session_key).await,
        store
            .set_session_state(
                &other(),
                &session.session_key,
                SessionState::Closed,
                &by("ann"),
                Millis(2),
            )
            .await,
    ];
    for answer in theirs {
        assert!(matches!(answer, Err(StoreError::NotFound)), "{answer:?}");
    }
    assert_eq!(
        store.sessions_of_owner(&other(), &thread()).await.unwrap(),
        []
    );
    assert_eq!(
        store
            .sessions_of_owner(&account(), &thread())
            .await
            .unwrap(),
        [session]
    );
}
