//! Bridges come and go, and are killed at any moment; the agent notices nothing, and nothing is lost.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use pretty_assertions::assert_eq;
use rand::RngExt as _;
use serde_json::json;
use threadline_host::{Attached, EndCause, Entry, HostError, RefusalCode, Spec, What};
use tokio::{task::LocalSet, time::sleep};

use crate::support::*;

fn bridge(world: &World, spec: &Spec, file: &Path) -> Child {
    Command::new(fixture())
        .arg("bridge")
        .args([
            world.root.as_os_str(),
            spec.session.as_ref(),
            file.as_os_str(),
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a process without holding up whoever shares the thread.
async fn ended(mut child: Child) -> bool {
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// What a bridge has put away must be every entry once, in order, and every tick of the agent.
fn check(file: &Path, ticks: u64) {
    let text = fs::read_to_string(file).unwrap();
    let entries: Vec<Entry> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.no).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>());
    let heard: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Said(frame) => value(frame)["params"]["n"].as_u64(),
            _ => None,
        })
        .collect();
    assert_eq!(heard, (1..=ticks).collect::<Vec<_>>());
    match &entries.last().unwrap().what {
        What::Ended(ended) => assert_eq!(ended.cause, EndCause::Stopped),
        other => panic!("{other:?}"),
    }
}

/// An agent emits for `seconds` at a rate; the bridge is killed in the middle and is away for so long.
async fn killed_for(away: Duration, rate: u64) {
    let world = World::new();
    let spec = world.spec();
    let count = (away + Duration::from_secs(2)).as_millis() as u64 * rate / 1_000;
    let (_, attached) = world.start(&spec).await;
    let emit = request(1, "emit", json!({"count": count, "rate": rate}));
    attached.control.send("turn", &emit).await.unwrap();
    drop(attached);
    let file = world.path("kept");
    let mut first = bridge(&world, &spec, &file);
    sleep(Duration::from_millis(700)).await;
    first.kill().unwrap();
    first.wait().unwrap();
    sleep(away).await;
    let second = bridge(&world, &spec, &file);
    until("the turn has ended", async || {
        world.hosts.inspect(SESSION).await.unwrap().open_turns == 0
    })
    .await;
    world.hosts.stop(SESSION).await.unwrap();
    assert!(ended(second).await);
    check(&file, count);
}

#[tokio::test]
async fn no_entry_is_lost_or_doubled_while_a_bridge_is_away() {
    let together = LocalSet::new();
    for away in [300, 1_000, 10_000].map(Duration::from_millis) {
        for rate in [10, 66, 500] {
            together.spawn_local(killed_for(away, rate));
        }
    }
    together.await;
}

