//! The server is killed without a word, at any moment of a run. Afterwards: one end, the right
//! files, no second run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

use std::{collections::BTreeSet, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use threadline_e2e::{scripted_model, world::World};
use tokio::net::TcpListener;

const PROMPT: &str = "[[write a.txt = one]] [[sleep 80]] [[write reports/b.md 2048]] [[slow 30]] [[say all is written now]]";

async fn world_with_model() -> World {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(scripted_model::serve(listener));
    let mut world = World::new();
    world.set("THREADLINE_MODEL_URL", &url);
    world.set("THREADLINE_MODEL", "scripted");
    world
}

/// The whole log of a thread.
async fn log(world: &World, thread: &str) -> Vec<Value> {
    let url = format!("{}/acp/events?threadId={thread}", world.url);
    let answer = world
        .http
        .get(url)
        .bearer_auth(&world.token)
        .send()
        .await
        .unwrap();
    let page: Value = answer.json().await.unwrap();
    page["events"].as_array().cloned().unwrap_or_default()
}

fn check(snapshot: &Value, events: &[Value], moment: &str) {
    let mut files: Vec<(&str, u64)> = snapshot["artifacts"]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| (i["path"].as_str().unwrap(), i["size"].as_u64().unwrap()))
        .collect();
    files.sort_unstable();
    assert_eq!(
        (snapshot["status"].as_str(), files),
        (
            Some("completed"),
            vec![("a.txt", 3), ("reports/b.md", 2048)]
        ),
        "killed {moment}: {snapshot:#}"
    );
    let ids: Vec<i64> = events.iter().map(|e| e["id"].as_i64().unwrap()).collect();
    assert_eq!(
        ids,
        (1..=ids.len() as i64).collect::<Vec<_>>(),
        "killed {moment}"
    );
    let runs: BTreeSet<&str> = events
        .iter()
        .map(|e| e["update"]["runId"].as_str().unwrap())
        .collect();
    let count = |name: &str| {
        events
            .iter()
            .filter(|e| e["update"]["event"] == json!(name))
            .count()
    };
    assert_eq!(
        (
            runs.len(),
            count("started"),
            count("task.ended"),
            count("completed")
        ),
        (1, 1, 1, 1),
        "killed {moment}: {events:#?}"
    );
}

async fn kill_at_many_moments(mut world: World) {
    world.start().await;
    for moment in 0..12 {
        let thread = format!("draft:{moment}");
        let mut params = World::turn(&thread, PROMPT);
        params["requestId"] = json!(format!("r-{moment}"));
        world.rpc("session.start", params.clone()).await;
        // The first ones right after the request, the later ones after so many events.
        if moment >= 2 {
            while log(&world, &thread).await.len() < moment - 1 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        world.kill();
        world.start().await;
        // The client did not hear the answer and asks again: the same run.
        let again = world.rpc("session.start", params).await;
        assert!(again["result"]["runId"].is_string(), "{again}");
        let snapshot = world.ended(&thread).await;
        check(
            &snapshot,
            &log(&world, &thread).await,
            &format!("at moment {moment}"),
        );
    }
    // Everything is still so after one more restart.
    world.kill();
    world.start().await;
    for moment in 0..12 {
        let thread = format!("draft:{moment}");
        check(
            &world.ended(&thread).await,
            &log(&world, &thread).await,
            "once more",
        );
    }
}

#[tokio::test]
async fn a_run_survives_kill_nine_at_any_moment() {
    kill_at_many_moments(world_with_model().await).await;
}

#[tokio::test]
async fn a_run_survives_kill_nine_on_postgres() {
    let server = std::env::var("THREADLINE_TEST_POSTGRES")
        .expect("THREADLINE_TEST_POSTGRES names a PostgreSQL server (./dev test starts one)");
    let database = threadline_e2e::postgres::fresh_database(&server);
    let mut world = world_with_model().await;
    world.set("THREADLINE_DATABASE", &database);
    kill_at_many_moments(world).await;
}

#[tokio::test]
async fn the_apps_thread_comes_home_although_everything_was_killed() {
    let mut world = world_with_model().await;
    world.start().await;
    for pause in [0, 60, 150, 250, 400] {
        let sent = world.app("app.send", json!({"prompt": PROMPT})).await;
        let name = sent["result"]["thread"]["name"]
            .as_str()
            .unwrap_or_else(|| panic!("{sent:#}"))
            .to_owned();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        world.kill();
        world.start().await;
        let thread = loop {
            let shown =
                world.app("app.show", json!({"thread": name})).await["result"]["thread"].clone();
            let settled = shown["lifecycleState"]["status"] == json!("ready")
                && shown["contextState"]["lastArtifactSyncStatus"] != json!("syncing");
            if settled {
                break shown;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        };
        let state = &thread["contextState"];
        assert_eq!(
            (
                &thread["lifecycleState"]["lastResultCode"],
                &state["lastArtifactSyncStatus"],
                &state["lastTaskArtifactRelativePaths"]
            ),
            (
                &json!("success"),
                &json!("synced"),
                &json!(["a.txt", "reports/b.md"])
            ),
            "killed after {pause} ms: {thread:#}"
        );
        let folder = std::path::PathBuf::from(
            thread["workspaceBinding"]["workspacePath"]
                .as_str()
                .unwrap(),
        );
        for file in state["lastArtifacts"].as_array().unwrap() {
            let bytes = std::fs::read(folder.join(file["path"].as_str().unwrap())).unwrap();
            assert_eq!(json!(hex::encode(Sha256::digest(&bytes))), file["sha256"]);
        }
        // The transcript holds the user's words once and the answer once, and nothing of ours.
        let said: Vec<(&str, &str)> = state["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| (m["role"].as_str().unwrap(), m["text"].as_str().unwrap()))
            .collect();
        assert_eq!(
            said,
            [("user", PROMPT), ("assistant", "all is written now")]
        );
    }
}

/// The database is the data folder's alone, so no run in it can be another node's.
#[tokio::test]
async fn a_run_goes_on_although_the_name_of_its_node_is_lost_or_damaged() {
    for damage in [None, Some("x"), Some(""), Some("tok-not hexadecimal")] {
        let mut world = World::new();
        world.set("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "300");
        world.start().await;
        world
            .rpc("session.start", World::turn("draft:1", "go on"))
            .await;
        world.kill();
        let node = world.data().join("node");
        let before = std::fs::read_to_string(&node).unwrap();
        match damage {
            None => std::fs::remove_file(&node).unwrap(),
            Some(text) => std::fs::write(&node, text).unwrap(),
        }
        world.start().await;
        assert_eq!(world.ended("draft:1").await["status"], json!("completed"));
        let after = std::fs::read_to_string(&node).unwrap();
        // Where there was a name that cannot be read, the file says from then on that there was one.
        let (name, rest) = after.split_at(before.len());
        let says = if damage.is_some() { "renamed\n" } else { "" };
        assert_eq!((name == before, rest), (false, says));
    }
}
