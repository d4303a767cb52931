//! Turns and their lane: which starts, which waits, which is turned away, and in what order.

use std::time::Duration;

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use threadline_app::api::RetryParams;
use threadline_contract::{
    Code, Deliverable, ResultCode, context, method,
    thread::{Lifecycle, SyncStatus},
    turn::InlineAttachment,
};

use crate::support::{
    Plan, World, eventually, id, on_openclaw, paths, settled, standing, transcript, wait_for_run,
};

#[tokio::test]
async fn a09_a_turn_starts_at_once_when_the_lane_is_free() {
    let world = World::new().await;
    world.bridge.always(Plan::done("one").file("a.txt", "a"));
    let first = world.done("first").await;
    assert_eq!(paths(&first), ["a.txt"]);
    world.bridge.always(Plan::hold());
    let view = world.send_to(id(&first), "second").await;
    let running = (Lifecycle::Running, None, Some(SyncStatus::Running));
    assert_eq!(standing(&view.thread), running);
    assert_eq!(paths(&view.thread), Vec::<&str>::new());
    assert_eq!(view.thread.context_state.queued_turns, []);
}

#[tokio::test]
async fn a11_what_the_lane_and_its_queue_cannot_take_is_turned_away() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let mut seen = Vec::new();
    for n in 0..25 {
        let view = world
            .app
            .send(on_openclaw(&format!("task {n}")))
            .await
            .unwrap();
        seen.push(view.thread.lifecycle_state.status);
    }
    let want = [vec![Lifecycle::Running; 5], vec![Lifecycle::Queued; 20]].concat();
    assert_eq!(seen, want);
    let fault = world
        .app
        .send(on_openclaw("one too many"))
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::QueueFull);
    let thread = world.thread(fault.data["threadId"].as_str().unwrap()).await;
    let full = Some(ResultCode::Code(Code::QueueFull));
    assert_eq!(
        standing(&thread),
        (Lifecycle::Ready, full, Some(SyncStatus::Failed))
    );
    assert_eq!(transcript(&thread).len(), 2);
    // Agents are not held back by the gateway's lane.
    let agent = world.send("an agent's").await;
    assert_eq!(agent.thread.lifecycle_state.status, Lifecycle::Running);
    assert_eq!(world.app.busy(), 26);
}

