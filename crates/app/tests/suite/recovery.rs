//! Broken streams, bridges that go away, and an app that is stopped anywhere.

use std::{sync::atomic::Ordering, time::Duration};

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_app::api::AppEvent;
use threadline_contract::{
    Code, ResultCode, method,
    thread::{Lifecycle, SyncStatus},
};

use crate::support::{
    DELIVERED, Plan, World, eventually, id, on_openclaw, paths, settled, standing, transcript,
    wait_for_run,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_thirty_times_brings_every_event_once() {
    let world = World::new().await;
    let deltas: Vec<String> = (0..310).map(|n| format!("{n} ")).collect();
    world.bridge.shared.cut_after.store(10, Ordering::SeqCst);
    world.bridge.always(Plan {
        deltas: deltas.clone(),
        ..Plan::done("whole").file("a.txt", "a")
    });
    let thread = world.send("go").await.thread;
    let mut events = Box::pin(
        world
            .app
            .events(id(&thread), threadline_app::api::Begin::After(0))
            .await
            .unwrap(),
    );
    let mut seen = Vec::new();
    while seen.last() != Some(&312) {
        match tokio::time::timeout(Duration::from_secs(20), events.next()).await {
            Ok(Some(AppEvent::Update(n, update))) => {
                assert_eq!(seen.last().copied().unwrap_or(0) + 1, n);
                if let Some(text) = &update.text {
                    assert_eq!(*text, deltas[n as usize - 2]);
                }
                seen.push(n);
            }
            Ok(Some(_)) => {}
            other => panic!("after {seen:?}: {other:?}"),
        }
    }
    let done = world.settled(id(&thread)).await;
    assert_eq!(standing(&done), DELIVERED);
    // The turn's own stream was cut as often, resumed from where it broke, and ran once.
    let turns = world.bridge.turns();
    assert!(turns.len() >= 31, "{}", turns.len());
    let mut resumed: Vec<i64> = turns.iter().filter_map(|c| c.last_event_id).collect();
    assert!(resumed.is_sorted(), "{resumed:?}");
    // On a busy machine a cut can come before what was sent; then the same place is asked for again.
    resumed.dedup();
    assert!(resumed.len() >= 30, "{resumed:?}");
    assert!(turns.iter().all(|c| c.params == turns[0].params));
    assert_eq!(world.bridge.runs().len(), 1);
    assert_eq!(
        transcript(&done),
        [("user", "go", false), ("assistant", "whole", false)]
    );
}

#[tokio::test]
async fn a_bridge_that_dies_and_comes_back_is_waited_for() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    let run = wait_for_run(&world, &thread).await;
    for _ in 0..3 {
        world.bridge.down().await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        let away = world.thread(id(&thread)).await;
        assert_eq!(away.lifecycle_state.status, Lifecycle::Running);
        world.bridge.up().await;
        let streams = world.bridge.shared.streams.load(Ordering::SeqCst);
        eventually("the stream is back", || async {
            world.bridge.shared.streams.load(Ordering::SeqCst) > streams
        })
        .await;
    }
    world.bridge.complete(&run, Plan::done("survived"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        transcript(&done),
        [("user", "go", false), ("assistant", "survived", false)]
    );
    assert_eq!(world.bridge.runs().len(), 1);
}

#[tokio::test]
async fn a_bridge_that_stays_away_is_given_up_on_with_a_code_and_its_result_fetched_later() {
    let world = World::with(|c| c.timings.patience = Duration::from_millis(300)).await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    let run = wait_for_run(&world, &thread).await;
    world.bridge.down().await;
    let lost = world.settled(id(&thread)).await;
    let code = Some(ResultCode::Code(Code::ConnectFailed));
    assert_eq!(
        standing(&lost),
        (Lifecycle::Ready, code, Some(SyncStatus::Failed))
    );
    assert_eq!(
        world.app.sync(id(&thread)).await.unwrap_err().code,
        Code::ConnectFailed
    );
    world.bridge.up().await;
    // Still going on: the thread takes it up again.
    let view = world.app.sync(id(&thread)).await.unwrap();
    assert_eq!(
        standing(&view.thread),
        (Lifecycle::Running, None, Some(SyncStatus::Running))
    );
    world
        .bridge
        .complete(&run, Plan::done("later").file("a.txt", "a"));
    let done = world
        .until(id(&thread), |t| settled(t) && !paths(t).is_empty())
        .await;
    assert_eq!(standing(&done), DELIVERED);
    assert_eq!(
        transcript(&done).last(),
        Some(&("assistant", "later", false))
    );
}

#[tokio::test]
async fn b47_a_stream_that_ends_without_a_result_is_polled() {
    let world = World::new().await;
    world.bridge.shared.no_result.store(true, Ordering::SeqCst);
    world.bridge.always(Plan::done("found").file("a.txt", "a"));
    let done = world.done("go").await;
    assert_eq!(standing(&done), DELIVERED);
    assert_eq!(
        transcript(&done),
        [("user", "go", false), ("assistant", "found", false)]
    );
    assert_eq!(paths(&done), ["a.txt"]);
    assert_eq!(world.bridge.runs().len(), 1);
}

#[tokio::test]
async fn silence_counts_as_a_cut() {
    let world = World::with(|c| c.timings.silence = Duration::from_millis(300)).await;
    world.bridge.always(Plan::hold());
    world.bridge.shared.silent.store(true, Ordering::SeqCst);
    let thread = world.send("go").await.thread;
    let run = wait_for_run(&world, &thread).await;
    eventually("another stream", || async {
        world.bridge.turns().len() >= 2
    })
    .await;
    world.bridge.shared.silent.store(false, Ordering::SeqCst);
    world.bridge.complete(&run, Plan::done("heard"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
}

#[tokio::test]
async fn noise_on_the_stream_is_survived() {
    let world = World::new().await;
    for noise in [
        "not json",
        "{\"jsonrpc\":\"2.0\",\"method\":\"session.update\",\"params\":{\"x\":1}}",
        "[1,2]",
    ] {
        world.bridge.noise(noise);
        let done = world.done("go").await;
        assert_eq!(
            done.lifecycle_state.last_result_code,
            Some(ResultCode::Success),
            "{noise}"
        );
    }
    assert_eq!(world.bridge.runs().len(), 3);
}

#[tokio::test]
async fn a_restart_while_running_goes_on_with_the_same_run() {
    let mut world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send_to_openclaw("go").await.thread;
    let run = wait_for_run(&world, &thread).await;
    let question = world.bridge.ask(&run, "Which one?");
    eventually("the question", || async {
        world.app.show(id(&thread)).await.unwrap().questions.len() == 1
    })
    .await;
    for _ in 0..3 {
        world.restart().await;
        assert_eq!(
            world.thread(id(&thread)).await.lifecycle_state.status,
            Lifecycle::Running
        );
    }
    eventually("the question is known again", || async {
        let view = world.app.show(id(&thread)).await.unwrap();
        view.questions.iter().any(|q| q.question_id == question)
    })
    .await;
    world
        .bridge
        .complete(&run, Plan::done("ok").file("a.txt", "a"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(standing(&done), DELIVERED);
    assert_eq!(world.bridge.runs().len(), 1);
    assert_eq!(transcript(&done).len(), 2);
    assert_eq!(world.app.show(id(&thread)).await.unwrap().questions, []);
}

#[tokio::test]
async fn a_restart_before_the_bridge_has_heard_sends_the_same_request() {
    let mut world = World::new().await;
    world.bridge.down().await;
    let thread = world.send("go").await.thread;
    let request = thread.context_state.task_association.unwrap().request_id;
    world.restart().await;
    world.bridge.up().await;
    let done = world
        .settled(id(&world.thread(thread.thread_id.as_str()).await))
        .await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    assert!(
        world
            .bridge
            .turns()
            .iter()
            .all(|c| c.params["requestId"] == json!(request))
    );
    assert_eq!(world.bridge.runs().len(), 1);
}

#[tokio::test]
async fn a_restart_after_the_end_finds_the_result() {
    let mut world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    let run = wait_for_run(&world, &thread).await;
    world.app.close().await.unwrap();
    world
        .bridge
        .complete(&run, Plan::done("while away").file("a.txt", "a"));
    world.restart().await;
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        transcript(&done),
        [("user", "go", false), ("assistant", "while away", false)]
    );
    assert_eq!(world.read(&done, "a.txt"), "a");
}

#[tokio::test]
async fn a_restart_while_files_are_coming_goes_on_with_them() {
    let mut world = World::new().await;
    world.bridge.always(Plan::done("ok").file_that(
        "a.txt",
        "abc",
        crate::support::Download {
            silent: true,
            ..Default::default()
        },
    ));
    let thread = world.send("go").await.thread;
    eventually("the download begins", || async {
        !world.bridge.ranges("a.txt").is_empty()
    })
    .await;
    let syncing = world.thread(id(&thread)).await;
    assert_eq!(
        standing(&syncing),
        (
            Lifecycle::Ready,
            Some(ResultCode::Success),
            Some(SyncStatus::Syncing)
        )
    );
    // A further turn does not wait for the files, nor are they forgotten because of it.
    world.bridge.always(Plan::done("second"));
    world.send_to(id(&thread), "more").await;
    world
        .until(id(&thread), |t| transcript(t).len() == 4 && settled(t))
        .await;
    let first = world.bridge.runs().remove(0);
    world.restart().await;
    world.bridge.download(&first, "a.txt", |d| d.silent = false);
    eventually("the file of the first run", || async {
        world.workspace(&thread).join("a.txt").exists()
    })
    .await;
    let done = world.settled(id(&thread)).await;
    // It is here, and is not taken for a file of the second run.
    assert_eq!(paths(&done), Vec::<&str>::new());
    eventually("nothing is left to do", || async { world.app.busy() == 0 }).await;
}

#[tokio::test]
async fn a_restart_before_the_bridge_has_heard_of_a_stop_still_stops_the_run() {
    let mut world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    let run = wait_for_run(&world, &thread).await;
    world.bridge.down().await;
    eventually("the bridge is missed", || async {
        world.app.show(id(&thread)).await.unwrap().away.is_some()
    })
    .await;
    world.app.cancel(id(&thread)).await.unwrap();
    world.restart().await;
    let aborted = (
        Lifecycle::Ready,
        Some(ResultCode::Aborted),
        Some(SyncStatus::NoArtifacts),
    );
    assert_eq!(standing(&world.thread(id(&thread)).await), aborted);
    world.bridge.up().await;
    eventually("the bridge hears of it", || async {
        let heard = world.bridge.calls(method::TASKS_CANCEL);
        heard.iter().any(|c| c.params["runId"] == json!(run))
    })
    .await;
    assert_eq!(standing(&world.thread(id(&thread)).await), aborted);
    // Heard once, it is not told again.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let heard = world.bridge.calls(method::TASKS_CANCEL).len();
    world.restart().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.bridge.calls(method::TASKS_CANCEL).len(), heard);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_stopped_again_and_again_loses_nothing_and_runs_nothing_twice() {
    let mut world = World::new().await;
    world.bridge.shared.cut_after.store(3, Ordering::SeqCst);
    world.bridge.always(Plan {
        deltas: (0..8).map(|n| n.to_string()).collect(),
        ..Plan::done("ok").file("a.txt", "abc").file("b/c.txt", "def")
    });
    let mut threads = Vec::new();
    for n in 0..10 {
        threads.push(
            world
                .app
                .send(on_openclaw(&format!("task {n}")))
                .await
                .unwrap()
                .thread,
        );
    }
    for n in 0..8u64 {
        tokio::time::sleep(Duration::from_millis(n * 7)).await;
        world.restart().await;
    }
    for thread in &threads {
        let done = world.settled(id(thread)).await;
        assert_eq!(standing(&done), DELIVERED);
        assert_eq!(paths(&done), ["a.txt", "b/c.txt"]);
        assert_eq!(world.read(&done, "b/c.txt"), "def");
        assert_eq!(transcript(&done).len(), 2);
    }
    assert_eq!(world.bridge.runs().len(), 10);
    eventually("nothing is left", || async { world.app.busy() == 0 }).await;
    world.restart().await;
    eventually("the outbox is empty", || async {
        std::fs::read_dir(world.config.data.join("outbox"))
            .unwrap()
            .count()
            == 0
    })
    .await;
}
