//! Files by way of the plugin: what is true is taken, what cannot be is refused.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{ArtifactPath, Code, EmptyReason, OmitReason, Omitted, Sha256, Usage};
use threadline_runtimes::{
    ArtifactIdentity, End, EndStatus, Files as _, Turns as _, openclaw::OpenClaw,
};

use super::script::{Do, GATHER, Gateway, Scripted, hello, hello_of_ours, plan, prepared, session};

const RUN: &str = "turn-1";
const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

fn usual(method: &str, params: &Value, gateway: &mut Gateway) -> Do {
    match method {
        "connect" => Do::Ok(hello(gateway)),
        "xworkmate.session.prepare" => Do::Ok(prepared(params["runId"].as_str().unwrap())),
        "agent" => Do::Ok(json!({"runId": params["idempotencyKey"], "status": "accepted"})),
        _ => Do::Ok(json!({})),
    }
}

fn file(path: &str, scope: &str) -> Value {
    json!({"relativePath": path, "label": path, "contentType": "text/plain", "sizeBytes": 3,
           "sha256": DIGEST, "artifactScope": scope, "scopeKind": "task"})
}

async fn begun(gateway: &Scripted, folder: &std::path::Path) -> OpenClaw {
    let runtime = gateway.runtime(folder, Some("t"));
    let plan = plan(RUN, "x");
    let places = runtime.prepare(&plan).await.unwrap();
    runtime.start(&plan, &places).await.unwrap();
    runtime
}

fn ended() -> End {
    End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text: None,
        usage: None,
        wrote: vec!["reports/a.md".into()],
    }
}