#[tokio::test]
async fn a_turn_that_was_turned_away_is_tried_again_with_its_files() {
    let world = World::with_lane(1, 0).await;
    world.bridge.always(Plan::hold());
    let first = world.send_to_openclaw("the only one").await;
    let mut second = on_openclaw("with a file");
    second.inline = vec![InlineAttachment {
        name: "data.csv".to_owned(),
        mime_type: None,
        content: "YSxi".to_owned(),
        size_bytes: None,
        sha256: None,
    }];
    second.expect = vec![Deliverable {
        glob: "*.md".to_owned(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    }];
    let fault = world.app.send(second).await.unwrap_err();
    assert_eq!(fault.code, Code::QueueFull);
    let key = fault.data["threadId"].as_str().unwrap().to_owned();
    let again = || {
        world.app.retry(RetryParams {
            thread: key.clone(),
            ..RetryParams::default()
        })
    };
    // Still too much: nothing is lost with that either.
    assert_eq!(again().await.unwrap_err().code, Code::QueueFull);
    let run = wait_for_run(&world, &first.thread).await;
    world.bridge.complete(&run, Plan::done("there is room"));
    world.settled(id(&first.thread)).await;
    // Its result is stored a moment before its place is free.
    eventually("its place is free", || async { world.app.busy() == 0 }).await;
    let view = again().await.unwrap();
    wait_for_run(&world, &view.thread).await;
    let sent = world.bridge.turns().pop().unwrap().params;
    assert_eq!(sent["inlineAttachments"][0]["name"], "data.csv");
    assert_eq!(sent["inlineAttachments"][0]["content"], "YSxi");
    let declared = &sent["metadata"]["xworkmateTaskArtifactContract"]["deliverables"];
    assert_eq!(*declared, serde_json::json!([{"glob": "*.md"}]));
    let asked = transcript(&view.thread)
        .into_iter()
        .filter(|m| m.0 == "user");
    assert_eq!(asked.count(), 3);
}

#[tokio::test]
async fn a12_a_queued_turn_that_is_stopped_is_never_sent() {
    let world = World::with_lane(1, 9).await;
    world.bridge.always(Plan::hold());
    let first = world.send_to_openclaw("first").await.thread;
    let second = world.send_to_openclaw("second").await;
    assert_eq!(second.queue.map(|q| (q.position, q.queued)), Some((1, 1)));
    let second = second.thread;
    let waiting = (Lifecycle::Queued, None, Some(SyncStatus::Queued));
    assert_eq!(standing(&second), waiting);
    let stopped = world.app.cancel(id(&second)).await.unwrap();
    let aborted = (
        Lifecycle::Ready,
        Some(ResultCode::Aborted),
        Some(SyncStatus::NoArtifacts),
    );
    assert_eq!(standing(&stopped.thread), aborted);
    assert_eq!(stopped.thread.context_state.queued_turns, []);
    let run = wait_for_run(&world, &first).await;
    world.bridge.complete(&run, Plan::done("ok"));
    world.settled(id(&first)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(standing(&world.thread(id(&second)).await), aborted);
    assert_eq!(world.bridge.runs().len(), 1);
    assert_eq!(
        world.app.cancel(id(&second)).await.unwrap_err().code,
        Code::InvalidRequest
    );
}

#[tokio::test]
async fn a40_waiting_turns_survive_a_restart_in_their_order() {
    let mut world = World::with_lane(1, 9).await;
    world
        .bridge
        .plan(|turn| match turn.prompt.contains("first") {
            true => Plan::hold(),
            false => Plan::done("ok"),
        });
    let a = world.send_to_openclaw("first").await.thread;
    let b = world.send_to_openclaw("b1").await.thread;
    world.send_to(id(&a), "a2").await;
    world.send_to(id(&b), "b2").await;
    let c = world.send_to_openclaw("c1").await.thread;
    let run = wait_for_run(&world, &a).await;
    world.restart().await;
    assert_eq!(world.bridge.runs().len(), 1);
    let places: Vec<u32> = [&a, &b, &c]
        .map(|t| id(t).to_owned())
        .into_iter()
        .map(|t| {
            let app = world.app.clone();
            async move { app.show(&t).await.unwrap() }
        })
        .collect::<futures_util::stream::FuturesOrdered<_>>()
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .filter_map(|v| v.queue.map(|q| q.position))
        .collect();
    assert_eq!(places, [1, 4]);
    world.bridge.complete(&run, Plan::done("ok"));
    for thread in [&a, &b, &c] {
        world
            .until(id(thread), |t| {
                settled(t) && t.context_state.queued_turns.is_empty()
            })
            .await;
    }
    assert_eq!(order(&world), ["first", "b1", "a2", "b2", "c1"]);
}

#[tokio::test]
async fn turns_of_one_thread_follow_each_other() {
    let world = World::new().await;
    world
        .bridge
        .plan(|turn| match turn.prompt.ends_with("one") {
            true => Plan::hold(),
            false => Plan::done("ok"),
        });
    let thread = world.send("one").await.thread;
    let view = world.send_to(&thread.name, "two").await;
    assert_eq!(view.thread.lifecycle_state.status, Lifecycle::Running);
    assert_eq!(view.thread.context_state.queued_turns.len(), 1);
    world.send_to(&thread.name, "three").await;
    let run = wait_for_run(&world, &thread).await;
    world.bridge.complete(&run, Plan::done("1"));
    let done = world
        .until(id(&thread), |t| settled(t) && transcript(t).len() == 6)
        .await;
    assert_eq!(order(&world), ["one", "two", "three"]);
    let methods: Vec<String> = world.bridge.turns().into_iter().map(|c| c.method).collect();
    assert_eq!(methods, [method::START, method::MESSAGE, method::MESSAGE]);
    // Every question of the user knows the run that answered it.
    let runs = world.bridge.runs();
    let asked: Vec<_> = done
        .context_state
        .messages
        .iter()
        .filter(|m| m.role == threadline_contract::thread::Role::User)
        .map(|m| m.run_id.clone().unwrap())
        .collect();
    assert_eq!(asked, runs);
}

/// The words of the turns, in the order in which they reached the bridge, re-sends left out.
fn order(world: &World) -> Vec<String> {
    let mut seen = Vec::new();
    for call in world.bridge.turns() {
        let prompt = call.params["prompt"].as_str().unwrap().to_owned();
        let words = context::split(&prompt).1.to_owned();
        if !seen.contains(&words) {
            seen.push(words);
        }
    }
    seen
}
