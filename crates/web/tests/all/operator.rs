//! The operator's pages: every state with its reason, and the few things that can be done there.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{Code, Fault};

use crate::{
    scripted::Scripted,
    world::{World, browsing},
};

fn standing(text: &str) -> Value {
    json!({"why": format!("Why {text}"), "since": 1, "evidence": format!("Evidence {text}"), "seenAt": 2, "next": format!("Next {text}")})
}

fn run(text: &str, more: &Value) -> Value {
    let mut run = json!({
        "runId": text, "threadId": "draft:1", "runtime": format!("acp:{text}"), "sessionKey": text,
        "status": "running", "createdAt": 1, "standing": standing(text),
    });
    for (key, value) in more.as_object().unwrap() {
        run[key] = value.clone();
    }
    run
}

/// An app whose bridge has one of everything, with this text wherever others wrote something.
pub(crate) fn says(app: &Scripted, text: &str) {
    app.knows("draft:1", text);
    app.says("xworkmate.operator.status", json!({
        "version": text, "at": 1, "questions": 1,
        "open": {"queued": 1, "running": 2, "collecting": 0},
        "runtimes": [{
            "runtime": format!("acp:{text}"), "providerId": text, "label": text, "targets": ["agent"], "maxActive": 2,
            "maxQueued": 3, "available": false, "status": text, "active": 2, "queued": 1, "probedAt": 1,
            "lastError": {"runId": text, "threadId": "draft:9", "code": "AGENT_LOST", "message": text, "at": 1},
            "standing": standing(text),
        }],
        "hosts": [{
            "sessionKey": text, "threadId": "draft:1", "runtime": format!("acp:{text}"), "state": "silent", "pid": 41,
            "agentPid": 42, "startedAt": 1, "standing": standing(text),
        }],
    }));
    app.says("xworkmate.operator.runs", json!({"nextCursor": text, "runs": [
        run(text, &json!({"stage": "working", "startedAt": 1})),
        run(&format!("{text}-2"), &json!({"stage": "queued", "threadId": "other"})),
        run(&format!("{text}-3"), &json!({"status": "failed", "code": "AGENT_LOST", "startedAt": 1, "endedAt": 3001, "usage": {"inputTokens": 1500, "costUsd": 0.5}})),
        run(&format!("{text}-4"), &json!({"status": "failed", "code": "PROVIDER_UNAVAILABLE", "endedAt": 3001})),
    ]}));
    app.says("xworkmate.operator.sessions", json!({"sessions": [{
        "threadId": "draft:1", "runtime": "openclaw", "sessionKey": text, "open": true,
        "page": "http://127.0.0.1:18789/chat?session=x", "createdAt": 1, "standing": standing(text),
    }]}));
    let turn = |waits_for: &str| {
        json!({
            "threadId": "draft:1", "threadName": text, "requestId": "r", "prompt": text, "waitsFor": waits_for,
            "position": 1, "queued": 1, "attachments": 0, "queuedAtMs": 1,
        })
    };
    // One that waits for a place is counted as queued already.
    let turns = [turn("own_thread"), turn("place")];
    app.says(
        "app.queue.list",
        json!({"turns": turns, "queuedAtBridge": 0}),
    );
    app.says("xworkmate.questions.list", json!({"questions": [{
        "questionId": text, "threadId": "draft:1", "runId": text, "kind": "question", "text": text,
        "options": [{"optionId": "a", "label": text}], "freeText": false, "state": "open", "askedAt": 0,
    }]}));
}

