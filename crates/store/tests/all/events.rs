//! Logs: dense numbers whatever happens, and reading from anywhere.

use std::{collections::HashMap, time::Duration};

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_contract::{AccountId, Millis, RunId, RunStatus};
use threadline_store::{
    Appended, Dialect, NewEvent, Phase, Run, RunChange, StoreError, StoredEvent, StreamId,
};

use crate::world::{
    World, account, end_with, event, new_run, on_both, other, stream, thread, thread_named,
};

on_both![
    events_are_numbered_from_one_and_come_back,
    pages_go_on_where_the_last_ended,
    a_run_has_its_own_events_and_frames,
    streams_do_not_mix,
    large_events_are_kept_whole,
    numbers_are_dense_under_mixed_load,
    callers_that_go_away_leave_no_gap,
];

async fn events_are_numbered_from_one_and_come_back(world: World) {
    let (store, run) = (&world.store, RunId::fresh());
    assert_eq!(store.last_seq(&stream()).await.unwrap(), 0);
    let first = NewEvent {
        run: Some(run.clone()),
        frame: Some(7),
        kind: "delta".into(),
        body: r#"{"text":"a \u0000 \"b\" ü"}"#.into(),
        at: Millis(-5),
    };
    let appended = store
        .append(&stream(), None, vec![first.clone(), event("b")])
        .await;
    assert_eq!(appended.unwrap(), Appended { first: 1, last: 2 });
    let appended = store.append(&stream(), None, vec![event("c")]).await;
    assert_eq!(appended.unwrap(), Appended { first: 3, last: 3 });
    let nothing = store.append(&stream(), None, vec![]).await;
    assert_eq!(nothing.unwrap(), Appended { first: 4, last: 3 });
    let stored = |seq, e: NewEvent| StoredEvent {
        seq,
        run: e.run,
        frame: e.frame,
        kind: e.kind,
        body: e.body,
        at: e.at,
    };
    assert_eq!(
        store.events_after(&stream(), 0, 9).await.unwrap(),
        [
            stored(1, first),
            stored(2, event("b")),
            stored(3, event("c"))
        ]
    );
    assert_eq!(store.last_seq(&stream()).await.unwrap(), 3);
}

async fn pages_go_on_where_the_last_ended(world: World) {
    let store = &world.store;
    let events = (1..=1000).map(|n| event(&n.to_string())).collect();
    let appended = store.append(&stream(), None, events).await.unwrap();
    assert_eq!(
        appended,
        Appended {
            first: 1,
            last: 1000
        }
    );
    let mut seen = vec![];
    loop {
        let page = store
            .events_after(&stream(), seen.len() as i64, 300)
            .await
            .unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|e| (e.seq, e.body.to_string())));
    }
    let wanted: Vec<_> = (1..=1000).map(|n| (n, format!("\"{n}\""))).collect();
    assert_eq!(seen, wanted);
    assert_eq!(store.events_after(&stream(), 1000, 9).await.unwrap(), []);
    assert_eq!(
        store.events_after(&stream(), -5, 1).await.unwrap()[0].seq,
        1
    );
}

