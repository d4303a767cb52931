use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use threadline_contract::{OmitReason, RunWarning};

use super::*;

fn record() -> TaskThread {
    serde_json::from_value(json!({
        "schemaVersion": 20260411, "threadId": "t", "name": "a-b", "title": "t",
        "workspaceBinding": {"workspaceKind": "localFs", "workspacePath": "/w"},
        "executionBinding": {"executionMode": "agent", "endpointId": "local"},
        "contextState": {}, "lifecycleState": {"status": "ready"}, "createdAtMs": 1, "updatedAtMs": 1,
    }))
    .unwrap()
}

fn request(n: u32) -> RequestId {
    RequestId::new(format!("r{n}")).unwrap()
}

fn turn(n: u32) -> QueuedTurn {
    QueuedTurn {
        request_id: request(n),
        prompt: format!("prompt {n}"),
        deliverables: Vec::new(),
        attachments: Vec::new(),
        load_class: None,
        queued_at_ms: Millis(n.into()),
    }
}

fn snapshot(n: u32, status: &str) -> Snapshot {
    serde_json::from_value(json!({
        "success": status == "completed" || status == "running", "status": status,
        "sessionId": "t", "threadId": "t", "appThreadKey": "t", "runId": format!("turn-{n}"), "turnId": "x",
        "sessionKey": "s", "runtime": "builtin", "mode": "agent-chat", "artifactScope": format!("tasks/s/turn-{n}"),
        "createdAt": 1, "source": "registry", "observedAt": 2,
    }))
    .unwrap()
}

fn good() -> Verdict {
    Verdict {
        code: ResultCode::Success,
        sync: SyncStatus::NoExportedArtifacts,
        detail: None,
        text: Some("hello".into()),
        error: None,
        left: vec![],
    }
}

#[test]
fn a_title_is_the_whole_first_line() {
    assert_eq!(title(" \n  hello \t there\n world "), "hello there");
    let long = "Summarise what a lighthouse keeper does in a day, and in a night";
    assert_eq!(title(long), long);
    assert_eq!(title(&"ä".repeat(200)), "ä".repeat(200));
    assert_eq!(title(&"ä".repeat(201)), format!("{}…", "ä".repeat(200)));
}

#[test]
fn the_first_scope_stands_and_a_new_run_brings_its_own() {
    let mut r = record();
    asked(&mut r, turn(1), Place::Start).unwrap();
    begin(&mut r, &request(1), Millis(9)).unwrap();
    let handle_of = |n, scope: &str| {
        let mut s = snapshot(n, "running");
        s.artifact_scope = serde_json::from_value(json!(scope)).unwrap();
        s
    };
    let scope = |r: &TaskThread| {
        r.context_state
            .task_association
            .clone()
            .unwrap()
            .artifact_scope
            .unwrap()
            .to_string()
    };
    handle(&mut r, &request(1), &handle_of(1, "tasks/s/turn-1"));
    handle(&mut r, &request(1), &handle_of(1, "tasks/evil/turn-1"));
    assert_eq!(scope(&r), "tasks/s/turn-1");
    handle(&mut r, &request(1), &handle_of(2, "tasks/s/turn-2"));
    assert_eq!(scope(&r), "tasks/s/turn-2");
    assert_eq!(
        r.context_state.messages[0].run_id,
        Some(RunId::new("turn-2").unwrap())
    );
}

#[test]
fn an_answer_keeps_the_warnings_of_its_run() {
    let warning = RunWarning {
        code: Code::AnswerIncomplete,
        message: "A part may be missing.".into(),
    };
    // Also where nothing but the warning is left of it.
    for text in [Some("half"), None] {
        let mut r = record();
        asked(&mut r, turn(1), Place::Start).unwrap();
        begin(&mut r, &request(1), Millis(9)).unwrap();
        let mut told = snapshot(1, "completed");
        told.warnings = vec![warning.clone()];
        let verdict = Verdict {
            text: text.map(str::to_owned),
            ..good()
        };
        for _ in 0..2 {
            ended(&mut r, &request(1), &told, &verdict, Millis(3)).unwrap();
        }
        let answers = r.context_state.messages.iter();
        let answers = answers.filter(|m| m.role == Role::Assistant);
        let answers: Vec<_> = answers
            .map(|m| (m.text.as_str(), m.error, m.warnings.clone()))
            .collect();
        let want = (text.unwrap_or_default(), false, vec![warning.clone()]);
        assert_eq!(answers, [want]);
    }
}

