//! A bridge that takes its time slows the agent, and costs neither memory nor disk without end.

use std::{fs, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::time::sleep;

use crate::support::*;

fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_slow_bridge_slows_the_agent_and_loses_nothing() {
    let world = World::new();
    let mut spec = world.spec();
    spec.lead_bytes = 256 * 1024;
    let (state, mut attached) = world.start(&spec).await;
    let emit = request(1, "emit", json!({"count": 20_000, "size": 200}));
    attached.control.send("k", &emit).await.unwrap();
    sleep(Duration::from_millis(700)).await;
    let before = world.hosts.inspect(SESSION).await.unwrap().last;
    sleep(Duration::from_millis(300)).await;
    let after = world.hosts.inspect(SESSION).await.unwrap().last;
    assert_eq!(before, after, "the agent stands still");
    assert!((500..2_000).contains(&after), "{after} entries for 256 KiB");
    // It hears us even so, and its answer comes in its place.
    attached
        .control
        .send("k2", &request(2, "echo", json!(2)))
        .await
        .unwrap();

    let mut ticks = vec![];
    let mut answers = vec![];
    while answers.len() < 2 {
        let entry = attached.frames.next().await.unwrap().unwrap();
        attached.control.ack(entry.no).await;
        if let threadline_host::What::Said(frame) = &entry.what {
            let said = value(frame);
            match said["params"]["n"].as_u64() {
                Some(n) => ticks.push(n),
                None => answers.push(said["id"].as_u64().unwrap()),
            }
        }
    }
    assert_eq!(ticks, (1..=20_000).collect::<Vec<_>>());
    answers.sort_unstable();
    assert_eq!(answers, [1, 2]);
    let resident = resident_kb(state.host.pid);
    // Without optimisation, and with all of its symbols.
    assert!(resident < 20_000, "{resident} kB");
}

#[tokio::test]
async fn an_agent_alone_is_stopped_by_its_lead_and_goes_on_with_the_next_bridge() {
    let world = World::new();
    let mut spec = world.spec();
    spec.lead_entries = 100;
    let (state, attached) = world.start(&spec).await;
    attached
        .control
        .send("k", &request(1, "emit", json!({"count": 5_000})))
        .await
        .unwrap();
    drop(attached);
    sleep(Duration::from_millis(500)).await;
    let last = world.hosts.inspect(SESSION).await.unwrap().last;
    assert!(last < 1_000, "{last} entries");
    let mut attached = world.hosts.attach(SESSION, &state.boot, 0).await.unwrap();
    let mut next = 1;
    while next <= 5_000 {
        let entry = attached.frames.next().await.unwrap().unwrap();
        attached.control.ack(entry.no).await;
        if let threadline_host::What::Said(frame) = &entry.what {
            assert_eq!(value(frame)["params"]["n"], json!(next));
            next += 1;
        }
    }
}

#[tokio::test]
async fn the_disk_holds_what_is_not_acknowledged_and_little_more() {
    let world = World::new();
    let mut spec = world.spec();
    spec.lead_bytes = 1024 * 1024;
    let (_, mut attached) = world.start(&spec).await;
    let emit = request(1, "emit", json!({"count": 250, "size": 100_000}));
    attached.control.send("k", &emit).await.unwrap();
    let folder = world.hosts.folder(SESSION);
    let mut most = 0;
    for _ in 0..252 {
        let no = attached.frames.next().await.unwrap().unwrap().no;
        attached.control.ack(no).await;
        most = most.max(bytes_in(&folder));
    }
    assert!(most < 11 * 1024 * 1024, "{most} bytes of 25 MB");
}
