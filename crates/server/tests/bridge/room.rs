//! What runs delivered is known for ever, and their files make room.

use std::{fs, path::Path, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{Artifact, ArtifactScope, Receipt, RunId, SessionKey};
use threadline_engine::Keep;

use crate::support::{OTHER, Options, TOKEN, World, turn};

const WRITES: &str = "[[write a.txt = alpha]] [[write b/c.txt = gamma]]";

fn receipt_of(snapshot: &Value) -> Receipt {
    let items = snapshot["artifacts"]["items"].as_array().unwrap();
    let files = items.iter().map(|item| Artifact {
        path: serde_json::from_value(item["path"].clone()).unwrap(),
        size: item["size"].as_u64().unwrap(),
        sha256: serde_json::from_value(item["sha256"].clone()).unwrap(),
        content_type: item["contentType"].as_str().unwrap().to_owned().into(),
    });
    let session: SessionKey = serde_json::from_value(snapshot["sessionKey"].clone()).unwrap();
    let run: RunId = serde_json::from_value(snapshot["runId"].clone()).unwrap();
    let scope = ArtifactScope::of(&session, &run).unwrap();
    Receipt::new(session, run, scope, files.collect()).unwrap()
}

/// The notes about a run, beside its files.
fn notes(folder: &Path, snapshot: &Value) -> std::path::PathBuf {
    let scope = snapshot["artifactScope"].as_str().unwrap();
    let (session, run) = scope.rsplit_once('/').unwrap();
    folder.join(format!("{session}/.xworkmate/runs/{run}"))
}

/// Leaves a run as an interrupted removal does.
fn interrupt_removal(folder: &Path, snapshot: &Value) {
    let stone = json!({
        "sessionKey": snapshot["sessionKey"], "runId": snapshot["runId"],
        "scope": snapshot["artifactScope"], "removedAt": 1_700_000_000, "why": "bytes",
        "files": 3, "bytes": 10,
    });
    let path = notes(folder, snapshot).join("tombstone.json");
    fs::write(path, stone.to_string()).unwrap();
}

async fn gc(world: &World, token: &str, params: Value) -> Value {
    let answer = world.rpc_as(token, "xworkmate.artifacts.gc", params).await;
    answer["result"].clone()
}

fn nothing(kept: Value) -> Value {
    json!({
        "dryRun": false, "removedRuns": 0, "freedBytes": 0, "removed": [],
        "keptRuns": kept.as_array().unwrap().len(), "kept": kept, "unknown": 0,
    })
}

#[tokio::test]
async fn a_run_has_a_receipt_and_asking_again_reads_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, result) = world.run(&turn("draft:1", WRITES)).await;
    let receipt = receipt_of(&result);
    assert_eq!(result["artifacts"]["receipt"], json!(receipt.digest()));
    assert_eq!(
        fs::read(notes(folder.path(), &result).join("receipt.json")).unwrap(),
        receipt.to_bytes().unwrap()
    );

    let read = world.workspace.content_bytes_read();
    assert!(read > 0, "they were read once");
    for _ in 0..3 {
        let again = world.ended("draft:1").await;
        let facts = |snapshot: &Value| {
            let items = snapshot["artifacts"]["items"].as_array().unwrap().clone();
            let facts = items.into_iter().map(|mut item| {
                item.as_object_mut().unwrap().remove("url");
                item
            });
            facts.collect::<Vec<_>>()
        };
        assert_eq!(facts(&again), facts(&result));
        assert_eq!(
            again["artifacts"]["receipt"],
            result["artifacts"]["receipt"]
        );
    }
    assert_eq!(world.workspace.content_bytes_read(), read);
    world.stop().await;

    // A restart changes nothing about it.
    let world = World::open(folder.path()).await;
    let again = world.ended("draft:1").await;
    assert_eq!(
        again["artifacts"]["receipt"],
        result["artifacts"]["receipt"]
    );
    assert_eq!(world.workspace.content_bytes_read(), 0);
    world.stop().await;
}

#[tokio::test]
async fn a_run_without_files_has_a_receipt_too() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, result) = world.run(&turn("draft:1", "[[say nothing]]")).await;
    assert_eq!(result["artifacts"]["total"], 0);
    let receipt = receipt_of(&result);
    assert_eq!(result["artifacts"]["receipt"], json!(receipt.digest()));
    world.stop().await;
}

