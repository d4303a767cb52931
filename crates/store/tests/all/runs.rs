//! Runs: admitted once per request, changed under a lease, ended once.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{
    Code, Deliverable, Millis, Missing, RequestId, RunId, RunStatus, RuntimeId, SessionKey, Sha256,
    Usage,
};
use threadline_store::{
    Admitted, ArtifactState, Cancel, Ended, LaneEntry, Method, NewLease, Phase, Run, RunChange,
    RunEnd, StoreError,
};

use crate::world::{
    World, account, end_with, event, new_run, on_both, other, stream, thread, thread_named,
};

on_both![
    a_new_run_is_what_was_said,
    the_same_request_gives_the_same_run,
    a_request_is_looked_up_without_making_a_run,
    racing_requests_make_one_run,
    a_run_id_is_used_once,
    runs_are_listed_in_their_order,
    the_lane_is_first_come_first_served,
    changes_touch_what_they_name,
    text_of_any_kind_comes_back,
    the_first_end_stands,
    racing_ends_leave_one,
    anomalies_are_bounded,
    running_is_not_an_end,
    cancelling_is_asked_once,
    accounts_do_not_see_each_others_runs,
    stale_leases_change_nothing,
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
        thread: thread(),
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
        cancel_requested_at: None,
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
            .runs_of_thread(&account(), &thread(), None, 10)
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
        .runs_of_thread(&account(), &thread(), None, 99)
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
            .runs_of_thread(&account(), &thread(), before.as_ref(), limit)
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
            thread,
            session_key: run.session_key,
            phase: Phase::Queued,
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
    assert_eq!(store.lane(&RuntimeId::Builtin).await.unwrap(), wanted);
    store
        .change_run(&lease, moved(Phase::Closed), vec![])
        .await
        .unwrap();
    assert_eq!(store.lane(&RuntimeId::Builtin).await.unwrap(), wanted[1..]);
    assert_eq!(store.lane(&RuntimeId::OpenClaw).await.unwrap(), []);
}

fn missing() -> Missing {
    Missing {
        deliverable: Deliverable {
            glob: "reports/*.pdf".to_owned(),
            content_type: None,
            min_bytes: Some(1),
            min_count: None,
        },
        found: 0,
    }
}

async fn changes_touch_what_they_name(world: World) {
    let (run, lease) = world.leased().await;
    let before = world.store.run_any(&run.id).await.unwrap();
    let nothing = world
        .store
        .change_run(&lease, RunChange::default(), vec![])
        .await;
    assert_eq!(nothing.unwrap(), before);

    let change = RunChange {
        phase: Some(Phase::Collecting),
        code: Some(Code::AgentLost),
        message: Some("The agent is gone.".to_owned()),
        text: Some("so far".to_owned()),
        usage: Some(Usage {
            input_tokens: Some(7),
            output_tokens: None,
            cost_usd: Some(0.25),
        }),
        missing: Some(vec![missing()]),
        started_at: Some(Millis(11)),
        ended_at: Some(Millis(12)),
        closed_at: Some(Millis(13)),
        artifact_state: Some(ArtifactState::Failed),
        anomaly: Some(json!({"kind": "odd", "n": 1})),
        turn: Some("{\"other\":true}".to_owned()),
    };
    let wanted = Run {
        phase: Phase::Collecting,
        code: Some(Code::AgentLost),
        message: Some("The agent is gone.".to_owned()),
        text: Some("so far".to_owned()),
        usage: change.usage,
        missing: vec![missing()],
        started_at: Some(Millis(11)),
        ended_at: Some(Millis(12)),
        closed_at: Some(Millis(13)),
        artifact_state: ArtifactState::Failed,
        anomalies: vec![json!({"kind": "odd", "n": 1})],
        ..before
    };
    let changed = world
        .store
        .change_run(&lease, change, vec![event("a"), event("b")])
        .await;
    assert_eq!(changed.unwrap(), wanted);
    assert_eq!(world.store.run_any(&run.id).await.unwrap(), wanted);
    assert_eq!(world.store.turn(&run.id).await.unwrap(), "{\"other\":true}");
    assert_eq!(
        world.log(&stream()).await,
        [(1, "\"a\"".to_owned()), (2, "\"b\"".to_owned())]
    );
    let more = RunChange {
        anomaly: Some(json!("two\nlines")),
        ..RunChange::default()
    };
    let changed = world.store.change_run(&lease, more, vec![]).await.unwrap();
    assert_eq!(
        changed.anomalies,
        [json!({"kind": "odd", "n": 1}), json!("two\nlines")]
    );
}

