//! Deleting a thread leaves what the user made or edited in its folder, and names it.

use std::{fs, os::unix::fs::symlink, path::Path};

use pretty_assertions::assert_eq;
use threadline_app::{
    App,
    api::{DeleteParams, Deleted, DeletionPreview, FileTotal, OwnFile},
};
use threadline_contract::{Code, thread::TaskThread};

use crate::support::{Plan, World, deletion, id, tree};

/// A thread with files of two runs, some of which the user touched, and files of the user's own.
async fn touched(world: &World) -> TaskThread {
    let first = Plan::done("1").file("old.txt", "old").file("kept.txt", "k");
    world.bridge.always(first);
    let thread = world.done("first").await;
    let second = Plan::done("2")
        .file("report.md", "# Report")
        .file("data/a.csv", "a,b")
        .file("data/b.csv", "c,d");
    world.bridge.always(second);
    world.send_to(id(&thread), "second").await;
    let thread = world.settled(id(&thread)).await;
    let folder = world.workspace(&thread);
    fs::write(folder.join("report.md"), "# My report").unwrap();
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    fs::write(folder.join("deep/er/x.bin"), "xyz").unwrap();
    fs::create_dir_all(folder.join("empty")).unwrap();
    symlink("/etc", folder.join("link")).unwrap();
    // An earlier run's file, which lies among our notes by now.
    let run = &thread.context_state.messages[0].run_id.clone().unwrap();
    let earlier = folder.join(format!(".xworkmate/runs/{run}/files/old.txt"));
    fs::write(earlier, "older than old").unwrap();
    world.app.archive(id(&thread)).await.unwrap();
    thread
}

fn own(path: &str, size: u64, edited: bool) -> OwnFile {
    OwnFile {
        path: path.to_owned(),
        size,
        edited,
    }
}

fn mine(thread: &TaskThread) -> Vec<OwnFile> {
    let run = thread.context_state.messages[0].run_id.clone().unwrap();
    vec![
        own(&format!(".xworkmate/runs/{run}/files/old.txt"), 14, true),
        own("deep/er/x.bin", 3, false),
        own("link", 4, false),
        own("notes.txt", 4, false),
        own("report.md", 11, true),
    ]
}

const MINE: FileTotal = FileTotal {
    files: 5,
    bytes: 36,
};

fn path(folder: &Path) -> String {
    folder.display().to_string()
}

#[tokio::test]
async fn what_a_deletion_would_remove_is_told_before() {
    let world = World::new().await;
    let thread = touched(&world).await;
    let before = tree(&world.workspace(&thread));
    let preview = world.app.delete_preview(&thread.name).await.unwrap();
    assert_eq!(
        preview,
        DeletionPreview {
            thread_id: thread.thread_id.clone(),
            name: thread.name.clone(),
            folder: Some(path(&world.workspace(&thread))),
            delivered: FileTotal { files: 3, bytes: 7 },
            yours: mine(&thread),
            yours_total: MINE,
            yours_digest: preview.yours_digest.clone(),
        }
    );
    assert_eq!(tree(&world.workspace(&thread)), before);
}

#[tokio::test]
async fn files_of_the_user_stay_and_are_named() {
    let world = World::new().await;
    let thread = touched(&world).await;
    let folder = world.workspace(&thread);
    let deleted = world.app.delete(deletion(&thread)).await.unwrap();
    assert_eq!(
        deleted,
        Deleted {
            thread_id: thread.thread_id.clone(),
            name: thread.name.clone(),
            removed_folder: None,
            kept_folder: Some(path(&folder)),
            kept: mine(&thread),
            kept_total: MINE,
            pending: None,
        }
    );
    assert_eq!(
        tree(&folder),
        ["deep/er/x.bin", "link", "notes.txt", "report.md"]
    );
    assert!(!folder.join("empty").exists() && !folder.join("data").exists());
    assert_eq!(
        fs::read_to_string(folder.join("report.md")).unwrap(),
        "# My report"
    );
    assert!(world.app.show(id(&thread)).await.is_err());
}

#[tokio::test]
async fn files_of_the_user_go_too_when_that_is_asked_for() {
    let world = World::new().await;
    let thread = touched(&world).await;
    let folder = world.workspace(&thread);
    let all = DeleteParams {
        with_my_files: true,
        ..deletion(&thread)
    };
    let deleted = world.app.delete(all).await.unwrap();
    assert_eq!(
        (deleted.removed_folder, deleted.kept_folder, deleted.kept),
        (Some(path(&folder)), None, vec![])
    );
    assert!(!folder.exists());
}

