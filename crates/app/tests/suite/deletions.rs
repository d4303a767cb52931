//! A deleted thread is gone: here, in its folder and at its bridge, whenever that can be told.

use pretty_assertions::assert_eq;
use threadline_app::App;
use threadline_contract::{Code, method};

use crate::support::{Plan, World, deletion, eventually};

/// A thread with a file, archived.
async fn archived(world: &World) -> threadline_contract::thread::TaskThread {
    world.bridge.always(Plan::done("ok").file("a.txt", "a"));
    let thread = world.done("go").await;
    world.app.archive(&thread.name).await.unwrap();
    eventually("the session is closed", || async {
        world.bridge.calls(method::CLOSE).len() == 1
    })
    .await;
    thread
}

/// Files below the app's folder that name the thread, or are notes of a deletion.
fn traces(world: &World, thread: &threadline_contract::thread::TaskThread) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["threads", "outbox", "deleting"] {
        for entry in std::fs::read_dir(world.config.data.join(part)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "index.json" {
                found.push(format!("{part}/{}", entry.file_name().display()));
            }
        }
    }
    if world.workspace(thread).exists() {
        found.push("workspace".to_owned());
    }
    found
}

#[tokio::test]
async fn nothing_is_left_here_or_at_the_bridge() {
    let world = World::new().await;
    let thread = archived(&world).await;
    let folder = world.workspace(&thread);
    let deleted = world.app.delete(deletion(&thread)).await.unwrap();
    assert_eq!(
        (deleted.removed_folder, deleted.pending),
        (Some(folder.display().to_string()), None)
    );
    assert_eq!(traces(&world, &thread), Vec::<String>::new());
    assert_eq!(world.bridge.runs(), []);
    let told = world.bridge.calls(method::DELETE);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].params["sessionId"], thread.thread_id.as_str());
}

#[tokio::test]
async fn a_bridge_that_is_away_is_told_later_also_after_a_restart() {
    let mut world = World::new().await;
    let thread = archived(&world).await;
    world.bridge.down().await;
    let deleted = world.app.delete(deletion(&thread)).await.unwrap();
    let pending = deleted.pending.unwrap();
    assert!(
        pending.starts_with("What its bridge holds of it goes when the bridge can be told. The bridge cannot be reached"),
        "{pending}"
    );
    // Here it is gone already.
    assert_eq!(
        world.app.show(&thread.name).await.unwrap_err().code,
        Code::ThreadNotFound
    );
    assert_eq!(traces(&world, &thread).len(), 1);
    world.restart().await;
    world.bridge.up().await;
    eventually("the bridge is told", || async {
        world.bridge.runs().is_empty() && traces(&world, &thread).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_is_finished_at_the_next_start() {
    let mut world = World::new().await;
    let thread = archived(&world).await;
    // As if the app had been killed right after the note was written.
    world.app.close().await.unwrap();
    let note = serde_json::json!({
        "threadId": thread.thread_id, "endpointId": "local",
        "folder": world.workspace(&thread), "requests": [],
    });
    let name = {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        format!("{}.json", URL_SAFE_NO_PAD.encode(thread.thread_id.as_str()))
    };
    std::fs::write(
        world.config.data.join("deleting").join(name),
        note.to_string(),
    )
    .unwrap();
    world.app = App::open(world.config.clone()).await.unwrap();
    assert_eq!(
        world.app.show(&thread.name).await.unwrap_err().code,
        Code::ThreadNotFound
    );
    assert!(!world.workspace(&thread).exists());
    eventually("the bridge is told", || async {
        world.bridge.runs().is_empty() && traces(&world, &thread).is_empty()
    })
    .await;
}

#[tokio::test]
async fn archiving_twice_and_restoring_a_live_thread_say_so() {
    let world = World::new().await;
    let thread = world.done("go").await;
    let restored = world.app.restore(&thread.name).await.unwrap();
    assert_eq!(
        restored.notice.as_deref(),
        Some("The thread is not archived; nothing changed.")
    );
    assert_eq!(restored.thread, thread);
    let first = world.app.archive(&thread.name).await.unwrap();
    assert_eq!(first.notice, None);
    let second = world.app.archive(&thread.name).await.unwrap();
    assert_eq!(
        second.notice.as_deref(),
        Some("The thread was archived already; nothing changed.")
    );
    assert_eq!(second.thread, first.thread);
}