#[test]
fn what_does_not_concern_the_current_request_changes_nothing() {
    let mut r = record();
    asked(&mut r, turn(1), Place::Start).unwrap();
    begin(&mut r, &request(1), Millis(9)).unwrap();
    let before = r.clone();
    let trouble = Trouble::final_(Code::ConnectionClosed, "x");
    let outcome = Outcome::failed(&Fault::invalid("x"));
    assert!(
        !ended(
            &mut r,
            &request(2),
            &snapshot(2, "completed"),
            &good(),
            Millis(3)
        )
        .unwrap()
    );
    assert!(!synced(&mut r, &request(2), &outcome, Millis(3)));
    lost(&mut r, &request(2), &trouble, Millis(3)).unwrap();
    ended_early(&mut r, &request(2), RunStatus::Failed, None).unwrap();
    handle(&mut r, &request(2), &snapshot(2, "running"));
    heard_until(&mut r, &request(2), 99);
    assert_eq!(r, before);
    // After a stop the current one's news do not count either.
    assert!(aborted(&mut r, Waiting::Dropped, Millis(4)).unwrap());
    let before = r.clone();
    assert!(
        !ended(
            &mut r,
            &request(1),
            &snapshot(1, "completed"),
            &good(),
            Millis(5)
        )
        .unwrap()
    );
    lost(&mut r, &request(1), &trouble, Millis(5)).unwrap();
    assert!(!synced(&mut r, &request(1), &outcome, Millis(5)));
    assert_eq!(r, before);
}

#[test]
fn the_same_result_told_twice_is_one_message() {
    let mut r = record();
    asked(&mut r, turn(1), Place::Start).unwrap();
    begin(&mut r, &request(1), Millis(9)).unwrap();
    for _ in 0..3 {
        assert!(
            ended(
                &mut r,
                &request(1),
                &snapshot(1, "completed"),
                &good(),
                Millis(5)
            )
            .unwrap()
        );
    }
    assert_eq!(r.context_state.messages.len(), 2);
}

proptest! {
    /// Whatever happens in whatever order: the lifecycle stays one of those that there are, a code is there
    /// exactly when the thread is at rest after a run, and no turn is in two places.
    #[test]
    fn no_order_of_things_breaks_a_record(steps in prop::collection::vec((0u8..10, 1u32..5), 1..60)) {
        let mut r = record();
        let mut n = 0;
        for (what, who) in steps {
            let _: Result<(), Fault> = match what {
                0 => { n += 1; asked(&mut r, turn(n), if who > 2 { Place::Start } else { Place::Wait }) }
                1 => {
                    let next = r.context_state.queued_turns.first().map(|t| t.request_id.clone());
                    next.map_or(Ok(()), |next| begin(&mut r, &next, Millis(9)).map(drop))
                }
                2 => ended_early(&mut r, &request(who), RunStatus::Completed, None),
                3 => ended(&mut r, &request(who), &snapshot(who, "completed"), &good(), Millis(5)).map(drop),
                4 => lost(&mut r, &request(who), &Trouble::final_(Code::ConnectionClosed, "x"), Millis(5)),
                5 => aborted(&mut r, Waiting::Dropped, Millis(5)).map(drop),
                6 => unsent(&mut r, &request(who), &Fault::invalid("x")),
                8 => { if r.lifecycle_state.status == Lifecycle::Running { stop_asked(&mut r, Waiting::Dropped); } Ok(()) }
                7 => resumed(&mut r, &request(who)),
                _ => { synced(&mut r, &request(who), &Outcome::failed(&Fault::invalid("x")), Millis(5)); Ok(()) }
            };
            let state = &r.lifecycle_state;
            match state.status {
                Lifecycle::Running => {
                    prop_assert_eq!(state.last_result_code, None);
                    prop_assert!(r.context_state.task_association.is_some());
                }
                Lifecycle::Queued => {
                    prop_assert_eq!(state.last_result_code, None);
                    prop_assert!(!r.context_state.queued_turns.is_empty());
                }
                Lifecycle::Ready => {}
                Lifecycle::Archived => prop_assert!(false),
            }
            let mut turns: Vec<_> = r.context_state.queued_turns.iter().map(|t| t.request_id.clone()).collect();
            turns.extend(r.context_state.task_association.iter().map(|a| a.request_id.clone()));
            let count = turns.len();
            turns.sort();
            turns.dedup();
            prop_assert_eq!(turns.len(), count);
        }
    }
}

