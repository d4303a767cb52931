//! What goes over the wire to a gateway, and what is made of answers that should not come: by the numbers
//! of the cases.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{ArtifactPath, Code, Sha256};
use threadline_runtimes::{ArtifactIdentity, Files as _, Registry, Turns as _};

use super::{
    once::{begin, usual},
    script::{Do, Scripted, hello_of_ours, plan, run_ref, session},
};

const RUN: &str = "turn-1";

/// Folders go to the plugin alone, and everything that the plugin is asked names the session in full.
#[tokio::test]
async fn b21_b26_b33_what_the_plugin_and_the_gateway_are_told() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "connect" => Do::Ok(hello_of_ours(gateway)),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let mut plan = plan(RUN, "do it");
    plan.expected_dirs = vec!["reports/".into()];
    let places = runtime.prepare(&plan).await.unwrap();
    runtime.start(&plan, &places).await.unwrap();
    let asked = gateway.look(|g| g.asked("xworkmate.session.prepare"));
    // The gateway's greeting says that the plugin keeps runs apart in folders that they share.
    assert_eq!(
        asked,
        [json!({
            "schemaVersion": 1, "appThreadKey": "draft:1", "openclawSessionKey": session(),
            "runId": RUN, "requestId": RUN, "externalTaskId": RUN, "expectedArtifactDirs": ["reports/"],
        })]
    );
    let sent = gateway.look(|g| g.asked("agent"));
    assert_eq!(
        sent,
        [json!({
            "message": "do it", "sessionKey": session(), "idempotencyKey": RUN, "deliver": false,
        })]
    );
    let all = gateway.look(|g| g.requests.clone());
    for (method, params) in all.iter().filter(|(m, _)| m.starts_with("xworkmate.")) {
        for never in ["sessionKey", "workspaceDir"] {
            assert_eq!(params[never], Value::Null, "{method} {params}");
        }
    }
}

/// The id of a run is ours, and is known before anything is sent: a gateway that takes the turn under
/// another, or into another session, did not take this turn.
#[tokio::test]
async fn b22_b23_a_gateway_that_accepts_something_else_is_refused() {
    for accepted in [
        json!({"runId": "run-openclaw-1", "status": "accepted"}),
        json!({"runId": RUN, "sessionKey": "other", "status": "accepted"}),
    ] {
        let told = accepted.clone();
        let gateway = Scripted::start(move |method, params, gateway| match method {
            "agent" => Do::Ok(told.clone()),
            _ => usual(method, params, gateway),
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let runtime = gateway.runtime(folder.path(), Some("t"));
        let refused = begin(&runtime, RUN).await;
        assert_eq!(refused, Err(Code::SessionMismatch), "{accepted}");
        assert_eq!(
            runtime.ask_registry(&run_ref(RUN)).await,
            Ok(Registry::NoRecord),
            "{accepted}"
        );
        // What it began is not left to run.
        let wanted = json!({
            "sessionKey": accepted["sessionKey"].as_str().unwrap_or(session().as_str()),
            "runId": accepted["runId"],
        });
        assert_eq!(gateway.look(|g| g.asked("chat.abort")), [wanted]);
    }
}

#[tokio::test]
async fn b25_a_gateway_without_the_plugin_takes_no_turn() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "xworkmate.session.prepare" => {
            Do::No(json!({"code": "INVALID_REQUEST", "message": "unknown method"}))
        }
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let refused = runtime.prepare(&plan(RUN, "x")).await.unwrap_err();
    assert_eq!(refused.code, Code::OpenClawPrepareFailed);
    assert_eq!(gateway.look(|g| g.asked("agent")), Vec::<Value>::new());
}

#[tokio::test]
async fn a_gateway_that_is_there_and_cannot_say_is_told_from_one_that_is_away() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent.wait" => Do::No(json!({"code": "INTERNAL", "message": "it broke"})),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, RUN).await.unwrap();
    let asked = runtime.ask_registry(&run_ref(RUN)).await.unwrap_err();
    assert_eq!(asked.code, Code::WaitFailed);
    assert!(asked.message.contains("it broke"), "{}", asked.message);
}

/// Each way in which bytes can be wrong has its code, and nothing of them is handed on.
#[tokio::test]
async fn d13_a_file_that_is_another_or_damaged_says_so() {
    const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    let gateway = Scripted::start(|method, params, gateway| match method {
        "xworkmate.artifacts.read" => {
            let path = params["relativePath"].as_str().unwrap();
            let mut file = json!({"relativePath": path, "label": path, "contentType": "text/plain",
                "sizeBytes": 3, "sha256": DIGEST, "artifactScope": "s", "scopeKind": "task", "content": "Zm9v"});
            match path {
                "other.txt" => file["relativePath"] = json!("theirs.txt"),
                "base64.txt" => file["content"] = json!("Zm9v!"),
                _ => file["sha256"] = json!("0".repeat(64)),
            }
            Do::Ok(json!({"artifacts": [file], "offset": 0}))
        }
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, RUN).await.unwrap();
    for (path, code, status) in [
        ("other.txt", Code::ArtifactPathMismatch, 502),
        ("base64.txt", Code::ArtifactEncodingInvalid, 502),
        ("changed.txt", Code::ArtifactChanged, 409),
    ] {
        let identity = ArtifactIdentity {
            session: session(),
            run: run_ref(RUN).run,
            path: ArtifactPath::new(path).unwrap(),
            size: 3,
            sha256: Sha256::from_hex(DIGEST).unwrap(),
        };
        let refused = runtime.open(&identity).await.err().unwrap();
        assert_eq!((refused.code, refused.code.http()), (code, status));
    }
}
