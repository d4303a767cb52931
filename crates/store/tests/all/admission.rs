//! Runs are admitted once per request, in the order in which they came.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_contract::{Millis, RequestId, RunId, RunStatus, RuntimeId, SessionKey, Sha256};
use threadline_store::{
    Admitted, ArtifactState, LaneEntry, Method, NewLease, Phase, Run, RunChange, StoreError,
};

use crate::world::{
    World, account, by, event, new_run, on_both, other, stream, thread, thread_named,
};

on_both![
    a_new_run_is_what_was_said,
    the_same_request_gives_the_same_run,
    a_request_is_looked_up_without_making_a_run,
    racing_requests_make_one_run,
    a_run_id_is_used_once,
    runs_are_listed_in_their_order,
    the_lane_is_first_come_first_served,
];

async fn a_new_run_is_what_was_said(world: World) {
    let new = threadline_store::NewRun {
        lease: Some(NewLease {
            owner: "node-a".to_owned(),
            until: Millis(61_000),
        }),
        ..new_run(&account(), &thread(), None)
    };
    let id = new.id.clone();
    let admitted = world.store.admit(new, vec![event("queued")]).await.unwrap();
    let run = Run {
        id: id.clone(),
        account: account(),
        owner: thread(),
        runtime: RuntimeId::Builtin,
        session_key: SessionKey::new("builtin:main:draft:1").unwrap(),
        method: Method::Start,
        phase: Phase::Queued,
        status: RunStatus::Running,
        code: None,
        message: None,
        text: None,
        usage: None,
        missing: vec![],
        begun_by: Some(by("ann")),
        cancel_requested_at: None,
        cancel_requested_by: None,
        created_at: Millis(1000),
        started_at: None,
        ended_at: None,
        closed_at: None,
        artifact_state: ArtifactState::Pending,
        omitted: vec![],
        empty_reason: None,
        anomalies: vec![],
        lease_owner: Some("node-a".to_owned()),
        lease_epoch: 1,
        lease_until: Millis(61_000),
        log_from: 0,
        log_to: None,
    };
    assert_eq!(admitted, Admitted::New(run.clone()));
    assert_eq!(world.store.run(&account(), &id).await.unwrap(), run);
    assert_eq!(world.store.run_any(&id).await.unwrap(), run);
    assert_eq!(
        world.store.turn(&id).await.unwrap(),
        r#"{"prompt":"make a report"}"#
    );
    assert_eq!(world.log(&stream()).await, [(1, "\"queued\"".to_owned())]);
}

async fn the_same_request_gives_the_same_run(world: World) {
    let admit = |account, request, body| {
        let new = new_run(&account, &thread(), Some((request, body)));
        world.store.admit(new, vec![event(request)])
    };
    let Admitted::New(first) = admit(account(), "req-1", 1).await.unwrap() else {
        panic!("the first is new")
    };
    assert_eq!(
        admit(account(), "req-1", 1).await.unwrap(),
        Admitted::Same(first.clone())
    );
    assert!(matches!(
        admit(account(), "req-1", 2).await,
        Err(StoreError::IdempotencyConflict)
    ));
    let Admitted::New(second) = admit(account(), "req-2", 2).await.unwrap() else {
        panic!("another request is new")
    };
    let Admitted::New(theirs) = admit(other(), "req-1", 2).await.unwrap() else {
        panic!("another account's request is new")
    };
    let Admitted::New(elsewhere) = world
        .store
        .admit(
            new_run(&account(), &thread_named("draft:2"), Some(("req-1", 2))),
            vec![],
        )
        .await
        .unwrap()
    else {
        panic!("another thread's request is new")
    };
    let made = [&first, &second, &theirs, &elsewhere].map(|r| r.id.clone());
    assert_eq!(
        made.iter().collect::<std::collections::HashSet<_>>().len(),
        4
    );
    // What was refused or repeated logged nothing.
    assert_eq!(
        world.log(&stream()).await,
        [(1, "\"req-1\"".to_owned()), (2, "\"req-2\"".to_owned())]
    );
    assert_eq!(
        world
            .store
            .runs_of_owner(&account(), &thread(), None, 10)
            .await
            .unwrap(),
        [second, first]
    );
}

async fn a_request_is_looked_up_without_making_a_run(world: World) {
    let store = &world.store;
    let new = new_run(&account(), &thread(), Some(("req", 1)));
    let Admitted::New(run) = store.admit(new, vec![]).await.unwrap() else {
        panic!()
    };
    let (here, there) = (thread(), thread_named("draft:2"));
    let look = |who, thread, request: &str, body| {
        let request = RequestId::new(request).unwrap();
        async move {
            store
                .requested(&who, thread, &request, &Sha256([body; 32]))
                .await
        }
    };
    assert_eq!(look(account(), &here, "req", 1).await.unwrap(), Some(run));
    assert_eq!(look(account(), &here, "other", 1).await.unwrap(), None);
    assert_eq!(look(account(), &there, "req", 1).await.unwrap(), None);
    assert_eq!(look(other(), &here, "req", 1).await.unwrap(), None);
    let changed = look(account(), &here, "req", 2).await;
    assert!(
        matches!(changed, Err(StoreError::IdempotencyConflict)),
        "{changed:?}"
    );
}

