//! Stopping a run: asked for at once, over when the bridge says so.

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{
    Code, OmitReason, Omitted, ResultCode, RunId, RunStatus, method,
    thread::{Lifecycle, SyncStatus, TaskThread},
};

use crate::support::{Plan, World, eventually, id, standing, transcript, tree, wait_for_run};

#[tokio::test]
async fn what_a_run_had_said_when_it_was_cut_off_is_kept_as_unfinished() {
    let world = World::new().await;
    world.bridge.always(Plan::deaf());
    let half = |status, text: &str| Plan {
        text: Some(text.into()),
        ..Plan::ended(status, None, "It broke off.")
    };
    let thread = world.send("one").await.thread;
    let run = wait_for_run(&world, &thread).await;
    world.bridge.complete(&run, half(RunStatus::Failed, "1 2"));
    world.settled(id(&thread)).await;
    world.send_to(id(&thread), "two").await;
    let next = eventually_another(&world, &thread, &run).await;
    world.app.cancel(id(&thread)).await.unwrap();
    world
        .bridge
        .complete(&next, half(RunStatus::Cancelled, "3 4"));
    let unfinished = |thread: &TaskThread| {
        let said = thread.context_state.messages.iter();
        let half = said.filter(|m| m.unfinished).map(|m| m.text.clone());
        half.collect::<Vec<_>>()
    };
    let after = world.until(id(&thread), |t| unfinished(t).len() == 2).await;
    assert_eq!(unfinished(&after), ["1 2", "3 4"]);
    assert_eq!(
        transcript(&after),
        [
            ("user", "one", false),
            ("assistant", "1 2", false),
            ("assistant", "It broke off.", true),
            ("user", "two", false),
            ("assistant", "3 4", false),
        ]
    );
}

/// The thread's run after this one.
async fn eventually_another(world: &World, thread: &TaskThread, before: &RunId) -> RunId {
    let now = || world.bridge.run_of(&thread.thread_id);
    eventually("the next run", || async { now().as_ref() != Some(before) }).await;
    now().unwrap()
}

#[tokio::test]
async fn a13_what_comes_after_a_stop_is_ignored() {
    let world = World::new().await;
    world.bridge.always(Plan::deaf());
    let thread = world.send("long").await.thread;
    let run = wait_for_run(&world, &thread).await;
    let stopped = world.app.cancel(id(&thread)).await.unwrap();
    let aborted = (
        Lifecycle::Ready,
        Some(ResultCode::Aborted),
        Some(SyncStatus::NoArtifacts),
    );
    // A request, not proof: until the run has ended, it runs.
    let asked = |thread: &TaskThread| {
        let task = thread.context_state.task_association.as_ref().unwrap();
        (thread.lifecycle_state.status, task.cancel_requested)
    };
    assert_eq!(asked(&stopped.thread), (Lifecycle::Running, true));
    eventually("the bridge hears of it", || async {
        world.bridge.calls(method::TASKS_CANCEL).len() == 1
    })
    .await;
    let again = world.app.cancel(id(&thread)).await.unwrap();
    assert_eq!(asked(&again.thread), (Lifecycle::Running, true));
    assert_eq!(
        world.bridge.calls(method::TASKS_CANCEL)[0].params["runId"],
        json!(run)
    );
    world
        .bridge
        .complete(&run, Plan::done("too late").file("late.txt", "x"));
    let after = world.settled(id(&thread)).await;
    assert_eq!(standing(&after), aborted);
    assert_eq!(transcript(&after), [("user", "long", false)]);
    assert_eq!(after.context_state.last_omitted, left(&["late.txt"]));
    assert_eq!(tree(&world.workspace(&after)), [""; 0]);
    assert!(
        after
            .context_state
            .task_association
            .unwrap()
            .cancel_requested
    );
    // And nothing brings it later either.
    assert_eq!(
        world.app.sync(id(&thread)).await.unwrap_err().code,
        Code::InvalidRequest
    );
    // The thread goes on with its session.
    world.bridge.always(Plan::done("next"));
    world.send_to(id(&thread), "go on").await;
    let after = world.settled(id(&thread)).await;
    assert_eq!(
        after.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    assert_eq!(world.bridge.turns().last().unwrap().method, method::MESSAGE);
}

/// Files of a run that was cancelled, as they are named.
fn left(paths: &[&str]) -> Vec<Omitted> {
    let file = |path: &&str| Omitted {
        path: (*path).into(),
        reason: OmitReason::RunCancelled,
    };
    paths.iter().map(file).collect()
}

#[tokio::test]
async fn what_a_cancelled_run_left_is_named_also_when_the_app_was_away_at_its_result() {
    let mut world = World::new().await;
    world.bridge.always(Plan::deaf());
    let thread = world.send("long").await.thread;
    let run = wait_for_run(&world, &thread).await;
    world.app.cancel(id(&thread)).await.unwrap();
    let plan = Plan {
        hold_result: true,
        ..Plan::ended(RunStatus::Cancelled, None, "It was stopped.")
    };
    world
        .bridge
        .complete(&run, plan.file("half.txt", "1").file("more.txt", "2"));
    let ended = world
        .until(id(&thread), |t| {
            t.lifecycle_state.status == Lifecycle::Ready
        })
        .await;
    let standing_with = |sync| (Lifecycle::Ready, Some(ResultCode::Aborted), Some(sync));
    assert_eq!(standing(&ended), standing_with(SyncStatus::Syncing));
    world.restart().await;
    world.bridge.release(&run);
    let after = world.settled(id(&thread)).await;
    assert_eq!(standing(&after), standing_with(SyncStatus::NoArtifacts));
    assert_eq!(
        after.context_state.last_omitted,
        left(&["half.txt", "more.txt"])
    );
    assert_eq!(tree(&world.workspace(&after)), [""; 0]);
}

#[tokio::test]
async fn a_stop_before_the_bridge_has_answered_still_stops_the_run() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    world.bridge.down().await;
    let thread = world.send("long").await.thread;
    let stopped = world.app.cancel(id(&thread)).await.unwrap();
    assert_eq!(
        stopped.thread.lifecycle_state.last_result_code,
        Some(ResultCode::Aborted)
    );
    world.bridge.up().await;
    eventually("the run is stopped", || async {
        !world.bridge.calls(method::TASKS_CANCEL).is_empty()
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    assert_eq!(
        world.bridge.calls(method::TASKS_CANCEL)[0].params["runId"],
        json!(run)
    );
}
