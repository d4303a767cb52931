//! A run ends once; the first end stands.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{Code, Millis, RunStatus, Usage};
use threadline_store::{Cancel, Ended, Phase, Run, RunChange, RunEnd, StoreError};

use crate::world::{World, account, by, end_with, event, missing, on_both, stream};

on_both![
    the_first_end_stands,
    racing_ends_leave_one,
    anomalies_are_bounded,
    running_is_not_an_end,
    cancelling_is_asked_once,
];

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
                .request_cancel(
                    &account(),
                    &run,
                    &by("ann"),
                    Millis(3000 + n),
                    event("cancel"),
                )
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
    assert_eq!(run.cancel_requested_by, Some(by("ann")));
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
        .request_cancel(
            &account(),
            &run.id,
            &by("bob"),
            Millis(9000),
            event("cancel"),
        )
        .await;
    assert_eq!(late.unwrap(), Cancel::AlreadyEnded(ended));
    assert_eq!(world.log(&stream()).await.len(), 1);
}
