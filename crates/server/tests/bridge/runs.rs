//! Runs: one end, one execution, the right files, whatever happens in between.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_runtimes::LaneSize;

use crate::support::{Options, World, declares, turn, with};

fn paths(result: &Value) -> Vec<String> {
    let mut paths: Vec<String> = result["artifacts"]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["path"].as_str().unwrap().to_owned())
        .collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn only_this_runs_files_come_home() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, one) = world
        .run(&turn(
            "draft:1",
            "[[write reports/one.md = first]] [[say ok]]",
        ))
        .await;
    assert_eq!(paths(&one), ["reports/one.md"]);
    let other = world
        .run(&turn("draft:2", "[[write other.md = x]]"))
        .await
        .1;
    assert_eq!(paths(&other), ["other.md"]);
    // Turn 2 sees what turn 1 left, and delivers only what it made itself.
    let id = world
        .rpc(
            "session.message",
            turn(
                "draft:1",
                "[[write two.md = second]] [[read reports/one.md]] [[say {last}]]",
            ),
        )
        .await["result"]["runId"]
        .clone();
    let two = world.ended("draft:1").await;
    assert_eq!(two["text"], json!("first"));
    assert_eq!(
        (&two["runId"], paths(&two)),
        (&id, vec!["two.md".to_owned()])
    );
    // A file that is only claimed is not a file.
    let claim = world
        .run(&turn("draft:3", "[[say I saved report.pdf]]"))
        .await
        .1;
    assert_eq!(
        (
            &claim["status"],
            paths(&claim),
            &claim["artifacts"]["emptyReason"]
        ),
        (&json!("completed"), vec![], &json!("scope_empty"))
    );
    world.stop().await;
}

#[tokio::test]
async fn a_declared_deliverable_decides_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let missing = world
        .run(&declares(
            turn("draft:1", "[[write a.txt = x]] [[say saved report.pdf]]"),
            "**/*.pdf",
        ))
        .await
        .1; // B39
    assert_eq!(
        (
            &missing["status"],
            &missing["success"],
            &missing["code"],
            &missing["missing"]
        ),
        (
            &json!("artifact_missing"),
            &json!(false),
            &json!("OPENCLAW_REQUIRED_ARTIFACT_MISSING"),
            &json!([{"deliverable": {"glob": "**/*.pdf"}, "found": 0}])
        )
    );
    let there = world
        .run(&declares(turn("draft:2", "[[write a.txt = x]]"), "*.txt"))
        .await
        .1;
    assert_eq!(
        (&there["status"], &there["success"]),
        (&json!("completed"), &json!(true))
    );
    world.stop().await;
}

#[tokio::test]
async fn the_same_request_makes_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let params = with(
        turn("draft:1", "[[write a.txt = x]]"),
        json!({"requestId": "r-1"}),
    );
    let first = world.rpc("session.start", params.clone()).await["result"]["runId"].clone();
    let mut again = vec![];
    for _ in 0..5 {
        again.push(world.rpc("session.start", params.clone()).await["result"]["runId"].clone());
    }
    assert_eq!(again, vec![first.clone(); 5]); // B27
    assert_eq!(
        world
            .code(
                "session.start",
                with(params.clone(), json!({"prompt": "other"}))
            )
            .await,
        json!("IDEMPOTENCY_CONFLICT")
    );
    world.ended("draft:1").await;
    world.stop().await;
    // Also after a restart.
    let world = World::open(folder.path()).await;
    let after = world.rpc("session.start", params).await["result"].clone();
    assert_eq!(
        (&after["runId"], &after["status"]),
        (&first, &json!("completed"))
    );
    world.stop().await;
}

/// A message that was broken off is still what the run said.
#[tokio::test]
async fn a_stopped_run_tells_what_it_had_said() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let prompt = "[[write a.txt = x]] [[slow 100]] [[count 1000]]";
    world.rpc("session.start", turn("draft:1", prompt)).await;
    let said = async || {
        let log = world
            .http
            .get(format!("{}/acp/events?threadId=draft:1", world.url))
            .bearer_auth(crate::support::TOKEN);
        let page: Value = log.send().await.unwrap().json().await.unwrap();
        let events = page["events"].as_array().unwrap().clone();
        let texts = events.iter().filter_map(|e| e["update"]["text"].as_str());
        texts.collect::<String>()
    };
    while !said().await.contains("3 4") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.cancel("draft:1").await;
    let ended = world.ended("draft:1").await;
    assert_eq!(
        (&ended["status"], &ended["text"]),
        (&json!("cancelled"), &json!(said().await.trim()))
    );
    world.stop().await;
}