#[tokio::test]
async fn no_entry_is_lost_or_doubled_when_bridges_are_killed_at_random_moments() {
    let world = World::new();
    let spec = world.spec();
    let (_, attached) = world.start(&spec).await;
    let emit = request(
        1,
        "emit",
        json!({"count": 6_000, "rate": 2_000, "size": 300}),
    );
    attached.control.send("turn", &emit).await.unwrap();
    drop(attached);
    let file = world.path("kept");
    while world.hosts.inspect(SESSION).await.unwrap().open_turns > 0 {
        let mut child = bridge(&world, &spec, &file);
        let moment = rand::rng().random_range(5..250);
        sleep(Duration::from_millis(moment)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = bridge(&world, &spec, &file);
    sleep(Duration::from_millis(50)).await;
    world.hosts.stop(SESSION).await.unwrap();
    assert!(ended(last).await);
    check(&file, 6_000);
}

#[tokio::test]
async fn the_latest_bridge_is_the_one_that_is_heard() {
    let world = World::new();
    let (state, mut old) = world.start(&world.spec()).await;
    let mut new = world.hosts.attach(SESSION, &state.boot, 0).await.unwrap();
    assert!(matches!(old.frames.next().await, Err(HostError::Replaced)));
    let ask = request(1, "echo", json!(1));
    assert!(matches!(
        old.control.send("a", &ask).await,
        Err(HostError::Replaced)
    ));
    new.control.send("b", &ask).await.unwrap();
    assert_eq!(answered(&mut new.frames, 1).await, json!(1));
    // What the old one still says about its own keeping means nothing.
    old.control.ack(2).await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(world.hosts.inspect(SESSION).await.unwrap().acked, 0);
}

#[tokio::test]
async fn a_bridge_goes_on_where_entries_are_and_nowhere_else() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.spec()).await;
    let emit = request(1, "emit", json!({"count": 100, "size": 100_000}));
    attached.control.send("k", &emit).await.unwrap();
    // 10 MB make three pieces, of which two go.
    for _ in 0..102 {
        let no = attached.frames.next().await.unwrap().unwrap().no;
        attached.control.ack(no).await;
    }
    until("all is acknowledged", async || {
        world.hosts.inspect(SESSION).await.unwrap().acked == 102
    })
    .await;
    let first = world.hosts.inspect(SESSION).await.unwrap().first;
    assert!(first > 1);
    let attach =
        async |boot: &str, after| world.hosts.attach(SESSION, boot, after).await.map(|_| ());
    match attach(&state.boot, 0).await {
        Err(HostError::Gap { expected: 1, found }) => assert_eq!(found, Some(first)),
        other => panic!("{other:?}"),
    }
    match attach(&state.boot, 103).await {
        Err(HostError::Refused(refusal)) => assert_eq!(refusal.code, RefusalCode::Ahead),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        attach("another", 102).await,
        Err(HostError::NotThere { .. })
    ));
    // What is kept can be read again, and a refused one has disturbed nobody.
    attach(&state.boot, first - 1).await.unwrap();
    attach(&state.boot, 102).await.unwrap();
}

/// A bridge follows its agents in tasks, on whatever thread.
#[tokio::test]
async fn everything_can_be_done_in_a_task() {
    let world = World::new();
    let (hosts, spec) = (world.hosts.clone(), world.spec());
    let task = tokio::spawn(async move {
        let (state, attached) = hosts.start_or_attach(&spec, None).await.unwrap();
        let Attached {
            mut frames,
            control,
            ..
        } = attached;
        let sender = control.clone();
        let sending =
            tokio::spawn(async move { sender.send("k", &request(1, "echo", json!(1))).await });
        assert_eq!(frames.next().await.unwrap().unwrap().no, 1);
        sending.await.unwrap().unwrap();
        control.ack(1).await;
        assert_eq!(frames.next().await.unwrap().unwrap().no, 2);
        hosts.stop(SESSION).await.unwrap();
        let mut rest = hosts.rest(SESSION, &state.boot, 2).await.unwrap();
        assert_eq!(rest.next().await.unwrap().unwrap().no, 3);
        hosts.sweep().await.unwrap();
        hosts.forget(SESSION).await.unwrap();
    });
    task.await.unwrap();
}

/// A damaged journal is told as that, not as anything else.
#[tokio::test]
async fn entries_that_cannot_be_read_are_told() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.spec()).await;
    attached
        .control
        .send("k", &request(1, "emit", json!({"count": 9})))
        .await
        .unwrap();
    answered(&mut attached.frames, 1).await;
    drop(attached);
    let piece = world
        .hosts
        .folder(SESSION)
        .join("frames/00000000000000000001.journal");
    let mut bytes = fs::read(&piece).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&piece, bytes).unwrap();
    let mut attached = world.hosts.attach(SESSION, &state.boot, 0).await.unwrap();
    let refused = loop {
        match attached.frames.next().await {
            Ok(entry) => assert!(entry.unwrap().no < 9),
            Err(HostError::Refused(refusal)) => break refusal,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(refused.code, RefusalCode::Gap);
    assert!(refused.message.contains("damaged"), "{}", refused.message);
}
