//! What is said of runs and sessions whose server is away.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::postgres;

use super::{FIRST, Nodes};
use crate::support::{World, turn};

/// Why each stands as it does, and what happens next, by thread.
async fn told(world: &World, method: &str, list: &str) -> Value {
    let listed = world.rpc(method, json!({})).await;
    let lines = listed["result"][list].as_array().unwrap().iter();
    lines
        .map(|line| {
            let thread = line["threadId"].as_str().unwrap().to_owned();
            let standing = &line["standing"];
            (thread, json!([standing["why"], standing["next"]]))
        })
        .collect::<serde_json::Map<String, Value>>()
        .into()
}

#[tokio::test]
async fn what_a_server_has_that_is_away_waits_for_it() {
    let Nodes {
        a,
        b,
        folders: _folders,
        database,
    } = Nodes::new().await;
    for thread in ["draft:done", "draft:goes"] {
        a.run(&turn(thread, FIRST)).await;
    }
    let hangs = turn("draft:works", "[[hang]] [[say never]]");
    a.rpc("session.start", hangs).await;
    a.at_stage("draft:works", "working").await;
    a.stop().await;
    postgres::run_on(
        &database,
        "update nodes set seen_at = seen_at - 120000 where node = 'a'",
    );
    let deleted = b
        .rpc("session.delete", json!({"sessionId": "draft:goes"}))
        .await;
    assert_eq!(deleted["result"]["deleted"], json!(false), "{deleted:#}");
    let done = json!([
        "Its runtime said that it is done.",
        "Nothing. Its server a is away; its files can be fetched when that server is back."
    ]);
    assert_eq!(
        told(&b, "xworkmate.operator.runs", "runs").await,
        json!({
            "draft:done": done,
            "draft:goes": done,
            "draft:works": [
                "Its server a is away, and only that server knows how it stands.",
                "It goes on when that server is back. If that takes more than an hour, it counts as lost.",
            ],
        })
    );
    let away = json!([
        "Its server a is away.",
        "Turns of its thread are refused until that server is back; then they go on with it."
    ]);
    assert_eq!(
        told(&b, "xworkmate.operator.sessions", "sessions").await,
        json!({
            "draft:done": away,
            "draft:goes": [
                "It is being deleted.",
                "Its server a is away. It goes for good when that server is back. Until then its thread takes no turn.",
            ],
            "draft:works": away,
        })
    );
    b.stop().await;
}