#[tokio::test]
async fn a_stop_is_a_request_until_the_registry_confirms() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let run = world
        .rpc(
            "session.start",
            turn("draft:1", "[[write early.txt = x]] [[hang]] [[say never]]"),
        )
        .await["result"]["runId"]
        .clone();
    world.at_stage("draft:1", "working").await;
    let receipt = world
        .rpc(
            "xworkmate.tasks.cancel",
            json!({"appThreadKey": "draft:1", "runId": run}),
        )
        .await["result"]
        .clone();
    assert_eq!(
        (&receipt["accepted"], &receipt["runId"]),
        (&json!(true), &run)
    );
    let ended = world.ended("draft:1").await;
    assert_eq!(
        (
            &ended["status"],
            &ended["success"],
            &ended["cancelRequested"]
        ),
        (&json!("cancelled"), &json!(false), &json!(true))
    );
    let again = world
        .rpc(
            "xworkmate.tasks.cancel",
            json!({"appThreadKey": "draft:1", "runId": run}),
        )
        .await["result"]
        .clone();
    assert_eq!(
        (&again["accepted"], &again["cancelled"]),
        (&json!(true), &json!(true))
    );
    // A stop after the end changes nothing.
    world.run(&turn("draft:2", "[[say done]]")).await;
    world.cancel("draft:2").await;
    assert_eq!(world.ended("draft:2").await["status"], json!("completed"));
    world.stop().await;
}

#[tokio::test]
async fn a_question_waits_over_a_restart_and_takes_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    world
        .rpc(
            "session.start",
            turn(
                "draft:1",
                "[[write a.txt = x]] [[ask Which colour?|red|blue]] [[say {last}]]",
            ),
        )
        .await;
    world.at_stage("draft:1", "waiting").await;
    let asked =
        world.rpc("xworkmate.questions.list", json!({})).await["result"]["questions"].clone();
    let question = asked[0]["questionId"].clone();
    assert_eq!(
        (&asked[0]["text"], asked.as_array().unwrap().len()),
        (&json!("Which colour?"), 1)
    );
    world.stop().await;

    let world = World::open(folder.path()).await;
    world.at_stage("draft:1", "waiting").await;
    assert_eq!(
        world.rpc("xworkmate.questions.list", json!({})).await["result"]["questions"],
        asked
    );
    let answer = "xworkmate.questions.answer";
    assert_eq!(
        world
            .code(answer, json!({"questionId": question, "optionId": "green"}))
            .await,
        json!("QUESTION_OPTION_NOT_OFFERED")
    );
    assert_eq!(
        world.code(answer, json!({"questionId": question})).await,
        json!("INVALID_REQUEST")
    );
    let option = asked[0]["options"][1]["optionId"].clone();
    let answered = world
        .rpc(answer, json!({"questionId": question, "optionId": option}))
        .await["result"]
        .clone();
    assert_eq!(
        (&answered["state"], &answered["closedBy"]),
        (&json!("answered"), &json!("test"))
    );
    let first = asked[0]["options"][0]["optionId"].clone();
    assert_eq!(
        world
            .code(answer, json!({"questionId": question, "optionId": first}))
            .await,
        json!("QUESTION_ALREADY_CLOSED")
    );
    let ended = world.ended("draft:1").await;
    assert_eq!(ended["status"], json!("completed"));
    assert!(ended["text"].as_str().unwrap().contains("blue"), "{ended}");
    assert_eq!(
        world.rpc("xworkmate.questions.list", json!({})).await["result"]["questions"],
        json!([])
    );
    world.stop().await;
}

