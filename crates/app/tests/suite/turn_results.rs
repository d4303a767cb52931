//! What came of each turn stays with it, whatever the thread does afterwards.

use std::fs;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pretty_assertions::assert_eq;
use serde_json::Value;
use threadline_app::api::{TurnParams, TurnView};
use threadline_contract::{
    Code, RequestId, ResultCode, RunStatus,
    thread::{MAX_TURN_FILES, SyncStatus, TaskThread, TurnState},
};

use crate::support::{Plan, World, eventually, id, settled, wait_for_run};

/// A thread whose first turn runs and whose second waits behind it.
async fn two_turns(world: &World, second: Plan) -> (TaskThread, RequestId) {
    world
        .bridge
        .plan(move |turn| match turn.prompt.ends_with("first") {
            true => Plan::hold(),
            false => second.clone(),
        });
    let thread = world.send("first").await.thread;
    wait_for_run(world, &thread).await;
    world.send_to(id(&thread), "second").await;
    let association = world
        .thread(id(&thread))
        .await
        .context_state
        .task_association;
    (thread, association.unwrap().request_id)
}

async fn turn(world: &World, thread: &TaskThread, request: &RequestId) -> TurnView {
    let params = TurnParams {
        thread: thread.name.clone(),
        request_id: request.clone(),
    };
    world.app.turn(&params).await.unwrap()
}

fn is_second(thread: &TaskThread, first: &RequestId) -> bool {
    let current = thread.context_state.task_association.as_ref();
    settled(thread) && current.is_some_and(|a| a.request_id != *first)
}

#[tokio::test]
async fn files_of_a_turn_are_found_after_the_next_one_delivered() {
    let world = World::new().await;
    let (thread, first) = two_turns(&world, Plan::done("2").file("f000.txt", "new")).await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    let mut plan = Plan::done("1");
    for n in 0..=MAX_TURN_FILES {
        plan = plan.file(&format!("f{n:03}.txt"), "old");
    }
    world.bridge.complete(&run, plan);
    let now = world.until(id(&thread), |t| is_second(t, &first)).await;
    let stored = now.result_of(&first).unwrap();
    assert_eq!(
        (stored.files, stored.artifacts.len()),
        (MAX_TURN_FILES as u64 + 1, MAX_TURN_FILES),
        "a record does not grow with every file of every turn"
    );
    let told = turn(&world, &thread, &first).await;
    let paths: Vec<String> = told
        .result
        .artifacts
        .iter()
        .map(|f| f.path.to_string())
        .collect();
    let want: Vec<String> = (0..=MAX_TURN_FILES)
        .map(|n| format!("f{n:03}.txt"))
        .collect();
    assert_eq!(paths, want);
    assert!(
        told.result
            .artifacts
            .iter()
            .all(|f| !f.changed && !f.missing)
    );
    let folder = world.workspace(&thread);
    assert_eq!(
        (
            told.state,
            told.result.result_code,
            told.result.artifact_sync_status,
            told.folders
        ),
        (
            Some(TurnState::Done),
            Some(ResultCode::Success),
            Some(SyncStatus::Synced),
            vec![
                folder.display().to_string(),
                folder
                    .join(format!(".xworkmate/runs/{run}/files"))
                    .display()
                    .to_string(),
            ]
        )
    );
}

#[tokio::test]
async fn why_a_turn_failed_is_told_while_the_next_one_waits_and_runs() {
    let world = World::new().await;
    let (thread, first) = two_turns(&world, Plan::hold()).await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    let plan = Plan::ended(RunStatus::Failed, Some(Code::ModelFailed), "It broke.");
    world.bridge.complete(&run, plan);
    world
        .until(id(&thread), |t| {
            t.result_of(&first).is_some_and(|r| r.is_settled())
        })
        .await;
    let told = turn(&world, &thread, &first).await;
    assert_eq!(
        (
            told.run_id,
            told.state,
            told.result.result_code,
            told.error.as_deref()
        ),
        (
            Some(run),
            Some(TurnState::Failed),
            Some(ResultCode::Code(Code::ModelFailed)),
            Some("It broke.")
        )
    );
    let unknown = TurnParams {
        thread: thread.name.clone(),
        request_id: RequestId::new("nobody").unwrap(),
    };
    assert_eq!(
        world.app.turn(&unknown).await.unwrap_err().code,
        Code::TaskNotFound
    );
}

#[tokio::test]
async fn a_record_of_an_older_version_gets_the_result_of_its_last_turn() {
    let mut world = World::new().await;
    world.bridge.always(Plan::done("ok").file("a.txt", "a"));
    let done = world.done("go").await;
    let request = done.context_state.task_association.as_ref().unwrap();
    let request = request.request_id.clone();
    let before = turn(&world, &done, &request).await;
    world.app.close().await.unwrap();
    let name = format!("{}.json", URL_SAFE_NO_PAD.encode(done.thread_id.as_str()));
    let found = walk(&world.config.data, &name);
    let mut record: Value = serde_json::from_slice(&fs::read(&found).unwrap()).unwrap();
    for message in record["contextState"]["messages"].as_array_mut().unwrap() {
        let message = message.as_object_mut().unwrap();
        message.remove("requestId");
        message.remove("result");
    }
    fs::write(&found, serde_json::to_vec(&record).unwrap()).unwrap();
    world.restart().await;
    assert_eq!(turn(&world, &done, &request).await, before);
}

#[tokio::test]
async fn a_sync_that_brings_nothing_new_leaves_the_thread_where_it_stands_in_lists() {
    let world = World::new().await;
    world.bridge.always(Plan::done("ok").file("a.txt", "a"));
    let old = world.done("old").await;
    let new = world.done("new").await;
    let order = async || {
        let list = world.app.list(&Default::default()).await.unwrap();
        list.threads.into_iter().map(|t| t.name).collect::<Vec<_>>()
    };
    let sync = async || {
        world.app.sync(id(&old)).await.unwrap();
        eventually("the sync is over", || async { world.app.busy() == 0 }).await;
        world.settled(id(&old)).await
    };
    let synced = sync().await;
    assert_eq!(order().await, [new.name.clone(), old.name.clone()]);
    assert_eq!(synced.updated_at_ms, old.updated_at_ms);
    // One that brings a result the thread did not have moves it.
    let run = world.bridge.run_of(&old.thread_id).unwrap();
    world
        .bridge
        .complete(&run, Plan::done("ok").file("b.txt", "b"));
    let synced = sync().await;
    assert!(synced.updated_at_ms > new.updated_at_ms, "{synced:#?}");
    assert_eq!(order().await, [old.name, new.name]);
}

/// The file of this name below a folder.
fn walk(folder: &std::path::Path, name: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name() == name => return entry.path(),
                false => {}
            }
        }
    }
    panic!("{name} is nowhere");
}
