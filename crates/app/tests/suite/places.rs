//! Where files land: never outside, never over what is somebody else's.

use pretty_assertions::assert_eq;
use threadline_app::api::EarlierRun;
use threadline_contract::{Code, ResultCode, thread::SyncStatus};

use crate::support::{
    Download, Plan, World, eventually, id, paths, settled, sync_of, transcript, tree,
};

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

/// On some systems they are one; here both come, and the user is told.
#[tokio::test]
async fn names_that_differ_in_case_only_both_come_and_that_is_said() {
    let world = World::new().await;
    let plan = Plan::done("ok").file("Report.md", "one");
    world.bridge.always(plan.file("report.md", "two"));
    let done = world.done("go").await;
    assert_eq!(
        sync_of(&done),
        (
            SyncStatus::Synced,
            "`Report.md` and `report.md` have names that some systems take for one: both were delivered."
        )
    );
    assert_eq!(paths(&done), ["Report.md", "report.md"]);
    assert_eq!(world.read(&done, "report.md"), "two");
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
    let shown = world.app.show(id(&done)).await.unwrap();
    assert_eq!(
        shown.earlier,
        [
            EarlierRun {
                run_id: first.clone(),
                folder: folder.display().to_string(),
                files: 1,
                bytes: 8,
                paths: vec!["edited-too.md".into()],
                edited: vec!["edited-too.md".into()],
            },
            EarlierRun {
                run_id: first.clone(),
                folder: kept.display().to_string(),
                files: 2,
                bytes: 8,
                paths: vec!["final.md".into(), "only1.md".into()],
                edited: vec![],
            }
        ]
    );
    // What the user does with them there is told, and what he puts beside them is not the run's.
    std::fs::write(kept.join("final.md"), "eno").unwrap();
    std::fs::write(kept.join("beside.md"), "own").unwrap();
    let shown = world.app.show(id(&done)).await.unwrap();
    assert_eq!(
        (&shown.earlier[1].paths, &shown.earlier[1].edited),
        (
            &vec!["final.md".to_owned(), "only1.md".to_owned()],
            &vec!["final.md".to_owned()]
        )
    );
    std::fs::write(kept.join("final.md"), "one").unwrap();
    std::fs::remove_file(kept.join("beside.md")).unwrap();
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
    // What the turns before it delivered is still told, with the run that it came from, and so is what the
    // user does with it.
    let second = done.context_state.messages[2].run_id.clone().unwrap();
    std::fs::write(folder.join("final.md"), "owt").unwrap();
    let shown = world.app.show(id(&done)).await.unwrap();
    assert_eq!(
        shown.earlier[0],
        EarlierRun {
            run_id: second,
            folder: folder.display().to_string(),
            files: 4,
            bytes: 13,
            paths: ["edited.md", "final.md", "same.md", "taken.txt"]
                .map(Into::into)
                .into(),
            edited: vec!["final.md".into()],
        }
    );
    std::fs::write(folder.join("final.md"), "two").unwrap();
    let listed = world.app.list(&Default::default()).await.unwrap();
    let listed = &listed.threads[0];
    assert_eq!(
        (listed.files, listed.earlier_files, listed.earlier_bytes),
        // One that the second run delivered again, as it was, is one file.
        (0, 8, 27)
    );

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