#[tokio::test]
async fn a_plugin_that_prepares_another_run_or_session_is_refused() {
    for wrong in [
        json!({"runId": "turn-2"}),
        json!({"sessionKey": "agent:main:other"}),
        json!({"artifactScope": "tasks/agent-main-other/turn-1"}),
        json!({"artifactScope": "../../etc"}),
        json!({"artifactScope": "/etc"}),
    ] {
        let told = wrong.clone();
        let gateway = Scripted::start(move |method, params, gateway| match method {
            "xworkmate.session.prepare" => {
                let mut answer = prepared(RUN);
                for (key, value) in told.as_object().unwrap() {
                    answer[key] = value.clone();
                }
                Do::Ok(answer)
            }
            _ => usual(method, params, gateway),
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let runtime = gateway.runtime(folder.path(), Some("t"));
        let refused = runtime.prepare(&plan(RUN, "x")).await.unwrap_err();
        assert_eq!(refused.code, Code::OpenClawPrepareFailed, "{wrong}");
    }
}

#[tokio::test]
async fn what_the_plugin_says_no_to_is_told_by_its_code() {
    for (error, code) in [
        (
            json!({"code": "CONFLICT", "message": "mapped to another thread"}),
            Code::Conflict,
        ),
        (
            json!({"code": "INVALID_REQUEST", "message": "ENOENT"}),
            Code::OpenClawPrepareFailed,
        ),
        (
            json!({"code": "UNAVAILABLE", "message": "broke", "details": {"code": "SIDECAR_MISSING"}}),
            Code::OpenClawPrepareFailed,
        ),
        (
            json!({"code": "FORBIDDEN", "message": "missing scope", "details": {"code": "MISSING_SCOPE"}}),
            Code::OpenClawPrepareFailed,
        ),
    ] {
        let told = error.clone();
        let gateway = Scripted::start(move |method, params, gateway| match method {
            "xworkmate.session.prepare" => Do::No(told.clone()),
            _ => usual(method, params, gateway),
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let runtime = gateway.runtime(folder.path(), Some("t"));
        let refused = runtime.prepare(&plan(RUN, "x")).await.unwrap_err();
        assert_eq!(refused.code, code, "{error}");
    }
}

#[tokio::test]
async fn pages_add_up_and_what_is_not_this_runs_is_left() {
    let own = "tasks/agent-main-draft-1/turn-1";
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "sessions.files.list" => Do::Ok(json!({"files": []})),
        "xworkmate.artifacts.list" if params["cursor"].is_null() => Do::Ok(json!({
            "artifactScope": own, "nextCursor": "2",
            "artifacts": [file("a.txt", own), file("theirs.txt", "tasks/agent-main-other/turn-9")],
            "omitted": {"count": 1, "bytes": 3, "byReason": {"over_limit": 1}, "files": []},
        })),
        "xworkmate.artifacts.list" => Do::Ok(json!({
            "artifactScope": own,
            "artifacts": [file("b.txt", own), file("a.txt", own), file("../up.txt", own)],
            "omitted": {"count": 3, "bytes": 0, "byReason": {"symlink": 3}, "files": [{"path": "l", "reason": "symlink"}]},
        })),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = begun(&gateway, folder.path()).await;
    let manifest = runtime.collect(&plan(RUN, "x"), &ended()).await.unwrap();
    let files = manifest.artifacts.iter().map(Result::unwrap);
    let paths: Vec<String> = files.map(|a| a.path.to_string()).collect();
    assert_eq!(paths, ["a.txt", "b.txt"]);
    let left = |path: &str, reason| Omitted {
        path: path.into(),
        reason,
    };
    assert_eq!(
        manifest.omitted,
        [
            left("theirs.txt", OmitReason::OutsideScope),
            left("../up.txt", OmitReason::UnsafeName),
            left("l", OmitReason::Symlink),
            left("(and 2 more)", OmitReason::Symlink),
        ]
    );
    assert_eq!(manifest.empty_reason, None);
    let collected = gateway.look(|g| g.asked("xworkmate.artifacts.collect-and-snapshot"));
    assert_eq!(collected[0]["writtenFiles"], json!(["reports/a.md"]));
}

/// What earlier runs left in a shared folder is not this run's loss.
#[tokio::test]
async fn what_the_run_had_nothing_to_do_with_is_not_told() {
    let own = "tasks/agent-main-draft-1/turn-1";
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "sessions.files.list" => Do::Ok(json!({"files": []})),
        "xworkmate.artifacts.list" => Do::Ok(json!({
            "artifactScope": own, "artifacts": [], "emptyReason": "all_omitted",
            "omitted": {"count": 9, "bytes": 0, "byReason": {"changed_outside_run": 9}, "files": [{"path": "reports/old.md", "reason": "changed_outside_run"}]},
        })),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = begun(&gateway, folder.path()).await;
    let manifest = runtime.collect(&plan(RUN, "x"), &ended()).await.unwrap();
    assert_eq!(
        (manifest.omitted, manifest.empty_reason),
        (vec![], Some(EmptyReason::ScopeEmpty))
    );
}

/// The earlier plugin would list other threads' files in a shared folder: it is not told of one.
#[tokio::test]
async fn an_earlier_plugin_is_not_told_of_shared_folders() {
    let peer = "tasks/agent_main_draft_1/turn-1";
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "xworkmate.session.prepare" => {
            let mut answer = prepared(RUN);
            answer["artifactScope"] = json!(peer);
            Do::Ok(answer)
        }
        "xworkmate.artifacts.list" => Do::Ok(json!({"artifactScope": peer, "artifacts": []})),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let mut plan = plan(RUN, "x");
    plan.expected_dirs = vec!["reports/".into()];
    let places = runtime.prepare(&plan).await.unwrap();
    runtime.start(&plan, &places).await.unwrap();
    let manifest = runtime.collect(&plan, &ended()).await.unwrap();
    assert_eq!(manifest.empty_reason, Some(EmptyReason::ScopeEmpty));
    let asked = gateway.look(|g| {
        let mut all = g.asked("xworkmate.session.prepare");
        all.extend(g.asked("xworkmate.artifacts.list"));
        all
    });
    assert_eq!(asked.len(), 2);
    for params in asked {
        assert_eq!(params["expectedArtifactDirs"], json!([]), "{params}");
    }
}

/// A gateway with our own plugin, which heard every tool call of the run, or did not.
async fn gathering(watched: bool) -> Scripted {
    let own = "tasks/agent-main-draft-1/turn-1";
    Scripted::start(move |method, params, gateway| match method {
        "connect" => Do::Ok(hello_of_ours(gateway)),
        "sessions.files.list" => Do::Ok(json!({"files": [
            {"path": "b.md", "kind": "modified", "updatedAtMs": i64::MAX},
            {"path": "old.md", "kind": "modified", "updatedAtMs": 1},
        ]})),
        GATHER => Do::Ok(json!({
            "artifactScope": own, "nextCursor": "2", "artifacts": [file("a.txt", own)],
            "collected": {"omitted": {"count": 1, "bytes": 0, "byReason": {"ambiguous_owner": 1}, "files": [
                {"path": "c.md", "reason": "ambiguous_owner"},
            ]}},
            "watched": watched,
        })),
        "xworkmate.artifacts.list" => Do::Ok(json!({
            "artifactScope": own, "artifacts": [file("b.txt", own)],
        })),
        _ => usual(method, params, gateway),
    })
    .await
}

/// What was asked after the run, in order, with the files that were named.
async fn asked_after(gateway: &Scripted, end: &End) -> Vec<(String, Value)> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let mut plan = plan(RUN, "x");
    plan.expected_dirs = vec!["reports/".into()];
    let places = runtime.prepare(&plan).await.unwrap();
    runtime.start(&plan, &places).await.unwrap();
    let manifest = runtime.collect(&plan, end).await.unwrap();
    let files = manifest.artifacts.iter().map(Result::unwrap);
    let paths: Vec<String> = files.map(|a| a.path.to_string()).collect();
    assert_eq!(paths, ["a.txt", "b.txt"]);
    let left: Vec<_> = manifest.omitted.iter().map(|o| o.path.as_str()).collect();
    assert_eq!(left, ["c.md"]);
    gateway.look(|g| {
        let prepared = g.asked("xworkmate.session.prepare");
        assert_eq!(prepared.len(), 1);
        assert_eq!(prepared[0]["expectedArtifactDirs"], json!(["reports/"]));
        for gather in g.asked(GATHER) {
            assert_eq!(gather["expectedArtifactDirs"], json!(["reports/"]));
            assert_eq!(gather["collect"], json!(end.status == EndStatus::Completed));
        }
        let after = g.requests.iter().skip_while(|(method, _)| method != GATHER);
        let asked = after.filter(|(method, _)| method != "chat.history");
        asked
            .map(|(method, params)| (method.clone(), params["writtenFiles"].clone()))
            .collect()
    })
}

#[tokio::test]
async fn our_own_plugin_is_asked_once() {
    let gateway = gathering(true).await;
    assert_eq!(
        asked_after(&gateway, &ended()).await,
        [
            (GATHER.into(), json!(["reports/a.md"])),
            ("xworkmate.artifacts.list".into(), json!(["reports/a.md"])),
        ]
    );
    let failed = End::failed(Code::ModelFailed, "no");
    let asked = asked_after(&gathering(true).await, &failed).await;
    assert_eq!(asked[0], (GATHER.into(), json!([])));
}

#[tokio::test]
async fn where_the_plugin_was_not_there_all_the_time_the_gateway_is_asked_too() {
    let gateway = gathering(false).await;
    let known = json!(["reports/a.md", "b.md"]);
    assert_eq!(
        asked_after(&gateway, &ended()).await,
        [
            (GATHER.into(), json!(["reports/a.md"])),
            ("sessions.files.list".into(), Value::Null),
            (GATHER.into(), known.clone()),
            ("xworkmate.artifacts.list".into(), known),
        ]
    );
}

#[tokio::test]
async fn a_plugin_that_is_loaded_anew_is_waited_for() {
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "xworkmate.session.prepare" if gateway.asked(method).len() < 3 => Do::No(
            json!({"code": "UNAVAILABLE", "message": "PluginInstanceUnavailableError: unavailable"}),
        ),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    begun(&gateway, folder.path()).await;
    assert_eq!(
        gateway.look(|g| g.asked("xworkmate.session.prepare").len()),
        3
    );
}

#[tokio::test]
async fn what_a_run_used_is_told_with_its_last_answer_or_by_the_transcript() {
    let told = json!({"input": 10, "cacheRead": 5, "output": 3, "cost": {"total": 0.5}});
    let usage = Usage {
        input_tokens: Some(15),
        output_tokens: Some(3),
        cost_usd: Some(0.5),
    };
    for (receipt, asked) in [(true, 0), (false, 1)] {
        let told = told.clone();
        let gateway = Scripted::start(move |method, params, gateway| match method {
            "agent" => {
                let answer = |payload| json!({"type": "res", "id": "$id", "ok": true, "payload": payload});
                let meta = json!({"agentMeta": {"usage": told}});
                let mut frames = vec![answer(json!({"runId": RUN, "status": "accepted"}))];
                if receipt {
                    frames.push(answer(
                        json!({"runId": RUN, "status": "ok", "result": {"payloads": [], "meta": meta}}),
                    ));
                }
                Do::Frames(frames)
            }
            "chat.history" => Do::Ok(json!({"messages": [
                {"role": "user", "idempotencyKey": format!("{RUN}:user")},
                {"role": "assistant", "usage": told, "__openclaw": {"runId": RUN}},
            ]})),
            "xworkmate.artifacts.list" => Do::Ok(
                json!({"artifactScope": "tasks/agent-main-draft-1/turn-1", "artifacts": []}),
            ),
            _ => usual(method, params, gateway),
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let runtime = begun(&gateway, folder.path()).await;
        let manifest = runtime.collect(&plan(RUN, "x"), &ended()).await.unwrap();
        assert_eq!(manifest.usage, Some(usage));
        assert_eq!(gateway.look(|g| g.asked("chat.history").len()), asked);
    }
}

#[tokio::test]
async fn bytes_are_those_that_were_listed_or_nothing() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "xworkmate.artifacts.read" => {
            let mut artifact = file(params["relativePath"].as_str().unwrap(), "s");
            let whole = b"foo";
            let from = params["offset"].as_u64().unwrap() as usize;
            let to = (from + params["length"].as_u64().unwrap() as usize).min(3);
            use base64::Engine as _;
            let content = base64::engine::general_purpose::STANDARD.encode(&whole[from..to]);
            artifact["content"] = json!(content);
            if artifact["relativePath"] == "changed.txt" {
                artifact["sha256"] = json!("0".repeat(64));
            }
            Do::Ok(json!({"artifacts": [artifact], "offset": from}))
        }
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = begun(&gateway, folder.path()).await;
    let identity = |path: &str| ArtifactIdentity {
        session: session(),
        run: plan(RUN, "").run,
        path: ArtifactPath::new(path).unwrap(),
        size: 3,
        sha256: Sha256::from_hex(DIGEST).unwrap(),
    };
    let body = runtime.open(&identity("a.txt")).await.unwrap();
    assert_eq!(body.artifact.content_type, "text/plain");
    assert_eq!(body.reader.read_at(0, 10).await.unwrap(), "foo");
    assert_eq!(body.reader.read_at(1, 1).await.unwrap(), "o");
    assert_eq!(body.reader.read_at(3, 10).await.unwrap(), "");
    let changed = runtime.open(&identity("changed.txt")).await.err().unwrap();
    assert_eq!(changed.code, Code::ArtifactChanged);
}

/// A file of the workspace that the run wrote as it was already: collecting says what that means, listing
/// only that it lies elsewhere.
#[tokio::test]
async fn a_file_that_was_not_taken_has_one_reason() {
    let own = "tasks/agent-main-draft-1/turn-1";
    let left = |path: &str, reason: &str| json!({"path": path, "reason": reason});
    let set = |reason: &str, files: Value| json!({"count": 2, "bytes": 0, "byReason": {reason: 2}, "files": files});
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "connect" => Do::Ok(hello_of_ours(gateway)),
        GATHER => Do::Ok(json!({
            "artifactScope": own, "artifacts": [], "emptyReason": "all_omitted", "watched": true,
            "collected": {"omitted": set("changed_outside_run", json!([left("same.md", "changed_outside_run"), left("reports/same.md", "changed_outside_run")]))},
            "omitted": set("outside_scope", json!([left("same.md", "outside_scope"), left("other.md", "outside_scope")])),
        })),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = begun(&gateway, folder.path()).await;
    let end = End {
        wrote: vec!["same.md".into(), "reports/same.md".into()],
        ..ended()
    };
    let manifest = runtime.collect(&plan(RUN, "x"), &end).await.unwrap();
    let omitted: Vec<(&str, OmitReason)> = manifest
        .omitted
        .iter()
        .map(|o| (o.path.as_str(), o.reason))
        .collect();
    assert_eq!(
        omitted,
        [
            ("same.md", OmitReason::ChangedOutsideRun),
            ("reports/same.md", OmitReason::ChangedOutsideRun),
            ("other.md", OmitReason::OutsideScope),
        ]
    );
}
