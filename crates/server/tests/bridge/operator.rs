//! What an operator sees: every state with its reason, complete pages, and nothing of another account.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{AccountId, Actor, AppThreadKey, Millis, RunId, RuntimeId, SessionKey};
use threadline_runtimes::LaneSize;
use threadline_store::{Method, NewLease, NewRun};

use crate::support::{OTHER, Options, World, turn};

const STATUS: &str = "xworkmate.operator.status";
const RUNS: &str = "xworkmate.operator.runs";
const SESSIONS: &str = "xworkmate.operator.sessions";

/// Runs that another server drives.
async fn admit(world: &World, account: &str, count: usize) -> Vec<String> {
    let mut made = vec![];
    for n in 0..count {
        let thread = AppThreadKey::new(format!("draft:{n}")).unwrap();
        let new = NewRun {
            id: RunId::fresh(),
            account: AccountId::new(account).unwrap(),
            session_key: SessionKey::for_runtime("builtin", account, &thread),
            owner: thread.into(),
            runtime: RuntimeId::Builtin,
            method: Method::Start,
            turn: "{}".into(),
            request: None,
            begun_by: Actor::server(),
            lease: Some(NewLease {
                owner: "elsewhere".into(),
                until: Millis::now().plus(600_000),
            }),
            at: Millis::now(),
        };
        made.push(new.id.to_string());
        world.engine.store().admit(new, vec![]).await.unwrap();
    }
    made.reverse();
    made
}