/// A run of request 1 that was asked to stop, after a second turn was asked for.
fn stopping_record() -> TaskThread {
    let mut r = record();
    asked(&mut r, turn(1), Place::Start).unwrap();
    begin(&mut r, &request(1), Millis(9)).unwrap();
    asked(&mut r, turn(2), Place::Wait).unwrap();
    stop_asked(&mut r, Waiting::Dropped);
    r
}

/// How a thread stands: whether it is at rest, with which code, and how it is with its files.
fn standing(r: &TaskThread) -> (Lifecycle, Option<ResultCode>, Option<SyncStatus>) {
    (
        r.lifecycle_state.status,
        r.lifecycle_state.last_result_code,
        r.context_state.last_artifact_sync_status,
    )
}

#[test]
fn a_run_that_was_asked_to_stop_goes_on_until_it_is_known_to_have_stopped() {
    let trouble = Trouble::final_(Code::ConnectionClosed, "x");
    type Word<'a> = &'a dyn Fn(&mut TaskThread);
    let words: [(Word<'_>, SyncStatus); 3] = [
        (
            &|r| ended_early(r, &request(1), RunStatus::Completed, None).unwrap(),
            // What it left is known with its result.
            SyncStatus::Syncing,
        ),
        (
            &|r| {
                let told = snapshot(1, "completed");
                assert!(!ended(r, &request(1), &told, &good(), Millis(5)).unwrap());
            },
            SyncStatus::NoArtifacts,
        ),
        (
            &|r| lost(r, &request(1), &trouble, Millis(5)).unwrap(),
            SyncStatus::NoArtifacts,
        ),
    ];
    for (word, sync) in words {
        let mut r = stopping_record();
        assert!(stopping(&r));
        assert_eq!(
            (r.lifecycle_state.status, r.context_state.queued_turns.len()),
            (Lifecycle::Running, 0)
        );
        word(&mut r);
        assert!(!stopping(&r));
        assert_eq!(
            standing(&r),
            (Lifecycle::Ready, Some(ResultCode::Aborted), Some(sync))
        );
    }
}

#[test]
fn what_a_stopped_run_left_is_named_when_its_result_comes() {
    let omitted = |path: &str, reason| Omitted {
        path: path.into(),
        reason,
    };
    let link = omitted("link", OmitReason::Symlink);
    let left = omitted("half.txt", OmitReason::RunCancelled);
    let mut told = snapshot(1, "cancelled");
    told.artifacts = serde_json::from_value(json!({
        "scope": "tasks/s/turn-1", "items": [], "omitted": [link],
    }))
    .unwrap();
    let verdict = Verdict {
        code: ResultCode::Aborted,
        sync: SyncStatus::NoArtifacts,
        left: vec![left.clone()],
        ..good()
    };
    let end = |r: &mut TaskThread| {
        assert!(!ended(r, &request(1), &told, &verdict, Millis(5)).unwrap());
    };
    let aborted = (
        Lifecycle::Ready,
        Some(ResultCode::Aborted),
        Some(SyncStatus::NoArtifacts),
    );

    let mut r = stopping_record();
    ended_early(&mut r, &request(1), RunStatus::Cancelled, None).unwrap();
    end(&mut r);
    assert_eq!(standing(&r), aborted);
    assert_eq!(r.context_state.last_omitted, [link, left]);

    // Nothing is known to have been left by one whose result nobody heard.
    let mut r = stopping_record();
    ended_early(&mut r, &request(1), RunStatus::Cancelled, None).unwrap();
    let trouble = Trouble::final_(Code::ConnectionClosed, "x");
    lost(&mut r, &request(1), &trouble, Millis(5)).unwrap();
    assert_eq!(standing(&r), aborted);
    assert_eq!(r.context_state.last_omitted, []);

    // A turn that waits by then is not told what another one left.
    let mut r = stopping_record();
    asked(&mut r, turn(3), Place::Wait).unwrap();
    ended_early(&mut r, &request(1), RunStatus::Cancelled, None).unwrap();
    end(&mut r);
    assert_eq!(
        standing(&r),
        (Lifecycle::Queued, None, Some(SyncStatus::Queued))
    );
    assert_eq!(r.context_state.last_omitted, []);
}
