//! Decisions in one transaction: exactly one of two wins, nothing is half done, and none waits for ever.

use std::time::Duration;

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use proptest::{prelude::*, strategy::ValueTree as _};
use threadline_contract::{Code, Fault, Millis, RuntimeId, SessionKey};
use threadline_store::{
    Cancel, NewSession, Phase, RunChange, SessionState, Store, StoreError, StreamId,
};

use crate::world::{World, account, by, event, new_run, on_both, thread_named};

on_both![
    of_two_decisions_on_one_row_one_wins,
    a_refused_decision_leaves_nothing,
    rows_are_locked_in_their_order,
    decisions_in_any_interleaving_end,
];

fn session_of(name: &str) -> NewSession {
    let owner = thread_named(name);
    NewSession {
        account: account(),
        session_key: SessionKey::for_runtime("builtin", "main", &owner.app_thread_key()),
        owner,
        runtime: RuntimeId::Builtin,
        version: 1,
        expected_dirs: vec![],
        working_directory: None,
        node: None,
        at: Millis(1),
    }
}

fn refused() -> StoreError {
    Fault::new(Code::Conflict, "The session is closed.").into()
}

/// Closes an open session and says so.
async fn close(store: &Store, session: NewSession) -> Result<(), StoreError> {
    let stream = StreamId::of(&account(), &session.owner);
    store
        .transact(move |mut tx| {
            Box::pin(async move {
                let key = &session.session_key;
                let now = tx.lock_session(&account(), key).await?;
                if now.state == SessionState::Closed {
                    return Err(refused());
                }
                let closed = SessionState::Closed;
                tx.set_session_state(&account(), key, closed, &by("a"), Millis(2))
                    .await?;
                tx.append(&stream, vec![event("closed")]).await.map(drop)
            })
        })
        .await
}

/// Gives an open session its last turn, closes it with that, and says so.
async fn last_turn(store: &Store, session: NewSession) -> Result<(), StoreError> {
    let stream = StreamId::of(&account(), &session.owner);
    store
        .transact(move |mut tx| {
            Box::pin(async move {
                let key = &session.session_key;
                let now = tx.lock_session(&account(), key).await?;
                if now.state == SessionState::Closed {
                    return Err(refused());
                }
                let closed = SessionState::Closed;
                tx.set_session_state(&account(), key, closed, &by("b"), Millis(3))
                    .await?;
                let run = new_run(&account(), &session.owner, None);
                tx.admit(run, vec![event("admitted")]).await?;
                tx.append(&stream, vec![event("last")]).await.map(drop)
            })
        })
        .await
}

async fn of_two_decisions_on_one_row_one_wins(world: World) {
    let second = match world.store.dialect() {
        threadline_store::Dialect::Postgres => world.second().await,
        threadline_store::Dialect::Sqlite => world.store.clone(),
    };
    let (mut closes, mut turns) = (0, 0);
    for round in 0..1000 {
        let session = session_of(&format!("draft:{round}"));
        world.store.bind_session(session.clone()).await.unwrap();
        let (one, other) = match round % 2 {
            0 => (&world.store, &second),
            _ => (&second, &world.store),
        };
        let (closed, turned) = tokio::join!(
            close(one, session.clone()),
            last_turn(other, session.clone())
        );
        let log = world.log(&StreamId::of(&account(), &session.owner)).await;
        let bodies: Vec<&str> = log.iter().map(|(_, body)| body.as_str()).collect();
        let runs = world
            .store
            .runs_of_owner(&account(), &session.owner, None, 9)
            .await
            .unwrap();
        let state = world
            .store
            .session(&account(), &session.owner, &session.runtime)
            .await
            .unwrap();
        match (closed, turned) {
            (Ok(()), Err(StoreError::Refused(_))) => {
                closes += 1;
                assert_eq!(
                    (bodies.as_slice(), runs.len(), state.updated_at),
                    (["\"closed\""].as_slice(), 0, Millis(2))
                );
            }
            (Err(StoreError::Refused(_)), Ok(())) => {
                turns += 1;
                assert_eq!(
                    (bodies.as_slice(), runs.len(), state.updated_at),
                    (["\"admitted\"", "\"last\""].as_slice(), 1, Millis(3))
                );
            }
            other => panic!("{round}: {other:?}"),
        }
        assert_eq!(state.state, SessionState::Closed);
    }
    assert_eq!(closes + turns, 1000);
    second.close().await.unwrap();
}

