use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::thread::TaskThread;

use super::of;

fn record(messages: serde_json::Value, queued: &[i64], current: Option<&str>) -> TaskThread {
    let queued: Vec<_> = queued
        .iter()
        .map(|at| json!({"requestId": format!("r{at}"), "prompt": "p", "queuedAtMs": at}))
        .collect();
    let association = current.map(
        |run| json!({"appThreadKey": "draft:1", "requestId": "r", "runId": run, "startedAtMs": 0}),
    );
    let mut context = json!({"messages": messages, "queuedTurns": queued});
    if let Some(association) = association {
        context["taskAssociation"] = association;
    }
    serde_json::from_value(json!({
        "schemaVersion": 20_260_411, "threadId": "draft:1", "name": "n", "title": "t",
        "workspaceBinding": {"workspaceKind": "localFs", "workspacePath": "/w"},
        "executionBinding": {"executionMode": "agent", "endpointId": "local"},
        "contextState": context, "lifecycleState": {"status": "running"}, "createdAtMs": 0, "updatedAtMs": 0,
    }))
    .unwrap()
}

/// Run, whether it waits, and what was said.
fn told(record: &TaskThread) -> Vec<(Option<&str>, bool, Vec<&str>)> {
    let turns = of(record).into_iter();
    turns
        .map(|t| {
            (
                t.run.map(|r| r.as_str()),
                t.waits.is_some(),
                t.messages.iter().map(|m| m.text.as_str()).collect(),
            )
        })
        .collect()
}

#[test]
fn what_a_run_said_stays_with_it_when_the_user_goes_on_meanwhile() {
    let messages = json!([
        {"role": "user", "text": "one", "timestampMs": 1, "runId": "a"},
        {"role": "user", "text": "two", "timestampMs": 2},
        {"role": "assistant", "text": "did one", "timestampMs": 3, "runId": "a"},
    ]);
    let record = record(messages, &[2], Some("a"));
    assert_eq!(
        told(&record),
        [
            (Some("a"), false, vec!["one", "did one"]),
            (None, true, vec!["two"])
        ]
    );
}

#[test]
fn a_run_that_was_just_named_belongs_to_the_turn_that_is_not_waiting() {
    let messages = json!([
        {"role": "user", "text": "one", "timestampMs": 1, "runId": "a"},
        {"role": "assistant", "text": "did one", "timestampMs": 2, "runId": "a"},
        {"role": "user", "text": "two", "timestampMs": 3},
        {"role": "user", "text": "three", "timestampMs": 4},
    ]);
    let record = record(messages, &[4], Some("b"));
    assert_eq!(
        told(&record),
        [
            (Some("a"), false, vec!["one", "did one"]),
            (Some("b"), false, vec!["two"]),
            (None, true, vec!["three"])
        ]
    );
}

#[test]
fn an_answer_without_a_run_goes_to_the_turn_before_it() {
    let messages = json!([
        {"role": "user", "text": "one", "timestampMs": 1},
        {"role": "assistant", "text": "refused", "timestampMs": 2, "error": true},
    ]);
    assert_eq!(
        told(&record(messages, &[], None)),
        [(None, false, vec!["one", "refused"])]
    );
}
