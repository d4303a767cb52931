//! Bringing files home: all of them, only them, whole or not at all.

use std::{path::Path, sync::atomic::Ordering, time::Duration};

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use threadline_app::api::AppEvent;
use threadline_contract::{
    Code, ResultCode, method,
    thread::{Lifecycle, SyncStatus, SyncedFile, TaskThread},
};

use crate::support::{
    Content, Download, Plan, World, eventually, on_openclaw, paths, settled, sha, standing,
    transcript,
};

fn id(thread: &TaskThread) -> &str {
    thread.thread_id.as_str()
}

fn sync_of(thread: &TaskThread) -> (SyncStatus, &str) {
    let context = &thread.context_state;
    let detail = context
        .last_artifact_sync_detail
        .as_deref()
        .unwrap_or_default();
    (context.last_artifact_sync_status.unwrap(), detail)
}

/// Everything in a workspace but our own notes.
fn tree(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, prefix: &str, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if name == ".xworkmate" {
            } else if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{name}/"), out);
            } else {
                out.push(name);
            }
        }
    }
    let mut out = Vec::new();
    walk(folder, "", &mut out);
    out.sort();
    out
}

#[tokio::test]
async fn a17_the_files_of_a_run_come_home_verified() {
    let world = World::new().await;
    world.bridge.always(
        Plan::done("two files")
            .file("reports/final ü.md", "# Done\n")
            .file("b.bin", vec![0, 1, 2])
            .file("empty", ""),
    );
    let thread = world.app.send(on_openclaw("go")).await.unwrap().thread;
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        standing(&done),
        (
            Lifecycle::Ready,
            Some(ResultCode::Success),
            Some(SyncStatus::Synced)
        )
    );
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    assert_eq!(paths(&done), ["b.bin", "empty", "reports/final ü.md"]);
    let file = |path: &str, bytes: &[u8]| SyncedFile {
        path: threadline_contract::ArtifactPath::new(path).unwrap(),
        size: bytes.len() as u64,
        sha256: sha(bytes),
        content_type: "text/plain".into(),
        changed: false,
    };
    assert_eq!(
        done.context_state.last_artifacts,
        [
            file("b.bin", &[0, 1, 2]),
            file("empty", b""),
            file("reports/final ü.md", b"# Done\n")
        ]
    );
    assert_eq!(
        tree(&world.workspace(&done)),
        ["b.bin", "empty", "reports/final ü.md"]
    );
    let (opened, known) = world
        .app
        .file(id(&done), "reports/final ü.md")
        .await
        .unwrap();
    assert_eq!(known.size, 7);
    assert_eq!(std::io::read_to_string(opened).unwrap(), "# Done\n");
    for bad in ["other", "../secret", ".xworkmate/owner.json", "/etc/passwd"] {
        assert_eq!(
            world.app.file(id(&done), bad).await.unwrap_err().code,
            Code::ArtifactNotFound
        );
    }
    eventually("the list shows them", || async {
        let summary = &world.app.list(&Default::default()).await.unwrap().threads[0];
        (summary.files, summary.bytes) == (3, 10)
    })
    .await;
    // Nothing is fetched twice.
    world.app.sync(id(&done)).await.unwrap();
    eventually("the second sync", || async { world.app.busy() == 0 }).await;
    let again = world.settled(id(&done)).await;
    assert_eq!(
        again.context_state.last_artifacts,
        done.context_state.last_artifacts
    );
    assert_eq!(transcript(&again).len(), 2);
    assert_eq!(world.bridge.ranges("b.bin").len(), 1);
    // What was lost here is brought again.
    std::fs::remove_file(world.workspace(&done).join("b.bin")).unwrap();
    world.app.sync(id(&done)).await.unwrap();
    eventually("the third sync", || async {
        world.workspace(&done).join("b.bin").exists()
    })
    .await;
    assert_eq!(world.bridge.ranges("b.bin").len(), 2);
    // A file without bytes needs no request: its digest is known.
    assert_eq!(world.bridge.ranges("empty").len(), 0);
}