fn contains(page: &str, wanted: &[&str]) {
    for words in wanted {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[tokio::test]
async fn every_state_is_told_with_its_reasons() {
    let (world, app) = World::scripted();
    says(&app, "t");
    let page = world.get("/operator").await.body;
    contains(
        &page,
        &[
            "2 running · 1 queued · 1 message waiting in its thread · 1 open question · version t",
            "<summary>Why t</summary>",
            "Evidence t",
            "Next t",
            "2 of 2 places taken · 1 of 3 queued",
            "cannot be reached",
            "last error ",
            "process <span class=\"num\">41</span>, agent <span class=\"num\">42</span>",
            "does not answer",
            // A question is answered where it stands, and brings back here.
            "data-rpc=\"app.answer\"",
            "name=\"back\" value=\"/operator\"",
            // A thread of another app has no page here.
            "<span class=\"what\"><code>other</code></span>",
            "<a class=\"what\" href=\"/threads/t\">t</a>",
        ],
    );
    // What goes on can be cancelled, what has ended cannot.
    assert_eq!(page.matches("data-rpc=\"app.operator.cancel\"").count(), 2);

    let page = world.get("/operator/runs?which=failed").await.body;
    contains(
        &page,
        &[
            "1.5 k tokens read, $0.50",
            "took 3.0 s",
            " · never began",
            "/operator/runs?which=failed&amp;before=t",
        ],
    );
    let page = world.get("/operator/sessions").await.body;
    contains(
        &page,
        &[
            "<a href=\"http://127.0.0.1:18789/chat?session=x\" target=\"_blank\" rel=\"noreferrer\">Open in OpenClaw</a>",
        ],
    );
    let asked: Vec<(String, Value)> = app
        .asked()
        .into_iter()
        .filter(|(m, _)| m == "xworkmate.operator.runs")
        .collect();
    assert_eq!(
        asked,
        [
            (
                "xworkmate.operator.runs".to_owned(),
                json!({"which": "open", "limit": 20})
            ),
            (
                "xworkmate.operator.runs".to_owned(),
                json!({"which": "failed"})
            ),
        ]
    );
}

#[tokio::test]
async fn a_cursor_goes_on_and_a_bad_one_is_refused_in_words() {
    let (world, app) = World::scripted();
    says(&app, "t");
    world.get("/operator/runs?before=17").await;
    let (_, params) = app
        .asked()
        .into_iter()
        .find(|(m, _)| m == "xworkmate.operator.runs")
        .unwrap();
    assert_eq!(params, json!({"which": "all", "cursor": "17"}));
    app.refuses(
        "xworkmate.operator.runs",
        Fault::invalid("`cursor` is not one that this server gave."),
    );
    let page = world.get("/operator/runs?before=x").await;
    assert_eq!(page.status, 400);
    contains(
        &page.body,
        &["<code>cursor</code> is not one that this server gave."],
    );
}

#[tokio::test]
async fn a_run_is_cancelled_without_script_too() {
    let (world, app) = World::scripted();
    app.says(
        "xworkmate.tasks.cancel",
        json!({"accepted": true, "cancelled": false}),
    );
    let answer = world
        .form("method=app.operator.cancel&threadId=draft%3A1&runId=turn-1&back=%2Foperator")
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, "/operator")
    );
    assert_eq!(
        app.asked(),
        [
            // The app hears first that somebody wanted it.
            (
                "cancel_own_run".to_owned(),
                json!({"threadId": "draft:1", "runId": "turn-1"})
            ),
            (
                "xworkmate.tasks.cancel".to_owned(),
                json!({"appThreadKey": "draft:1", "runId": "turn-1"})
            ),
        ]
    );
}

#[tokio::test]
async fn to_another_account_there_is_no_operators_page() {
    let (world, app) = World::scripted();
    says(&app, "t");
    let answer = crate::world::Answer::of(world.routes(Some("other")), browsing("/operator")).await;
    assert_eq!((answer.status.as_u16(), app.asked()), (404, vec![]));
    app.refuses(
        "xworkmate.operator.status",
        Fault::new(Code::DatabaseUnreachable, "The database does not answer."),
    );
    let page = world.get("/operator").await;
    contains(&page.body, &["The database does not answer."]);
}

#[tokio::test]
async fn turns_that_wait_in_the_app_stand_in_the_line_that_the_status_tells() {
    let (world, app) = World::scripted();
    says(&app, "t");
    app.waits("acp:t".parse().unwrap(), 2);
    let page = world.get("/operator").await.body;
    contains(&page, &["2 running · 3 queued", "3 of 3 queued"]);
}

fn question(id: &str, at: i64) -> Value {
    json!({
        "questionId": id, "threadId": "draft:1", "runId": "r", "kind": "question", "text": id,
        "options": [], "freeText": true, "state": "open", "askedAt": at,
    })
}

async fn rpc(world: &World, method: &str, params: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = axum::http::Request::post("/app/rpc").header("content-type", "application/json");
    let request = request.body(call.to_string().into()).unwrap();
    world.ask(request).await.json()
}

#[tokio::test]
async fn questions_come_from_the_engine_and_from_other_bridges() {
    let (world, app) = World::scripted();
    app.knows("draft:1", "rivers");
    app.says(
        "xworkmate.questions.list",
        json!({"questions": [question("new", 3), question("old", 1)]}),
    );
    // One of them is this very machine by another address.
    app.says(
        "questions_elsewhere",
        json!([question("theirs", 2), question("old", 1)]),
    );
    let found = rpc(&world, "app.questions", json!({})).await;
    let found = found["result"]["questions"].as_array().unwrap().iter();
    let found: Vec<(&str, &str)> = found
        .map(|q| {
            (
                q["text"].as_str().unwrap(),
                q["threadName"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [("old", "rivers"), ("theirs", "rivers"), ("new", "rivers")]
    );

    app.says("xworkmate.questions.answer", question("old", 1));
    rpc(
        &world,
        "app.answer",
        json!({"questionId": "old", "text": "x"}),
    )
    .await;
    let noted: Vec<String> = app.noted().iter().map(ToString::to_string).collect();
    assert_eq!(noted, ["old"]);

    // One of the others does not answer, which is said beside what is known.
    app.refuses("questions_elsewhere", Fault::invalid("It is away."));
    let home = world.get("/").await.body;
    contains(
        &home,
        &[
            "A bridge does not answer. </b>It is away.",
            "2 things need you",
        ],
    );

    // What the engine does not know is another bridge's.
    app.refuses(
        "xworkmate.questions.answer",
        Fault::new(Code::QuestionNotFound, "no"),
    );
    app.says("answer_elsewhere", question("theirs", 2));
    let answered = rpc(
        &world,
        "app.answer",
        json!({"questionId": "theirs", "text": "y"}),
    )
    .await;
    assert_eq!(answered["result"]["questionId"], "theirs");
    assert_eq!(
        app.asked().last().unwrap(),
        &(
            "answer_elsewhere".to_owned(),
            json!({"questionId": "theirs", "text": "y"})
        )
    );
}
