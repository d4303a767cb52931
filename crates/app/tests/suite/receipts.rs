//! What each run delivered lies in the workspace, also where not all of it came.

use std::{fs, path::PathBuf};

use pretty_assertions::assert_eq;
use threadline_contract::{
    Artifact, ArtifactPath, ArtifactScope, Receipt, Sha256,
    thread::{SyncStatus, TaskThread},
};

use crate::support::{Download, Plan, World, eventually, id, paths, sha, sync_of, tree};

/// Where the receipt of the thread's run lies.
fn path(world: &World, thread: &TaskThread) -> PathBuf {
    let run = thread.context_state.task_association.as_ref().unwrap();
    let run = run.run_id.as_ref().unwrap();
    let name = format!(".xworkmate/runs/{run}/receipt.json");
    world.workspace(thread).join(name)
}

/// The receipt of a run that delivered these files.
fn receipt(thread: &TaskThread, files: &[(&str, &str)]) -> Receipt {
    let run = thread.context_state.task_association.as_ref().unwrap();
    let (session, id) = (
        run.session_key.clone().unwrap(),
        run.run_id.clone().unwrap(),
    );
    let scope = ArtifactScope::of(&session, &id).unwrap();
    let files = files.iter().map(|(path, text)| Artifact {
        path: ArtifactPath::new(*path).unwrap(),
        size: text.len() as u64,
        sha256: sha(text.as_bytes()),
        content_type: "text/plain".into(),
    });
    Receipt::new(session, id, scope, files.collect()).unwrap()
}

#[tokio::test]
async fn every_run_leaves_its_own() {
    let world = World::new().await;
    let plan = Plan::done("ok").file("b.txt", "b").file("a.txt", "a");
    world.bridge.always(plan);
    let first = world.done("go").await;
    let want = receipt(&first, &[("a.txt", "a"), ("b.txt", "b")]);
    let kept = path(&world, &first);
    assert_eq!(fs::read(&kept).unwrap(), want.to_bytes().unwrap());
    assert_eq!(first.context_state.last_receipt, Some(want.digest()));

    world.bridge.always(Plan::done("ok").file("a.txt", "new"));
    world.send_to(id(&first), "again").await;
    let runs = |thread: &TaskThread| thread.context_state.task_association.clone();
    let second = world
        .until(id(&first), |t| {
            crate::support::settled(t) && runs(t) != runs(&first)
        })
        .await;
    let later = receipt(&second, &[("a.txt", "new")]);
    assert_eq!(
        fs::read(path(&world, &second)).unwrap(),
        later.to_bytes().unwrap()
    );
    assert_eq!(second.context_state.last_receipt, Some(later.digest()));
    assert_eq!(
        fs::read(&kept).unwrap(),
        want.to_bytes().unwrap(),
        "the first stays"
    );

    // One that was damaged is written anew by a sync, and so is one that was removed.
    for damage in [Some("{}"), None] {
        match damage {
            Some(text) => fs::write(path(&world, &second), text).unwrap(),
            None => fs::remove_file(path(&world, &second)).unwrap(),
        }
        world.app.sync(id(&second)).await.unwrap();
        eventually("it is whole again", || async {
            fs::read(path(&world, &second)).ok() == Some(later.to_bytes().unwrap())
        })
        .await;
        eventually("the sync is over", || async { world.app.busy() == 0 }).await;
    }
}

#[tokio::test]
async fn what_did_not_come_is_in_it_all_the_same() {
    let world = World::new().await;
    let gone = Download {
        always: Some(404),
        ..Download::default()
    };
    let plan = Plan::done("ok").file("a.txt", "a");
    world.bridge.always(plan.file_that("b.txt", "b", gone));
    let done = world.done("go").await;
    assert_eq!(
        done.context_state.last_artifact_sync_status,
        Some(SyncStatus::Partial)
    );
    assert_eq!(tree(&world.workspace(&done)), ["a.txt"]);
    let want = receipt(&done, &[("a.txt", "a"), ("b.txt", "b")]);
    assert_eq!(
        fs::read(path(&world, &done)).unwrap(),
        want.to_bytes().unwrap()
    );
}

#[tokio::test]
async fn a_list_that_does_not_come_to_its_receipt_is_told() {
    let world = World::new().await;
    let plan = Plan {
        receipt: Some(Sha256([7; 32])),
        ..Plan::done("ok").file("a.txt", "a")
    };
    world.bridge.always(plan);
    let done = world.done("go").await;
    assert_eq!(
        sync_of(&done),
        (
            SyncStatus::Partial,
            "RECEIPT_INVALID: The receipt was not kept: the bridge's list of files is not what its receipt (070707070707) says."
        )
    );
    assert_eq!(paths(&done), ["a.txt"]);
    assert_eq!(done.context_state.last_receipt, None);
    assert!(!path(&world, &done).exists());
}

#[tokio::test]
async fn files_that_were_removed_are_told_apart_from_missing_ones() {
    let world = World::new().await;
    let plan = Plan {
        removed: true,
        ..Plan::done("ok").file("a.txt", "a").file("b.txt", "b")
    };
    world.bridge.always(plan);
    let done = world.done("go").await;
    assert_eq!(
        sync_of(&done),
        (
            SyncStatus::Failed,
            "ARTIFACTS_REMOVED: 2 files were removed from the bridge to make room, and cannot be fetched any more."
        )
    );
    assert_eq!(
        world.bridge.ranges("a.txt").len(),
        0,
        "nobody asks for them"
    );
    let want = receipt(&done, &[("a.txt", "a"), ("b.txt", "b")]);
    assert_eq!(
        fs::read(path(&world, &done)).unwrap(),
        want.to_bytes().unwrap()
    );

    // What is here already needs no bridge.
    fs::write(world.workspace(&done).join("a.txt"), "a").unwrap();
    world.app.sync(id(&done)).await.unwrap();
    let done = world
        .until(id(&done), |t| {
            t.context_state.last_artifact_sync_status == Some(SyncStatus::Partial)
        })
        .await;
    assert_eq!(paths(&done), ["a.txt"]);
    assert_eq!(
        sync_of(&done).1,
        "ARTIFACTS_REMOVED: b.txt was removed from the bridge to make room, and cannot be fetched any more."
    );
}
