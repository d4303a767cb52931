//! A follow-up goes on with its conversation, or is refused; it never begins another one in silence.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_runtimes::LaneSize;

use crate::support::{Options, World, turn};

fn lost(run: &Value) -> String {
    let run = run.as_str().unwrap();
    format!(
        "The conversation of session `builtin:main:draft:1` is not in the server's data folder any more: the record of its last turn, {run}, is missing. Put the data folder back from a back-up, or begin a new conversation: session.start, or `--new-session` on the command line."
    )
}

fn one_at_once() -> Options {
    Options {
        lane: LaneSize {
            max_active: 1,
            max_queued: 5,
        },
        ..Options::default()
    }
}

#[tokio::test]
async fn a_follow_up_whose_conversation_was_lost_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, first) = world.run(&turn("draft:1", "[[say one]]")).await;
    world.stop().await;
    std::fs::remove_dir_all(folder.path().join("builtin")).unwrap();
    let world = World::open(folder.path()).await;
    // Asking again does not help it.
    for _ in 0..2 {
        let refused = world
            .rpc("session.message", turn("draft:1", "[[say two]]"))
            .await;
        assert_eq!(
            refused["error"],
            json!({
                "code": -32002,
                "message": lost(&first["runId"]),
                "data": {"code": "SESSION_CONTINUATION_UNAVAILABLE"},
            })
        );
    }
    world.run(&turn("draft:1", "[[say anew]]")).await;
    let (_, result) = world
        .run_method("session.message", &turn("draft:1", "[[say two]]"))
        .await;
    assert_eq!(result["status"], json!("completed"), "{result:#}");
    world.stop().await;
}

#[tokio::test]
async fn a_follow_up_whose_conversation_was_lost_while_it_waited_never_begins() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(folder.path(), one_at_once()).await;
    let (_, first) = world.run(&turn("draft:1", "[[say one]]")).await;
    let hangs = turn("draft:2", "[[hang]] [[say never]]");
    world.rpc("session.start", hangs).await;
    world.at_stage("draft:2", "working").await;
    world
        .rpc("session.message", turn("draft:1", "[[say two]]"))
        .await;
    world.at_stage("draft:1", "queued").await;
    world.stop().await;
    std::fs::remove_dir_all(folder.path().join("builtin/builtin-main-draft-1")).unwrap();
    let world = World::with(folder.path(), one_at_once()).await;
    world.cancel("draft:2").await;
    let ended = world.ended("draft:1").await;
    assert_eq!(
        (&ended["status"], &ended["code"], &ended["message"]),
        (
            &json!("failed"),
            &json!("SESSION_CONTINUATION_UNAVAILABLE"),
            &json!(lost(&first["runId"]))
        ),
        "{ended:#}"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_follow_up_to_turns_that_never_began_is_the_first_one() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(folder.path(), one_at_once()).await;
    let hangs = turn("draft:2", "[[hang]] [[say never]]");
    world.rpc("session.start", hangs).await;
    world.at_stage("draft:2", "working").await;
    world
        .rpc("session.start", turn("draft:1", "[[say one]]"))
        .await;
    world.at_stage("draft:1", "queued").await;
    for thread in ["draft:1", "draft:2"] {
        world
            .rpc("session.cancel", json!({"sessionId": thread}))
            .await;
        assert_eq!(world.ended(thread).await["status"], json!("cancelled"));
    }
    let (_, result) = world
        .run_method("session.message", &turn("draft:1", "[[say one]]"))
        .await;
    assert_eq!(
        (&result["status"], &result["text"]),
        (&json!("completed"), &json!("one"))
    );
    world.stop().await;
}