#[tokio::test]
async fn files_that_were_not_shown_before_a_deletion_do_not_go() {
    let world = World::new().await;
    let thread = touched(&world).await;
    let folder = world.workspace(&thread);
    let shown = world.app.delete_preview(&thread.name).await.unwrap();
    let all = |digest: &str| DeleteParams {
        with_my_files: true,
        yours_digest: Some(digest.to_owned()),
        ..deletion(&thread)
    };
    for (name, content) in [("later.txt", "new"), ("notes.txt", "more of mine")] {
        let was = fs::read(folder.join(name)).ok();
        fs::write(folder.join(name), content).unwrap();
        let before = tree(&folder);
        let refused = world.app.delete(all(&shown.yours_digest)).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            (
                refused.code,
                refused.message.contains("Nothing was deleted.")
            ),
            (Code::Conflict, true)
        );
        assert_eq!(tree(&folder), before);
        assert!(world.app.show(id(&thread)).await.is_ok());
        match was {
            Some(was) => fs::write(folder.join(name), was).unwrap(),
            None => fs::remove_file(folder.join(name)).unwrap(),
        }
    }
    // As they were shown, they go.
    let deleted = world.app.delete(all(&shown.yours_digest)).await.unwrap();
    assert_eq!(deleted.removed_folder, Some(path(&folder)));
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_leaves_the_files_of_the_user_too() {
    let mut world = World::new().await;
    let thread = touched(&world).await;
    world.app.close().await.unwrap();
    // A note of an earlier version does not say what becomes of them.
    let note = serde_json::json!({
        "threadId": thread.thread_id, "endpointId": "local",
        "folder": world.workspace(&thread), "requests": [],
    });
    let name = {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        format!("{}.json", URL_SAFE_NO_PAD.encode(id(&thread)))
    };
    let place = world.config.data.join("deleting").join(name);
    fs::write(place, note.to_string()).unwrap();
    world.app = App::open(world.config.clone()).await.unwrap();
    assert_eq!(
        tree(&world.workspace(&thread)),
        ["deep/er/x.bin", "link", "notes.txt", "report.md"]
    );
}

/// Files that the user put among our notes are the user's like any other.
#[tokio::test]
async fn files_of_the_user_among_our_notes_stay_too() {
    let world = World::new().await;
    world.bridge.always(Plan::done("ok").file("a.txt", "a"));
    let thread = world.done("go").await;
    world.app.archive(id(&thread)).await.unwrap();
    let folder = world.workspace(&thread);
    let run = thread.context_state.messages[0].run_id.clone().unwrap();
    let paths = [
        ".xworkmate/deep/er/todo.md".to_owned(),
        ".xworkmate/mine.txt".to_owned(),
        format!(".xworkmate/runs/{run}/mine.txt"),
        ".xworkmate/runs/mine.txt".to_owned(),
    ];
    for path in &paths {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), "mine").unwrap();
    }
    // A write of ours that was cut short is not.
    fs::write(folder.join(".xworkmate/.threadline-1-1.tmp"), "x").unwrap();
    let mut mine: Vec<OwnFile> = paths.iter().map(|path| own(path, 4, false)).collect();
    mine.sort_by(|a, b| a.path.cmp(&b.path));
    let all = FileTotal {
        files: 4,
        bytes: 16,
    };
    let preview = world.app.delete_preview(&thread.name).await.unwrap();
    assert_eq!(
        preview,
        DeletionPreview {
            thread_id: thread.thread_id.clone(),
            name: thread.name.clone(),
            folder: Some(path(&folder)),
            delivered: FileTotal { files: 1, bytes: 1 },
            yours: mine.clone(),
            yours_total: all,
            yours_digest: preview.yours_digest.clone(),
        }
    );
    let deleted = world.app.delete(deletion(&thread)).await.unwrap();
    assert_eq!(
        deleted,
        Deleted {
            thread_id: thread.thread_id.clone(),
            name: thread.name.clone(),
            removed_folder: None,
            kept_folder: Some(path(&folder)),
            kept: mine,
            kept_total: all,
            pending: None,
        }
    );
    for path in &paths {
        assert_eq!(fs::read_to_string(folder.join(path)).unwrap(), "mine");
    }
    assert_eq!(tree(&folder), Vec::<String>::new());
}
