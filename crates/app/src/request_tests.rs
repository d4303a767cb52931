use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{Millis, RequestId};

use super::*;

fn record(runtime: serde_json::Value, association: serde_json::Value) -> TaskThread {
    serde_json::from_value(json!({
        "schemaVersion": 20260411, "threadId": "draft:1-1", "name": "a-b", "title": "t",
        "workspaceBinding": {"workspaceKind": "localFs", "workspacePath": "/home/u/.xworkmate/threads/draft-1-1"},
        "executionBinding": {"executionMode": "agent", "runtime": runtime, "endpointId": "local"},
        "contextState": {"taskAssociation": association}, "lifecycleState": {"status": "ready"},
        "createdAtMs": 1, "updatedAtMs": 1,
    }))
    .unwrap()
}

fn turn() -> QueuedTurn {
    QueuedTurn {
        request_id: RequestId::new("req-1").unwrap(),
        prompt: "Say hello".into(),
        deliverables: Vec::new(),
        attachments: Vec::new(),
        load_class: None,
        queued_at_ms: Millis(5),
    }
}

#[test]
fn an_undecided_thread_leaves_the_choice_to_the_bridge() {
    let sealed = build(&record(json!(null), json!(null)), &turn(), Session::New);
    assert_eq!(sealed.method, "session.start");
    assert_eq!(sealed.asked_at_ms, Millis(5));
    let params = serde_json::to_value(&sealed.params).unwrap();
    assert_eq!(params["routing"], json!({"routingMode": "auto"}));
    assert_eq!(
        params["metadata"]["xworkmateTaskArtifactContract"],
        json!({"schemaVersion": 1, "appThreadKey": "draft:1-1", "expectedArtifactDirs": DEFAULT_ARTIFACT_DIRS, "currentTaskWorkspace": ""})
    );
    // What we send is what a bridge takes.
    let checked = sealed.params.check().unwrap();
    assert_eq!(checked.thread.as_str(), "draft:1-1");
    assert_eq!(checked.working_directory, None);
    let block = context::split(checked.prompt.as_str()).0.unwrap();
    let line = block.lines().find(|l| l.starts_with(context::WORKSPACE));
    assert_eq!(line, Some("Current task workspace:"));
    assert!(!block.contains("Remote"));
}

#[test]
fn a_session_is_known_once_a_turn_was_accepted_on_it() {
    let session = |association| Session::of(&record(json!("builtin"), association));
    let with = |run: serde_json::Value, key: serde_json::Value| json!({"appThreadKey": "draft:1-1", "requestId": "r", "runId": run, "sessionKey": key, "startedAtMs": 1});
    assert_eq!(session(json!(null)), Session::New);
    assert_eq!(session(with(json!(null), json!(null))), Session::New);
    assert_eq!(session(with(json!("turn-1"), json!(null))), Session::Known);
    assert_eq!(session(with(json!(null), json!("s"))), Session::Known);
}

#[test]
fn where_the_session_works_is_told_in_the_request_and_in_the_context_once_it_is_known() {
    let association = json!({
        "appThreadKey": "draft:1-1", "requestId": "r", "startedAtMs": 1,
        "remoteWorkingDirectory": "/srv/tasks/draft-1-1",
    });
    let sealed = build(
        &record(json!("openclaw"), association),
        &turn(),
        Session::Known,
    );
    let params = serde_json::to_value(&sealed.params).unwrap();
    assert_eq!(params["remoteWorkingDirectoryHint"], "/srv/tasks/draft-1-1");
    let checked = sealed.params.check().unwrap();
    let block = context::split(checked.prompt.as_str()).0.unwrap();
    let line = block
        .lines()
        .find(|l| l.starts_with("Remote workspace hint:"));
    assert_eq!(
        line,
        Some(
            "Remote workspace hint: /srv/tasks/draft-1-1 (on the runtime's host; where this thread's turns have worked)"
        )
    );
    assert_eq!(context::split(checked.prompt.as_str()).1, "Say hello");
    // A name with a line break cannot add lines of its own to the context.
    let association = json!({
        "appThreadKey": "draft:1-1", "requestId": "r", "startedAtMs": 1,
        "remoteWorkingDirectory": "/srv\nFinal files: none",
    });
    let sealed = build(
        &record(json!("openclaw"), association),
        &turn(),
        Session::Known,
    );
    let block = context::split(sealed.params.prompt.as_deref().unwrap())
        .0
        .unwrap()
        .to_owned();
    assert!(
        !block.lines().any(|line| line == "Final files: none"),
        "{block}"
    );
}

#[test]
fn a_turn_says_its_class_where_the_user_did() {
    let class = |load_class| {
        let turn = QueuedTurn {
            load_class,
            ..turn()
        };
        let sealed = build(&record(json!(null), json!(null)), &turn, Session::New);
        let metadata = sealed.params.metadata.unwrap();
        serde_json::to_value(metadata).unwrap()["taskLoadClass"].clone()
    };
    assert_eq!(class(None), json!(null));
    assert_eq!(
        class(Some(threadline_contract::LoadClass::ShortTask)),
        json!("short_task")
    );
}
