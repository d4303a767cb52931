//! What a run's scope delivers, as a caller of the gateway sees it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    time::{Duration, SystemTime},
};

use common::{
    age,
    host::{Host, K, SCOPE, each, moment, omitted, run_params, texts, turn, with},
    put,
};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

fn paths(result: &Value) -> Vec<&str> {
    each(&result["artifacts"], "relativePath")
}

fn sorted(result: &Value) -> Vec<&str> {
    let mut all = paths(result);
    all.sort_unstable();
    all
}

#[test]
fn p50_one_file_in_both_forms() {
    let host = Host::prepared();
    put(&host.scope(), "reports/final.md", "# Done\n");
    let result = host.export(turn(json!({}))).unwrap();
    let item = &result["artifacts"][0];
    let (reference, expires) = (item["artifactRef"].clone(), item["expiresAt"].clone());
    let digest = "1c756e4db5b787b6e660c80caf23f7c10b6b9543e53c38e1eff47837eaad1338";
    let root = fs::canonicalize(host.ws()).unwrap();
    assert_eq!(
        result,
        json!({
            "runId": "turn-1",
            "sessionKey": K,
            "openclawSessionKey": K,
            "remoteWorkingDirectory": root,
            "remoteWorkspaceRefKind": "remotePath",
            "workspaceSource": "default",
            "artifactScope": SCOPE,
            "scopeKind": "task",
            "artifactDirectory": root.join(SCOPE),
            "manifest": {
                "scope": SCOPE,
                "sessionKey": K,
                "runId": "turn-1",
                "totalCandidates": 1,
                "files": [{
                    "relativePath": "reports/final.md",
                    "displayPath": "reports/final.md",
                    "size": 7,
                    "contentType": "text/markdown",
                    "sha256": digest,
                    "inline": true,
                    "ref": reference,
                }],
            },
            "artifacts": [{
                "relativePath": "reports/final.md",
                "label": "final.md",
                "contentType": "text/markdown",
                "sizeBytes": 7,
                "sha256": digest,
                "artifactRef": reference,
                "expiresAt": expires,
                "artifactScope": SCOPE,
                "scopeKind": "task",
                "encoding": "base64",
                "content": "IyBEb25lCg==",
            }],
            "omitted": {"count": 0, "bytes": 0, "byReason": {}, "files": []},
            "expectedArtifactDirs": [],
            "expectedArtifactDirStatus": [],
            "constraintSatisfied": true,
            "missingRequiredExtensions": [],
            "missingRequiredFileCounts": {},
            "warnings": [],
        })
    );
    // A list is the same without contents.
    let listed = host.list(turn(json!({"includeContent": true}))).unwrap();
    assert_eq!(listed["artifacts"][0].get("content"), None);
    assert_eq!(listed["artifacts"][0].get("notInlined"), None);
    assert_eq!(listed["manifest"]["files"][0]["inline"], false);
    let without = host.export(turn(json!({"includeContent": false}))).unwrap();
    assert_eq!(without["artifacts"][0].get("content"), None);
}

#[test]
fn p52_a_scope_that_was_never_prepared() {
    let host = Host::new();
    let result = host
        .export(turn(json!({"expectedArtifactDirs": ["reports"]})))
        .unwrap();
    assert_eq!(result["artifacts"], json!([]));
    assert_eq!(result["emptyReason"], "scope_missing");
    assert_eq!(
        texts(&result["warnings"]),
        [format!(
            "`{SCOPE}` is not there, so it has nothing to deliver: it was never prepared, or somebody moved or removed it."
        )]
    );
    assert!(!host.scope().exists(), "looking makes nothing");
}

#[test]
fn p53_p57_tool_folders_are_skipped_and_build_folders_are_not() {
    let host = Host::prepared();
    for path in [
        ".git/secret",
        ".xworkmate/a/i.json",
        "node_modules/x.js",
        "sub/.next/y",
        "real.txt",
        "dist/final.pdf",
        "build/assets/cover.png",
    ] {
        put(&host.scope(), path, path);
    }
    let result = host.export(turn(json!({}))).unwrap();
    assert_eq!(
        sorted(&result),
        ["build/assets/cover.png", "dist/final.pdf", "real.txt"]
    );
    let skipped = [".git", "node_modules", "sub/.next"].map(|path| (path, "skipped"));
    assert_eq!(omitted(&result), skipped);
    assert_eq!(result["warnings"], json!([]), "everybody knows this rule");
}

