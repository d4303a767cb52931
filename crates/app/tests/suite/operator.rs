//! What the app adds to what an operator sees and does.

use pretty_assertions::assert_eq;
use threadline_app::api::CancelRunParams;
use threadline_contract::{ResultCode, RuntimeId, thread::TurnState};

use crate::support::{Plan, World, id, on_openclaw, settled, wait_for_run};

#[tokio::test]
async fn a_thread_of_this_app_knows_that_its_run_was_cancelled_here() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("long").await.thread;
    let params = CancelRunParams {
        thread_id: thread.thread_id.clone(),
        run_id: wait_for_run(&world, &thread).await,
    };
    world.app.cancel_own_run(&params).await.unwrap();
    let after = world.settled(id(&thread)).await;
    assert_eq!(
        after.lifecycle_state.last_result_code,
        Some(ResultCode::Aborted)
    );
}

#[tokio::test]
async fn turns_that_wait_here_for_a_place_are_counted() {
    let world = World::with_lane(1, 9).await;
    world.bridge.always(Plan::hold());
    let counted = || world.app.known(&[]).waiting;
    assert_eq!(counted(), [].into());
    for prompt in ["runs", "waits", "waits too"] {
        world.app.send(on_openclaw(prompt)).await.unwrap();
    }
    assert_eq!(counted(), [(RuntimeId::OpenClaw, 2)].into());
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
    world.app.cancel_own_run(&params).await.unwrap();
    let done = world.until(id(&thread), |t| {
        settled(t) && t.context_state.queued_turns.is_empty()
    });
    let messages = done.await.context_state.messages;
    let states: Vec<TurnState> = messages.iter().filter_map(|m| m.state).collect();
    assert_eq!(states, [TurnState::Cancelled, TurnState::Done]);
}
