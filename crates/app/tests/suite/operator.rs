//! What an operator sees through the app, and does.

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_app::api::{self, CancelRunParams};
use threadline_contract::{ResultCode, method};

use crate::support::{Plan, World, id, wait_for_run};

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
