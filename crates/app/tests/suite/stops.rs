//! Stopping a run: asked for at once, over when the bridge says so.

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{
    OmitReason, Omitted, ResultCode, RunId, RunStatus, method,
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
    let task = after.context_state.task_association.clone();
    assert!(task.unwrap().cancel_requested);
    // And nothing brings it later either: what became of it is told.
    let synced = world.app.sync(id(&thread)).await.unwrap();
    let task = after.context_state.task_association.as_ref().unwrap();
    let (name, folder) = (&after.name, task.remote_working_directory.as_ref().unwrap());
    assert_eq!(
        synced.notice,
        Some(format!(
            "The last run was cancelled, so nothing of it is brought. It left 1 file, which stays at its bridge in `{folder}`. What you need of it can be copied there; `threadline archive {name}` and `threadline delete {name}` remove it with the thread. Retry sends it again."
        ))
    );
    assert_eq!(synced.thread, after);
    assert_eq!(tree(&world.workspace(&after)), [""; 0]);
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

/// The requests that the app still holds something of.
fn kept(world: &World) -> usize {
    std::fs::read_dir(world.config.data.join("outbox"))
        .unwrap()
        .count()
}

#[tokio::test]
async fn nothing_is_kept_of_a_request_that_was_cancelled_once_its_end_is_known() {
    let mut world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("long").await.thread;
    wait_for_run(&world, &thread).await;
    assert_eq!(kept(&world), 1);
    world.app.cancel(id(&thread)).await.unwrap();
    world.settled(id(&thread)).await;
    eventually("its request goes", || async { kept(&world) == 0 }).await;
    // The same where the bridge was away when it was cancelled.
    world.bridge.down().await;
    let thread = world.send("another").await.thread;
    world.app.cancel(id(&thread)).await.unwrap();
    assert_eq!(kept(&world), 1);
    let unknown = world.app.sync(id(&thread)).await.unwrap();
    assert_eq!(
        unknown.notice.as_deref(),
        Some(
            "The last run was cancelled, so nothing of it is brought. Its bridge never confirmed it. Retry sends it again."
        )
    );
    world.bridge.up().await;
    eventually("its request goes", || async { kept(&world) == 0 }).await;
    // What an earlier version left goes at the next start.
    let task = world
        .thread(id(&thread))
        .await
        .context_state
        .task_association;
    let folder = {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        URL_SAFE_NO_PAD.encode(task.unwrap().request_id.as_str())
    };
    world.app.close().await.unwrap();
    let folder = world.config.data.join("outbox").join(folder);
    std::fs::create_dir(&folder).unwrap();
    let sealed = json!({
        "askedAtMs": 1, "method": "session.start",
        "params": {"sessionId": thread.thread_id, "prompt": "another"},
    });
    std::fs::write(folder.join("request.json"), sealed.to_string()).unwrap();
    world.app = threadline_app::App::open(world.config.clone())
        .await
        .unwrap();
    eventually("it is swept", || async { kept(&world) == 0 }).await;
}

#[tokio::test]
async fn a_cancelled_request_with_files_is_kept_for_trying_again() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let mut with_file = crate::support::prompt_of("long");
    with_file.inline = vec![threadline_contract::turn::InlineAttachment {
        name: "a.csv".to_owned(),
        mime_type: None,
        content: "YSxi".to_owned(),
        size_bytes: None,
        sha256: None,
    }];
    let thread = world.app.send(with_file).await.unwrap().thread;
    wait_for_run(&world, &thread).await;
    world.app.cancel(id(&thread)).await.unwrap();
    world.settled(id(&thread)).await;
    world.bridge.always(Plan::done("ok"));
    let again = threadline_app::api::RetryParams {
        thread: thread.name.clone(),
        ..Default::default()
    };
    world.app.retry(again).await.unwrap();
    world
        .until(id(&thread), |t| standing(t).1 == Some(ResultCode::Success))
        .await;
    let sent = world.bridge.turns().pop().unwrap().params;
    assert_eq!(sent["inlineAttachments"][0]["content"], "YSxi");
}
