//! What the command line and the pages say to the app, and what they hear.

use std::path::Path;

use axum::{body::Body, http::Request};
use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_app::api::AppEvent;
use threadline_contract::{AppThreadKey, Code, Fault, Millis, RunId, SessionUpdate, UpdateKind};
use tower::ServiceExt as _;

use crate::world::{World, thread};

#[tokio::test]
async fn the_local_api_speaks_json_rpc() {
    let (world, app) = World::scripted();
    app.says("app.cancel", json!({"ok": true}));
    app.refuses(
        "app.archive",
        Fault::new(Code::ThreadBusy, "It runs.").with("reason", "running"),
    );
    let send = async |body: Body| {
        world
            .ask(Request::post("/app/rpc").body(body).unwrap())
            .await
    };
    let ask = async |body: Value| send(body.to_string().into()).await;
    let good =
        ask(json!({"jsonrpc": "2.0", "id": 7, "method": "app.cancel", "params": {"thread": "a"}}))
            .await;
    assert_eq!(
        (good.status.as_u16(), good.json()),
        (
            200,
            json!({"jsonrpc": "2.0", "id": 7, "result": {"ok": true}})
        )
    );
    let bad = ask(json!({"jsonrpc": "2.0", "id": "x", "method": "app.archive"})).await;
    assert_eq!(
        (bad.status.as_u16(), bad.json()),
        (
            200,
            json!({"jsonrpc": "2.0", "id": "x", "error": {"code": -32002, "message": "It runs.", "data": {"code": "THREAD_BUSY", "reason": "running"}}})
        )
    );
    let quiet = ask(json!({"jsonrpc": "2.0", "method": "app.cancel"})).await;
    assert_eq!((quiet.status.as_u16(), quiet.body.as_str()), (204, ""));
    assert_eq!(
        app.asked(),
        [
            ("app.cancel".into(), json!({"thread": "a"})),
            ("app.archive".into(), json!({})),
            ("app.cancel".into(), json!({}))
        ]
    );

    for (body, status, code) in [
        ("{", 400, "INVALID_JSON"),
        ("[]", 400, "INVALID_ENVELOPE"),
        ("{\"jsonrpc\":\"1.0\"}", 400, "INVALID_ENVELOPE"),
    ] {
        let refused = send(body.into()).await;
        assert_eq!(
            (
                refused.status.as_u16(),
                refused.json()["error"]["data"]["code"].as_str()
            ),
            (status, Some(code)),
            "{body}"
        );
    }
    let huge = send(vec![b' '; (40 << 20) + 1].into()).await;
    assert_eq!(
        (
            huge.status.as_u16(),
            huge.json()["error"]["data"]["code"].as_str()
        ),
        (413, Some("BODY_TOO_LARGE"))
    );
    let wrong = world
        .ask(Request::get("/app/rpc").body(Body::empty()).unwrap())
        .await;
    assert_eq!(
        (wrong.status.as_u16(), wrong.header("allow")),
        (405, "POST")
    );
}

#[tokio::test]
async fn events_can_be_resumed_and_end_with_the_server() {
    let (world, app) = World::scripted();
    let key = AppThreadKey::new("draft:1").unwrap();
    let update = SessionUpdate {
        text: Some("a\nb".into()),
        ..SessionUpdate::new(
            &key,
            &RunId::new("turn-1").unwrap(),
            UpdateKind::Delta,
            "delta",
            Millis(5),
        )
    };
    app.tells(vec![
        AppEvent::Update(42, Box::new(update.clone())),
        AppEvent::Removed(key),
    ]);
    let request = Request::get("/app/events?thread=rivers&after=3")
        .header("last-event-id", "41")
        .body(Body::empty())
        .unwrap();
    let response = world.routes(Some("local")).oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut frames = response.into_body().into_data_stream();
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(String::from_utf8(frames.next().await.unwrap().unwrap().to_vec()).unwrap());
    }
    let data = serde_json::to_string(&serde_json::to_value(&update).unwrap()).unwrap();
    assert_eq!(
        heard,
        [
            "retry: 1000\n\n".to_owned(),
            format!("event: update\nid: 42\ndata: {data}\n\n"),
            "event: removed\ndata: {\"threadId\":\"draft:1\"}\n\n".to_owned()
        ]
    );
    world.stop.cancel();
    assert!(frames.next().await.is_none());

    // The header wins over the address; without it the address counts.
    let again = Request::get("/app/events?thread=rivers&after=3")
        .body(Body::empty())
        .unwrap();
    world.routes(Some("local")).oneshot(again).await.unwrap();
    for seen in [None, Some("41")] {
        let mut last = Request::get("/app/events?thread=rivers&last=9");
        if let Some(seen) = seen {
            last = last.header("last-event-id", seen);
        }
        let last = last.body(Body::empty()).unwrap();
        world.routes(Some("local")).oneshot(last).await.unwrap();
    }
    assert_eq!(
        app.asked(),
        [
            ("events".into(), json!(["rivers", 41])),
            ("events".into(), json!(["rivers", 3])),
            ("events".into(), json!(["rivers", {"last": 9}])),
            ("events".into(), json!(["rivers", 41])),
        ]
    );
    for (path, last) in [
        ("/app/events?after=x", ""),
        ("/app/events?after=-1", ""),
        ("/app/events?last=-1", ""),
        ("/app/events?thread=rivers&last=9&after=3", ""),
        ("/app/events?thread=rivers&last=9&until=3", ""),
        ("/app/events", "soon"),
    ] {
        let mut request = Request::get(path);
        if !last.is_empty() {
            request = request.header("last-event-id", last);
        }
        let refused = world.ask(request.body(Body::empty()).unwrap()).await;
        assert_eq!(
            (
                refused.status.as_u16(),
                refused.json()["error"]["data"]["code"].as_str()
            ),
            (400, Some("INVALID_REQUEST")),
            "{path}"
        );
    }
}

