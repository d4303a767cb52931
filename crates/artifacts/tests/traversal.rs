//! A corpus of texts that try to lead out of the run's folder, against every place that takes a path.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::fs;

use common::{
    host::{Host, SCOPE, turn},
    put,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};
use threadline_contract::{ArtifactPath, ArtifactScope, RunId, SessionKey};

/// Ways to write "somewhere else" that have worked somewhere.
const CORPUS: &[&str] = &[
    "..",
    "../",
    "../secret",
    "../../secret",
    "../../../../../../../../etc/passwd",
    "a/../../secret",
    "a/b/../../../secret",
    "./../secret",
    ".//../secret",
    "..//secret",
    "a/..",
    "a/.",
    ".",
    "./secret",
    "/etc/passwd",
    "//etc/passwd",
    "///etc/passwd",
    "/../etc/passwd",
    "\\..\\secret",
    "..\\secret",
    "..\\..\\secret",
    "a\\..\\..\\secret",
    "\\\\host\\share\\secret",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "~root/.ssh/id_rsa",
    "$HOME/.ssh/id_rsa",
    "%2e%2e/secret",
    "%2e%2e%2fsecret",
    "..%2fsecret",
    "..%252fsecret",
    "%c0%ae%c0%ae/secret",
    "..%c0%afsecret",
    "..%00/secret",
    "..\0/secret",
    "secret\0.txt",
    "\0",
    "....//secret",
    "....\\\\secret",
    "..;/secret",
    "..../secret",
    ".. /secret",
    " ../secret",
    "..\u{200b}/secret",
    "\u{ff0e}\u{ff0e}/secret",
    "\u{2024}\u{2024}/secret",
    "\u{2025}/secret",
    "..\u{2215}secret",
    "..\u{2044}secret",
    "..\u{ff0f}secret",
    "\u{202e}terces/..",
    "..\n/secret",
    "..\r\n/secret",
    "/proc/self/root/etc/passwd",
    "/dev/stdin",
    "/dev/fd/0",
    "proc/self/environ/",
    "a//../secret",
    "a///../../secret",
    ".xworkmate/scope.json",
    ".xworkmate/../.xworkmate/scope.json",
    "node_modules/../../secret",
    ".git/config",
    "tasks/other/run/secret",
    "../turn-2/secret",
    "../work/secret",
    "../.xworkmate/session.json",
    "",
    "/",
    "//",
    " ",
];

/// A workspace with secrets everywhere around the run's folder.
fn surrounded() -> Host {
    let host = Host::prepared();
    put(&host.scope(), "a/b/fine.txt", "fine");
    put(&host.scope(), ".git/config", "secret");
    for place in [
        host.scope().parent().unwrap().to_owned(),
        host.scope().parent().unwrap().join("turn-2"),
        host.scope().parent().unwrap().join("work"),
        host.ws(),
        host.ws().join("tasks"),
        host.temp.path().to_owned(),
    ] {
        put(&place, "secret", "secret");
        put(&place, "secret.txt", "secret");
    }
    host
}

