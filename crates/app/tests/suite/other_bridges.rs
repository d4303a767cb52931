//! A bridge that is not ours: it speaks the protocol with the words of its documents and no others.

use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{
    Code, OmitReason, Omitted, Progress, QuestionState, ResultCode, RuntimeId, Stage, context,
    method,
    thread::{Lifecycle, SyncStatus},
};

use crate::support::{
    DELIVERED, World, eventually, id, on_openclaw, paths, sha, standing, sync_of, transcript,
};

const FILE: &str = "# Rivers\n";

/// What it answers to each method; the last answer stands. `$thread` and `$prompt` are filled in.
#[derive(Default)]
struct Script {
    answers: Vec<(&'static str, Vec<Value>)>,
    /// The stream that a turn is answered with, as the data of its events.
    stream: Vec<Value>,
    thread: String,
    calls: Vec<(String, Value)>,
}

type Shared = Arc<Mutex<Script>>;

/// A world whose bridge says what a script says.
async fn world(stream: Vec<Value>, answers: Vec<(&'static str, Vec<Value>)>) -> (World, Shared) {
    let script = Shared::new(Mutex::new(Script {
        answers,
        stream,
        ..Script::default()
    }));
    let router = Router::new()
        .route("/acp/rpc", post(rpc))
        .route("/files/report.md", get(|| async { FILE }))
        .with_state(script.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let world = World::with(|c| c.bridge.url = url).await;
    (world, script)
}

async fn rpc(State(script): State<Shared>, Json(request): Json<Value>) -> Response {
    let mut script = script.lock().unwrap();
    let called = request["method"].as_str().unwrap().to_owned();
    script
        .calls
        .push((called.clone(), request["params"].clone()));
    let filled = |value: &Value, thread: &str| -> Value {
        let text = value.to_string().replace("$thread", thread);
        serde_json::from_str(&text).unwrap()
    };
    if matches!(called.as_str(), method::START | method::MESSAGE) {
        script.thread = request["params"]["threadId"].as_str().unwrap().to_owned();
        if !script.stream.is_empty() {
            let frames = script.stream.iter().map(|frame| {
                let frame = json!({"jsonrpc": "2.0", "method": "session.update", "params": filled(frame, &script.thread)});
                format!("data: {frame}\n\n")
            });
            let body: String = frames.collect();
            let headers = [(header::CONTENT_TYPE, "text/event-stream")];
            return (headers, Body::from(body)).into_response();
        }
    }
    let thread = script.thread.clone();
    let known = script.answers.iter_mut().find(|(m, _)| *m == called);
    let answer = match known {
        Some((_, answers)) if answers.len() > 1 => answers.remove(0),
        Some((_, answers)) => answers[0].clone(),
        None => {
            let error = json!({"code": -32601, "message": "no such method"});
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
            return Json(answer).into_response();
        }
    };
    let result = filled(&answer, &thread);
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

/// The running handle, with the words of the documents.
fn running(more: Value) -> Value {
    let handle = json!({
        "success": true, "status": "running", "sessionId": "$thread", "threadId": "$thread",
        "turnId": "run-1", "runId": "run-1", "artifactScope": "tasks/agent-main-1/run-1",
    });
    merged(handle, more)
}

/// The terminal snapshot, exactly with the fields that the documents print.
fn completed() -> Value {
    json!({
        "success": true,
        "status": "completed",
        "sessionId": "$thread",
        "threadId": "$thread",
        "turnId": "run-1",
        "runId": "run-1",
        "text": "Here it is.",
        "artifacts": {
            "items": [{
                "path": "report.md", "url": "/files/report.md", "sha256": sha(FILE.as_bytes()),
                "size": FILE.len(), "contentType": "text/markdown",
            }],
            "scope": "tasks/agent-main-1/run-1/",
        },
    })
}

fn merged(mut value: Value, more: Value) -> Value {
    for (key, more) in more.as_object().unwrap() {
        value[key] = more.clone();
    }
    value
}

#[tokio::test]
async fn snapshots_with_the_words_of_the_documents_alone_are_taken() {
    let progress = json!({"progress": {"stage": "dreaming", "message": "Dreams", "elapsedMs": 3}});
    let (world, _) = world(
        vec![],
        vec![
            (method::START, vec![running(json!({}))]),
            (
                method::TASKS_GET,
                vec![running(progress.clone()), running(progress), completed()],
            ),
        ],
    )
    .await;
    let sent = world.send_to_openclaw("go").await;
    let done = world.settled(id(&sent.thread)).await;
    assert_eq!(standing(&done), DELIVERED);
    assert_eq!(
        transcript(&done),
        [("user", "go", false), ("assistant", "Here it is.", false)]
    );
    assert_eq!(paths(&done), ["report.md"]);
    assert_eq!(world.read(&done, "report.md"), FILE);
    // What it did not say stays as it was.
    assert_eq!(done.execution_binding.runtime, Some(RuntimeId::OpenClaw));
}

#[tokio::test]
async fn a_stage_that_is_not_known_is_shown_as_unknown_with_its_words() {
    let progress = json!({"progress": {"stage": "dreaming", "message": "Dreams", "elapsedMs": 3}});
    let (world, _) = world(
        vec![],
        vec![
            (method::START, vec![running(json!({}))]),
            (method::TASKS_GET, vec![running(progress)]),
        ],
    )
    .await;
    let sent = world.send_to_openclaw("go").await.thread;
    let seen = || async { world.app.show(id(&sent)).await.unwrap().progress };
    eventually("its progress", || async { seen().await.is_some() }).await;
    let unknown = Progress {
        stage: Stage::Unknown,
        message: Some("Dreams".into()),
        elapsed_ms: Some(3),
    };
    assert_eq!(seen().await, Some(unknown));
}

#[tokio::test]
async fn updates_with_few_and_unknown_words_are_followed() {
    let update = |more: Value| merged(json!({"sessionId": "$thread", "threadId": "$thread"}), more);
    let question = json!({
        "questionId": "q-1", "kind": "riddle", "text": "Which river?", "state": "open",
        "options": [{"optionId": "a", "name": "The long one"}], "tool": "teleport",
    });
    let (world, script) = world(
        vec![
            update(json!({"status": "running", "runId": "run-1", "artifactScope": "tasks/agent-main-1/run-1"})),
            update(json!({"runId": "run-1", "type": "hologram", "event": "task.hologram", "status": "floating"})),
            update(json!({"runId": "run-1", "type": "task", "event": "task.question_asked", "question": question})),
        ],
        vec![
            (method::TASKS_GET, vec![running(json!({"runtime": "quantum", "usage": "much"}))]),
            (method::QUESTIONS_ANSWER, vec![json!({"accepted": true})]),
            (method::TASKS_CANCEL, vec![json!({"cancelled": true})]),
        ],
    )
    .await;
    let sent = world.send_elsewhere(on_openclaw("go")).await.thread;
    let asked = || async { world.app.show(id(&sent)).await.unwrap().questions };
    eventually("the question", || async { !asked().await.is_empty() }).await;
    let question = asked().await.remove(0);
    assert_eq!(
        (question.text.as_str(), question.options[0].label.as_str()),
        ("Which river?", "The long one")
    );
    // It takes an answer with a word of its own.
    let answered = world
        .app
        .answer_elsewhere(method::AnswerParams {
            question_id: question.question_id,
            option_id: Some("a".into()),
            text: None,
        })
        .await
        .unwrap();
    assert_eq!(
        (answered.state, answered.answer_text()),
        (QuestionState::Answered, Some("The long one"))
    );
    script.lock().unwrap().answers[0].1 = vec![completed()];
    let done = world.settled(id(&sent)).await;
    assert_eq!(standing(&done).1, Some(ResultCode::Success));
    assert_eq!(paths(&done), ["report.md"]);
}

#[tokio::test]
async fn ends_with_unknown_words_are_ends_and_what_was_left_out_is_named() {
    let omitted = json!([
        {"path": "big.bin", "reason": "too_large"},
        {"path": "odd.bin", "reason": "moon_phase"},
        {"path": "bare.bin"},
    ]);
    let flat = |name: &str| {
        let mut end = completed();
        let items = end["artifacts"]["items"].take();
        end.as_object_mut().unwrap().remove("artifacts");
        end["artifactScope"] = json!("tasks/agent-main-1/run-1");
        end[name] = items;
        end
    };
    let mut with_omitted = completed();
    with_omitted["artifacts"]["omitted"] = omitted;
    with_omitted["artifacts"]["emptyReason"] = json!("why_not");
    with_omitted["missing"] = json!(["*.pdf"]);
    let mut foreign_scope = completed();
    foreign_scope["artifacts"]["scope"] = json!("tasks/agent-main-1/run-2/");
    let mut no_scope = completed();
    no_scope["artifacts"]
        .as_object_mut()
        .unwrap()
        .remove("scope");
    let ended = |success: bool, status: &str| json!({"success": success, "status": status, "threadId": "$thread", "runId": "run-1"});
    let success = Some(ResultCode::Success);
    let cases = [
        (with_omitted, success, SyncStatus::Synced),
        (flat("artifacts"), success, SyncStatus::Synced),
        (flat("files"), success, SyncStatus::Synced),
        (flat("attachments"), success, SyncStatus::Synced),
        // Files of which nobody says whose they are, or that are another run's, are not taken.
        (foreign_scope, success, SyncStatus::Failed),
        (no_scope, success, SyncStatus::Failed),
        (
            ended(false, "interrupted"),
            Some(ResultCode::Failed),
            SyncStatus::Failed,
        ),
        (
            ended(false, "completed"),
            Some(ResultCode::Failed),
            SyncStatus::Failed,
        ),
        (
            ended(true, "failed"),
            Some(ResultCode::Failed),
            SyncStatus::Failed,
        ),
        (
            ended(false, "canceled"),
            Some(ResultCode::Aborted),
            SyncStatus::NoArtifacts,
        ),
    ];
    for (end, code, sync) in cases {
        let (world, _) = world(vec![], vec![(method::START, vec![end.clone()])]).await;
        let sent = world.send_to_openclaw("go").await.thread;
        let done = world.settled(id(&sent)).await;
        assert_eq!(
            standing(&done),
            (Lifecycle::Ready, code, Some(sync)),
            "{end:#}"
        );
        if end["artifacts"]["omitted"].is_array() {
            let file = |path: &str, reason| Omitted {
                path: path.into(),
                reason,
            };
            assert_eq!(
                done.context_state.last_omitted,
                [
                    file("big.bin", OmitReason::TooLarge),
                    file("odd.bin", OmitReason::Unknown),
                    file("bare.bin", OmitReason::Unknown),
                ]
            );
        }
        if sync == SyncStatus::Failed && code == success {
            let detail = sync_of(&done).1.to_owned();
            assert!(detail.contains("folder"), "{detail}");
        }
    }
}

#[tokio::test]
async fn offers_are_read_as_far_as_they_go() {
    let (world, script) = world(
        vec![],
        vec![(
            method::CAPABILITIES,
            vec![json!({
                "gatewayProviders": [{"providerId": "openclaw"}, {"label": "nameless"}],
                "providerCatalog": [{"providerId": "codex", "label": "Codex", "maxActive": "many"}],
            })],
        )],
    )
    .await;
    let found = world.app.runtimes().await.unwrap();
    let seen: Vec<(String, &str, u32)> = found
        .runtimes
        .iter()
        .map(|r| (r.runtime.to_string(), r.label.as_str(), r.max_active))
        .collect();
    assert_eq!(
        seen,
        [
            ("acp:codex".to_owned(), "Codex", 5),
            ("openclaw".to_owned(), "openclaw", 5),
        ]
    );
    assert_eq!(found.version, "unknown");
    // A snapshot that names no run is still not the protocol.
    let nameless = json!({"success": true, "status": "completed", "threadId": "$thread"});
    script
        .lock()
        .unwrap()
        .answers
        .push((method::START, vec![nameless]));
    let sent = world.send_to_openclaw("go").await.thread;
    let done = world.settled(id(&sent)).await;
    assert_eq!(
        standing(&done).1,
        Some(ResultCode::Code(Code::BadBridgeAnswer))
    );
    let prompt = script
        .lock()
        .unwrap()
        .calls
        .iter()
        .rev()
        .find_map(|(m, p)| {
            let prompt = p["prompt"].as_str()?.to_owned();
            (m == method::START).then_some(prompt)
        });
    assert_eq!(context::split(&prompt.unwrap()).1, "go");
}