async fn racing_requests_make_one_run(world: World) {
    let tries = (0..32).map(|n| {
        let store = world.store.clone();
        tokio::spawn(async move {
            let new = new_run(&account(), &thread(), Some(("req", 1 + n / 16)));
            store.admit(new, vec![event("queued")]).await
        })
    });
    let (mut new, mut same, mut refused) = (vec![], vec![], 0);
    for answer in join_all(tries).await {
        match answer.unwrap() {
            Ok(Admitted::New(run)) => new.push(run),
            Ok(Admitted::Same(run)) => same.push(run),
            Err(StoreError::IdempotencyConflict) => refused += 1,
            Err(e) => panic!("{e:?}"),
        }
    }
    assert_eq!((new.len(), same.len(), refused), (1, 15, 16));
    assert!(same.iter().all(|run| *run == new[0]));
    let runs = world
        .store
        .runs_of_owner(&account(), &thread(), None, 99)
        .await;
    assert_eq!(runs.unwrap(), new);
    assert_eq!(world.log(&stream()).await.len(), 1);
}

async fn a_run_id_is_used_once(world: World) {
    let run = world.run().await;
    let again = threadline_store::NewRun {
        id: run.id.clone(),
        ..new_run(&other(), &thread(), Some(("req", 1)))
    };
    let answer = world.store.admit(again, vec![event("no")]).await;
    assert!(matches!(answer, Err(StoreError::Duplicate)), "{answer:?}");
    // The request was rolled back with it.
    let fresh = new_run(&other(), &thread(), Some(("req", 2)));
    let answer = world.store.admit(fresh, vec![]).await.unwrap();
    assert!(matches!(answer, Admitted::New(_)));
}

async fn runs_are_listed_in_their_order(world: World) {
    let store = &world.store;
    assert_eq!(store.latest_run(&account(), &thread()).await.unwrap(), None);
    let mut runs = vec![];
    for n in 0..5 {
        // The clock runs backwards; the order does not.
        let new = threadline_store::NewRun {
            at: Millis(1000 - n),
            ..new_run(&account(), &thread(), None)
        };
        let Admitted::New(run) = store.admit(new, vec![]).await.unwrap() else {
            panic!()
        };
        runs.push(run);
    }
    world.run_of(&thread_named("draft:2")).await;
    let newest_first: Vec<Run> = runs.iter().rev().cloned().collect();
    let page = |before: Option<RunId>, limit| async move {
        store
            .runs_of_owner(&account(), &thread(), before.as_ref(), limit)
            .await
            .unwrap()
    };
    assert_eq!(page(None, 99).await, newest_first);
    assert_eq!(page(None, 2).await, newest_first[..2]);
    assert_eq!(
        page(Some(newest_first[1].id.clone()), 2).await,
        newest_first[2..4]
    );
    assert_eq!(page(Some(runs[0].id.clone()), 2).await, []);
    assert_eq!(page(Some(RunId::fresh()), 2).await, []);
    assert_eq!(
        store.latest_run(&account(), &thread()).await.unwrap(),
        Some(newest_first[0].clone())
    );

    let lease = world.take(&runs[1].id).await;
    let closed = RunChange {
        phase: Some(Phase::Closed),
        ..RunChange::default()
    };
    store.change_run(&lease, closed, vec![]).await.unwrap();
    let open = |after: Option<RunId>, limit| async move {
        let runs = store.open_runs(after.as_ref(), limit).await.unwrap();
        runs.into_iter().map(|r| r.id).collect::<Vec<_>>()
    };
    let ids: Vec<RunId> = runs.iter().map(|r| r.id.clone()).collect();
    assert_eq!(open(None, 2).await, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(
        open(Some(ids[0].clone()), 2).await,
        [ids[2].clone(), ids[3].clone()]
    );
    // A run that was closed meanwhile is still a place to go on from.
    assert_eq!(open(Some(ids[1].clone()), 1).await, [ids[2].clone()]);
    assert_eq!(open(None, 99).await.len(), 5);
}

async fn the_lane_is_first_come_first_served(world: World) {
    let store = &world.store;
    let mut wanted = vec![];
    for (n, who) in [account(), other(), account()].iter().enumerate() {
        let thread = thread_named(&format!("draft:{n}"));
        let Admitted::New(run) = store
            .admit(new_run(who, &thread, None), vec![])
            .await
            .unwrap()
        else {
            panic!()
        };
        wanted.push(LaneEntry {
            run: run.id,
            account: who.clone(),
            owner: thread,
            session_key: run.session_key,
            phase: Phase::Queued,
            lease_owner: run.lease_owner,
        });
    }
    let elsewhere = threadline_store::NewRun {
        runtime: RuntimeId::Acp("codex".to_owned()),
        ..new_run(&account(), &thread(), None)
    };
    store.admit(elsewhere, vec![]).await.unwrap();
    assert_eq!(store.lane(&RuntimeId::Builtin).await.unwrap(), wanted);

    let lease = world.take(&wanted[0].run).await;
    let moved = |phase| RunChange {
        phase: Some(phase),
        ..RunChange::default()
    };
    store
        .change_run(&lease, moved(Phase::Running), vec![])
        .await
        .unwrap();
    wanted[0].phase = Phase::Running;
    wanted[0].lease_owner = Some("somebody".to_owned());
    assert_eq!(store.lane(&RuntimeId::Builtin).await.unwrap(), wanted);
    store
        .change_run(&lease, moved(Phase::Closed), vec![])
        .await
        .unwrap();
    assert_eq!(store.lane(&RuntimeId::Builtin).await.unwrap(), wanted[1..]);
    assert_eq!(store.lane(&RuntimeId::OpenClaw).await.unwrap(), []);
}
