//! The live bus: every event once and in order, whatever the bell does, and nothing kept for nobody.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_store::{Dialect, StoreError, StreamId, Subscription};
use tokio::time::timeout;

use crate::world::{Place, World, account, event, on_both, run_on, stream, thread_named};

on_both![
    a_follower_starts_where_it_is_told,
    a_follower_that_lags_reads_the_log,
    followers_share_what_was_committed,
    streams_without_followers_cost_nothing,
    closing_ends_every_subscription,
];

async fn take(follower: &mut Subscription, count: usize) -> Vec<i64> {
    let mut seen = vec![];
    while seen.len() < count {
        let events = timeout(Duration::from_secs(20), follower.next())
            .await
            .unwrap_or_else(|_| panic!("nothing came after {:?}", seen.last()))
            .unwrap();
        assert!(!events.is_empty());
        seen.extend(events.iter().map(|e| e.seq));
    }
    assert_eq!(follower.cursor(), *seen.last().unwrap());
    seen
}

async fn nothing_more(follower: &mut Subscription) {
    let more = timeout(Duration::from_millis(50), follower.next()).await;
    assert!(more.is_err(), "{more:?}");
}

async fn append(world: &World, count: usize) {
    for n in 0..count {
        world
            .store
            .append(&stream(), None, vec![event(&n.to_string())])
            .await
            .unwrap();
    }
}

async fn a_follower_starts_where_it_is_told(world: World) {
    append(&world, 5).await;
    let mut from_start = world.store.subscribe(&stream(), 0);
    let mut from_three = world.store.subscribe(&stream(), 3);
    let mut from_end = world.store.subscribe(&stream(), 5);
    let mut ahead = world.store.subscribe(&stream(), 7);
    assert_eq!(take(&mut from_start, 5).await, [1, 2, 3, 4, 5]);
    assert_eq!(take(&mut from_three, 2).await, [4, 5]);
    nothing_more(&mut from_end).await;
    append(&world, 3).await;
    assert_eq!(take(&mut from_start, 3).await, [6, 7, 8]);
    assert_eq!(take(&mut from_three, 3).await, [6, 7, 8]);
    assert_eq!(take(&mut from_end, 3).await, [6, 7, 8]);
    // A cursor that is ahead of the log waits for what comes after it.
    assert_eq!(take(&mut ahead, 1).await, [8]);
    nothing_more(&mut ahead).await;
}

async fn a_follower_that_lags_reads_the_log(world: World) {
    let mut follower = world.store.subscribe(&stream(), 0);
    append(&world, 1).await;
    assert_eq!(take(&mut follower, 1).await, [1]);
    for round in 0..3 {
        // Far more rings than a bell remembers, and more rows than one page has.
        append(&world, 150).await;
        let first = 2 + round * 152;
        let wanted: Vec<i64> = (first..first + 150).collect();
        assert_eq!(take(&mut follower, 150).await, wanted);
        append(&world, 1).await;
        assert_eq!(take(&mut follower, 1).await, [first + 150]);
        // Too large for the bell to carry.
        let large = event(&"x".repeat(300 << 10));
        world
            .store
            .append(&stream(), None, vec![large])
            .await
            .unwrap();
        assert_eq!(take(&mut follower, 1).await, [first + 151]);
    }
    nothing_more(&mut follower).await;
}

async fn followers_share_what_was_committed(world: World) {
    let mut followers: Vec<_> = (0..50)
        .map(|_| world.store.subscribe(&stream(), 0))
        .collect();
    let mut shared = 0;
    for _ in 0..20 {
        append(&world, 1).await;
        let seen = join_all(followers.iter_mut().map(|f| f.next())).await;
        let first = seen[0].as_ref().unwrap();
        let same = |events: &Result<_, _>| Arc::ptr_eq(first, events.as_ref().unwrap());
        shared += usize::from(seen.iter().all(same));
    }
    // In the first round everybody reads the log; on PostgreSQL also when the listener has just
    // begun to listen, which may come later.
    assert!(shared >= 18, "{shared} of 20 rounds were shared");
}

