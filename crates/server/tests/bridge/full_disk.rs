//! A full disk: what was asked for reaches the runs all the same, and they go on when there is room.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{AccountId, AppThreadKey};
use threadline_e2e::small_disk::SmallDisk;
use threadline_store::StreamId;

use crate::support::{TOKEN, World, turn, with};

/// Takes all the room that is left.
fn fill(path: &Path) -> PathBuf {
    let mut block = 1 << 20;
    let mut file = fs::File::create(path).unwrap();
    while block > 0 {
        if file.write_all(&vec![1; block]).is_err() {
            block /= 2;
        }
    }
    path.to_owned()
}

/// Fills the disk until the database takes nothing any more.
async fn fill_until_refused(world: &World, folder: &Path) -> PathBuf {
    let filler = fill(&folder.join("filler"));
    for n in 0..500 {
        let started = turn(&format!("draft:full-{n}"), "[[say no]]");
        if world.code("session.start", started).await == json!("STORAGE_FULL") {
            return filler;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the disk was never full");
}

/// How many sessions, runs and events of a thread are recorded.
async fn records(world: &World, thread: &str) -> (usize, usize, usize) {
    let account = AccountId::local();
    let owner = AppThreadKey::new(thread).unwrap().into();
    let store = world.engine.store();
    let sessions = store.sessions_of_owner(&account, &owner).await.unwrap();
    let runs = store.runs_of_owner(&account, &owner, None, 100).await;
    let stream = StreamId::of(&account, &owner);
    let events = store.events_after(&stream, 0, 1000).await.unwrap();
    (sessions.len(), runs.unwrap().len(), events.len())
}

#[tokio::test]
async fn a_stop_on_a_full_disk_reaches_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::at(folder.path(), 8) else {
        return;
    };
    let world = World::open(folder.path()).await;
    let hangs = turn("draft:1", "[[hang]] [[say never]]");
    let run = world.rpc("session.start", hangs).await["result"]["runId"].clone();
    world.at_stage("draft:1", "working").await;
    let filler = fill_until_refused(&world, folder.path()).await;
    let asked = json!({"sessionId": "draft:1"});
    let told = world.rpc("session.cancel", asked).await;
    assert_eq!(
        told["result"],
        json!({
            "accepted": true,
            "runId": run,
            "cancelled": false,
            "code": "STORAGE_FULL",
            "message": "The run was told to stop. The disk is full, so that is not written down yet: make room, and its end is recorded.",
        }),
        "{told:#}"
    );
    fs::remove_file(filler).unwrap();
    assert_eq!(world.ended("draft:1").await["status"], json!("cancelled"));
    world.stop().await;
}

#[tokio::test]
async fn a_thread_can_be_deleted_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::at(folder.path(), 8) else {
        return;
    };
    let world = World::open(folder.path()).await;
    let large = turn("draft:1", "[[write large.txt 1000000]] [[say ok]]");
    let (_, result) = world.run(&large).await;
    assert_eq!(result["status"], json!("completed"), "{result:#}");
    world.ended("draft:1").await;
    fill_until_refused(&world, folder.path()).await;
    let told = world
        .rpc("session.delete", json!({"sessionId": "draft:1"}))
        .await;
    assert_eq!(
        told["result"],
        json!({"threadId": "draft:1", "deleted": true}),
        "{told:#}"
    );
    let kept = folder.path().join("tasks/builtin-main-draft-1");
    assert!(!kept.exists());
    assert_eq!(records(&world, "draft:1").await, (0, 0, 0));
    world.stop().await;
}

#[tokio::test]
async fn a_deletion_that_finds_no_room_is_not_called_done_and_finishes_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::at(folder.path(), 8) else {
        return;
    };
    let world = World::open(folder.path()).await;
    let (_, result) = world.run(&turn("draft:1", "[[say ok]]")).await;
    assert_eq!(result["status"], json!("completed"), "{result:#}");
    world.ended("draft:1").await;
    // It has no files whose going would make room.
    for kept in ["tasks", "builtin"] {
        fs::remove_dir_all(folder.path().join(kept).join("builtin-main-draft-1")).unwrap();
    }
    let filler = fill_until_refused(&world, folder.path()).await;
    let asked = json!({"sessionId": "draft:1"});
    let told = world.rpc("session.delete", asked.clone()).await;
    let (sessions, runs, _) = records(&world, "draft:1").await;
    assert_eq!(
        (told["result"].clone(), sessions, runs),
        (json!({"threadId": "draft:1", "deleted": false}), 1, 1),
        "{told:#}"
    );
    assert_eq!(
        world.code("session.message", turn("draft:1", "more")).await,
        json!("CONFLICT")
    );
    fs::remove_file(filler).unwrap();
    while records(&world, "draft:1").await != (0, 0, 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = world.rpc("session.delete", asked).await;
    assert_eq!(
        told["result"],
        json!({"threadId": "draft:1", "deleted": true}),
        "{told:#}"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_waits_for_room_says_so_to_whoever_watches_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::at(folder.path(), 8) else {
        return;
    };
    let world = World::open(folder.path()).await;
    let counts = turn("draft:1", "[[slow 50]] [[count 200]]");
    world.rpc("session.start", counts).await;
    world.at_stage("draft:1", "working").await;
    let watched = world
        .http
        .get(format!("{}/acp/events?threadId=draft:1", world.url))
        .bearer_auth(TOKEN)
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    let filler = fill_until_refused(&world, folder.path()).await;
    let mut text = String::new();
    let mut pieces = watched.bytes_stream();
    while !text.contains("task.progress") {
        let piece = pieces.next().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&piece));
    }
    let told = text.lines().find(|line| line.contains("task.progress"));
    assert!(told.unwrap().contains("STORAGE_FULL"), "{told:?}");
    fs::remove_file(filler).unwrap();
    let ended = world.ended("draft:1").await;
    let text = ended["text"].as_str().unwrap_or_default();
    assert_eq!(
        (&ended["status"], text.split_whitespace().count()),
        (&json!("completed"), 200),
        "{ended:#}"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_file_that_finds_no_room_is_told_to_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().with_extension("own");
    let Some(_disk) = SmallDisk::at(&own, 1) else {
        return;
    };
    let world = World::open(folder.path()).await;
    let large = with(
        turn("draft:1", "[[write large.txt 3000000]] [[say {last}]]"),
        json!({"workingDirectory": own}),
    );
    let (_, result) = world.run(&large).await;
    assert_eq!(
        (&result["status"], &result["text"]),
        (
            &json!("completed"),
            &json!(
                "large.txt was not written: the disk is full. Write less, or tell the person to make room."
            )
        ),
        "{result:#}"
    );
    world.stop().await;
}