async fn text_of_any_kind_comes_back(world: World) {
    let (run, lease) = world.leased().await;
    let text = "NUL \0, quotes \"', ünïcödé 😀, \u{2028}, lines\r\n\n";
    let end = RunEnd {
        text: Some(text.to_owned()),
        message: Some(text.to_owned()),
        code: Some(Code::ExecutionFailed),
        ..end_with(RunStatus::Failed)
    };
    world.store.end_run(&lease, end, vec![]).await.unwrap();
    let run = world.store.run(&account(), &run.id).await.unwrap();
    assert_eq!(run.text.as_deref(), Some(text));
    assert_eq!(run.message.as_deref(), Some(text));
}

async fn the_first_end_stands(world: World) {
    let (_, lease) = world.leased().await;
    let store = &world.store;
    let change = RunChange {
        text: Some("kept".to_owned()),
        ..RunChange::default()
    };
    let before = store.change_run(&lease, change, vec![]).await.unwrap();
    let end = RunEnd {
        text: None,
        phase: Some(Phase::Collecting),
        missing: Some(vec![missing()]),
        usage: Some(Usage {
            input_tokens: Some(1),
            ..Usage::default()
        }),
        ..end_with(RunStatus::Completed)
    };
    let ended = Run {
        status: RunStatus::Completed,
        phase: Phase::Collecting,
        missing: vec![missing()],
        usage: end.usage,
        ended_at: Some(Millis(2000)),
        ..before
    };
    let first = store.end_run(&lease, end.clone(), vec![event("end")]).await;
    assert_eq!(first.unwrap(), Ended::First(ended.clone()));
    // The same end again, later and with other numbers, is no news.
    let again = RunEnd {
        ended_at: Millis(9999),
        usage: None,
        ..end
    };
    let second = store.end_run(&lease, again, vec![event("end")]).await;
    assert_eq!(second.unwrap(), Ended::Already(ended.clone()));

    let different = RunEnd {
        code: Some(Code::AgentLost),
        text: None,
        ..end_with(RunStatus::Failed)
    };
    let noted = Run {
        anomalies: vec![json!({
            "kind": "later_end", "status": "failed", "code": "AGENT_LOST", "message": null, "text": null, "at": 2000,
        })],
        ..ended
    };
    for _ in 0..3 {
        let later = store
            .end_run(&lease, different.clone(), vec![event("end")])
            .await;
        assert_eq!(later.unwrap(), Ended::Already(noted.clone()));
    }
    assert_eq!(world.log(&stream()).await, [(1, "\"end\"".to_owned())]);
}

async fn racing_ends_leave_one(world: World) {
    let (run, lease) = world.leased().await;
    let ends = [
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Cancelled,
        RunStatus::ArtifactMissing,
    ];
    let tries = (0..32).map(|n| {
        let (store, lease) = (world.store.clone(), lease.clone());
        tokio::spawn(async move {
            store
                .end_run(&lease, end_with(ends[n % 4]), vec![event("end")])
                .await
                .unwrap()
        })
    });
    let answers: Vec<Ended> = join_all(tries)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let firsts: Vec<_> = answers
        .iter()
        .filter_map(|a| match a {
            Ended::First(run) => Some(run.status),
            Ended::Already(_) => None,
        })
        .collect();
    let run = world.store.run_any(&run.id).await.unwrap();
    assert_eq!(firsts, [run.status]);
    for answer in answers {
        let (Ended::First(seen) | Ended::Already(seen)) = answer;
        assert_eq!(seen.status, run.status);
    }
    // Each other end was noted once.
    assert_eq!(run.anomalies.len(), 3);
    assert_eq!(world.log(&stream()).await.len(), 1);
}

async fn anomalies_are_bounded(world: World) {
    let (_, lease) = world.leased().await;
    world
        .store
        .end_run(&lease, end_with(RunStatus::Completed), vec![])
        .await
        .unwrap();
    let mut last = 0;
    for n in 0..40 {
        let end = RunEnd {
            text: Some(format!("{n} {}", "x".repeat(4096))),
            ..end_with(RunStatus::Failed)
        };
        let Ended::Already(run) = world.store.end_run(&lease, end, vec![]).await.unwrap() else {
            panic!()
        };
        last = run.anomalies.len();
    }
    assert_eq!(last, 16);
}