async fn streams_without_followers_cost_nothing(world: World) {
    let store = &world.store;
    append(&world, 3).await;
    assert_eq!(store.followed_streams(), 0);
    let twice = [store.subscribe(&stream(), 0), store.subscribe(&stream(), 0)];
    let elsewhere = store.subscribe(&StreamId::of(&account(), &thread_named("draft:9")), 0);
    assert_eq!(store.followed_streams(), 2);
    let [one, mut two] = twice;
    drop(one);
    drop(elsewhere);
    assert_eq!(store.followed_streams(), 1);
    assert_eq!(take(&mut two, 3).await, [1, 2, 3]);
    drop(two);
    assert_eq!(store.followed_streams(), 0);
    // Coming and going while others write.
    let writers = (0..4).map(|_| {
        let world = world.clone();
        tokio::spawn(async move { append(&world, 40).await })
    });
    let followers = (0..16).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            let mut cursor = 0;
            while cursor < 163 {
                let mut follower = world.store.subscribe(&stream(), cursor);
                let seen = take(&mut follower, 1).await;
                let wanted: Vec<i64> = (cursor + 1..).take(seen.len()).collect();
                assert_eq!(seen, wanted);
                cursor = follower.cursor();
            }
        })
    });
    for task in join_all(writers.chain(followers)).await {
        task.unwrap();
    }
    assert_eq!(store.followed_streams(), 0);
}

async fn closing_ends_every_subscription(world: World) {
    let second = match world.store.dialect() {
        Dialect::Postgres => world.second().await,
        Dialect::Sqlite => {
            // SQLite has one owner; the world's own store is closed here and again at the end.
            world.store.clone()
        }
    };
    let mut follower = second.subscribe(&stream(), 0);
    let waiting = tokio::spawn(async move { follower.next().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    second.close().await.unwrap();
    let ended = timeout(Duration::from_secs(5), waiting).await.unwrap();
    assert!(matches!(ended.unwrap(), Err(StoreError::Closed)));
    let late = second.subscribe(&stream(), 0).next().await;
    assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
    let write = second.append(&stream(), None, vec![event("no")]).await;
    assert!(matches!(write, Err(StoreError::Closed)), "{write:?}");
    let read = second.events_after(&stream(), 0, 1).await;
    assert!(matches!(read, Err(StoreError::Closed)), "{read:?}");
    second.close().await.unwrap();
}

/// Two nodes on one PostgreSQL.
mod nodes {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn postgres_rings_on_every_node() {
        let world = World::postgres().await;
        let there = World {
            store: world.second().await,
            ..world.clone()
        };
        let mut here = world.store.subscribe(&stream(), 0);
        nothing_more(&mut here).await;
        // Both write; a follower sees one order.
        let writers = [world.clone(), there.clone(), there.clone()]
            .map(|node| tokio::spawn(async move { append(&node, 60).await }));
        let seen = take(&mut here, 180).await;
        assert_eq!(seen, (1..=180).collect::<Vec<i64>>());
        for writer in writers {
            writer.await.unwrap();
        }
        nothing_more(&mut here).await;
        // What another node commits in bulk is more than a bell carries.
        let many = (0..1000).map(|n| event(&n.to_string())).collect();
        there.store.append(&stream(), None, many).await.unwrap();
        let seen = take(&mut here, 1000).await;
        assert_eq!(seen, (181..=1180).collect::<Vec<i64>>());
        there.store.close().await.unwrap();
        drop(here);
        world.end().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn postgres_listener_that_lost_its_connection_loses_nothing() {
        let world = World::postgres().await;
        let there = World {
            store: world.second().await,
            ..world.clone()
        };
        let mut here = world.store.subscribe(&stream(), 0);
        append(&there, 1).await;
        assert_eq!(take(&mut here, 1).await, [1]);
        let Place::Database(server, name) = &*world.place else {
            panic!()
        };
        for round in 0..3 {
            let kill = format!(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}' and query like 'LISTEN%'"
            );
            run_on(server, kill).await;
            append(&there, 20).await;
            let first = 2 + round * 20;
            let seen = take(&mut here, 20).await;
            assert_eq!(seen, (first..first + 20).collect::<Vec<i64>>());
        }
        nothing_more(&mut here).await;
        there.store.close().await.unwrap();
        drop(here);
        world.end().await;
    }
}
