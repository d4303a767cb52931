//! `session.delete`: everything of a thread goes, nothing else does, and a crash in between is made
//! good for.

use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{AccountId, AppThreadKey, Millis};
use threadline_store::{Deletion, StreamId};

use crate::support::{OTHER, World, turn, with};

const DELETE: &str = "session.delete";
const NOTHING: [Vec<String>; 3] = [vec![], vec![], vec![]];

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return vec![];
    };
    let name =
        |e: std::io::Result<std::fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// What lies on the disk of all threads: their folders, their journals, their waiting attachments.
fn on_disk(folder: &Path) -> [Vec<String>; 3] {
    ["tasks", "builtin", "attachments"].map(|part| names(&folder.join(part)))
}

async fn events(world: &World, thread: &str) -> usize {
    let thread = AppThreadKey::new(thread).unwrap();
    let stream = StreamId::of(&AccountId::local(), &thread.into());
    let page = world.engine.store().events_after(&stream, 0, 1000).await;
    page.unwrap().len()
}

fn gone(thread: &str) -> Value {
    json!({"threadId": thread, "deleted": true})
}

#[tokio::test]
async fn nothing_of_a_deleted_thread_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let attached = json!({"inlineAttachments": [{"name": "in.txt", "content": "aGVsbG8="}]});
    let prompt = "[[write reports/one.md = first]] [[say ok]]";
    let (_, result) = world.run(&with(turn("draft:1", prompt), attached)).await;
    world.run(&turn("draft:2", prompt)).await;
    let url = result["artifacts"]["items"][0]["url"].as_str().unwrap();

    // Another account has no such thread, and so nothing of it: the answer is the same, and the
    // thread is untouched.
    let other = world.rpc_as(OTHER, DELETE, json!({"sessionId": "draft:1"}));
    assert_eq!(other.await["result"], gone("draft:1"));
    assert_eq!(
        world
            .rpc("xworkmate.tasks.get", json!({"appThreadKey": "draft:1"}))
            .await["result"]["status"],
        json!("completed")
    );

    let deleted = world.rpc(DELETE, json!({"sessionId": "draft:1"})).await;
    assert_eq!(deleted["result"], gone("draft:1"));
    let two = || vec!["builtin-main-draft-2".to_owned()];
    assert_eq!(on_disk(folder.path()), [two(), two(), vec![]]);
    assert_eq!(events(&world, "draft:1").await, 0);
    assert!(events(&world, "draft:2").await > 0);
    assert_eq!(
        world
            .code("xworkmate.tasks.get", json!({"appThreadKey": "draft:1"}))
            .await,
        json!("mapping_not_found")
    );
    let link = world.http.get(format!("{}{url}", world.url));
    let link = link
        .bearer_auth(crate::support::TOKEN)
        .send()
        .await
        .unwrap();
    assert_eq!(link.status(), 404);
    // Again, and the key begins anew.
    let again = world.rpc(DELETE, json!({"sessionId": "draft:1"})).await;
    assert_eq!(again["result"], gone("draft:1"));
    let (_, result) = world.run(&turn("draft:1", "[[say new]]")).await;
    assert_eq!(result["text"], json!("new"));
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_goes_on_is_stopped_first() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let started = world
        .rpc("session.start", turn("draft:1", "[[ask Which?]]"))
        .await;
    assert_eq!(started["result"]["status"], json!("running"));
    let deleted = world.rpc(DELETE, json!({"sessionId": "draft:1"})).await;
    assert_eq!(deleted["result"], gone("draft:1"));
    assert_eq!(on_disk(folder.path()), NOTHING);
    assert_eq!(world.engine.active(), 0);
    world.stop().await;
}

#[tokio::test]
async fn a_folder_of_the_users_own_stays() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let own = folder.path().join("data.own");
    std::fs::create_dir(&data).unwrap();
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("mine.txt"), "mine").unwrap();
    let world = World::open(&data).await;
    let there = json!({"workingDirectory": own.to_str().unwrap()});
    world
        .run(&with(turn("draft:1", "[[write a.md = x]]"), there))
        .await;
    let deleted = world.rpc(DELETE, json!({"sessionId": "draft:1"})).await;
    assert_eq!(deleted["result"], gone("draft:1"));
    assert_eq!(names(&own), ["a.md", "mine.txt"]);
    assert_eq!(on_disk(&data), NOTHING);
    world.stop().await;
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_is_finished_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    world.run(&turn("draft:1", "[[write a.md = x]]")).await;
    let deletion = Deletion {
        account: AccountId::local(),
        owner: AppThreadKey::new("draft:1").unwrap().into(),
        node: "test".to_owned(),
        asked_by: None,
    };
    let asked = world.engine.store().ask_deletion(&deletion, Millis::now());
    asked.await.unwrap();
    // As if the server had been killed here, with half of the folder gone.
    std::fs::remove_dir_all(folder.path().join("tasks/builtin-main-draft-1/.xworkmate")).unwrap();
    assert_eq!(
        world
            .code("session.start", turn("draft:1", "[[say no]]"))
            .await,
        json!("CONFLICT")
    );
    world.stop().await;

    let world = World::open(folder.path()).await;
    for _ in 0..500 {
        if world.engine.store().deletions().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(on_disk(folder.path()), NOTHING);
    assert_eq!(events(&world, "draft:1").await, 0);
    world.stop().await;
}