async fn a_run_has_its_own_events_and_frames(world: World) {
    let store = &world.store;
    store
        .append(&stream(), None, vec![event("before")])
        .await
        .unwrap();
    let (a, lease) = world.leased().await;
    let b = world.run().await;
    let of = |run: &Run, frame| NewEvent {
        run: Some(run.id.clone()),
        frame,
        ..event("x")
    };
    assert_eq!(store.last_frame(&a).await.unwrap(), None);
    let events = vec![
        of(&a, Some(1)),
        of(&b, Some(50)),
        event("thread's own"),
        of(&a, Some(2)),
        of(&a, None),
        of(&b, None),
    ];
    let first = store.append(&stream(), None, events).await.unwrap().first;
    let seqs = |run: &Run, range, limit| {
        let id = run.id.clone();
        async move {
            let events = store.run_events(&stream(), &id, range, limit).await;
            let numbers = events.unwrap().into_iter().map(|e| e.seq - first);
            numbers.collect::<Vec<_>>()
        }
    };
    let all = (0, i64::MAX);
    assert_eq!(seqs(&a, all, 9).await, [0, 3, 4]);
    assert_eq!(seqs(&a, (first, i64::MAX), 1).await, [3]);
    assert_eq!(seqs(&a, (first, first + 3), 9).await, [3]);
    assert_eq!(seqs(&b, all, 9).await, [1, 5]);
    assert_eq!(
        store.last_frame(&a).await.unwrap().map(|(no, _)| no),
        Some(2)
    );
    assert_eq!(
        store.last_frame(&b).await.unwrap().map(|(no, _)| no),
        Some(50)
    );
    // A run is looked up in the stream that the caller may read, and in no other.
    let theirs = StreamId::of(&other(), &thread());
    let found = store.run_events(&theirs, &a.id, all, 9).await.unwrap();
    assert_eq!(found, []);
    // The run's part of the log begins where the log stood, and ends with the change that closes it.
    assert_eq!((a.log_from, b.log_from, a.log_to), (1, 1, None));
    let close = RunChange {
        phase: Some(Phase::Closed),
        ..RunChange::default()
    };
    let closed = store
        .change_run(&lease, close, vec![of(&a, None), event("last")])
        .await
        .unwrap();
    assert_eq!(closed.log_to, Some(first + 7));
    assert_eq!(store.run_any(&a.id).await.unwrap(), closed);
    store
        .append(&stream(), None, vec![event("after")])
        .await
        .unwrap();
    let own = (closed.log_from, first + 7);
    assert_eq!(seqs(&a, own, 9).await, [0, 3, 4, 6]);
}

async fn streams_do_not_mix(world: World) {
    let store = &world.store;
    let named = |account: &str, key: &str| {
        StreamId::of(&AccountId::new(account).unwrap(), &thread_named(key))
    };
    let streams = [
        named("a", "b:c"),
        named("a:b", "c"),
        named("a", "b"),
        named("1:a", "b"),
        named("b", "a"),
    ];
    for (n, stream) in streams.iter().enumerate() {
        let events = (0..=n).map(|_| event(&n.to_string())).collect();
        store.append(stream, None, events).await.unwrap();
    }
    for (n, stream) in streams.iter().enumerate() {
        let wanted: Vec<_> = (1..=n as i64 + 1)
            .map(|seq| (seq, format!("\"{n}\"")))
            .collect();
        assert_eq!(world.log(stream).await, wanted);
    }
}

async fn large_events_are_kept_whole(world: World) {
    let body = "x".repeat(3 << 20);
    let store = &world.store;
    let mut follower = store.subscribe(&stream(), 0);
    store
        .append(&stream(), None, vec![event(&body)])
        .await
        .unwrap();
    let seen = follower.next().await.unwrap();
    assert_eq!(seen.len(), 1);
    assert!(*seen[0].body == format!("\"{body}\""));
}