#[tokio::test]
async fn what_is_used_stays_and_other_accounts_are_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    for params in [json!({}), json!({"dryRun": false}), json!({"maxAge": 1})] {
        let code = world.code("xworkmate.artifacts.gc", params).await;
        assert_eq!(code, "INVALID_REQUEST");
    }
    let (_, mut result) = world.run(&turn("draft:1", WRITES)).await;
    world
        .rpc("session.start", turn("draft:2", "[[ask Which?]]"))
        .await;
    world.at_stage("draft:2", "waiting").await;
    let running = world
        .rpc("xworkmate.tasks.get", json!({"appThreadKey": "draft:2"}))
        .await;

    let everything = json!({"maxAgeSeconds": 0, "maxBytes": 0});
    let mut said = gc(&world, TOKEN, everything.clone()).await;
    let kept = said["kept"].as_array_mut().unwrap();
    kept.sort_by_key(|k| k["why"].as_str().unwrap().to_owned());
    let until = kept[0].as_object_mut().unwrap().remove("until").unwrap();
    assert!(until.as_i64().unwrap() > threadline_contract::Millis::now().0);
    let bytes = said.as_object_mut().unwrap().remove("bytesAfter").unwrap();
    assert!(bytes.as_u64().unwrap() > 0);
    let want = json!([
        {"scope": result["artifactScope"], "why": "held"},
        {"scope": running["result"]["artifactScope"], "why": "live"},
    ]);
    assert_eq!(said, nothing(want));
    let mut theirs = gc(&world, OTHER, everything).await;
    assert_eq!(
        theirs.as_object_mut().unwrap().remove("bytesAfter"),
        Some(json!(0))
    );
    assert_eq!(theirs, nothing(json!([])));
    result = world.ended("draft:1").await;
    assert_eq!(result["artifacts"]["removed"], Value::Null);
    world.stop().await;
}

/// Who only asks need not say by which rule.
#[tokio::test]
async fn a_dry_run_alone_says_what_the_operators_rule_would_remove() {
    let alone = json!({"dryRun": true});
    for keep in [
        Keep::FOR_EVER,
        Keep {
            max_age: None,
            max_bytes: Some(0),
        },
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            keep,
            ..Options::default()
        };
        let world = World::with(folder.path(), options).await;
        let (_, result) = world.run(&turn("draft:1", WRITES)).await;
        let mut said = gc(&world, TOKEN, alone.clone()).await;
        let said = said.as_object_mut().unwrap();
        assert!(said.remove("bytesAfter").unwrap().as_u64() > Some(0));
        for kept in said["kept"].as_array_mut().unwrap() {
            kept.as_object_mut().unwrap().remove("until");
        }
        // Links lead to them, so they stay in any case.
        let kept = match keep.max_bytes {
            None => json!([]),
            Some(_) => json!([{"scope": result["artifactScope"], "why": "held"}]),
        };
        let mut want = nothing(kept);
        want["dryRun"] = json!(true);
        assert_eq!(json!(said), want);
        world.stop().await;
    }
}

#[tokio::test]
async fn removed_files_are_listed_and_told_apart_from_missing_ones() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, result) = world.run(&turn("draft:1", WRITES)).await;
    let notes = notes(folder.path(), &result);
    let scope = folder
        .path()
        .join(result["artifactScope"].as_str().unwrap());
    interrupt_removal(folder.path(), &result);

    let after = world.ended("draft:1").await;
    assert_eq!(
        after["artifacts"]["removed"],
        json!({"at": 1_700_000_000_000_i64, "why": "bytes"})
    );
    assert_eq!(
        after["artifacts"]["total"], 2,
        "what they were is still known"
    );
    assert_eq!(
        after["artifacts"]["receipt"],
        result["artifacts"]["receipt"]
    );
    for snapshot in [&result, &after] {
        let url = snapshot["artifacts"]["items"][0]["url"].as_str().unwrap();
        let answer = world
            .http
            .get(format!("{}{url}", world.url))
            .bearer_auth(TOKEN)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 410);
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["error"]["data"]["code"], "ARTIFACTS_REMOVED");
    }

    let rule = json!({"maxAgeSeconds": 2_592_000});
    let theirs = gc(&world, OTHER, rule.clone()).await;
    assert_eq!(theirs["removedRuns"], 0);
    assert!(scope.exists());
    let mut said = gc(&world, TOKEN, rule.clone()).await;
    let gone = said["removed"][0].as_object_mut().unwrap();
    assert!(gone.remove("bytes").unwrap().as_u64() > Some(10));
    assert!(gone.remove("changedAt").unwrap().as_i64() > Some(0));
    assert!(gone.remove("files").unwrap().as_u64() >= Some(2));
    assert_eq!(
        said["removed"],
        json!([{
            "threadId": "draft:1", "runId": result["runId"], "scope": result["artifactScope"],
            "why": "unfinished",
        }])
    );
    assert!(!scope.exists());
    assert!(notes.join("receipt.json").exists());
    let again = gc(&world, TOKEN, rule).await;
    assert_eq!(again["removedRuns"], 0, "asking again changes nothing");
    // The thread goes on.
    let (_, next) = world.run(&turn("draft:1", WRITES)).await;
    assert_eq!(next["artifacts"]["total"], 2);
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_was_told_so_makes_room_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, gone) = world.run(&turn("draft:1", WRITES)).await;
    let (_, stays) = world.run(&turn("draft:2", WRITES)).await;
    world.stop().await;
    interrupt_removal(folder.path(), &gone);
    let scope = |run: &Value| folder.path().join(run["artifactScope"].as_str().unwrap());

    // Without a rule nothing is touched, not even that.
    let world = World::open(folder.path()).await;
    world.ended("draft:2").await;
    world.stop().await;
    assert!(scope(&gone).exists());

    let options = Options {
        keep: Keep {
            max_age: None,
            max_bytes: Some(1),
        },
        ..Options::default()
    };
    let world = World::with(folder.path(), options).await;
    for _ in 0..500 {
        if !scope(&gone).exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!scope(&gone).exists());
    assert!(scope(&stays).exists(), "links lead to it");
    world.stop().await;
}
