//! The files of a run: only its own, and only what was verified.

use pretty_assertions::assert_eq;
use threadline_app::api::{FilesNow, ListParams};
use threadline_contract::{
    Code, ResultCode,
    thread::{SyncStatus, SyncedFile, TaskThread},
};

use crate::support::{
    DELIVERED, Download, Plan, World, eventually, id, paths, settled, sha, standing, sync_of,
    transcript, tree,
};

#[tokio::test]
async fn a17_the_files_of_a_run_come_home_verified() {
    let world = World::new().await;
    world.bridge.always(
        Plan::done("two files")
            .file("reports/final ü.md", "# Done\n")
            .file("b.bin", vec![0, 1, 2])
            .file("empty", ""),
    );
    let thread = world.send_to_openclaw("go").await.thread;
    let done = world.settled(id(&thread)).await;
    assert_eq!(standing(&done), DELIVERED);
    assert_eq!(sync_of(&done), (SyncStatus::Synced, ""));
    assert_eq!(paths(&done), ["b.bin", "empty", "reports/final ü.md"]);
    let file = |path: &str, bytes: &[u8]| SyncedFile {
        path: threadline_contract::ArtifactPath::new(path).unwrap(),
        size: bytes.len() as u64,
        sha256: sha(bytes),
        content_type: "text/plain".into(),
        changed: false,
        missing: false,
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

/// How the files of the only thread are, as a list says it.
async fn listed(world: &World) -> Option<FilesNow> {
    let list = world.app.list(&ListParams::default()).await.unwrap();
    list.threads[0].files_now
}

#[tokio::test]
async fn a_list_looks_at_so_many_files_and_says_nothing_of_the_rest() {
    let world = World::new().await;
    let many = (0..2_001).fold(Plan::done("ok"), |plan, n| {
        plan.file(&format!("{n}.txt"), "x")
    });
    world.bridge.always(many);
    let thread = world.done("go").await;
    assert_eq!(paths(&thread).len(), 2_001);
    assert_eq!(listed(&world).await, None);
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
    assert_eq!(listed(&world).await, Some(FilesNow::AsDelivered));
    let folder = world.workspace(&thread);
    // A list says so too, of a file that was only touched nothing.
    std::fs::write(folder.join("touched.txt"), "t").unwrap();
    assert_eq!(listed(&world).await, Some(FilesNow::AsDelivered));
    std::fs::write(folder.join("edited.txt"), "two").unwrap();
    assert_eq!(listed(&world).await, Some(FilesNow::Changed));
    // Of the same length: only the bytes tell.
    std::fs::write(folder.join("edited.txt"), "two").unwrap();
    std::fs::write(folder.join("touched.txt"), "t").unwrap();
    std::fs::remove_file(folder.join("gone.txt")).unwrap();
    for _ in 0..2 {
        let now = world.thread(id(&thread)).await;
        assert_eq!(changed(&now), ["edited.txt", "gone.txt"]);
        let files = now.context_state.last_artifacts.iter();
        let missing: Vec<&str> = files
            .filter(|f| f.missing)
            .map(|f| f.path.as_str())
            .collect();
        assert_eq!(missing, ["gone.txt"]);
        assert_eq!(listed(&world).await, Some(FilesNow::Missing));
        let gone = world.app.file(id(&thread), "gone.txt").await.unwrap_err();
        assert_eq!(
            (gone.code, gone.message.as_str()),
            (
                Code::ArtifactNotFound,
                "`gone.txt` is missing in the thread's folder. Sync brings it back."
            )
        );
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
        assert!(!text.contains("\"missing\""), "{text}");
    }
}