fn ids(page: &Value) -> Vec<String> {
    let runs = page["runs"].as_array().unwrap().iter();
    runs.map(|run| run["runId"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_thousand_runs_are_paged_completely_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut made = admit(&world, "local", 1000).await;
    let (mut found, mut cursor, mut pages) = (vec![], Value::Null, 0);
    loop {
        let mut params = json!({"limit": 150});
        if cursor != Value::Null {
            params["cursor"] = cursor;
        }
        let page = world.rpc(RUNS, params).await["result"].clone();
        found.extend(ids(&page));
        pages += 1;
        cursor = page["nextCursor"].clone();
        if cursor == Value::Null {
            break;
        }
        // Those that come meanwhile are newer than everything that is still to be read.
        admit(&world, "local", 1).await;
    }
    assert_eq!((pages, found), (7, std::mem::take(&mut made)));
    // More than a page may have is a full page, not an error.
    let page = world.rpc(RUNS, json!({"limit": 5000})).await;
    assert_eq!(ids(&page["result"]).len(), 200);
    world.stop().await;
}

#[tokio::test]
async fn accounts_see_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, result) = world.run(&turn("draft:1", "[[fail 400]] [[say no]]")).await;
    assert_eq!(result["status"], json!("failed"));
    world
        .rpc("session.start", turn("draft:2", "[[ask Which?]]"))
        .await;
    world.at_stage("draft:2", "waiting").await;
    let theirs = admit(&world, "other", 1).await;

    let seen = async |token: &str| {
        let ask =
            async |method: &str| world.rpc_as(token, method, json!({})).await["result"].clone();
        let (status, runs, sessions) = (ask(STATUS).await, ask(RUNS).await, ask(SESSIONS).await);
        let errors: Vec<Value> = status["runtimes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["lastError"]["code"].clone())
            .collect();
        (
            json!([status["open"], status["questions"], status["hosts"], errors]),
            ids(&runs).len(),
            sessions["sessions"].as_array().unwrap().len(),
        )
    };
    assert_eq!(
        seen(crate::support::TOKEN).await,
        (
            json!([{"queued": 0, "running": 1, "collecting": 0}, 1, [], ["MODEL_FAILED"]]),
            2,
            2
        )
    );
    assert_eq!(
        seen(OTHER).await,
        (
            json!([{"queued": 1, "running": 0, "collecting": 0}, 0, [], [null]]),
            theirs.len(),
            0
        )
    );
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let bad_cursor = "`cursor` is not one that this server gave.";
    for (method, params, sentence) in [
        (RUNS, json!({"cursor": "next"}), bad_cursor),
        (RUNS, json!({"cursor": "-4"}), bad_cursor),
        (RUNS, json!({"cursor": ""}), bad_cursor),
        (SESSIONS, json!({"cursor": "1e9"}), bad_cursor),
        (SESSIONS, json!({"limit": 0}), "`limit` must be at least 1."),
    ] {
        let error = world.rpc(method, params).await["error"].clone();
        assert_eq!(
            (&error["data"]["code"], &error["message"]),
            (&json!("INVALID_REQUEST"), &json!(sentence))
        );
    }
    for params in [json!({"which": "some"}), json!({"pages": 2})] {
        assert_eq!(world.code(RUNS, params).await, json!("INVALID_REQUEST"));
    }
    world.stop().await;
}

#[tokio::test]
async fn every_state_says_why_and_what_happens_next() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        lane: LaneSize {
            max_active: 1,
            max_queued: 5,
        },
        ..Options::default()
    };
    let world = World::with(folder.path(), options).await;
    let done = world.run(&turn("draft:done", "[[say ok]]")).await.1;
    let failed = world
        .run(&turn("draft:failed", "[[fail 400]] [[say no]]"))
        .await
        .1;
    let start = async |thread: &str, prompt: &str| {
        world.rpc("session.start", turn(thread, prompt)).await["result"].clone()
    };
    let asks = start(
        "draft:asks",
        "[[ask Which colour?|red|blue]] [[hang]] [[say never]]",
    )
    .await;
    world.at_stage("draft:asks", "waiting").await;
    let behind = start("draft:asks", "[[say later]]").await;
    let queued = start("draft:queued", "[[say later]]").await;

    let told = async || {
        let page = world.rpc(RUNS, json!({})).await["result"].clone();
        let told: Vec<Value> = page["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| {
                let standing = &run["standing"];
                json!([
                    run["runId"],
                    run["status"],
                    run["stage"],
                    standing["why"],
                    standing["evidence"],
                    standing["next"]
                ])
            })
            .collect();
        json!(told)
    };
    let model = failed["message"].as_str().unwrap();
    assert_eq!(
        told().await,
        json!([
            [
                queued["runId"],
                "running",
                "queued",
                "All 1 places of Builtin agent are taken. It is number 2 of 2 in line.",
                "The lane, as it stands now.",
                "It begins by itself when a place is free and it is its turn."
            ],
            [
                behind["runId"],
                "running",
                "queued",
                "It waits for the turn before it on its session.",
                "The lane, as it stands now.",
                "It begins by itself when that turn has ended."
            ],
            [
                asks["runId"],
                "running",
                "waiting",
                "It asked something and waits for the answer.",
                "Event 4 of its thread: it asked something.",
                "It goes on as soon as somebody answers. The time until then counts against no limit."
            ],
            [
                failed["runId"],
                "failed",
                null,
                model,
                "Its runtime's own word, which was recorded then and stands.",
                "Nothing by itself; it can be sent again as a new run. The model endpoint answered with an error."
            ],
            [
                done["runId"],
                "completed",
                null,
                "Its runtime said that it is done.",
                "Its runtime's own word, which was recorded then and stands.",
                "Nothing. Its files can be fetched."
            ],
        ])
    );
    let page = world.rpc(RUNS, json!({"which": "open"})).await["result"].clone();
    assert_eq!(
        json!(ids(&page)),
        json!([queued["runId"], behind["runId"], asks["runId"]])
    );
    let page = world.rpc(RUNS, json!({"which": "failed"})).await["result"].clone();
    assert_eq!(json!(ids(&page)), json!([failed["runId"]]));

    let params = json!({"appThreadKey": "draft:asks", "runId": asks["runId"]});
    world.rpc("xworkmate.tasks.cancel", params).await;
    world.ended("draft:queued").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let ended = told().await;
    assert_eq!(
        [&ended[2][1], &ended[2][3], &ended[2][5]],
        [
            &json!("cancelled"),
            &json!("Somebody asked it to stop, and it did."),
            &json!("Nothing. A new message goes on with its session.")
        ]
    );
    world.stop().await;
}

#[tokio::test]
async fn sessions_are_told_with_their_threads() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let one = world.run(&turn("draft:1", "[[say ok]]")).await.1;
    world.run(&turn("draft:2", "[[say ok]]")).await;
    world
        .rpc("session.close", json!({"sessionId": "draft:2"}))
        .await;
    let page = world.rpc(SESSIONS, json!({})).await["result"].clone();
    let told: Vec<Value> = page["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| {
            json!([
                s["threadId"],
                s["runtime"],
                s["open"],
                s["standing"]["why"],
                s["standing"]["next"]
            ])
        })
        .collect();
    assert_eq!(
        json!(told),
        json!([
            [
                "draft:2",
                "builtin",
                false,
                "It was ended.",
                "Messages no longer go on with it; only a new start opens it again."
            ],
            [
                "draft:1",
                "builtin",
                true,
                "It takes turns.",
                "The next message of its thread goes on with it."
            ],
        ])
    );
    let session = &page["sessions"][1];
    assert_eq!(
        [
            &session["sessionKey"],
            &session["lastRun"],
            &session["page"]
        ],
        [&one["sessionKey"], &one["runId"], &Value::Null]
    );
    world.stop().await;
}
