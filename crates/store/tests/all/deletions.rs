//! A deleted thread leaves nothing behind, takes nothing new meanwhile, and is nobody else's loss.

use pretty_assertions::assert_eq;
use threadline_contract::{Artifact, ArtifactPath, Millis, RuntimeId, SessionKey, Sha256};
use threadline_store::{
    Deletion, NewEvent, NewSession, Phase, RunChange, Store, StoreError, StreamId, Whose,
};

use crate::world::{
    World, account, by, event, new_run, on_both, question_of, stream, thread, thread_named,
};

on_both![
    everything_of_a_thread_goes_and_nothing_else,
    a_thread_that_is_being_deleted_takes_nothing_new,
    a_run_that_goes_on_is_not_deleted,
    a_deletion_is_remembered_until_it_is_done,
    a_thread_of_the_same_name_begins_anew,
    who_follows_a_deleted_thread_hears_that_it_ended,
];

const SECRET: &str = "a-very-particular-secret";

fn deletion() -> Deletion {
    Deletion {
        account: account(),
        owner: thread(),
        node: "node-1".to_owned(),
        asked_by: Some(by("ann")),
    }
}

fn session(name: &str) -> NewSession {
    NewSession {
        account: account(),
        owner: thread_named(name),
        runtime: RuntimeId::Builtin,
        version: 1,
        session_key: SessionKey::for_runtime(
            "builtin",
            "main",
            &thread_named(name).app_thread_key(),
        ),
        expected_dirs: vec![],
        working_directory: None,
        node: None,
        at: Millis(1),
    }
}

/// A thread with something in every table, all of it over.
async fn fill(world: &World, name: &str) {
    let store = &world.store;
    store.bind_session(session(name)).await.unwrap();
    let new = new_run(&account(), &thread_named(name), Some(("request-1", 1)));
    store.admit(new, vec![event(SECRET)]).await.unwrap();
    let run = store.latest_run(&account(), &thread_named(name)).await;
    let run = run.unwrap().unwrap();
    let lease = world.take(&run.id).await;
    let question = question_of(&run);
    let asked = NewEvent {
        run: Some(run.id.clone()),
        frame: Some(1),
        ..event("asked")
    };
    store
        .ask(&account(), &question, &lease, vec![asked])
        .await
        .unwrap();
    let artifact = Artifact {
        path: ArtifactPath::new("a.md").unwrap(),
        size: 1,
        sha256: Sha256([1; 32]),
        content_type: "text/plain".into(),
    };
    store
        .put_manifest(&lease, std::iter::once(Ok(artifact)), &[], None)
        .await
        .unwrap();
    let change = RunChange {
        phase: Some(Phase::Closed),
        ..RunChange::default()
    };
    store.change_run(&lease, change, vec![]).await.unwrap();
    store.release_lease(&lease).await.unwrap();
    let stream = StreamId::of(&account(), &thread_named(name));
    let many = (0..5000).map(|_| event(SECRET)).collect();
    store.append(&stream, None, many).await.unwrap();
}

/// What is there of a thread: sessions, runs, questions, events, and the answer to its request.
async fn there(store: &Store, name: &str) -> [usize; 5] {
    let thread = thread_named(name);
    let stream = StreamId::of(&account(), &thread);
    let request = new_run(&account(), &thread, Some(("request-1", 1)))
        .request
        .unwrap();
    [
        store
            .sessions_of_owner(&account(), &thread)
            .await
            .unwrap()
            .len(),
        store
            .runs_of_owner(&account(), &thread, None, 10)
            .await
            .unwrap()
            .len(),
        store
            .questions(&account(), Whose::Of(&thread), true, 10)
            .await
            .unwrap()
            .len(),
        store.events_after(&stream, 0, 10_000).await.unwrap().len(),
        store
            .requested(&account(), &thread, &request.0, &request.1)
            .await
            .unwrap()
            .iter()
            .count(),
    ]
}

