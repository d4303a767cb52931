//! Files on their way: cut, renewed, large, many, late, stopped.

use std::{sync::atomic::Ordering, time::Duration};

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use threadline_app::api::AppEvent;
use threadline_contract::{
    ResultCode, method,
    thread::{Lifecycle, SyncStatus},
};

use crate::support::{
    Content, Download, Plan, World, eventually, id, paths, settled, sha, sync_of,
};

#[tokio::test]
async fn a31_a_download_goes_on_where_it_broke() {
    let world = World::new().await;
    let bytes: Vec<u8> = (0..1000u32).map(|n| n as u8).collect();
    let cut = |whole_only| Download {
        cuts: [700].into(),
        whole_only,
        ..Download::default()
    };
    world.bridge.always(
        Plan::done("ok")
            .file_that("ranged.bin", bytes.clone(), cut(false))
            .file_that("whole.bin", bytes.clone(), cut(true)),
    );
    let done = world.done("go").await;
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    for name in ["ranged.bin", "whole.bin"] {
        assert_eq!(
            std::fs::read(world.workspace(&done).join(name)).unwrap(),
            bytes
        );
        assert_eq!(world.bridge.ranges(name), [None, Some("bytes=700-".into())]);
    }
}

#[tokio::test]
async fn a31_a_download_that_is_cut_often_still_comes() {
    let world = World::new().await;
    let content = Content::Pattern(300_000);
    let cuts = Download {
        cuts: (1..30).map(|n| n * 10_000).collect(),
        ..Download::default()
    };
    world.bridge.always(Plan {
        files: vec![("big.bin".into(), content.clone(), cuts)],
        ..Plan::done("ok")
    });
    let done = world.done("go").await;
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    let stored = std::fs::read(world.workspace(&done).join("big.bin")).unwrap();
    assert_eq!(sha(&stored), content.sha256());
    assert_eq!(world.bridge.ranges("big.bin").len(), 30);
}

