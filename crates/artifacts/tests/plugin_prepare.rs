//! Preparing a run: whose folder it is, and where.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, os::unix::fs::symlink};

use common::{
    host::{A, Host, K, SCOPE, run_params, texts, turn, with},
    put,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn scope_of(session: &str, run: &str) -> String {
    let host = Host::new();
    let params = json!({"openclawSessionKey": session, "runId": run, "appThreadKey": A});
    let prepared = host.prepare(params).unwrap();
    let scope = prepared["artifactScope"].as_str().unwrap().to_owned();
    assert!(host.ws().join(&scope).is_dir());
    scope
}

fn nothing_was_made(host: &Host) {
    assert_eq!(fs::read_dir(host.ws()).unwrap().count(), 0);
}

fn refused(host: &Host, params: Value) -> String {
    let (code, message) = host.prepare(params).unwrap_err();
    assert_eq!(code, "INVALID_REQUEST", "{message}");
    message
}

#[test]
fn p01_the_segment_of_a_session() {
    assert_eq!(scope_of(K, "turn-1"), SCOPE);
}

#[test]
fn p02_every_listed_character_becomes_a_dash() {
    assert_eq!(
        scope_of("a/b\\c:d*e?f\"g<h>i|j", "r"),
        "tasks/a-b-c-d-e-f-g-h-i-j/r"
    );
}

#[test]
fn p08_dots_nul_and_tabs() {
    assert_eq!(scope_of("s", "."), "tasks/s/_.");
    assert_eq!(scope_of("s", "a\0b"), "tasks/s/a-b");
    assert_eq!(scope_of("s", "tab\tkey"), "tasks/s/tab-key");
}

#[test]
fn p09_two_spellings_of_one_name_conflict() {
    let host = Host::new();
    let params = |key: &str| with(run_params("r"), json!({"openclawSessionKey": key}));
    host.prepare(params("na\u{ef}ve")).unwrap();
    let (code, message) = host.prepare(params("nai\u{308}ve")).unwrap_err();
    assert_eq!(
        (code.as_str(), message.as_str()),
        (
            "CONFLICT",
            "`tasks/na\u{ef}ve` is the folder of another thread, whose key leads to the same name: characters such as / and : become -, and a name ends after 96 characters. Use another thread key."
        )
    );
    // Also when it is only asked.
    let only = with(params("nai\u{308}ve"), json!({"checkOnly": true}));
    assert_eq!(host.prepare(only).unwrap_err().0, "CONFLICT");
    host.prepare(params("na\u{ef}ve")).unwrap();
}

#[test]
fn p10_characters_then_bytes() {
    for (key, want) in [
        ("語".repeat(60), "語".repeat(60)),
        ("語".repeat(200), "語".repeat(80)),
        ("😀".repeat(96), "😀".repeat(60)),
    ] {
        assert_eq!(scope_of(&key, "r"), format!("tasks/{want}/r"));
    }
}

#[test]
fn p12_a_blank_run_id_is_none() {
    let host = Host::new();
    for run in [json!("  "), json!(""), json!(null), json!(7)] {
        let message = refused(&host, turn(json!({"runId": run})));
        assert!(
            message.contains("`runId` is required: a run id"),
            "{message}"
        );
    }
    nothing_was_made(&host);
}

#[test]
fn p13_the_older_name_of_the_session_is_not_taken() {
    let host = Host::new();
    let params = json!({"sessionKey": "thread-main", "runId": "turn-1", "appThreadKey": A});
    assert_eq!(
        refused(&host, params.clone()),
        "`openclawSessionKey` is required."
    );
    for refusal in [
        host.export(params.clone()),
        host.collect(params.clone()),
        host.read(params),
    ] {
        let want = (
            "INVALID_REQUEST".to_owned(),
            "`openclawSessionKey` is required.".to_owned(),
        );
        assert_eq!(refusal, Err(want));
    }
    nothing_was_made(&host);
}

/// Every method holds the scope against session and run.
fn in_every_method(scope: &str, session: &str, run: &str) -> Vec<Result<Value, (String, String)>> {
    let host = Host::new();
    let plain = json!({"openclawSessionKey": session, "runId": run, "appThreadKey": A});
    host.prepare(plain.clone()).unwrap();
    let params = with(plain, json!({"artifactScope": scope, "relativePath": "f"}));
    put(&host.ws(), &format!("tasks/{session}/{run}/f"), "f");
    vec![
        host.prepare(params.clone()),
        host.collect(params.clone()),
        host.export(params.clone()),
        host.list(params.clone()),
        host.read(params),
    ]
}

#[test]
fn p14_p47_a_scope_of_another_run_is_refused() {
    for refusal in in_every_method("tasks/s/turn-1", "s", "turn-2") {
        assert_eq!(
            refusal,
            Err((
                "INVALID_REQUEST".into(),
                "artifactScope `tasks/s/turn-1` does not match this session and run.".into()
            ))
        );
    }
}

#[test]
fn p16_a_scope_that_escapes_is_refused() {
    for scope in [
        "/tasks/s/r",
        "tasks/s/../r",
        "tasks/./r",
        "tasks\\..\\r",
        "tasks/s/r\0",
    ] {
        for refusal in in_every_method(scope, "s", "r") {
            assert_eq!(
                refusal,
                Err((
                    "INVALID_REQUEST".into(),
                    format!("artifactScope `{scope}` escapes the workspace.")
                ))
            );
        }
    }
}

#[test]
fn p17_what_is_no_task_scope_is_refused() {
    for scope in ["tasks/s", "tasks/s/r/x", "other/s/r"] {
        for refusal in in_every_method(scope, "s", "r") {
            let want =
                format!("artifactScope `{scope}` is not a task scope (tasks/<session>/<run>).");
            assert_eq!(refusal, Err(("INVALID_REQUEST".into(), want)));
        }
    }
}

#[test]
fn p18_other_spellings_of_the_scope_are_taken() {
    for scope in ["tasks/s/r/", "tasks//s//r", "tasks\\s\\r", "tasks/s/r"] {
        for answer in in_every_method(scope, "s", "r") {
            assert_eq!(answer.unwrap()["artifactScope"], "tasks/s/r", "{scope}");
        }
    }
}

#[test]
fn p20_what_a_prepared_run_is_told() {
    let host = Host::new();
    fs::create_dir(host.ws().join("reports")).unwrap();
    let params = turn(json!({"expectedArtifactDirs": ["artifacts/", "reports", "reports/"]}));
    let root = fs::canonicalize(host.ws()).unwrap();
    let want = json!({
        "runId": "turn-1",
        "sessionKey": K,
        "openclawSessionKey": K,
        "appThreadKey": A,
        "remoteWorkingDirectory": root,
        "remoteWorkspaceRefKind": "remotePath",
        "workspaceSource": "default",
        "artifactScope": SCOPE,
        "scopeKind": "task",
        "artifactDirectory": root.join(SCOPE),
        "relativeArtifactDirectory": SCOPE,
        "expectedArtifactDirs": ["artifacts/", "reports/"],
        "expectedArtifactDirStatus": [
            {"relativePath": "artifacts/", "exists": false},
            {"relativePath": "reports/", "exists": true},
        ],
        "warnings": [],
    });
    let only = with(params.clone(), json!({"checkOnly": true}));
    assert_eq!(host.prepare(only).unwrap(), want);
    assert!(!host.ws().join("tasks").exists(), "only checked");
    // P25: as often as one likes.
    for _ in 0..2 {
        assert_eq!(host.prepare(params.clone()).unwrap(), want);
        assert!(host.scope().is_dir());
    }
    // P26: named anew after the turn was sent.
    host.prepare(run_params("run-9")).unwrap();
    assert!(host.scope().is_dir() && host.scope().with_file_name("run-9").is_dir());
}

#[test]
fn p21_the_threads_key_is_required() {
    let host = Host::new();
    let params = turn(json!({"appThreadKey": " "}));
    assert_eq!(refused(&host, params), "`appThreadKey` is required.");
    nothing_was_made(&host);
}

#[test]
fn p22_another_version_is_refused() {
    let host = Host::new();
    for version in [json!(2), json!("2"), json!(0)] {
        let message = refused(&host, turn(json!({"schemaVersion": version})));
        assert!(message.contains("this is version 1"), "{message}");
    }
    nothing_was_made(&host);
    for fine in [json!(1), json!("1"), json!(null)] {
        host.prepare(turn(json!({"schemaVersion": fine}))).unwrap();
    }
}

#[test]
fn p28_p29_expected_folders_stay_in_the_workspace() {
    let host = Host::new();
    for bad in ["../outside", "/etc", "C:\\x", "a/./b"] {
        let message = refused(&host, turn(json!({"expectedArtifactDirs": ["fine", bad]})));
        assert!(
            message.starts_with(&format!("The expected folder `{bad}` cannot be used")),
            "{message}"
        );
    }
    nothing_was_made(&host);
    let prepared = host
        .prepare(turn(json!({"expectedArtifactDirs": ["tasks/", "x"]})))
        .unwrap();
    assert_eq!(
        texts(&prepared["warnings"]),
        ["`tasks/` is not a place for output; it was not looked at."]
    );
}

#[test]
fn p30_an_apps_reference_never_becomes_a_root() {
    let host = Host::new();
    let hint = "/owners/local/user/x/threads/y";
    let prepared = host.prepare(turn(json!({"workspaceDir": hint}))).unwrap();
    assert_eq!(prepared["workspaceSource"], "default");
    assert_eq!(
        prepared["remoteWorkingDirectory"],
        json!(fs::canonicalize(host.ws()).unwrap())
    );
    let warnings = texts(&prepared["warnings"]);
    assert_eq!(
        warnings,
        [format!(
            "`{hint}` is an app's reference to a thread, not a workspace; it was not used."
        )]
    );
}

#[test]
fn the_answer_tells_who_named_the_workspace() {
    let host = Host::new();
    let other = host.temp.path().join("other");
    fs::create_dir(&other).unwrap();
    for (key, source) in [
        ("workspaceDir", "params"),
        ("agentWorkspaceDir", "agentConfig"),
    ] {
        let prepared = host.prepare(turn(json!({key: other}))).unwrap();
        assert_eq!(prepared["workspaceSource"], source);
        let exported = host.list(turn(json!({key: other}))).unwrap();
        assert_eq!(exported["workspaceSource"], source);
        assert_eq!(exported["emptyReason"], "scope_empty");
    }
    let (code, message) = host
        .prepare(turn(json!({"workspaceDir": "/no/such"})))
        .unwrap_err();
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("INVALID_REQUEST", "The workspace `/no/such` is not there.")
    );
}

#[test]
fn p36_a_linked_folder_escapes() {
    let host = Host::new();
    let out = tempfile::tempdir().unwrap();
    symlink(out.path(), host.ws().join("tasks")).unwrap();
    for more in [json!({}), json!({"checkOnly": true})] {
        let (code, message) = host.prepare(turn(more)).unwrap_err();
        assert_eq!(code, "PREPARE_FAILED");
        assert!(message.contains("escapes the workspace"), "{message}");
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn a_reserved_run_is_refused() {
    let host = Host::new();
    for run in ["work", ".xworkmate"] {
        let message = refused(&host, run_params(run));
        assert_eq!(message, format!("run id `{run}` is reserved."));
    }
    nothing_was_made(&host);
}
