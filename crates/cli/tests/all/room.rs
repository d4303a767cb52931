//! Making room: what goes, what stays, and what a thread says when its files are gone.

use std::{fs, path::PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{World, name_of};

/// Where a run's files and the notes about it lie at the bridge.
fn places(world: &World) -> (PathBuf, PathBuf, Value) {
    let threads = world.run(&["threads", "--json"]).ended(0).json();
    let view = world.thread(threads["threads"][0]["name"].as_str().unwrap());
    let run = view["thread"]["contextState"]["taskAssociation"].clone();
    let scope = run["artifactScope"].as_str().unwrap();
    let (session, name) = scope.rsplit_once('/').unwrap();
    let data = world.data();
    (
        data.join(scope),
        data.join(format!("{session}/.xworkmate/runs/{name}")),
        run,
    )
}

#[test]
fn nothing_goes_without_a_rule_and_nothing_that_links_lead_to() {
    let world = World::new();
    world.run(&["run", "hello"]).ended(0);
    let said = world.run(&["artifacts", "gc"]).ended(2);
    assert!(said.err.contains("--older-than 30d"), "{said:?}");
    let said = world.run(&["artifacts", "gc", "--dry-run"]).ended(0).out;
    assert!(
        said.starts_with("The files of 1 run have ") && said.contains("artifacts.keep_days"),
        "{said}"
    );
    for bad in [["--older-than", "30"], ["--keep-bytes", "much"]] {
        world.run(&["artifacts", "gc", bad[0], bad[1]]).ended(2);
    }
    let (scope, _, run) = places(&world);
    for more in [&[][..], &["--dry-run"]] {
        let words = [&["artifacts", "gc", "--keep-bytes", "0", "--json"], more].concat();
        let said = world.run(&words).ended(0).json();
        assert_eq!(
            (&said["removedRuns"], &said["keptRuns"], &said["dryRun"]),
            (&json!(0), &json!(1), &json!(!more.is_empty()))
        );
        assert_eq!(
            (&said["kept"][0]["scope"], &said["kept"][0]["why"]),
            (&run["artifactScope"], &json!("held"))
        );
        assert!(scope.join("notes.md").exists());
    }
    let said = world
        .run(&["artifacts", "gc", "--older-than", "30d"])
        .ended(0);
    assert!(said.out.starts_with("Nothing went.\n"), "{said:?}");
}

#[test]
fn a_thread_whose_files_were_removed_says_so() {
    let world = World::new();
    let name = name_of(&world.run(&["run", "hello"]).ended(0));
    let (scope, notes, run) = places(&world);
    let thread = world.thread(&name)["thread"].clone();
    let folder = thread["workspaceBinding"]["workspacePath"]
        .as_str()
        .unwrap();
    // As an interrupted removal leaves it: from here on the files are gone for everybody.
    let stone = json!({
        "sessionKey": run["sessionKey"], "runId": run["runId"], "scope": run["artifactScope"],
        "removedAt": 1_700_000_000, "why": "age", "files": 4, "bytes": 1000,
    });
    fs::write(notes.join("tombstone.json"), stone.to_string()).unwrap();

    // What is here already is enough.
    world.run(&["sync", &name]).ended(0);
    fs::remove_file(format!("{folder}/notes.md")).unwrap();
    let said = world.run(&["sync", &name]).ended(6);
    assert!(
        said.out
            .contains("! ARTIFACTS_REMOVED: notes.md was removed from the bridge to make room"),
        "{said:?}"
    );
    assert!(
        said.out
            .contains(&format!("Retry   threadline retry {name}")),
        "{said:?}"
    );
    let state = world.thread(&name)["thread"]["contextState"].clone();
    assert_eq!(state["lastArtifactSyncStatus"], "partial");
    // The folder still knows what was delivered.
    let said = world.run(&["verify", &name, "--json"]).ended(6).json();
    assert_eq!(
        said["findings"],
        json!([{"path": "notes.md", "runId": run["runId"], "what": "missing"}])
    );

    // The removal is finished by the next one; the receipt stays.
    let said = world
        .run(&["artifacts", "gc", "--older-than", "30d", "--dry-run"])
        .ended(0);
    assert!(said.out.contains(&name), "{said:?}");
    assert!(
        said.out.contains("left by an interrupted removal"),
        "{said:?}"
    );
    assert!(scope.exists());
    let said = world
        .run(&["artifacts", "gc", "--older-than", "30d", "--json"])
        .ended(0)
        .json();
    assert_eq!(
        (
            &said["removedRuns"],
            &said["removed"][0]["why"],
            &said["removed"][0]["runId"]
        ),
        (&json!(1), &json!("unfinished"), &run["runId"])
    );
    assert_eq!(
        said["names"],
        json!({thread["threadId"].as_str().unwrap(): name})
    );
    assert!(!scope.exists());
    assert!(notes.join("receipt.json").exists());
    // A new run makes the same bytes, and they prove both.
    world.run(&["retry", &name]).ended(0);
    world.run(&["verify", &name]).ended(0);
}