#[tokio::test]
async fn a31_a_part_survives_a_restart_of_the_app() {
    let mut world = World::with(|c| c.timings.silence = Duration::from_secs(20)).await;
    let bytes: Vec<u8> = (0..1000u32).map(|n| (n * 7) as u8).collect();
    let how = Download {
        cuts: [600].into(),
        ..Download::default()
    };
    world
        .bridge
        .always(Plan::done("ok").file_that("a.bin", bytes.clone(), how));
    let thread = world.send("go").await.thread;
    eventually("the second request", || async {
        !world.bridge.ranges("a.bin").is_empty()
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    // The next answers stand still; the app is stopped in the middle of one.
    world.bridge.download(&run, "a.bin", |d| d.silent = true);
    eventually("the second request", || async {
        world.bridge.ranges("a.bin").len() >= 2
    })
    .await;
    world.restart().await;
    world.bridge.download(&run, "a.bin", |d| d.silent = false);
    eventually("the third request", || async {
        world.bridge.ranges("a.bin").len() >= 3
    })
    .await;
    world.restart().await;
    let done = world.settled(id(&thread)).await;
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    assert_eq!(
        std::fs::read(world.workspace(&done).join("a.bin")).unwrap(),
        bytes
    );
    let ranges = world.bridge.ranges("a.bin");
    assert!(
        ranges[1..]
            .iter()
            .all(|r| r.as_deref() == Some("bytes=600-")),
        "{ranges:?}"
    );
}

#[tokio::test]
async fn a32_an_old_link_is_renewed_once_and_a_file_that_is_gone_is_named() {
    let world = World::new().await;
    let once = Download {
        statuses: [410].into(),
        ..Download::default()
    };
    let always = |status| Download {
        always: Some(status),
        ..Download::default()
    };
    world.bridge.always(
        Plan::done("ok")
            .file_that("old.txt", "o", once.clone())
            .file_that("older.txt", "p", once)
            .file_that("dead.txt", "d", always(410))
            .file_that("gone.txt", "g", always(404)),
    );
    let done = world.done("go").await;
    let (status, detail) = sync_of(&done);
    assert_eq!(status, SyncStatus::Partial);
    assert_eq!(
        detail,
        "OPENCLAW_REQUIRED_ARTIFACT_MISSING: dead.txt is listed, but no longer there.\n\
         OPENCLAW_REQUIRED_ARTIFACT_MISSING: gone.txt is listed, but no longer there."
    );
    assert_eq!(paths(&done), ["old.txt", "older.txt"]);
    let tries = |path| world.bridge.ranges(path).len();
    assert_eq!(
        [
            tries("old.txt"),
            tries("older.txt"),
            tries("dead.txt"),
            tries("gone.txt")
        ],
        [2, 2, 2, 1]
    );
    let fresh = world.bridge.calls(method::TASKS_GET);
    let fresh = fresh
        .iter()
        .filter(|c| c.params["maxFiles"] == 1000)
        .count();
    assert_eq!(fresh, 1);
}

#[tokio::test]
async fn a_link_to_another_host_is_not_followed() {
    let world = World::new().await;
    for link in [
        "http://127.0.0.1:1/x",
        "//evil.example/x",
        "https://evil.example/x",
        "file:///etc/passwd",
    ] {
        let how = Download {
            link: Some(link.into()),
            ..Download::default()
        };
        world
            .bridge
            .always(Plan::done("ok").file_that("a.txt", "a", how));
        let done = world.done("go").await;
        let (status, detail) = sync_of(&done);
        assert_eq!(status, SyncStatus::Failed);
        assert!(detail.contains("does not lead to the bridge"), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a37_a_large_file_comes_in_constant_memory_and_nothing_waits_for_it() {
    let world = World::new().await;
    let content = Content::Pattern(200 << 20);
    world.bridge.always(Plan {
        files: vec![("large.bin".into(), content.clone(), Download::default())],
        ..Plan::done("ok")
    });
    let thread = world.send("go").await.thread;
    let mut events = Box::pin(
        world
            .app
            .events(id(&thread), threadline_app::api::Begin::After(0))
            .await
            .unwrap(),
    );
    eventually("the download begins", || async {
        !world.bridge.ranges("large.bin").is_empty()
    })
    .await;
    let before = resident();
    let mut peak = before;
    let mut slowest = Duration::ZERO;
    loop {
        let begun = std::time::Instant::now();
        let now = world.thread(id(&thread)).await;
        slowest = slowest.max(begun.elapsed());
        peak = peak.max(resident());
        if settled(&now) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let done = world.settled(id(&thread)).await;
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    assert_eq!(done.context_state.last_artifacts[0].size, 200 << 20);
    let grown = peak.saturating_sub(before);
    assert!(grown < 48 << 20, "{} MiB more", grown >> 20);
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    let (mut told, mut verified) = (Vec::new(), false);
    while !verified {
        match tokio::time::timeout(Duration::from_secs(5), events.next()).await {
            Ok(Some(AppEvent::File(file))) => {
                assert_eq!((file.path.as_str(), file.total), ("large.bin", 200 << 20));
                told.push(file.done);
                verified = file.verified;
            }
            Ok(Some(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(told.len() > 2 && told.is_sorted(), "{told:?}");
    assert_eq!(told.last(), Some(&(200 << 20)));
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test]
async fn every_page_of_a_long_list_is_fetched() {
    let world = World::new().await;
    world.bridge.shared.page.store(7, Ordering::SeqCst);
    let mut plan = Plan::done("many");
    for n in 0..100 {
        plan = plan.file(&format!("f/{n:03}.txt"), format!("{n}").as_str());
    }
    world.bridge.always(plan);
    let done = world.done("go").await;
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    assert_eq!(paths(&done).len(), 100);
    assert_eq!(world.read(&done, "f/099.txt"), "99");
}

#[tokio::test]
async fn files_that_are_still_being_collected_are_waited_for() {
    let world = World::new().await;
    world.bridge.always(Plan {
        pending: 3,
        ..Plan::done("ok").file("a.txt", "a")
    });
    let thread = world.send("go").await.thread;
    let early = world
        .until(id(&thread), |t| {
            t.lifecycle_state.status == Lifecycle::Ready
        })
        .await;
    assert_eq!(sync_of(&early).0, SyncStatus::Syncing);
    let done = world.settled(id(&thread)).await;
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    assert_eq!(paths(&done), ["a.txt"]);
}

#[tokio::test]
async fn files_on_their_way_can_be_stopped_and_brought_later() {
    let world = World::with(|c| c.timings.silence = Duration::from_secs(20)).await;
    let how = Download {
        silent: true,
        ..Download::default()
    };
    world
        .bridge
        .always(Plan::done("ok").file_that("a.txt", "abc", how));
    let thread = world.send("go").await.thread;
    eventually("the download begins", || async {
        !world.bridge.ranges("a.txt").is_empty()
    })
    .await;
    world.app.cancel(id(&thread)).await.unwrap();
    let stopped = world.settled(id(&thread)).await;
    assert_eq!(
        stopped.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    assert_eq!(sync_of(&stopped).0, SyncStatus::Failed);
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    world.bridge.download(&run, "a.txt", |d| d.silent = false);
    world.app.sync(id(&thread)).await.unwrap();
    let done = world
        .until(id(&thread), |t| settled(t) && !paths(t).is_empty())
        .await;
    assert_eq!(world.read(&done, "a.txt"), "abc");
}
