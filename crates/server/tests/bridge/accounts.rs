//! What one account can learn of the machine and of another account.

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{OTHER, TOKEN, World, turn};

async fn ended(world: &World, token: &str, thread: &str) -> Value {
    loop {
        let params = json!({"appThreadKey": thread});
        let told = world.rpc_as(token, "xworkmate.tasks.get", params).await;
        if told["result"]["status"] != json!("running") {
            return told["result"].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn log_of(world: &World, token: &str, thread: &str) -> String {
    let url = format!("{}/acp/events?threadId={thread}", world.url);
    let answer = world.http.get(url).bearer_auth(token).send().await.unwrap();
    let mut text = String::new();
    let mut pieces = answer.bytes_stream();
    while !text.contains("completed")
        && let Some(piece) = pieces.next().await
    {
        text.push_str(&String::from_utf8_lossy(&piece.unwrap()));
    }
    text
}

#[tokio::test]
async fn another_account_is_not_told_where_the_model_is() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut told = vec![];
    for (token, thread) in [(TOKEN, "draft:1"), (OTHER, "draft:2")] {
        let fails = turn(thread, "[[fail 401]]");
        world.rpc_as(token, "session.start", fails).await;
        let message = ended(&world, token, thread).await["message"].clone();
        let log = log_of(&world, token, thread).await;
        assert!(log.contains("task.ended"), "{log}");
        told.push((
            message.as_str().unwrap().contains("127.0.0.1"),
            log.contains("127.0.0.1"),
        ));
    }
    assert_eq!(told, [(true, true), (false, false)]);
    world.stop().await;
}

#[tokio::test]
async fn a_session_key_does_not_tell_what_another_account_has() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    world.run(&turn("draft:1", "[[say mine]]")).await;
    let mut keys = vec![];
    for thread in ["draft:1", "draft:2"] {
        let asked = turn(thread, "[[say theirs]]");
        world.rpc_as(OTHER, "session.start", asked).await;
        let snapshot = ended(&world, OTHER, thread).await;
        assert_eq!(snapshot["text"], json!("theirs"), "{snapshot:#}");
        let key = snapshot["sessionKey"].as_str().unwrap().to_owned();
        let number = key.strip_prefix(&format!("builtin:main:{thread}-"));
        keys.push(number.unwrap_or(&key).len());
    }
    assert_eq!(keys, [10, 10]);
    world.stop().await;
}
