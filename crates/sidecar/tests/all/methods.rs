//! Each method, with the parameters and results of the contract.

use std::{fs, os::unix::fs::PermissionsExt as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_sidecar::{Ended, Limits};

use crate::wire::{COLLECT, EXPORT, GC, Host, K, LIST, PREPARE, READ, SCOPE, code, put, turn};

const DONE: &str = "1c756e4db5b787b6e660c80caf23f7c10b6b9543e53c38e1eff47837eaad1338";

#[test]
fn it_introduces_itself() {
    let host = Host::new();
    let mut client = host.client();
    assert_eq!(
        client.ok("initialize", json!({"clientName": "test"})),
        json!({
            "name": "threadline-openclaw-sidecar",
            "version": env!("CARGO_PKG_VERSION"),
            "protocolVersion": 1,
            "methods": ["initialize", "shutdown", "$/cancelRequest", PREPARE, COLLECT, EXPORT, LIST, READ, GC],
            "limits": {
                "lineBytes": 1_048_576, "concurrentRequests": 8, "waitingRequests": 16,
                "chunkBytes": 4_194_304, "fileBytes": 17_179_869_184_u64, "pageFiles": 200, "maxPageFiles": 20_000,
                "linkSeconds": 86_400,
            },
        })
    );
}

#[test]
fn a_run_from_beginning_to_end() {
    let host = Host::new();
    let mut client = host.client();
    let ws = host.workspace().to_string_lossy().into_owned();
    let place = |mut more: serde_json::Value| {
        let all = json!({
            "runId": "turn-1", "sessionKey": K, "openclawSessionKey": K,
            "remoteWorkingDirectory": ws, "remoteWorkspaceRefKind": "remotePath",
            "workspaceSource": "default", "artifactScope": SCOPE, "scopeKind": "task",
            "artifactDirectory": format!("{ws}/{SCOPE}"),
        });
        let more = more.as_object_mut().unwrap();
        more.extend(all.as_object().unwrap().clone());
        json!(more)
    };
    let dirs = json!({"schemaVersion": 1, "expectedArtifactDirs": ["reports/"]});
    assert_eq!(
        client.ok(PREPARE, turn(dirs)),
        place(json!({
            "appThreadKey": "draft:1", "relativeArtifactDirectory": SCOPE,
            "expectedArtifactDirs": ["reports/"],
            "expectedArtifactDirStatus": [{"relativePath": "reports/", "exists": false}],
            "warnings": [],
        }))
    );

    put(&host.media(), "browser/shot.png", "png");
    put(&host.scope(), "reports/final.md", "# Done\n");
    assert_eq!(
        client.ok(COLLECT, turn(json!({"artifactScope": format!("{SCOPE}/")}))),
        place(json!({
            "snapshotDirectory": format!("{ws}/{SCOPE}/artifacts"),
            "copiedFiles": ["artifacts/media/browser/shot.png"],
            "alreadyPresent": 0,
            "omitted": {"count": 0, "bytes": 0, "byReason": {}, "files": []},
            "warnings": [],
        }))
    );

    let export = client.ok(
        EXPORT,
        turn(json!({"requiredArtifactExtensions": ["md", "pdf"]})),
    );
    let first = &export["artifacts"][0];
    let (reference, expires) = (first["artifactRef"].clone(), first["expiresAt"].clone());
    assert_eq!(
        first,
        &json!({
            "relativePath": "reports/final.md", "label": "final.md", "contentType": "text/markdown",
            "sizeBytes": 7, "sha256": DONE, "artifactRef": reference, "expiresAt": expires,
            "artifactScope": SCOPE, "scopeKind": "task", "encoding": "base64",
            "content": "IyBEb25lCg==",
        })
    );
    assert_eq!(
        (
            &export["manifest"]["totalCandidates"],
            &export["manifest"]["files"][0]
        ),
        (
            &json!(2),
            &json!({
                "relativePath": "reports/final.md", "displayPath": "reports/final.md", "size": 7,
                "contentType": "text/markdown", "sha256": DONE, "inline": true, "ref": reference,
            })
        )
    );
    assert_eq!(
        (
            &export["constraintSatisfied"],
            &export["missingRequiredExtensions"]
        ),
        (&json!(false), &json!(["pdf"]))
    );

    let list = client.ok(LIST, turn(json!({"maxFiles": 1})));
    assert_eq!(list["artifacts"][0].get("content"), None);
    assert_eq!(
        (&list["omitted"]["count"], list["nextCursor"].is_string()),
        (&json!(1), true)
    );
    let rest = client.ok(
        LIST,
        turn(json!({"maxFiles": 1, "cursor": list["nextCursor"]})),
    );
    assert_eq!(
        (
            rest["artifacts"].as_array().unwrap().len(),
            rest.get("nextCursor")
        ),
        (1, None)
    );

    let part = json!({"artifactRef": reference, "offset": 2, "length": 4});
    let read = client.ok(READ, turn(part));
    assert_eq!(
        (
            &read["offset"],
            &read["length"],
            &read["eof"],
            &read["artifacts"][0]["content"]
        ),
        (
            &json!(2),
            &json!(4),
            &json!(false),
            &json!(STANDARD.encode("Done"))
        )
    );

    // Nobody has told that the run ended.
    let gc = client.ok(GC, json!({"maxBytes": 0, "dryRun": true}));
    assert_eq!(
        gc,
        json!({
            "remoteWorkingDirectory": ws, "workspaceSource": "default", "dryRun": true, "removed": [],
            "freedBytes": 0, "kept": [{"scope": "tasks/agent-main-draft-1/turn-1", "why": "live"}],
            "unknown": [], "warnings": [],
        })
    );
}

#[test]
fn a_large_file_comes_in_parts() {
    let host = Host::new();
    let mut client = host.client();
    client.prepare();
    let large: Vec<u8> = (0..9_000_000_u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    put(&host.scope(), "large.bin", &large);
    let list = client.ok(LIST, turn(json!({})));
    let reference = &list["artifacts"][0]["artifactRef"];
    let mut got = Vec::new();
    loop {
        // More than a chunk: as much as there is in one comes.
        let part = json!({"artifactRef": reference, "offset": got.len(), "length": 1_u64 << 40});
        let read = client.ok(READ, turn(part));
        got.extend(
            STANDARD
                .decode(read["artifacts"][0]["content"].as_str().unwrap())
                .unwrap(),
        );
        if read["eof"] == json!(true) {
            break;
        }
        assert_eq!(read["length"], 4_194_304);
    }
    assert!(got == large);
}

#[test]
fn refusals_carry_their_code_and_a_sentence() {
    let host = Host::new();
    let mut client = host.client();
    client.send(
        1,
        PREPARE,
        &json!({"openclawSessionKey": K, "runId": "turn-1"}),
    );
    assert_eq!(
        client.receive(),
        json!({"jsonrpc": "2.0", "id": 1, "error": {
            "code": -32602, "message": "`appThreadKey` is required.", "data": {"code": "INVALID_REQUEST"},
        }})
    );
    client.send(2, COLLECT, &turn(json!({})));
    assert_eq!(
        client.receive()["error"]["data"],
        json!({"code": "PREPARE_FAILED", "reason": "scope_missing"})
    );
    client.prepare();
    put(&host.scope(), "a.txt", "a");
    let list = client.ok(LIST, turn(json!({})));
    let reference = list["artifacts"][0]["artifactRef"]
        .as_str()
        .unwrap()
        .to_owned();
    let read = |more: serde_json::Value| turn(more);
    for (params, want) in [
        (
            read(json!({"artifactRef": reference, "offset": 2, "length": 1})),
            "range_invalid",
        ),
        (
            read(json!({"artifactRef": reference.replace("a.txt", "b.txt")})),
            "LINK_FORGED",
        ),
        (read(json!({"artifactRef": "x"})), "INVALID_REQUEST"),
        (
            read(json!({"artifactScope": SCOPE, "relativePath": "none"})),
            "artifact_not_found",
        ),
        (
            read(json!({"artifactScope": SCOPE, "relativePath": "."})),
            "INVALID_REQUEST",
        ),
        (
            read(json!({"artifactRef": reference, "offset": "ten"})),
            "INVALID_REQUEST",
        ),
    ] {
        assert_eq!(
            client.call(READ, params.clone()),
            Err(want.to_owned()),
            "{params}"
        );
    }
    put(&host.scope(), "a.txt", "b");
    let params = turn(json!({"artifactRef": reference}));
    assert_eq!(
        client.call(READ, params),
        Err("artifact_changed".to_owned())
    );
    assert_eq!(
        client.call(GC, json!({"maxAgeDays": -1})),
        Err("INVALID_REQUEST".to_owned())
    );
    assert_eq!(
        client.call(GC, json!({"liveRuns": [{"openclawSessionKey": ""}]})),
        Err("INVALID_REQUEST".to_owned())
    );
}

#[test]
fn a_shutdown_is_answered_last() {
    let host = Host::new();
    let mut client = host.client_with(Limits {
        concurrent: 2,
        ..Limits::default()
    });
    let held = host.hold_claims();
    for id in 1..=4 {
        client.send(id, PREPARE, &crate::wire::run(&format!("r{id}"), json!({})));
    }
    client.send_line(r#"{"jsonrpc":"2.0","id":"bye","method":"shutdown"}"#);
    // Behind it, nothing is read.
    client.send(9, LIST, &turn(json!({})));
    crate::wire::a_while();
    drop(held);
    let (answers, ended) = client.finish();
    assert!(matches!(ended, Ended::Shutdown), "{ended:?}");
    assert_eq!(
        answers.last(),
        Some(&json!({"jsonrpc": "2.0", "id": "bye", "result": null}))
    );
    let mut ids: Vec<_> = answers.iter().map(|a| a["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"bye\"", "1", "2", "3", "4"]);
}

#[test]
fn keys_are_for_their_owner_alone_and_outlive_the_process() {
    let host = Host::new();
    let mut client = host.client();
    client.prepare();
    put(&host.scope(), "a.txt", "a");
    let list = client.ok(LIST, turn(json!({})));
    let by = turn(json!({"artifactRef": list["artifacts"][0]["artifactRef"]}));
    assert!(matches!(client.finish(), (rest, Ended::EndOfInput) if rest.is_empty()));
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(host.state()), mode(host.state().join("keys.json"))),
        (0o700, 0o600)
    );
    let mut again = host.client();
    assert_eq!(again.ok(READ, by)["length"], 1);

    // Keys that cannot be read are never replaced.
    fs::write(host.state().join("keys.json"), "[]").unwrap();
    let refused = threadline_sidecar::open(host.settings()).unwrap_err();
    assert_eq!(refused.code.to_string(), "STATE_DAMAGED");
    assert!(
        refused
            .message
            .contains("keys.json: these are not signing keys"),
        "{refused}"
    );
    assert_eq!(fs::read(host.state().join("keys.json")).unwrap(), b"[]");
}

#[test]
fn a_notification_is_done_and_not_answered() {
    let host = Host::new();
    let mut client = host.client();
    let params = turn(json!({}));
    client.send_line(&json!({"jsonrpc": "2.0", "method": PREPARE, "params": params}).to_string());
    client.send_line(r#"{"jsonrpc":"2.0","method":"initialize"}"#);
    client.send_line(r#"{"jsonrpc":"2.0","method":"$/setTrace","params":{}}"#);
    client.send_line(r#"{"jsonrpc":"2.0","method":"xworkmate.artifacts.read","params":{}}"#);
    client.send(5, "nothing", &json!({}));
    let (answers, _) = client.finish();
    assert_eq!(
        answers.iter().map(code).collect::<Vec<_>>(),
        ["METHOD_NOT_FOUND"]
    );
    assert!(host.scope().is_dir());
}
