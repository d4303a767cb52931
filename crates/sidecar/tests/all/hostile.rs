//! Parameters that try to get out of the workspace, or into another run's files.

use std::{fs, os::unix::fs::symlink, path::Path};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::wire::{COLLECT, EXPORT, Host, LIST, PREPARE, READ, SCOPE, put, run, turn};

const WAYS_OUT: [&str; 12] = [
    "../../../secret",
    "..",
    ".",
    "/etc/passwd",
    "a/../../secret",
    "..\\..\\secret",
    "a\0b",
    "%2e%2e/secret",
    "....//secret",
    "tasks/../../secret",
    "\u{202e}terces",
    "C:\\secret",
];

/// Everything beneath a folder, as paths.
fn names(root: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            out.push(path.strip_prefix(root).unwrap().display().to_string());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    out.sort();
    out
}

#[test]
fn keys_stay_in_the_workspace_whatever_they_look_like() {
    let host = Host::new();
    let mut client = host.client();
    put(host.path(), "secret", "secret");
    for (n, way) in WAYS_OUT.iter().enumerate() {
        let n = n.to_string();
        let session = run(&format!("r{n}"), json!({"openclawSessionKey": way}));
        let run_id = run(way, json!({"openclawSessionKey": format!("s{n}")}));
        for params in [session, run_id] {
            match client.call(PREPARE, params.clone()) {
                Ok(made) => {
                    let folder = Path::new(made["artifactDirectory"].as_str().unwrap());
                    let inner = folder.strip_prefix(host.workspace().join("tasks")).unwrap();
                    assert_eq!(inner.components().count(), 2, "{params}");
                    assert!(fs::canonicalize(folder).unwrap() == folder, "{params}");
                }
                Err(code) => assert_eq!(code, "INVALID_REQUEST", "{params}"),
            }
        }
    }
    let mut outside = names(host.path());
    outside.retain(|name| {
        !name.starts_with("home/.openclaw/workspace/tasks") && !name.starts_with("state")
    });
    assert_eq!(
        outside,
        [
            "home",
            "home/.openclaw",
            "home/.openclaw/media",
            "home/.openclaw/workspace",
            "secret",
            "tmp"
        ]
    );
}

#[test]
fn scopes_and_paths_lead_nowhere_else() {
    let host = Host::new();
    let mut client = host.client();
    client.prepare();
    client.ok(PREPARE, run("turn-2", json!({})));
    put(host.path(), "secret", "secret");
    put(&host.scope(), "a.txt", "a");
    put(
        &host.workspace(),
        "tasks/agent-main-draft-1/turn-2/b.txt",
        "b",
    );
    symlink(host.path().join("secret"), host.scope().join("link")).unwrap();
    let invalid = || Err("INVALID_REQUEST".to_owned());
    let others = [
        "tasks/agent-main-draft-1/turn-2",
        "tasks/s",
        "tasks/s/r/x",
        "other/s/r",
    ];
    for scope in WAYS_OUT.iter().chain(&others) {
        for method in [PREPARE, COLLECT, EXPORT, LIST] {
            let params = turn(json!({"artifactScope": scope}));
            assert_eq!(client.call(method, params), invalid(), "{method} {scope}");
        }
        let params = turn(json!({"artifactScope": scope, "relativePath": "a.txt"}));
        assert_eq!(client.call(READ, params), invalid(), "{scope}");
    }
    for path in WAYS_OUT {
        let params = turn(json!({"artifactScope": SCOPE, "relativePath": path}));
        let refused = client.call(READ, params).unwrap_err();
        assert!(
            ["INVALID_REQUEST", "artifact_not_found"].contains(&refused.as_str()),
            "{path}: {refused}"
        );
    }
    let link = turn(json!({"artifactScope": SCOPE, "relativePath": "link"}));
    assert_eq!(client.call(READ, link), Err("symlink_rejected".to_owned()));
    for dir in ["../outside", "/etc", "C:\\x", "a/./b", "a\0b"] {
        for method in [PREPARE, EXPORT] {
            let params = turn(json!({"expectedArtifactDirs": [dir]}));
            assert_eq!(client.call(method, params), invalid(), "{method} {dir:?}");
        }
    }
    let named = json!({"sourceFiles": [host.path().join("secret"), "secret", "/etc/hostname"]});
    assert_eq!(client.ok(COLLECT, turn(named))["copiedFiles"], json!([]));
}

#[test]
fn a_reference_opens_what_it_was_made_for_and_nothing_else() {
    let host = Host::new();
    let mut client = host.client();
    client.prepare();
    client.ok(PREPARE, run("turn-2", json!({})));
    put(&host.scope(), "a.txt", "a");
    put(&host.scope(), "b.txt", "b");
    let list = client.ok(LIST, turn(json!({})));
    let reference = |at: usize| {
        list["artifacts"][at]["artifactRef"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (first, second) = (reference(0), reference(1));
    let mut refused = |params: Value| client.call(READ, params).unwrap_err();
    // Another run's, another session's, another file's.
    assert_eq!(
        refused(run("turn-2", json!({"artifactRef": first}))),
        "INVALID_REQUEST"
    );
    let other = json!({"artifactRef": first, "openclawSessionKey": "agent:main:other"});
    assert_eq!(refused(turn(other)), "INVALID_REQUEST");
    let (_, end) = second.rsplit_once("::").unwrap();
    let (begin, _) = first.rsplit_once("::").unwrap();
    assert_eq!(
        refused(turn(json!({"artifactRef": format!("{begin}::{end}")}))),
        "LINK_FORGED"
    );
    // Any letter changed: forged or no reference at all, never served.
    for at in (0..first.len()).step_by(3) {
        let mut bytes = first.clone().into_bytes();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        let changed = String::from_utf8(bytes).unwrap();
        let code = refused(turn(json!({"artifactRef": changed})));
        assert!(
            ["LINK_FORGED", "INVALID_REQUEST"].contains(&code.as_str()),
            "{changed}: {code}"
        );
    }
}

#[test]
fn a_workspace_that_is_none_is_not_made() {
    let host = Host::new();
    let mut client = host.client();
    let none = host.path().join("none");
    let params = turn(json!({"workspaceDir": none}));
    assert_eq!(
        client.call(PREPARE, params),
        Err("INVALID_REQUEST".to_owned())
    );
    assert!(!none.exists());
    // An app's reference to a thread is not a folder; the usual workspace is used, and it is said.
    let hint = turn(json!({"workspaceDir": "/owners/local/user/x/threads/y"}));
    let made = client.ok(PREPARE, hint);
    assert_eq!(
        (
            &made["workspaceSource"],
            made["warnings"].as_array().unwrap().len()
        ),
        (&json!("default"), 1)
    );
    // A workspace whose `tasks` leads away is refused.
    let other = host.path().join("other");
    fs::create_dir(&other).unwrap();
    symlink(host.path(), other.join("tasks")).unwrap();
    let params = turn(json!({"workspaceDir": other}));
    assert_eq!(
        client.call(PREPARE, params),
        Err("PREPARE_FAILED".to_owned())
    );
}