async fn everything_of_a_thread_goes_and_nothing_else(world: World) {
    fill(&world, "draft:1").await;
    fill(&world, "draft:2").await;
    let store = &world.store;
    store.ask_deletion(&deletion(), Millis(1)).await.unwrap();
    store.delete_owner(&deletion()).await.unwrap();
    assert_eq!(there(store, "draft:1").await, [0; 5]);
    assert_eq!(there(store, "draft:2").await, [1, 1, 1, 5002, 1]);
    // Again, and of a thread that never was.
    store.delete_owner(&deletion()).await.unwrap();
    assert_eq!(store.deletions().await.unwrap(), vec![]);
}

async fn a_thread_that_is_being_deleted_takes_nothing_new(world: World) {
    fill(&world, "draft:1").await;
    let store = &world.store;
    store.ask_deletion(&deletion(), Millis(1)).await.unwrap();
    let refused = store
        .admit(new_run(&account(), &thread(), None), vec![])
        .await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Conflict("the thread is being deleted"))
        ),
        "{refused:?}"
    );
    let refused = store.bind_session(session("draft:1")).await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Conflict("the thread is being deleted"))
        ),
        "{refused:?}"
    );
    // The same request as before still finds its run.
    let same = new_run(&account(), &thread(), Some(("request-1", 1)));
    store.admit(same, vec![]).await.unwrap();
    world.run_of(&thread_named("draft:2")).await;
}

async fn a_run_that_goes_on_is_not_deleted(world: World) {
    let run = world.run().await;
    let store = &world.store;
    store.ask_deletion(&deletion(), Millis(1)).await.unwrap();
    let refused = store.delete_owner(&deletion()).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict("a run of it goes on"))),
        "{refused:?}"
    );
    assert_eq!(store.run_any(&run.id).await.unwrap(), run);
    assert_eq!(store.deletions().await.unwrap(), vec![deletion()]);
}

async fn a_deletion_is_remembered_until_it_is_done(world: World) {
    fill(&world, "draft:1").await;
    let store = &world.store;
    store.ask_deletion(&deletion(), Millis(1)).await.unwrap();
    store.ask_deletion(&deletion(), Millis(2)).await.unwrap();
    store.close().await.unwrap();
    let again = world.second().await;
    assert_eq!(again.deletions().await.unwrap(), vec![deletion()]);
    again.delete_owner(&deletion()).await.unwrap();
    assert_eq!(again.deletions().await.unwrap(), vec![]);
    again.close().await.unwrap();
}

async fn a_thread_of_the_same_name_begins_anew(world: World) {
    fill(&world, "draft:1").await;
    let store = &world.store;
    store.ask_deletion(&deletion(), Millis(1)).await.unwrap();
    store.delete_owner(&deletion()).await.unwrap();
    store.bind_session(session("draft:1")).await.unwrap();
    world.run().await;
    let appended = store.append(&stream(), None, vec![event("new")]).await;
    assert_eq!(appended.unwrap().first, 1);
    assert_eq!(world.log(&stream()).await, [(1, "\"new\"".to_owned())]);
}

async fn who_follows_a_deleted_thread_hears_that_it_ended(world: World) {
    let store = &world.store;
    let mut follower = store.subscribe(&stream(), 0);
    store
        .append(&stream(), None, vec![event("one")])
        .await
        .unwrap();
    assert_eq!(follower.next().await.unwrap().len(), 1);
    store.ask_deletion(&deletion(), Millis(1)).await.unwrap();
    store.delete_owner(&deletion()).await.unwrap();
    assert!(matches!(follower.next().await, Err(StoreError::Closed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn not_even_the_file_remembers() {
    let world = World::sqlite().await;
    fill(&world, "draft:1").await;
    let store = &world.store;
    store.ask_deletion(&deletion(), Millis(1)).await.unwrap();
    store.delete_owner(&deletion()).await.unwrap();
    let path = world.config.url.strip_prefix("sqlite:").unwrap().to_owned();
    store.close().await.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let found = bytes
        .windows(SECRET.len())
        .any(|part| part == SECRET.as_bytes());
    assert!(!found, "{path} still holds what was deleted");
}
