//! Memory does not grow with what is stored, and hardly with who follows.

use futures_util::future::join_all;
use threadline_store::{Store, StreamId, Subscription};

use crate::world::{World, account, event, stream, thread_named};

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    let kib: usize = line
        .split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib << 10
}

/// Events of about 2 KB, over many streams, from many writers, with a follower on each tenth.
async fn fill(store: &Store, round: usize) {
    let writers = (0..64).map(|w| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..20 {
                let thread = thread_named(&format!("draft:{round}-{w}-{n}"));
                let stream = StreamId::of(&account(), &thread);
                let _follower = (n % 10 == 0).then(|| store.subscribe(&stream, 0));
                let events = (0..4).map(|_| event(&"x".repeat(2000))).collect();
                store.append(&stream, None, events).await.unwrap();
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_memory_does_not_grow_with_the_log() {
    let world = World::sqlite().await;
    // Past the bound of what the writer remembers: 1280 streams a round, 8192 remembered.
    for round in 0..8 {
        fill(&world.store, round).await;
    }
    let before = resident();
    for round in 8..16 {
        fill(&world.store, round).await;
    }
    let grown = resident().saturating_sub(before);
    // 41,000 events of 2 KB were added: 80 MB.
    assert!(grown < 12 << 20, "grew by {} KiB", grown >> 10);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_followers_are_small() {
    const FOLLOWERS: usize = 10_000;
    let world = World::sqlite().await;
    world
        .store
        .append(&stream(), None, vec![event("x")])
        .await
        .unwrap();
    let one_stream = |_| world.store.subscribe(&stream(), 1);
    let own_stream = |n| {
        let thread = thread_named(&format!("draft:1780658097668838-{n}"));
        world.store.subscribe(&StreamId::of(&account(), &thread), 0)
    };
    let shared = cost(FOLLOWERS, one_stream);
    assert!(shared < 512, "{shared} bytes each on one stream");
    let own = cost(FOLLOWERS, own_stream);
    assert!(own < 2560, "{own} bytes each on a stream of its own");
    world.end().await;
}

fn cost(count: usize, follow: impl Fn(usize) -> Subscription) -> usize {
    let before = resident();
    let followers: Vec<Subscription> = (0..count).map(follow).collect();
    let grown = resident().saturating_sub(before);
    drop(followers);
    grown / count
}