#[test]
fn p54_p77_links_and_special_files_are_skipped_with_a_reason() {
    let host = Host::prepared();
    let scope = host.scope();
    put(&scope, "real.txt", "real");
    symlink("real.txt", scope.join("linked.txt")).unwrap();
    mknodat(CWD, scope.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(scope.join("socket")).unwrap();
    let result = host.export(turn(json!({}))).unwrap();
    assert_eq!(paths(&result), ["real.txt"]);
    assert_eq!(
        omitted(&result),
        [
            ("fifo", "special_file"),
            ("linked.txt", "symlink"),
            ("socket", "special_file")
        ]
    );
    assert_eq!(texts(&result["warnings"]).len(), 3);
}

#[test]
fn p56_an_earlier_runs_files_are_not_this_ones() {
    let host = Host::prepared();
    put(&host.scope(), "final.pdf", "x");
    put(&host.scope(), "final.docx", "x");
    host.prepare(run_params("turn-2")).unwrap();
    let future = moment() + 3_600_000;
    let params = with(run_params("turn-2"), json!({"sinceUnixMs": future}));
    let result = host.export(params).unwrap();
    assert_eq!(
        (paths(&result), &result["emptyReason"]),
        (vec![], &json!("scope_empty"))
    );
    // What a prepared scope holds is the run's, whatever another host's clock says.
    let result = host.export(turn(json!({"sinceUnixMs": future}))).unwrap();
    assert_eq!(sorted(&result), ["final.docx", "final.pdf"]);
}

#[test]
fn p58_p60_the_ignore_file() {
    let host = Host::prepared();
    for path in [
        "tmp/scratch.md",
        "root.log",
        "reports/draft.tmp",
        "reports/debug/trace.json",
        "reports/final.md",
    ] {
        put(&host.scope(), path, path);
    }
    let fenced =
        "Notes.\n```artifact-ignore\ntmp/\n*.log\n**/*.tmp\nreports/debug/trace.json\na?b\n```\n";
    put(&host.scope(), "artifact-ignore.md", fenced);
    let result = host.export(turn(json!({}))).unwrap();
    assert_eq!(paths(&result), ["reports/final.md"]);
    assert_eq!(
        omitted(&result),
        [
            "artifact-ignore.md",
            "reports/debug/trace.json",
            "reports/draft.tmp",
            "root.log",
            "tmp/scratch.md"
        ]
        .map(|path| (path, "ignored"))
    );
    assert_eq!(
        texts(&result["warnings"]),
        [
            "artifact-ignore.md: the rule `a?b` is a pattern of a kind that is not known, so it has no effect."
        ]
    );
    put(&host.scope(), "artifact-ignore.md", "Ignore these\n*.log\n");
    assert_eq!(
        host.export(turn(json!({}))).unwrap()["artifacts"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    put(&host.scope(), "artifact-ignore.md", "**/*\n");
    let result = host.export(turn(json!({}))).unwrap();
    assert_eq!(
        (paths(&result), &result["emptyReason"]),
        (vec![], &json!("all_ignored"))
    );
}

/// A file that jumps over the cursor while somebody turns pages is on none of them: that is said.
#[test]
fn what_changes_between_two_pages_is_said() {
    let host = Host::prepared();
    for n in 1..=4 {
        put(&host.scope(), &format!("f{n}.txt"), "x");
        age(&host.scope(), &format!("f{n}.txt"), 100 - n);
    }
    let page = |cursor: &serde_json::Value| {
        let params = turn(json!({"maxFiles": 2, "cursor": cursor}));
        host.list(params).unwrap()
    };
    let first = page(&json!(null));
    assert_eq!(paths(&first), ["f4.txt", "f3.txt"]);
    assert_eq!(texts(&page(&first["nextCursor"])["warnings"]), [""; 0]);
    age(&host.scope(), "f1.txt", 0);
    let second = page(&first["nextCursor"]);
    assert_eq!(paths(&second), ["f2.txt"]);
    assert_eq!(
        texts(&second["warnings"]),
        [
            "Files were written or removed since the page before; some may be missing or be here twice. Begin again without a cursor to have all of them."
        ]
    );
}

/// Whoever asks for everything at once gets as much as an answer may hold, and the way to the rest.
#[test]
fn a_page_has_a_largest_size() {
    let host = Host::prepared();
    for n in 0..20_001 {
        put(&host.scope(), &format!("{}/{n:05}", n % 100), "");
    }
    let most = |cursor: &serde_json::Value| {
        let params = turn(json!({"maxFiles": 1_000_000, "cursor": cursor}));
        host.list(params).unwrap()
    };
    let first = most(&json!(null));
    let second = most(&first["nextCursor"]);
    assert_eq!((paths(&first).len(), paths(&second).len()), (20_000, 1));
    assert_eq!(second.get("nextCursor"), None);
}

#[test]
fn p66_nothing_is_dropped_over_the_limit() {
    let host = Host::prepared();
    for i in 0..250 {
        put(&host.scope(), &format!("f{i:03}.txt"), "four");
    }
    let first = host.export(turn(json!({}))).unwrap();
    assert_eq!(
        (paths(&first).len(), &first["manifest"]["totalCandidates"]),
        (200, &json!(250))
    );
    assert_eq!(
        first["omitted"],
        json!({"count": 50, "bytes": 200, "byReason": {}, "files": []})
    );
    assert_eq!(
        texts(&first["warnings"]),
        ["50 more files are on later pages; ask again with `nextCursor`."]
    );
    let second = host
        .export(turn(json!({"cursor": first["nextCursor"]})))
        .unwrap();
    assert_eq!(
        (paths(&second).len(), &second["omitted"]["count"]),
        (50, &json!(0))
    );
    assert_eq!(
        (second.get("nextCursor"), second.get("emptyReason")),
        (None, None)
    );
    let mut all = [paths(&first), paths(&second)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 250);
    // A cursor goes on with the list that gave it, and with no other.
    host.prepare(run_params("turn-2")).unwrap();
    for params in [
        with(run_params("turn-2"), json!({"cursor": first["nextCursor"]})),
        turn(json!({"cursor": first["nextCursor"], "requiredArtifactExtensions": ["md"]})),
        turn(json!({"cursor": "nonsense"})),
    ] {
        let (code, message) = host.export(params).unwrap_err();
        assert_eq!(
            (code.as_str(), message.as_str()),
            (
                "INVALID_REQUEST",
                "The cursor does not belong to this export."
            )
        );
    }
    for odd in [json!(0), json!(-5), json!("nonsense".len()), json!(null)] {
        let result = host.list(turn(json!({"maxFiles": odd}))).unwrap();
        assert_eq!(paths(&result).len(), if odd == json!(8) { 8 } else { 200 });
    }
}

fn set_time(host: &Host, path: &str, seconds_ago: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - seconds_ago);
    let file = fs::File::options()
        .write(true)
        .open(host.scope().join(path))
        .unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn p68_what_is_required_comes_first() {
    let host = Host::prepared();
    put(&host.scope(), "final.mp4", "movie");
    set_time(&host, "final.mp4", 1_000);
    for i in 0..64 {
        put(&host.scope(), &format!("n{i}.txt"), "x");
    }
    let asked = json!({"requiredArtifactExtensions": [".MP4"], "maxFiles": 64});
    let result = host.export(turn(asked)).unwrap();
    assert_eq!((paths(&result).len(), paths(&result)[0]), (64, "final.mp4"));
    assert_eq!(result["constraintSatisfied"], true);
    // Not asked for, it is on the second page, and is there all the same.
    let counted = json!({"expectedFileCountByExtension": {"mp4": 1, "txt": 64}, "maxFiles": 64});
    let result = host.export(turn(counted)).unwrap();
    assert!(!paths(&result).contains(&"final.mp4"));
    assert_eq!(result["constraintSatisfied"], true);
}

#[test]
fn p69_the_latest_first_and_ties_by_name() {
    let host = Host::prepared();
    for (path, ago) in [("older.txt", 9), ("newer-b", 5), ("newer-a", 5)] {
        put(&host.scope(), path, path);
        set_time(&host, path, ago);
    }
    assert_eq!(
        paths(&host.export(turn(json!({}))).unwrap()),
        ["newer-a", "newer-b", "older.txt"]
    );
}

#[test]
fn p70_what_is_required_and_missing_is_said() {
    let host = Host::prepared();
    put(&host.scope(), "notes.md", "x");
    let asked = json!({
        "requiredArtifactExtensions": ["pdf", "md", "a/b"],
        "expectedFileCountByExtension": {"md": 3, "png": "2"},
    });
    for params in [turn(asked.clone()), with(run_params("never"), asked)] {
        let result = host.export(params).unwrap();
        assert_eq!(result["constraintSatisfied"], false);
        let there = u64::from(result.get("emptyReason").is_none());
        let missing = if there == 1 {
            json!(["pdf"])
        } else {
            json!(["pdf", "md"])
        };
        assert_eq!(result["missingRequiredExtensions"], missing);
        assert_eq!(
            result["missingRequiredFileCounts"],
            json!({"md": {"expected": 3, "actual": there}, "png": {"expected": 2, "actual": 0}})
        );
    }
}

#[test]
fn p80_exports_at_once_see_their_own_scope_only() {
    let host = Host::new();
    let runs: Vec<Value> = (0..3).map(|i| run_params(&format!("run-{i}"))).collect();
    for params in &runs {
        let prepared = host.prepare(params.clone()).unwrap();
        let scope = prepared["artifactScope"].as_str().unwrap();
        put(
            &host.ws().join(scope),
            &format!("{}.txt", params["runId"].as_str().unwrap()),
            "x",
        );
    }
    std::thread::scope(|s| {
        for params in &runs {
            s.spawn(|| {
                for _ in 0..20 {
                    let result = host.export(params.clone()).unwrap();
                    assert_eq!(
                        paths(&result),
                        [format!("{}.txt", params["runId"].as_str().unwrap())]
                    );
                }
            });
        }
    });
}
