//! What an operator sees through the app, and does.

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_app::api::{self, CancelRunParams};
use threadline_contract::{ResultCode, method, thread::TurnState};

use crate::support::{Plan, World, id, on_openclaw, settled, wait_for_run};

#[tokio::test]
async fn runs_are_listed_with_the_names_of_their_threads() {
    let world = World::new().await;
    world.bridge.always(Plan::deaf());
    let thread = world.send("long").await.thread;
    let run = wait_for_run(&world, &thread).await;
    let params = json!({"which": "open", "cursor": "9"});
    let page = world.app.dispatch(api::OPERATOR_RUNS, params.clone()).await;
    let page = page.unwrap();
    assert_eq!(
        json!([page["runs"][0]["runId"], page["nextCursor"], page["names"]]),
        json!([run, "7", {thread.thread_id.as_str(): {"name": thread.name, "title": "long"}}])
    );
    assert_eq!(world.bridge.calls(method::OPERATOR_RUNS)[0].params, params);
}

#[tokio::test]
async fn a_thread_of_this_app_knows_that_its_run_was_cancelled_here() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("long").await.thread;
    let params = CancelRunParams {
        thread_id: thread.thread_id.clone(),
        run_id: wait_for_run(&world, &thread).await,
    };
    let receipt = world.app.operator_cancel(params.clone()).await.unwrap();
    assert_eq!(
        (receipt.accepted, receipt.run_id),
        (true, Some(params.run_id))
    );
    let after = world.settled(id(&thread)).await;
    assert_eq!(
        after.lifecycle_state.last_result_code,
        Some(ResultCode::Aborted)
    );
}

#[tokio::test]
async fn turns_that_wait_here_stand_in_the_line_that_the_status_tells() {
    let world = World::with_lane(1, 9).await;
    world.bridge.always(Plan::hold());
    let counted = || async {
        let status = world.app.operator_status().await.unwrap().of;
        (status.open.queued, status.runtimes[0].state.queued)
    };
    assert_eq!(counted().await, (1, 1), "the bridge's own");
    for prompt in ["runs", "waits", "waits too"] {
        world.app.send(on_openclaw(prompt)).await.unwrap();
    }
    assert_eq!(counted().await, (3, 3));
}

#[tokio::test]
async fn cancelling_a_run_here_leaves_the_turns_that_wait_behind_it() {
    let world = World::new().await;
    world
        .bridge
        .plan(|turn| match turn.prompt.ends_with("first") {
            true => Plan::hold(),
            false => Plan::done("ok"),
        });
    let thread = world.send("first").await.thread;
    let params = CancelRunParams {
        thread_id: thread.thread_id.clone(),
        run_id: wait_for_run(&world, &thread).await,
    };
    world.send_to(id(&thread), "second").await;
    world.app.operator_cancel(params).await.unwrap();
    let done = world.until(id(&thread), |t| {
        settled(t) && t.context_state.queued_turns.is_empty()
    });
    let messages = done.await.context_state.messages;
    let states: Vec<TurnState> = messages.iter().filter_map(|m| m.state).collect();
    assert_eq!(states, [TurnState::Cancelled, TurnState::Done]);
}