#[tokio::test]
async fn a27_files_of_another_run_are_refused() {
    let world = World::new().await;
    for scope in ["tasks/agent-main-other/turn-1", "tasks/x/../y", "/etc", ""] {
        let plan = Plan {
            scope: Some(scope.into()),
            ..Plan::done("ok").file("a.txt", "a")
        };
        world.bridge.always(plan);
        let done = world.done("go").await;
        let (status, detail) = sync_of(&done);
        assert_eq!(status, SyncStatus::Failed, "{scope}");
        assert!(detail.starts_with("scope_mismatch: "), "{detail}");
        // The run succeeded all the same.
        assert_eq!(
            done.lifecycle_state.last_result_code,
            Some(ResultCode::Success)
        );
        assert_eq!(tree(&world.workspace(&done)), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a28_a29_a_wrong_file_is_not_put_in_place_and_the_others_are() {
    let world = World::new().await;
    let wrong_bytes = Download {
        instead: Some("XXXX".into()),
        ..Download::default()
    };
    let too_short = Download {
        listed_size: Some(9),
        ..Download::default()
    };
    let too_long = Download {
        listed_size: Some(2),
        ..Download::default()
    };
    let broken = Download {
        always: Some(500),
        ..Download::default()
    };
    world.bridge.always(
        Plan::done("mixed")
            .file("good.txt", "good")
            .file_that("wrong.txt", "good", wrong_bytes.clone())
            .file_that("short.txt", "good", too_short)
            .file_that("long.txt", "good", too_long)
            .file_that("broken.txt", "good", broken),
    );
    let done = world.done("go").await;
    let (status, detail) = sync_of(&done);
    assert_eq!(status, SyncStatus::Partial);
    let lines: Vec<&str> = detail.lines().collect();
    assert_eq!(lines.len(), 4, "{detail}");
    assert!(
        lines[0].starts_with("ACP_BAD_ANSWER: broken.txt could not be fetched"),
        "{detail}"
    );
    assert!(
        lines[1].starts_with("ACP_BAD_ANSWER: long.txt has another size"),
        "{detail}"
    );
    assert!(
        lines[2].contains("short.txt could not be fetched: "),
        "{detail}"
    );
    assert!(
        lines[3].starts_with("ACP_BAD_ANSWER: wrong.txt has another digest"),
        "{detail}"
    );
    assert_eq!(paths(&done), ["good.txt"]);
    assert_eq!(tree(&world.workspace(&done)), ["good.txt"]);

    world
        .bridge
        .always(Plan::done("bad").file_that("wrong.txt", "good", wrong_bytes));
    let failed = world.done("go").await;
    assert_eq!(sync_of(&failed).0, SyncStatus::Failed);
    assert_eq!(
        failed.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    // Mended at the bridge, it comes with the next sync.
    let run = world.bridge.run_of(&failed.thread_id).unwrap();
    world
        .bridge
        .download(&run, "wrong.txt", |d| d.instead = None);
    world.app.sync(id(&failed)).await.unwrap();
    let mended = world
        .until(id(&failed), |t| settled(t) && !paths(t).is_empty())
        .await;
    assert_eq!(sync_of(&mended), (SyncStatus::Synced, ""));
}

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
async fn a33_unsafe_names_are_refused_and_nothing_is_written_outside() {
    let world = World::new().await;
    let bad = [
        "../../.ssh/authorized_keys",
        "/etc/x",
        "C:\\x",
        "a/../../b",
        "",
        "a//b",
        ".xworkmate/owner.json",
        ".xworkmate/ledger.json",
    ];
    let mut plan = Plan::done("ok")
        .file("good.txt", "g")
        .file("good.txt", "again");
    for path in bad {
        plan = plan.file(path, "evil");
    }
    world.bridge.always(plan);
    let before = tree(world.dir.path());
    let done = world.done("go").await;
    let (status, detail) = sync_of(&done);
    assert_eq!(status, SyncStatus::Partial);
    assert_eq!(detail.lines().count(), bad.len() + 1, "{detail}");
    assert_eq!(paths(&done), ["good.txt"]);
    assert_eq!(world.read(&done, "good.txt"), "g");
    let owner = world.read(&done, ".xworkmate/owner.json");
    assert!(owner.contains(id(&done)), "{owner}");
    let grown: Vec<String> = tree(world.dir.path())
        .into_iter()
        .filter(|p| !before.contains(p))
        .collect();
    let outside: Vec<&String> = grown
        .iter()
        .filter(|p| !p.starts_with("data/") && !p.contains("threads/draft-"))
        .collect();
    assert_eq!(outside, Vec::<&String>::new());
}

#[tokio::test]
async fn a33_links_in_the_workspace_are_not_followed() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    let outside = world.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("b.txt"), "mine").unwrap();
    let folder = world.workspace(&thread);
    std::os::unix::fs::symlink(&outside, folder.join("dir")).unwrap();
    std::os::unix::fs::symlink(outside.join("b.txt"), folder.join("b.txt")).unwrap();
    eventually("the run", || async {
        world.bridge.run_of(&thread.thread_id).is_some()
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    world.bridge.complete(
        &run,
        Plan::done("ok")
            .file("dir/a.txt", "evil")
            .file("b.txt", "run's"),
    );
    let done = world.settled(id(&thread)).await;
    assert_eq!(sync_of(&done).0, SyncStatus::Partial);
    assert_eq!(paths(&done), ["b.txt"]);
    assert_eq!(tree(&outside), ["b.txt"]);
    assert_eq!(
        std::fs::read_to_string(outside.join("b.txt")).unwrap(),
        "mine"
    );
    assert_eq!(world.read(&done, "b.txt"), "run's");
    assert!(
        !std::fs::symlink_metadata(folder.join("b.txt"))
            .unwrap()
            .is_symlink()
    );
}

#[tokio::test]
async fn a33_a_workspace_that_became_a_link_is_not_followed() {
    let world = World::new().await;
    world.bridge.always(Plan::done("ok").file("a.txt", "one"));
    let thread = world.done("go").await;
    let folder = world.workspace(&thread);
    let outside = world.dir.path().join("outside");
    std::fs::rename(&folder, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &folder).unwrap();
    // It has all the stamps of the real one; it is a link all the same.
    world.bridge.always(Plan::done("ok").file("a.txt", "two"));
    world.send_to(id(&thread), "again").await;
    let done = world.settled(id(&thread)).await;
    let (status, detail) = sync_of(&done);
    assert_eq!(status, SyncStatus::Failed);
    assert_eq!(
        detail,
        format!(
            "CONFLICT: {} is a link or a file where the thread's folder should be, and was not followed. Move it away and sync again.",
            folder.display()
        )
    );
    assert_eq!(
        std::fs::read_to_string(outside.join("a.txt")).unwrap(),
        "one"
    );
    let refused = world.app.file(id(&thread), "a.txt").await.unwrap_err();
    assert_eq!(refused.code, Code::ArtifactNotFound);
    // Moved away, the files come.
    std::fs::remove_file(&folder).unwrap();
    world.app.sync(id(&thread)).await.unwrap();
    let done = world
        .until(id(&thread), |t| {
            t.context_state.last_artifact_sync_status == Some(SyncStatus::Synced)
        })
        .await;
    assert_eq!(world.read(&done, "a.txt"), "two");
}

#[tokio::test]
async fn a_file_that_was_edited_is_not_called_verified() {
    let mut world = World::new().await;
    let plan = Plan::done("ok");
    let plan = plan.file("same.txt", "same").file("edited.txt", "one");
    let plan = plan.file("touched.txt", "t").file("gone.txt", "g");
    world.bridge.always(plan);
    let thread = world.done("go").await;
    let changed = |thread: &TaskThread| {
        let files = thread.context_state.last_artifacts.iter();
        let changed = files.filter(|f| f.changed).map(|f| f.path.to_string());
        changed.collect::<Vec<_>>()
    };
    assert_eq!(changed(&thread), Vec::<String>::new());
    let folder = world.workspace(&thread);
    // Of the same length: only the bytes tell.
    std::fs::write(folder.join("edited.txt"), "two").unwrap();
    std::fs::write(folder.join("touched.txt"), "t").unwrap();
    std::fs::remove_file(folder.join("gone.txt")).unwrap();
    for _ in 0..2 {
        let now = world.thread(id(&thread)).await;
        assert_eq!(changed(&now), ["edited.txt", "gone.txt"]);
        for (path, want) in [
            ("same.txt", false),
            ("edited.txt", true),
            ("touched.txt", false),
        ] {
            let (mut file, synced) = world.app.file(id(&thread), path).await.unwrap();
            assert_eq!(synced.changed, want, "{path}");
            let mut text = String::new();
            std::io::Read::read_to_string(&mut file, &mut text).unwrap();
            assert_eq!(text, world.read(&thread, path));
        }
        world.restart().await;
    }
    // What is on the disk about it says nothing of how it stood when somebody looked.
    let record = std::fs::read_dir(world.config.data.join("threads")).unwrap();
    for entry in record {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains("\"changed\""), "{text}");
    }
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

#[tokio::test]
async fn a35_the_open_holds_this_runs_files_and_the_users_and_earlier_ones_are_kept_apart() {
    let world = World::new().await;
    world.bridge.always(
        Plan::done("1")
            .file("final.md", "one")
            .file("only1.md", "first")
            .file("edited.md", "one")
            .file("edited-too.md", "one")
            .file("same.md", "same"),
    );
    let thread = world.done("one").await;
    let folder = world.workspace(&thread);
    let first = world.bridge.run_of(&thread.thread_id).unwrap();
    std::fs::write(folder.join("edited.md"), "mine").unwrap();
    std::fs::write(folder.join("edited-too.md"), "mine too").unwrap();
    std::fs::write(folder.join("own.txt"), "own").unwrap();
    std::fs::write(folder.join("taken.txt"), "own").unwrap();

    world.bridge.always(
        Plan::done("2")
            .file("final.md", "two")
            .file("edited.md", "two")
            .file("taken.txt", "two")
            .file("same.md", "same"),
    );
    world.send_to(id(&thread), "two").await;
    let done = world
        .until(id(&thread), |t| settled(t) && transcript(t).len() == 4)
        .await;
    assert_eq!(
        paths(&done),
        ["edited.md", "final.md", "same.md", "taken.txt"]
    );
    let (status, detail) = sync_of(&done);
    assert_eq!(status, SyncStatus::Synced);
    assert_eq!(
        detail,
        "2 files of earlier runs moved to .xworkmate/runs.\n\
         Your own edited.md was kept as edited.yours.md.\n\
         Your own taken.txt was kept as taken.yours.txt."
    );
    let all = tree(&folder);
    assert_eq!(
        all,
        [
            "edited-too.md",
            "edited.md",
            "edited.yours.md",
            "final.md",
            "own.txt",
            "same.md",
            "taken.txt",
            "taken.yours.txt"
        ]
    );
    let read = |name: &str| world.read(&done, name);
    assert_eq!(
        [read("final.md"), read("edited.md"), read("taken.txt")],
        ["two", "two", "two"]
    );
    assert_eq!(
        [
            read("edited.yours.md"),
            read("taken.yours.txt"),
            read("edited-too.md"),
            read("own.txt")
        ],
        ["mine", "own", "mine too", "own"]
    );
    let kept = folder.join(format!(".xworkmate/runs/{first}/files"));
    assert_eq!(tree(&kept), ["final.md", "only1.md"]);
    assert_eq!(
        std::fs::read_to_string(kept.join("final.md")).unwrap(),
        "one"
    );

    // A turn that only talks moves nothing.
    world.bridge.always(Plan::done("3"));
    world.send_to(id(&thread), "three").await;
    let done = world
        .until(id(&thread), |t| settled(t) && transcript(t).len() == 6)
        .await;
    assert_eq!(paths(&done), Vec::<&str>::new());
    assert_eq!(tree(&folder), all);

    // A second clash keeps both of the user's.
    std::fs::write(folder.join("edited.md"), "mine again").unwrap();
    world
        .bridge
        .always(Plan::done("4").file("edited.md", "four"));
    world.send_to(id(&thread), "four").await;
    let done = world
        .until(id(&thread), |t| settled(t) && transcript(t).len() == 8)
        .await;
    let read = |name: &str| world.read(&done, name);
    assert_eq!(
        [
            read("edited.md"),
            read("edited.yours.md"),
            read("edited.yours-2.md")
        ],
        ["four", "mine", "mine again"]
    );
}

#[tokio::test]
async fn a36_two_runs_of_a_thread_bring_their_files_one_after_the_other() {
    let world = World::new().await;
    let slow = Download {
        cuts: (1..20).map(|n| n * 50).collect(),
        ..Download::default()
    };
    let bytes = |n: u8| vec![n; 1000];
    world
        .bridge
        .always(Plan::done("1").file_that("a.bin", bytes(1), slow.clone()));
    let thread = world.send("one").await.thread;
    eventually("the first sync", || async {
        !world.bridge.ranges("a.bin").is_empty()
    })
    .await;
    world
        .bridge
        .always(Plan::done("2").file_that("a.bin", bytes(2), slow));
    world.send_to(id(&thread), "two").await;
    let done = world
        .until(id(&thread), |t| {
            settled(t) && transcript(t).len() == 4 && !paths(t).is_empty()
        })
        .await;
    assert_eq!(
        std::fs::read(world.workspace(&done).join("a.bin")).unwrap(),
        bytes(2)
    );
    let first = world.bridge.runs().remove(0);
    let kept = world
        .workspace(&done)
        .join(format!(".xworkmate/runs/{first}/files/a.bin"));
    assert_eq!(std::fs::read(kept).unwrap(), bytes(1));
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
    let mut events = Box::pin(world.app.events(id(&thread), 0).await.unwrap());
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
async fn a_disk_that_takes_nothing_is_named() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    eventually("the run", || async {
        world.bridge.run_of(&thread.thread_id).is_some()
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    // The folder's place is taken by a file: nothing can be put there.
    let folder = world.workspace(&thread);
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    world
        .bridge
        .complete(&run, Plan::done("ok").file("a.txt", "a"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    assert_eq!(sync_of(&done).0, SyncStatus::Failed);
    // Mended, it comes.
    std::fs::remove_file(&folder).unwrap();
    world.app.sync(id(&thread)).await.unwrap();
    let done = world
        .until(id(&thread), |t| settled(t) && !paths(t).is_empty())
        .await;
    assert_eq!(world.read(&done, "a.txt"), "a");
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
