use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn value(status: &str, more: Value) -> Value {
    let mut out = json!({
        "success": status == "completed" || status == "running", "status": status,
        "sessionId": "t", "threadId": "t", "appThreadKey": "t", "runId": "turn-1", "turnId": "turn-1",
        "sessionKey": "agent:main:t", "runtime": "openclaw", "mode": "gateway-chat",
        "artifactScope": "tasks/agent-main-t/turn-1", "createdAt": 1, "source": "registry", "observedAt": 2,
    });
    for (key, value) in more.as_object().unwrap() {
        out[key] = value.clone();
    }
    out
}

fn item(path: &str) -> Value {
    json!({"path": path, "size": 1, "sha256": "00".repeat(32), "contentType": "text/plain", "url": "/x"})
}

fn told(status: &str, more: Value) -> Told {
    read(value(status, more)).unwrap()
}

fn judged(status: &str, more: Value) -> (ResultCode, SyncStatus) {
    let verdict = verdict(&told(status, more));
    (verdict.code, verdict.sync)
}

#[test]
fn every_end_has_its_code_and_its_sync_status() {
    let set =
        |items: Value| json!({"artifacts": {"scope": "tasks/agent-main-t/turn-1", "items": items}});
    let missing = ResultCode::Code(Code::RequiredArtifactMissing);
    let table = [
        (
            "completed",
            set(json!([item("a")])),
            ResultCode::Success,
            SyncStatus::Syncing,
        ),
        (
            "completed",
            set(json!([])),
            ResultCode::Success,
            SyncStatus::NoExportedArtifacts,
        ),
        (
            "completed",
            json!({}),
            ResultCode::Success,
            SyncStatus::NoExportedArtifacts,
        ),
        (
            "completed",
            json!({"artifactsPending": true}),
            ResultCode::Success,
            SyncStatus::Syncing,
        ),
        (
            "completed",
            json!({"artifactsFailed": "no disk"}),
            ResultCode::Success,
            SyncStatus::Failed,
        ),
        // A file that cannot be taken is still a file that was there.
        (
            "completed",
            set(json!([item("../x")])),
            ResultCode::Success,
            SyncStatus::Syncing,
        ),
        (
            "failed",
            set(json!([item("a")])),
            ResultCode::Failed,
            SyncStatus::Failed,
        ),
        (
            "failed",
            json!({"code": "AGENT_LOST"}),
            ResultCode::Code(Code::AgentLost),
            SyncStatus::Failed,
        ),
        (
            "cancelled",
            json!({}),
            ResultCode::Aborted,
            SyncStatus::NoArtifacts,
        ),
        (
            "canceled",
            json!({"code": "AGENT_LOST"}),
            ResultCode::Aborted,
            SyncStatus::NoArtifacts,
        ),
        (
            "artifact_missing",
            json!({}),
            ResultCode::ArtifactMissing,
            SyncStatus::Failed,
        ),
        (
            "artifact_missing",
            json!({"code": "OPENCLAW_REQUIRED_ARTIFACT_MISSING"}),
            missing,
            SyncStatus::Failed,
        ),
    ];
    for (status, more, code, sync) in table {
        assert_eq!(
            judged(status, more.clone()),
            (code, sync),
            "{status} {more}"
        );
    }
}

#[test]
fn a_code_of_the_future_does_not_spoil_the_result() {
    let verdict = verdict(&told(
        "failed",
        json!({"code": "NEW_CODE", "message": "It broke."}),
    ));
    assert_eq!(verdict.code, ResultCode::Code(Code::ExecutionFailed));
    assert_eq!(verdict.error.as_deref(), Some("It broke. (NEW_CODE)"));
}

#[test]
fn answers_that_are_no_snapshot_are_told_apart() {
    let code = |value: Value| read(value).unwrap_err().code;
    let cases = [
        (
            json!({"ok": false, "code": "no_native_task_record", "message": "?"}),
            Code::NoNativeRecord,
        ),
        (json!({"ok": false, "code": "strange"}), Code::TaskNotFound),
        (
            json!({"success": false, "status": "unavailable", "unavailableCode": "PROVIDER_UNAVAILABLE"}),
            Code::ProviderUnavailable,
        ),
        (json!({"status": "completed"}), Code::BadBridgeAnswer),
        (json!([]), Code::BadBridgeAnswer),
    ];
    for (value, want) in cases {
        assert_eq!(code(value.clone()), ResultCode::Code(want), "{value}");
    }
}

#[test]
fn a27_only_the_runs_own_scope_passes() {
    let with = |scope: &str| {
        told(
            "completed",
            json!({"artifacts": {"scope": scope, "items": []}}),
        )
    };
    let own = "tasks/agent-main-t/turn-1";
    let announced: ArtifactScope =
        serde_json::from_value(json!("tasks/peer_style/turn_1")).unwrap();
    assert_eq!(check_scope(&with(own), None), Ok(()));
    assert_eq!(
        check_scope(&with("tasks/agent-main-t/turn-1/"), None),
        Ok(())
    );
    assert_eq!(
        check_scope(&with("tasks/peer_style/turn_1"), Some(&announced)),
        Ok(())
    );
    for (scope, announced) in [
        ("tasks/agent-main-t/turn-2", None),
        ("tasks/agent-main-u/turn-1", None),
        ("../tasks/agent-main-t/turn-1", None),
        (own, Some(&announced)),
    ] {
        assert_eq!(
            check_scope(&with(scope), announced).unwrap_err().code,
            Code::ScopeMismatch,
            "{scope}"
        );
    }
}