async fn a_refused_decision_leaves_nothing(world: World) {
    let session = session_of("draft:1");
    let stream = StreamId::of(&account(), &session.owner);
    let (bound, log) = (session.clone(), stream.clone());
    let refused = world
        .store
        .transact(move |mut tx| {
            Box::pin(async move {
                let run = new_run(&account(), &bound.owner, Some(("request", 1)));
                tx.bind_session(bound).await?;
                tx.admit(run, vec![event("admitted")]).await?;
                tx.append(&log, vec![event("more")]).await?;
                Err::<(), _>(refused())
            })
        })
        .await;
    let fault = Fault::from(refused.unwrap_err());
    assert_eq!(fault, Fault::new(Code::Conflict, "The session is closed."));
    let store = &world.store;
    let (account, owner) = (account(), &session.owner);
    let sessions = store.sessions_of_owner(&account, owner).await;
    assert_eq!(sessions.unwrap(), []);
    let runs = store.runs_of_owner(&account, owner, None, 9).await;
    assert_eq!(runs.unwrap(), []);
    assert_eq!(world.log(&stream).await, []);
    // The next number is the first, too.
    let appended = store.append(&stream, None, vec![event("first")]).await;
    assert_eq!(appended.unwrap().first, 1);
}

async fn rows_are_locked_in_their_order(world: World) {
    let session = session_of("draft:1");
    world.store.bind_session(session.clone()).await.unwrap();
    let run = world.run().await;
    let lock = |run_first: bool| {
        let (key, id) = (session.session_key.clone(), run.id.clone());
        world.store.transact(move |mut tx| {
            Box::pin(async move {
                if run_first {
                    tx.lock_run(&account(), &id).await?;
                }
                tx.lock_session(&account(), &key).await?;
                let run = tx.lock_run(&account(), &id).await?;
                tx.append(&run.stream(), vec![]).await.map(drop)
            })
        })
    };
    lock(false).await.unwrap();
    let wrong = lock(true).await;
    let Err(StoreError::Invalid(why)) = wrong else {
        panic!("{wrong:?}")
    };
    assert_eq!(
        why,
        format!(
            "Session {} is locked after Run {}: lock rows in the order of their kinds and keys",
            session.session_key, run.id
        )
    );
}

/// Several decisions on two runs, each on one or both, with pauses between their steps. Some of them, a person's and
/// a driver's, do not lock both rows at their beginning. All of them end, and none is half done.
async fn decisions_in_any_interleaving_end(world: World) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let plan = prop::collection::vec((0..4_u8, 0_u64..3), 2..8);
    for round in 0..12 {
        let plan = plan.new_tree(&mut runner).unwrap().current();
        let thread = thread_named(&format!("draft:{round}"));
        let mut runs = [world.run_of(&thread).await, world.run_of(&thread).await];
        runs.sort_by(|a, b| a.id.cmp(&b.id));
        let [a, b] = runs.clone();
        let leases = [world.take(&a.id).await, world.take(&b.id).await];
        let decisions = plan.iter().map(|(kind, pause)| {
            let (store, kind, pause) = (world.store.clone(), *kind, *pause);
            let (runs, leases) = (runs.clone(), leases.clone());
            tokio::spawn(async move {
                store
                    .transact(move |mut tx| {
                        Box::pin(async move {
                            let rest = || tokio::time::sleep(Duration::from_millis(pause));
                            let which = usize::from(kind % 2 == 1);
                            if kind < 2 {
                                // Both, in their order.
                                for run in &runs {
                                    tx.lock_run(&account(), &run.id).await?;
                                    rest().await;
                                }
                            }
                            let stopped = tx
                                .request_cancel(
                                    &account(),
                                    &runs[which].id,
                                    &by("a person"),
                                    Millis(5),
                                    event("stop"),
                                )
                                .await?;
                            rest().await;
                            tx.change_run(
                                &leases[which],
                                RunChange {
                                    phase: Some(Phase::Running),
                                    ..RunChange::default()
                                },
                                vec![event("changed")],
                            )
                            .await?;
                            Ok(matches!(stopped, Cancel::Asked(_)))
                        })
                    })
                    .await
            })
        });
        let mut stopped = 0;
        let done = tokio::time::timeout(Duration::from_secs(60), join_all(decisions));
        for done in done.await.expect("nobody waits for ever") {
            stopped += usize::from(done.unwrap().unwrap());
        }
        let log = world.log(&a.stream()).await;
        let said = |body: &str| log.iter().filter(|(_, b)| b == body).count();
        assert_eq!(said("\"changed\""), plan.len());
        assert_eq!(said("\"stop\""), stopped);
        for (n, run) in [a, b].into_iter().enumerate() {
            let touched = plan.iter().any(|(kind, _)| usize::from(kind % 2) == n);
            let now = world.store.run_any(&run.id).await.unwrap();
            let wanted = (
                touched.then_some(Millis(5)),
                if touched {
                    Phase::Running
                } else {
                    Phase::Queued
                },
            );
            assert_eq!((now.cancel_requested_at, now.phase), wanted);
        }
    }
}