/// 64 writers, four streams, plain and fenced and refused appends, transactions that append,
/// transactions that fail: numbers stay dense, and a follower of each stream sees each event once.
async fn numbers_are_dense_under_mixed_load(world: World) {
    let threads = ["draft:0", "draft:1", "draft:2", "draft:3"].map(thread_named);
    let streams = threads.each_ref().map(|t| StreamId::of(&account(), t));
    let followers: Vec<_> = streams
        .iter()
        .map(|stream| {
            let mut follower = world.store.subscribe(stream, 0);
            tokio::spawn(async move {
                let mut seen = vec![];
                loop {
                    // A short patience: `next` is dropped and called again all the time.
                    match tokio::time::timeout(Duration::from_millis(3), follower.next()).await {
                        Err(_) => {}
                        Ok(Ok(events)) => {
                            for e in events.iter() {
                                if &*e.body == "\"stop\"" {
                                    return seen;
                                }
                                seen.push((e.seq, e.body.to_string()));
                            }
                        }
                        Ok(Err(e)) => panic!("{e:?}"),
                    }
                }
            })
        })
        .collect();

    let mut leases = vec![];
    for thread in &threads {
        let run = world.run_of(thread).await;
        let old = world.take(&run.id).await;
        leases.push((world.take(&run.id).await, old));
    }
    let writers = (0..64usize).map(|w| {
        let world = world.clone();
        let (stream, thread) = (streams[w % 4].clone(), threads[w % 4].clone());
        let (lease, stale) = leases[w % 4].clone();
        tokio::spawn(async move {
            let store = &world.store;
            let mut acknowledged = vec![];
            for n in 0..12 {
                let body = format!("{w}/{n}");
                let two = || vec![event(&body), event(&format!("{body}b"))];
                match (w / 4 + n) % 6 {
                    0 => {
                        let a = store.append(&stream, None, two()).await.unwrap();
                        assert_eq!(a.last, a.first + 1);
                        acknowledged.extend([
                            (a.first, format!("\"{body}\"")),
                            (a.last, format!("\"{body}b\"")),
                        ]);
                    }
                    1 => {
                        let a = store
                            .append(&stream, Some(&lease), vec![event(&body)])
                            .await;
                        acknowledged.push((a.unwrap().first, format!("\"{body}\"")));
                    }
                    2 => {
                        let refused = store.append(&stream, Some(&stale), two()).await;
                        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
                    }
                    3 => {
                        let changed = store
                            .change_run(&lease, RunChange::default(), vec![event(&body)])
                            .await;
                        changed.unwrap();
                    }
                    4 => {
                        let new = new_run(&account(), &thread, None);
                        store.admit(new, two()).await.unwrap();
                    }
                    _ => {
                        let refused = store
                            .end_run(&stale, end_with(RunStatus::Failed), two())
                            .await;
                        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
                        if store.dialect() == Dialect::Postgres {
                            // Fails after it got its number: PostgreSQL's text has no NUL.
                            let refused = store.append(&stream, None, vec![event("\0")]).await;
                            assert!(
                                matches!(refused, Err(StoreError::Invalid(_))),
                                "{refused:?}"
                            );
                        }
                    }
                }
            }
            (w % 4, acknowledged)
        })
    });
    let mut acknowledged: HashMap<usize, Vec<(i64, String)>> = HashMap::new();
    for writer in join_all(writers).await {
        let (n, events) = writer.unwrap();
        acknowledged.entry(n).or_default().extend(events);
    }
    for stream in &streams {
        world
            .store
            .append(stream, None, vec![event("stop")])
            .await
            .unwrap();
    }
    for (n, follower) in followers.into_iter().enumerate() {
        let seen = follower.await.unwrap();
        let mut log = world.log(&streams[n]).await;
        log.pop();
        for (at, (seq, _)) in log.iter().enumerate() {
            assert_eq!(*seq, at as i64 + 1);
        }
        assert_eq!(seen, log);
        for (seq, body) in acknowledged.remove(&n).unwrap() {
            assert_eq!(log[seq as usize - 1], (seq, body));
        }
    }
}

/// A caller whose future is dropped half-way either wrote everything or nothing, and whatever was
/// written reaches the followers.
async fn callers_that_go_away_leave_no_gap(world: World) {
    let mut follower = world.store.subscribe(&stream(), 0);
    let (_, lease) = world.leased().await;
    let callers: Vec<_> = (0..200u64)
        .map(|n| {
            let (store, lease) = (world.store.clone(), lease.clone());
            let caller = tokio::spawn(async move {
                let two = vec![event(&n.to_string()), event(&n.to_string())];
                if n % 2 == 0 {
                    store.append(&stream(), None, two).await.map(drop)
                } else {
                    let nothing = RunChange::default();
                    store.change_run(&lease, nothing, two).await.map(drop)
                }
            });
            let abort = caller.abort_handle();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(n * 37 % 3000)).await;
                abort.abort();
            });
            caller
        })
        .collect();
    join_all(callers).await;
    world
        .store
        .append(&stream(), None, vec![event("stop")])
        .await
        .unwrap();
    // Work of callers that are gone may still be on its way behind the last append.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let log = world.log(&stream()).await;
    let mut seen = vec![];
    while seen.len() < log.len() {
        let events = follower.next().await.unwrap();
        seen.extend(events.iter().map(|e| (e.seq, e.body.to_string())));
    }
    assert_eq!(seen[..log.len()], log);
    let mut pairs = HashMap::new();
    for (at, (seq, body)) in log.iter().enumerate() {
        assert_eq!(*seq, at as i64 + 1);
        *pairs.entry(body.clone()).or_insert(0) += 1;
    }
    pairs.remove("\"stop\"");
    assert!(pairs.values().all(|count| *count == 2), "{pairs:?}");
}
