//! A full disk: the agent waits for room, and nothing of what it says is lost.

use std::{fs, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::small_disk::SmallDisk;
use tokio::time::sleep;

use crate::support::*;

/// The host's own log lies on the same disk, so not even its complaint can be written.
#[tokio::test]
async fn an_agent_waits_for_room_on_a_full_disk_and_loses_nothing() {
    let world = World::new();
    let Some(_disk) = SmallDisk::at(&world.root, 1) else {
        return;
    };
    let (_, mut attached) = world.start(&world.spec()).await;
    let emit = request(1, "emit", json!({"count": 400, "rate": 200, "size": 100}));
    attached.control.send("k", &emit).await.unwrap();
    let mut said: Vec<Value> = vec![hear(&mut attached.frames).await];
    let filler = world.root.join("filler");
    // What cannot be written whole is written as far as there is room.
    let _ = fs::write(&filler, vec![1; 1 << 20]);
    until("the host says what it waits for", async || {
        let hello = world.hosts.inspect(SESSION).await.unwrap();
        hello.no_room_since.is_some()
    })
    .await;
    sleep(Duration::from_millis(1_500)).await;
    fs::remove_file(&filler).unwrap();
    while said.len() <= 400 {
        said.push(hear(&mut attached.frames).await);
    }
    let ticks: Vec<u64> = said
        .iter()
        .filter_map(|s| s["params"]["n"].as_u64())
        .collect();
    assert_eq!(ticks, (1..=400).collect::<Vec<u64>>());
    assert_eq!(said[400]["id"], json!(1));
    let hello = world.hosts.inspect(SESSION).await.unwrap();
    assert_eq!(hello.no_room_since, None);
}
