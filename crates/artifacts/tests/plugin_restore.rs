//! A run that tidies up its own folder, and takes what is ours with it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::fs;

use common::{
    host::{Host, K, SCOPE, each, omitted, run_params, texts, turn},
    put,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn paths(result: &Value) -> Vec<&str> {
    each(&result["artifacts"], "relativePath")
}

/// How an agent breaks it.
type Break = fn(&Host);

#[test]
fn a_stamp_that_was_removed_or_overwritten_loses_no_files() {
    let breaks: [(&str, Break); 5] = [
        ("removed", |host| {
            fs::remove_dir_all(host.scope().join(".xworkmate")).unwrap();
        }),
        ("overwritten", |host| {
            put(&host.scope(), ".xworkmate/scope.json", "forged\n");
        }),
        ("another's", |host| {
            let forged = json!({"sessionKey": "agent:main:other", "runId": "r"});
            put(&host.scope(), ".xworkmate/scope.json", forged.to_string());
        }),
        ("a file", |host| {
            fs::remove_dir_all(host.scope().join(".xworkmate")).unwrap();
            put(&host.scope(), ".xworkmate", "x");
        }),
        ("the session's", |host| {
            let above = host.scope().parent().unwrap().to_owned();
            put(&above, ".xworkmate/session.json", "forged");
        }),
    ];
    for (what, break_it) in breaks {
        let host = Host::prepared();
        put(&host.scope(), "report.txt", "x");
        put(&host.tmp(), "shot.png", "x");
        break_it(&host);
        let collected = host.collect(turn(json!({}))).unwrap();
        assert_eq!(
            texts(&collected["copiedFiles"]),
            ["artifacts/tmp-openclaw/shot.png"],
            "{what}"
        );
        break_it(&host);
        let listed = host.list(turn(json!({}))).unwrap();
        let mut found = paths(&listed);
        found.sort_unstable();
        assert_eq!(
            found,
            ["artifacts/tmp-openclaw/shot.png", "report.txt"],
            "{what}"
        );
        break_it(&host);
        host.prepare(run_params("turn-2")).unwrap();
        let reference = &listed["artifacts"][0]["artifactRef"];
        host.read(turn(json!({"artifactRef": reference}))).unwrap();
    }
}

/// The folder's name is the same for both; the ledger knows that both had it.
#[test]
fn a_folder_that_two_runs_can_claim_is_given_to_neither() {
    let host = Host::prepared();
    fs::remove_dir_all(host.scope().parent().unwrap()).unwrap();
    let twin = json!({"openclawSessionKey": K.replacen(':', "-", 1), "runId": "turn-1", "appThreadKey": "t"});
    host.prepare(twin).unwrap();
    put(&host.scope(), "theirs.txt", "x");
    let (code, _) = host.list(turn(json!({}))).unwrap_err();
    assert_eq!(code, "CONFLICT");
    fs::remove_dir_all(host.scope().join(".xworkmate")).unwrap();
    let listed = host.list(turn(json!({}))).unwrap();
    assert_eq!(paths(&listed), Vec::<&str>::new());
}

#[test]
fn a_folder_that_is_gone_is_said_and_the_rest_comes() {
    let host = Host::prepared();
    put(&host.ws(), "reports/k.txt", "x");
    put(&host.scope(), "lost.txt", "x");
    let session = host.scope().parent().unwrap().to_owned();
    fs::rename(&session, host.ws().join("tasks/moved")).unwrap();
    let listed = host.list(turn(json!({}))).unwrap();
    assert_eq!(
        texts(&listed["warnings"]),
        [format!(
            "`{SCOPE}` is not there, so it has nothing to deliver: it was never prepared, or somebody moved or removed it."
        )]
    );
    let dirs = json!({"expectedArtifactDirs": ["reports"]});
    let listed = host.list(turn(dirs.clone())).unwrap();
    assert_eq!(paths(&listed), ["reports/k.txt"]);
    let scope = format!("{SCOPE}/");
    assert_eq!(omitted(&listed), [(scope.as_str(), "vanished")]);
    assert_eq!(paths(&host.list(turn(dirs)).unwrap()), ["reports/k.txt"]);
}
