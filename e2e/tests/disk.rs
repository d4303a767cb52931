//! A full disk: every refusal has its code and a sentence, and room is all that is needed to go on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_e2e::{small_disk::SmallDisk, world::World};

/// Takes all the room that is left.
fn fill(path: &Path) -> PathBuf {
    let mut block = 1 << 20;
    let mut file = fs::File::create(path).unwrap();
    while block > 0 {
        if std::io::Write::write_all(&mut file, &vec![1; block]).is_err() {
            block /= 2;
        }
    }
    path.to_owned()
}

#[tokio::test]
async fn a_full_disk_is_said_and_survived() {
    let mut world = World::new();
    let Some(_disk) = SmallDisk::at(&world.data(), 3) else {
        return;
    };
    world.start().await;
    world
        .rpc("session.start", World::turn("draft:1", "before"))
        .await;
    assert_eq!(world.ended("draft:1").await["status"], json!("completed"));

    let filler = fill(&world.data().join("filler"));
    let refused = world
        .rpc("session.start", World::turn("draft:2", "meanwhile"))
        .await;
    assert_eq!(
        refused["error"]["data"]["code"],
        json!("STORAGE_FULL"),
        "{refused:#}"
    );
    let refused = world.app("app.send", json!({"prompt": "meanwhile"})).await;
    assert_eq!(
        refused["error"]["data"]["code"],
        json!("STORAGE_FULL"),
        "{refused:#}"
    );
    // What is there can still be read.
    assert_eq!(world.ended("draft:1").await["artifacts"]["total"], json!(3));

    fs::remove_file(&filler).unwrap();
    world
        .rpc("session.start", World::turn("draft:2", "after"))
        .await;
    assert_eq!(world.ended("draft:2").await["status"], json!("completed"));
    world.kill();
    world.start().await;
    assert_eq!(world.ended("draft:2").await["artifacts"]["total"], json!(3));
}

/// The log lies on the same disk, so its lines fail, too; and the lease of the run lapses meanwhile.
#[tokio::test]
async fn a_run_goes_on_when_a_disk_that_was_full_for_long_has_room() {
    let mut world = World::new();
    let Some(_disk) = SmallDisk::at(world.path(), 3) else {
        return;
    };
    world.set("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "300");
    world.start().await;
    world
        .rpc("session.start", World::turn("draft:1", "fill during"))
        .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let filler = fill(&world.path().join("filler"));
    // Longer than a lease, and than it takes the log to use up its last page.
    tokio::time::sleep(Duration::from_secs(35)).await;
    fs::remove_file(&filler).unwrap();
    let ended = world.ended("draft:1").await;
    let text = ended["message"].as_str().unwrap_or_default();
    assert!(
        ended["status"] == json!("completed") || text.contains("disk is full"),
        "{ended:#}"
    );
    world
        .rpc("session.start", World::turn("draft:2", "after"))
        .await;
    assert_eq!(world.ended("draft:2").await["status"], json!("completed"));
}

/// An agent over ACP: its host cannot write down what it says, nor the server what it hears.
#[tokio::test]
async fn a_run_that_waits_for_room_says_so_everywhere() {
    let mut world = World::new();
    let Some(_disk) = SmallDisk::at(&world.data(), 6) else {
        return;
    };
    let folder = world.path().join("home/.config/threadline");
    fs::create_dir_all(&folder).unwrap();
    let program = env!("CARGO_BIN_EXE_scripted-agent");
    let config = format!("[agents.scripted]\ncommand = [{program:?}]\n");
    fs::write(folder.join("threadline.toml"), config).unwrap();
    world.start().await;
    let order = json!({"prompt": "[[rate 20]][[count 400]]", "runtime": "acp:scripted"});
    let sent = world.app("app.send", order).await;
    let name = sent["result"]["thread"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let key = sent["result"]["thread"]["threadId"]
        .as_str()
        .unwrap()
        .to_owned();
    until("it works", async || {
        let task = world.rpc("xworkmate.tasks.get", json!({"appThreadKey": key}));
        task.await["result"]["startedAt"].is_i64() && world.events(&key).await.len() > 5
    })
    .await;
    let mut watch = world.command(["watch", &name]);
    let log = fs::File::create(world.path().join("watch.log")).unwrap();
    watch.stdout(log.try_clone().unwrap()).stderr(log);
    let mut watching = watch.spawn().unwrap();

    let filler = fill(&world.data().join("filler"));
    let full = "The disk is full: it waits for room";
    let shown = || {
        let shown = world.command(["show", &name]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    until("show says so", async || shown().contains(full)).await;
    until("watch says so", async || {
        let said = fs::read_to_string(world.path().join("watch.log"));
        said.unwrap_or_default().contains(full)
    })
    .await;
    let status = world.command(["status"]).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let runs = world.rpc("xworkmate.operator.runs", json!({"which": "open"}));
    let standing = runs.await["result"]["runs"][0]["standing"].clone();
    let why = standing["why"].as_str().unwrap_or_default();
    assert!(why.starts_with(full), "{standing:#}");
    assert!(standing["since"].as_i64().unwrap() > 0, "{standing:#}");
    assert!(status.contains("The disk is full"), "{status}");
    let task = world.rpc("xworkmate.tasks.get", json!({"appThreadKey": key}));
    assert_eq!(task.await["result"]["code"], json!("STORAGE_FULL"));

    fs::remove_file(&filler).unwrap();
    let ended = world.ended(&key).await;
    assert_eq!(ended["status"], json!("completed"), "{ended:#}");
    let numbers: Vec<String> = (1..=400).map(|n| n.to_string()).collect();
    assert_eq!(ended["text"], json!(numbers.join(" ")));
    assert!(!shown().contains(full));
    watching.wait().unwrap();
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
