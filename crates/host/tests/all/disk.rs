//! A full disk: the agent waits for room, and nothing of what it says is lost.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::*;

/// A small file system of its own at a folder; only root can make one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(folder: &Path) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(folder)
            .output()
            .unwrap();
        made.status.success().then(|| Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the host in it may still be ending.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The host's own log lies on the same disk, so not even its complaint can be written.
#[tokio::test]
async fn an_agent_waits_for_room_on_a_full_disk_and_loses_nothing() {
    let world = World::new();
    let Some(_disk) = SmallDisk::at(&world.root) else {
        println!("skipped: only root can mount a small disk");
        return;
    };
    let (_, mut attached) = world.start(&world.spec()).await;
    let emit = request(1, "emit", json!({"count": 400, "rate": 200, "size": 100}));
    attached.control.send("k", &emit).await.unwrap();
    let mut said: Vec<Value> = vec![hear(&mut attached.frames).await];
    let filler = world.root.join("filler");
    // What cannot be written whole is written as far as there is room.
    let _ = fs::write(&filler, vec![1; 1 << 20]);
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
}