/// A piece of the past ends by itself and holds the log alone.
#[tokio::test]
async fn a_piece_of_a_log_can_be_read() {
    let (world, app) = World::scripted();
    let key = AppThreadKey::new("draft:1").unwrap();
    let run = RunId::new("turn-1").unwrap();
    let update = |id: i64| {
        let update = SessionUpdate::new(&key, &run, UpdateKind::Delta, "delta", Millis(id));
        AppEvent::Update(id, Box::new(update))
    };
    let ids = |body: &str| -> Vec<String> {
        let lines = body.lines().filter_map(|line| line.strip_prefix("id: "));
        lines.map(str::to_owned).collect()
    };
    let file = AppEvent::Removed(key.clone());
    app.tells(vec![update(4), file, update(5), update(7), update(8)]);
    for (until, told) in [
        (5, vec!["4", "5"]),
        (6, vec!["4", "5"]),
        (7, vec!["4", "5", "7"]),
    ] {
        let path = format!("/app/events?thread=rivers&after=3&until={until}");
        let heard = world.get(&path).await;
        assert_eq!(
            (heard.status.as_u16(), ids(&heard.body)),
            (200, told.iter().map(|id| (*id).to_owned()).collect())
        );
        assert!(!heard.body.contains("removed"), "{}", heard.body);
    }
    for path in [
        "/app/events?thread=rivers&after=3&until=3",
        "/app/events?until=3",
    ] {
        assert_eq!(world.get(path).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn forms_work_without_script() {
    let (world, app) = World::scripted();
    let view = thread(
        "river-report",
        Path::new("/x"),
        json!({}),
        json!({"status": "running"}),
    );
    let answered = json!({"questionId": "q", "threadId": "draft:1", "runId": "r", "kind": "question", "text": "?", "state": "answered", "askedAt": 0});
    app.says("app.send", view.clone())
        .says("xworkmate.questions.answer", answered)
        .says("app.retry", view.clone())
        .says("app.delete", json!({}))
        .says("app.queue.drop", json!({}))
        .says("app.queue.edit", json!({}));
    for (form, to, asked) in [
        (
            "method=app.send&prompt=Do+it&runtime=&expect=a.md%0D%0A%20b%2F*.pdf%20%0A&workingDirectory=+",
            "/threads/river-report",
            (
                "app.send",
                json!({"thread": null, "prompt": "Do it", "runtime": null, "expect": [{"glob": "a.md"}, {"glob": "b/*.pdf"}], "workingDirectory": null, "newSession": false, "permissions": null}),
            ),
        ),
        (
            "method=app.answer&questionId=q&optionId=yes&text=no&back=%2F",
            "/",
            (
                "xworkmate.questions.answer",
                json!({"questionId": "q", "optionId": "yes"}),
            ),
        ),
        (
            "method=app.answer&questionId=q&text=My+own&back=%2Fthreads%2Fx",
            "/threads/x",
            (
                "xworkmate.questions.answer",
                json!({"questionId": "q", "text": "My own"}),
            ),
        ),
        (
            "method=app.retry&thread=a&newSession=1&back=%2F%2Fevil.example",
            "/",
            ("app.retry", json!({"thread": "a", "newSession": true})),
        ),
        (
            "method=app.delete&thread=a&back=%2Fthreads%2Fa",
            "/threads?archived=1",
            (
                "app.delete",
                json!({"thread": "a", "withMyFiles": false, "yoursDigest": null}),
            ),
        ),
        (
            "method=app.delete&thread=a&withMyFiles=1&yoursDigest=d&back=%2Fthreads%2Fa",
            "/threads?archived=1",
            (
                "app.delete",
                json!({"thread": "a", "withMyFiles": true, "yoursDigest": "d"}),
            ),
        ),
        (
            "method=app.queue.drop&thread=a&requestId=r&back=%2Fthreads%2Fa",
            "/threads/a",
            ("app.queue.drop", json!({"thread": "a", "requestId": "r"})),
        ),
        (
            "method=app.queue.edit&thread=a&requestId=r&prompt=Else&back=%2Fthreads%2Fa",
            "/threads/a",
            (
                "app.queue.edit",
                json!({"thread": "a", "requestId": "r", "prompt": "Else"}),
            ),
        ),
    ] {
        let answer = world.form(form).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (303, to),
            "{form}"
        );
        assert_eq!(
            app.asked().last().unwrap(),
            &(asked.0.to_owned(), asked.1),
            "{form}"
        );
    }
    let before = app.asked().len();
    let refused = world.form("method=app.problems").await;
    assert_eq!((refused.status.as_u16(), app.asked().len()), (400, before));
    assert!(
        refused
            .body
            .contains("A form cannot do <code>app.problems</code>.")
    );
}