async fn running_is_not_an_end(world: World) {
    let (run, lease) = world.leased().await;
    let answer = world
        .store
        .end_run(&lease, end_with(RunStatus::Running), vec![event("end")])
        .await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    let run = world.store.run_any(&run.id).await.unwrap();
    assert_eq!(run.ended_at, None);
}

async fn cancelling_is_asked_once(world: World) {
    let (run, lease) = world.leased().await;
    let tries = (0..16).map(|n| {
        let (store, run) = (world.store.clone(), run.id.clone());
        tokio::spawn(async move {
            store
                .request_cancel(&account(), &run, Millis(3000 + n), event("cancel"))
                .await
                .unwrap()
        })
    });
    let answers: Vec<Cancel> = join_all(tries)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let asked = answers
        .iter()
        .filter(|a| matches!(a, Cancel::Asked(_)))
        .count();
    assert_eq!(asked, 1);
    let run = world.store.run_any(&run.id).await.unwrap();
    assert!(run.cancel_requested_at.is_some());
    for answer in answers {
        let (Cancel::Asked(seen) | Cancel::AlreadyAsked(seen)) = answer else {
            panic!("it has not ended")
        };
        assert_eq!(seen, run);
    }
    let Ended::First(ended) = world
        .store
        .end_run(&lease, end_with(RunStatus::Cancelled), vec![])
        .await
        .unwrap()
    else {
        panic!()
    };
    let late = world
        .store
        .request_cancel(&account(), &run.id, Millis(9000), event("cancel"))
        .await;
    assert_eq!(late.unwrap(), Cancel::AlreadyEnded(ended));
    assert_eq!(world.log(&stream()).await.len(), 1);
}

async fn accounts_do_not_see_each_others_runs(world: World) {
    let run = world.run().await;
    let store = &world.store;
    assert!(matches!(
        store.run(&other(), &run.id).await,
        Err(StoreError::NotFound)
    ));
    assert!(matches!(
        store.run(&account(), &RunId::fresh()).await,
        Err(StoreError::NotFound)
    ));
    assert_eq!(store.latest_run(&other(), &thread()).await.unwrap(), None);
    assert_eq!(
        store
            .runs_of_thread(&other(), &thread(), None, 9)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        store
            .runs_of_thread(&other(), &thread(), Some(&run.id), 9)
            .await
            .unwrap(),
        []
    );
    let cancel = store
        .request_cancel(&other(), &run.id, Millis(1), event("cancel"))
        .await;
    assert!(matches!(cancel, Err(StoreError::NotFound)), "{cancel:?}");
    assert_eq!(store.run_any(&run.id).await.unwrap(), run);
    assert_eq!(world.log(&stream()).await, []);
}

async fn stale_leases_change_nothing(world: World) {
    let (run, stale) = world.stale().await;
    let before = world.store.run_any(&run.id).await.unwrap();
    let change = RunChange {
        phase: Some(Phase::Closed),
        turn: Some("{}".to_owned()),
        ..RunChange::default()
    };
    let changed = world
        .store
        .change_run(&stale, change, vec![event("no")])
        .await;
    assert!(matches!(changed, Err(StoreError::Stale)), "{changed:?}");
    let ended = world
        .store
        .end_run(&stale, end_with(RunStatus::Failed), vec![event("no")])
        .await;
    assert!(matches!(ended, Err(StoreError::Stale)), "{ended:?}");
    assert_eq!(world.store.run_any(&run.id).await.unwrap(), before);
    assert_ne!(world.store.turn(&run.id).await.unwrap(), "{}");
    assert_eq!(world.log(&stream()).await, []);

    // Also after the end, when there would only be an anomaly to add.
    let lease = world.take(&run.id).await;
    world
        .store
        .end_run(&lease, end_with(RunStatus::Completed), vec![])
        .await
        .unwrap();
    let ended = world
        .store
        .end_run(&stale, end_with(RunStatus::Failed), vec![])
        .await;
    assert!(matches!(ended, Err(StoreError::Stale)), "{ended:?}");
    assert_eq!(
        world.store.run_any(&run.id).await.unwrap().anomalies,
        Vec::<serde_json::Value>::new()
    );
}