#[tokio::test]
async fn the_lane_is_first_come_first_served_and_says_where_one_stands() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        lane: LaneSize {
            max_active: 1,
            max_queued: 2,
        },
        ..Options::default()
    };
    let world = World::with(folder.path(), options).await;
    world
        .rpc("session.start", turn("draft:1", "[[hang]] [[say never]]"))
        .await;
    world.at_stage("draft:1", "working").await;
    for n in 2..=3 {
        let handle = world
            .rpc("session.start", turn(&format!("draft:{n}"), "[[say hi]]"))
            .await["result"]
            .clone();
        assert_eq!(
            (&handle["status"], &handle["success"]),
            (&json!("running"), &json!(true))
        );
    }
    let place = async |thread: &str| {
        world
            .rpc("xworkmate.tasks.get", json!({"appThreadKey": thread}))
            .await["result"]["queue"]
            .clone()
    };
    assert_eq!(place("draft:3").await, json!({"position": 2, "queued": 2}));
    let busy = world.rpc("session.start", turn("draft:4", "x")).await["error"]["data"].clone(); // B29
    assert_eq!(
        busy,
        json!({"code": "RUNTIME_BUSY", "reason": "queue_full"})
    );
    // Stopping a waiting turn never sends it.
    world.cancel("draft:2").await;
    let stopped = world.ended("draft:2").await;
    assert_eq!(
        (&stopped["status"], &stopped["startedAt"]),
        (&json!("cancelled"), &Value::Null)
    );
    assert_eq!(place("draft:3").await, json!({"position": 1, "queued": 1}));
    world.cancel("draft:1").await;
    assert_eq!(world.ended("draft:3").await["status"], json!("completed"));
    world.stop().await;
}

#[tokio::test]
async fn queued_and_running_turns_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options {
        lane: LaneSize {
            max_active: 1,
            max_queued: 5,
        },
        ..Options::default()
    };
    let world = World::with(folder.path(), options()).await;
    for n in 1..=3 {
        world
            .rpc(
                "session.start",
                turn(
                    &format!("draft:{n}"),
                    "[[write a.txt = x]] [[sleep 300]] [[write b.txt = y]] [[say done]]",
                ),
            )
            .await;
    }
    world.at_stage("draft:1", "working").await;
    world.stop().await;
    let world = World::with(folder.path(), options()).await;
    for n in 1..=3 {
        let ended = world.ended(&format!("draft:{n}")).await;
        assert_eq!(
            (&ended["status"], paths(&ended)),
            (
                &json!("completed"),
                vec!["a.txt".to_owned(), "b.txt".to_owned()]
            ),
            "{ended}"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn a_closed_session_takes_no_message_and_start_opens_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, first) = world.run(&turn("draft:1", "[[say hi]]")).await;
    let closed = world
        .rpc("session.close", json!({"sessionId": "draft:1"}))
        .await["result"]
        .clone();
    assert_eq!(
        (&closed["accepted"], &closed["closed"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        world
            .code("session.message", turn("draft:1", "[[say x]]"))
            .await,
        json!("SESSION_CONTINUATION_UNAVAILABLE")
    );
    let (_, again) = world.run(&turn("draft:1", "[[say hi]]")).await;
    assert_eq!(again["sessionKey"], first["sessionKey"]);
    assert_eq!(first["sessionKey"], json!("builtin:main:draft:1"));
    world.stop().await;
}

#[tokio::test]
async fn two_accounts_may_use_the_same_thread_key() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    world.run(&turn("draft:1", "[[write mine.txt = x]]")).await;
    let other = world
        .rpc_as(
            crate::support::OTHER,
            "session.start",
            turn("draft:1", "[[list]] [[say {last}]]"),
        )
        .await["result"]
        .clone();
    let key = other["sessionKey"].as_str().unwrap();
    assert!(key.starts_with("builtin:main:draft:1-"), "{key}");
    for _ in 0..500 {
        let theirs = world
            .rpc_as(
                crate::support::OTHER,
                "xworkmate.tasks.get",
                json!({"appThreadKey": "draft:1"}),
            )
            .await["result"]
            .clone();
        if theirs["status"] != json!("running") {
            assert_eq!(theirs["status"], json!("completed"));
            assert!(
                !theirs["text"].as_str().unwrap().contains("mine.txt"),
                "{theirs}"
            );
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn attachments_are_inputs_and_never_come_back_as_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let params = with(
        turn(
            "draft:1",
            "[[write out.txt = y]] [[read attachments/in.txt]] [[say {last}]]",
        ),
        json!({"inlineAttachments": [{"name": "in.txt", "content": "c2VjcmV0IHdvcmQ="}]}),
    );
    let (_, result) = world.run(&params).await;
    assert_eq!(paths(&result), ["out.txt"]);
    assert!(
        result["text"].as_str().unwrap().contains("secret word"),
        "{result}"
    );
    assert!(
        std::fs::read_dir(folder.path().join("attachments"))
            .map_or(true, |mut d| d.next().is_none())
    );
    world.stop().await;
}
