//! Two threads that want to work in one folder.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_e2e::world::World;

use crate::scripted;

#[tokio::test]
async fn the_thread_that_works_in_a_folder_is_named_to_whoever_cannot_have_it() {
    let mut world = scripted::world(5);
    world.start().await;
    let folder = world.path().join("home/mine");
    fs::create_dir_all(&folder).unwrap();
    let turn = |thread: &str, prompt: &str| {
        let mut turn = World::turn_on("scripted", thread, prompt);
        turn["workingDirectory"] = json!(folder);
        turn
    };
    world
        .rpc("session.start", turn("draft:1", "[[rate 5]] [[count 400]]"))
        .await;
    scripted::says(&world, "draft:1", "1 2 ").await;
    world
        .rpc("session.start", turn("draft:2", "[[say hi]]"))
        .await;
    let refused = world.ended("draft:2").await;
    let said = format!(
        "The folder {} is taken: the thread `draft:1` works there. Wait for its end (`threadline watch draft:1`) or cancel it (`threadline cancel draft:1`), and send this again.",
        folder.display()
    );
    assert_eq!(
        (&refused["code"], &refused["message"]),
        (&json!("CONFLICT"), &json!(said)),
        "{refused:#}"
    );
}