fn holds_no_secret(answer: &Value) {
    let text = answer.to_string();
    // "secret" in base64.
    assert!(!text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn a_path_never_leads_out_of_the_scope() {
    let host = surrounded();
    for text in CORPUS {
        let answer = host.read(turn(json!({"artifactScope": SCOPE, "relativePath": text})));
        let (code, _) = answer.unwrap_err();
        assert!(
            ["INVALID_REQUEST", "artifact_not_found"].contains(&code.as_str()),
            "{text:?}: {code}"
        );
    }
}

#[test]
fn a_scope_is_the_runs_own_or_nothing() {
    let host = surrounded();
    for text in CORPUS {
        for scope in [
            text.to_string(),
            format!("{SCOPE}/{text}"),
            format!("tasks/{text}/turn-1"),
        ] {
            for answer in [
                host.export(turn(json!({"artifactScope": scope}))),
                host.collect(turn(json!({"artifactScope": scope}))),
                host.read(turn(
                    json!({"artifactScope": scope, "relativePath": "secret"}),
                )),
            ] {
                match answer {
                    Ok(answer) => {
                        assert_eq!(answer["artifactScope"], SCOPE, "{scope:?}");
                        holds_no_secret(&answer);
                    }
                    Err((code, _)) => assert!(
                        ["INVALID_REQUEST", "artifact_not_found"].contains(&code.as_str()),
                        "{scope:?}: {code}"
                    ),
                }
            }
        }
    }
}

#[test]
fn expected_folders_named_files_and_sources_never_bring_a_secret() {
    let host = surrounded();
    // A named file of the workspace itself would be the run's own.
    for own in ["secret", "secret.txt"] {
        fs::remove_file(host.ws().join(own)).unwrap();
    }
    let beside = host.ws().join("tasks/secret");
    let before = fs::read(&beside).unwrap();
    for text in CORPUS {
        let media = host
            .media()
            .join(text.trim_start_matches('/'))
            .to_string_lossy()
            .into_owned();
        for params in [
            json!({"expectedArtifactDirs": [text], "sinceUnixMs": 1, "overlapped": false}),
            json!({"expectedArtifactDirs": ["reports"], "writtenFiles": [text], "sinceUnixMs": 1}),
        ] {
            match host.export(turn(params)) {
                Ok(answer) => holds_no_secret(&answer),
                Err((code, _)) => assert_eq!(code, "INVALID_REQUEST", "{text:?}"),
            }
        }
        for params in [
            json!({"sourceFiles": [text, media], "sinceUnixMs": 1}),
            json!({"writtenFiles": [text, media], "sinceUnixMs": 1, "overlapped": false}),
        ] {
            let answer = host.collect(turn(params)).unwrap();
            assert_eq!(answer["copiedFiles"], json!([]), "{text:?}");
        }
    }
    assert_eq!(fs::read(&beside).unwrap(), before);
    holds_no_secret(&host.export(turn(json!({}))).unwrap());
}

#[test]
fn a_reference_cannot_be_bent() {
    let host = surrounded();
    let listed = host.list(turn(json!({}))).unwrap();
    let reference = listed["artifacts"][0]["artifactRef"].as_str().unwrap();
    for text in CORPUS {
        for bent in [
            reference.replace("a/b/fine.txt", text),
            reference.replace("turn-1", text),
            format!("{text}::{reference}"),
            format!("{reference}{text}"),
        ] {
            // `a/..` and the like inside a name are refused, not repaired.
            if bent == reference {
                continue;
            }
            let answer = host.read(turn(json!({"artifactRef": bent})));
            let Err((code, _)) = answer else {
                // Only white space around it is forgiven.
                assert_eq!(bent.trim(), reference);
                continue;
            };
            assert!(
                ["INVALID_REQUEST", "LINK_FORGED"].contains(&code.as_str()),
                "{bent:?}: {code}"
            );
        }
    }
}

/// Session and run may be anything; the folder is always two plain names below `tasks`.
#[test]
fn keys_become_plain_names() {
    for text in CORPUS {
        let (Ok(session), Ok(run)) = (SessionKey::new(text), RunId::new(text)) else {
            continue;
        };
        for scope in [
            ArtifactScope::of(&session, &run).ok(),
            Some(ArtifactScope::peer(&session, &run)),
        ] {
            let Some(scope) = scope else { continue };
            let parts: Vec<&str> = scope.as_str().split('/').collect();
            assert_eq!((parts.len(), parts[0]), (3, "tasks"), "{text:?}");
            ArtifactPath::new(scope.as_str()).unwrap();
        }
    }
}

proptest! {
    /// Whatever passes as a path is relative, stays below its folder, and has one spelling.
    #[test]
    fn a_path_that_passes_stays_inside(text in "[a-c./\\\\ \0\n%~:-]{0,24}") {
        if let Ok(path) = ArtifactPath::new(text.clone()) {
            prop_assert_eq!(path.as_str(), text.as_str());
            let joined = std::path::Path::new("/root").join(path.as_str());
            let parts: Vec<_> = joined.components().collect();
            prop_assert_eq!(parts.len(), 2 + text.split('/').count());
            let plain = |c: &std::path::Component<'_>| !matches!(c, std::path::Component::ParentDir | std::path::Component::CurDir);
            prop_assert!(parts.iter().all(plain));
        }
    }

    /// A scope that passes is the run's own, or the earlier plugin's for exactly this run.
    #[test]
    fn a_scope_that_passes_is_the_runs(text in "(tasks)?[/\\\\]{0,2}[a-c:._-]{0,4}[/\\\\]{0,2}[a-c:._-]{0,4}[/\\\\]{0,2}", session in "[a-c:._-]{1,4}", run in "[a-c:._-]{1,4}") {
        let (session, run) = (SessionKey::new(session).unwrap(), RunId::new(run).unwrap());
        if let Ok(scope) = ArtifactScope::check_to_read(&text, &session, &run) {
            let own = ArtifactScope::of(&session, &run).unwrap();
            prop_assert!(scope == own || scope == ArtifactScope::peer(&session, &run));
        }
        if let Ok(scope) = ArtifactScope::check(&text, &session, &run) {
            prop_assert_eq!(scope, ArtifactScope::of(&session, &run).unwrap());
        }
    }
}
