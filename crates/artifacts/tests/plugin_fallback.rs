//! Files that a run left in the workspace's own folders.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use common::{
    age,
    host::{Host, SCOPE, each, moment, omitted, run_params, texts, turn, with},
    put, settle, tree,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn paths(result: &Value) -> Vec<&str> {
    let mut all = each(&result["artifacts"], "relativePath");
    all.sort_unstable();
    all
}

/// A run that wrote relative paths, which land in the workspace that all sessions share.
fn written() -> Host {
    let host = Host::new();
    put(&host.ws(), "reports/old.md", "old");
    moment();
    host.prepare(run_params("turn-1")).unwrap();
    put(&host.ws(), "assets/images/cover.png", "cover");
    put(&host.ws(), "reports/final.md", "# Done\n");
    put(&host.ws(), "scratch.txt", "scratch");
    host
}

fn expected(more: Value) -> Value {
    with(
        turn(json!({"expectedArtifactDirs": ["assets/images", "reports"]})),
        more,
    )
}

#[test]
fn p61_p64_named_files_of_expected_folders_are_delivered_and_can_be_read() {
    let host = written();
    let absolute = host.ws().join("reports/final.md");
    let named =
        json!({"writtenFiles": ["assets/images/cover.png", absolute, "scratch.txt", "gone.txt"]});
    for round in 0..2 {
        let result = host.export(expected(named.clone())).unwrap();
        assert_eq!(
            paths(&result),
            ["assets/images/cover.png", "reports/final.md"]
        );
        for item in result["artifacts"].as_array().unwrap() {
            assert_eq!(item["artifactScope"], SCOPE);
            let read = host
                .read(turn(json!({"artifactRef": item["artifactRef"]})))
                .unwrap();
            assert_eq!(
                read["artifacts"][0]["content"], item["content"],
                "round {round}"
            );
        }
        assert_eq!(
            omitted(&result),
            [
                ("scratch.txt", "outside_scope"),
                ("reports/old.md", "changed_outside_run"),
            ]
        );
        assert_eq!(
            texts(&result["warnings"]),
            ["`scratch.txt` was not taken: it lies outside every folder that a run delivers from."]
        );
        assert_eq!(
            result["expectedArtifactDirStatus"],
            json!([
                {"relativePath": "assets/images/", "exists": true},
                {"relativePath": "reports/", "exists": true},
            ])
        );
    }
    // Delivered is delivered: a later run that overwrites the shared file changes nothing.
    put(&host.ws(), "reports/final.md", "another's");
    let listed = host.list(turn(json!({}))).unwrap();
    let item = listed["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["label"] == "final.md")
        .unwrap();
    let read = host
        .read(turn(json!({"artifactRef": item["artifactRef"]})))
        .unwrap();
    assert_eq!(read["artifacts"][0]["content"], "IyBEb25lCg==");
}

#[test]
fn without_other_runs_what_changed_is_the_runs() {
    let host = written();
    let result = host.export(expected(json!({}))).unwrap();
    assert_eq!(
        paths(&result),
        ["assets/images/cover.png", "reports/final.md"]
    );
    assert_eq!(
        omitted(&result),
        [("reports/old.md", "changed_outside_run")]
    );
}

#[test]
fn p61a_when_runs_overlap_nothing_unnamed_is_delivered() {
    let host = written();
    let other =
        json!({"openclawSessionKey": "agent:main:other", "runId": "r", "appThreadKey": "o"});
    host.prepare(other).unwrap();
    for params in [expected(json!({})), expected(json!({"overlapped": true}))] {
        let result = host.export(params).unwrap();
        assert_eq!(paths(&result), Vec::<&str>::new());
        assert_eq!(
            omitted(&result),
            [
                ("assets/images/cover.png", "ambiguous_owner"),
                ("reports/final.md", "ambiguous_owner"),
                ("reports/old.md", "changed_outside_run"),
            ]
        );
        assert_eq!(result["emptyReason"], "all_omitted");
    }
    assert_eq!(tree(&host.scope()), []);
}

/// Background processes and people write there too: that the run was open is no evidence.
#[test]
fn an_unnamed_file_is_the_runs_if_it_changed_while_only_its_commands_ran() {
    let host = Host::prepared();
    put(&host.ws(), "reports/by-a-person.md", "x");
    let since = moment();
    put(&host.ws(), "reports/by-a-script.md", "x");
    put(&host.media(), "by-a-script.png", "x");
    let until = moment();
    put(&host.ws(), "reports/by-a-background-process.md", "x");
    put(&host.ws(), "reports/named.md", "x");
    put(&host.media(), "by-nobody.png", "x");
    let proof = json!({
        "writtenFiles": ["reports/named.md"],
        "commandSpans": [{"sinceUnixMs": since, "untilUnixMs": until}],
        // What the host watches counts, not that no other run was open.
        "overlapped": false,
    });
    for _ in 0..2 {
        let collected = host.collect(turn(proof.clone())).unwrap();
        assert_eq!(
            omitted(&collected),
            [("media/by-nobody.png", "ambiguous_owner")]
        );
        let result = host.export(expected(proof.clone())).unwrap();
        assert_eq!(
            (paths(&result), omitted(&result)),
            (
                vec![
                    "artifacts/media/by-a-script.png",
                    "reports/by-a-script.md",
                    "reports/named.md"
                ],
                vec![
                    ("reports/by-a-background-process.md", "ambiguous_owner"),
                    ("reports/by-a-person.md", "ambiguous_owner"),
                ]
            )
        );
    }
}

#[test]
fn a_run_without_commands_is_given_nothing_that_nobody_names() {
    let host = written();
    let proof = json!({"commandSpans": []});
    let result = host.export(expected(proof.clone())).unwrap();
    assert_eq!(
        (paths(&result), omitted(&result)),
        (
            vec![],
            vec![
                ("assets/images/cover.png", "ambiguous_owner"),
                ("reports/final.md", "ambiguous_owner"),
                ("reports/old.md", "changed_outside_run"),
            ]
        )
    );
    assert_eq!(result["emptyReason"], "all_omitted");
    assert_eq!(
        texts(&result["warnings"]),
        ["assets/images/cover.png", "reports/final.md"]
            .map(|path| format!("`{path}` was not taken: nothing shows that this run made it."))
    );
    put(&host.tmp(), "left.txt", "by somebody");
    let collected = host.collect(turn(proof)).unwrap();
    assert_eq!(
        (&collected["copiedFiles"], omitted(&collected)),
        (
            &json!([]),
            vec![("tmp-openclaw/left.txt", "ambiguous_owner")]
        )
    );
}

/// A file that a tool call of another run names is that run's, wherever it lies and whoever names it too.
#[test]
fn another_runs_file_is_never_this_runs() {
    let host = written();
    put(&host.scope(), "planted.md", "by another run");
    put(&host.scope(), "over/written.md", "by another run");
    let proof = json!({
        "writtenFiles": ["reports/final.md", "assets/images/cover.png"],
        "commandSpans": [{"sinceUnixMs": 1, "untilUnixMs": i64::MAX}],
        "othersFiles": [
            host.scope().join("planted.md"),
            host.scope().join("over/written.md"),
            host.ws().join("reports/final.md"),
            host.media().join(" spaced .png"),
        ],
        "maybeOthersFiles": [host.media().join("maybe.png")],
    });
    put(&host.media(), " spaced .png", "by another run");
    put(
        &host.media(),
        "maybe.png",
        "by another run's background process",
    );
    // What is only another's is not told here; what this run names too, or may be its own, is.
    let collected = host.collect(turn(proof.clone())).unwrap();
    assert_eq!(
        omitted(&collected),
        [
            ("media/maybe.png", "ambiguous_owner"),
            ("reports/final.md", "ambiguous_owner"),
        ]
    );
    // Nothing in the scope is the run's own, so what it left elsewhere comes.
    let mut want = vec![
        ("over/written.md", "ambiguous_owner"),
        ("planted.md", "ambiguous_owner"),
        ("reports/final.md", "ambiguous_owner"),
        ("reports/old.md", "changed_outside_run"),
    ];
    let result = host.export(expected(proof.clone())).unwrap();
    assert_eq!(
        (paths(&result), omitted(&result)),
        (vec!["assets/images/cover.png"], want.clone())
    );
    want.truncate(2);
    let listed = host.list(turn(proof)).unwrap();
    assert_eq!(
        (paths(&listed), omitted(&listed)),
        (vec!["assets/images/cover.png"], want)
    );
    assert_eq!(listed["manifest"]["totalCandidates"], 1);
}

#[test]
fn p62_a_scope_with_files_is_not_filled_up_and_what_changed_elsewhere_is_told() {
    let host = written();
    put(&host.scope(), "reports/scoped.md", "scoped");
    let result = host.export(expected(json!({}))).unwrap();
    let cover = ("assets/images/cover.png", "ambiguous_owner");
    assert_eq!(
        (paths(&result), omitted(&result)),
        (
            vec!["reports/scoped.md"],
            vec![cover, ("reports/final.md", "ambiguous_owner")]
        )
    );
    // What the runtime itself names is the run's all the same.
    let result = host
        .export(expected(json!({"writtenFiles": ["reports/final.md"]})))
        .unwrap();
    assert_eq!(
        (paths(&result), omitted(&result)),
        (vec!["reports/final.md", "reports/scoped.md"], vec![cover])
    );
}

/// Anybody can put a file into a run's folder: that must not make the run's own files vanish.
#[test]
fn a_file_in_the_scope_keeps_nothing_out_that_is_proven_to_be_the_runs() {
    for planted in [false, true] {
        let host = Host::prepared();
        let since = moment();
        put(&host.ws(), "reports/by-a-script.md", "x");
        let until = moment();
        put(&host.ws(), "reports/by-a-person.md", "x");
        symlink("by-a-person.md", host.ws().join("reports/link.md")).unwrap();
        let mut want = vec!["reports/by-a-script.md"];
        if planted {
            put(&host.scope(), "planted.md", "by a person");
            want.insert(0, "planted.md");
        }
        let proof = json!({"commandSpans": [{"sinceUnixMs": since, "untilUnixMs": until}]});
        for _ in 0..2 {
            let result = host.export(expected(proof.clone())).unwrap();
            assert_eq!(
                (paths(&result), omitted(&result)),
                (
                    want.clone(),
                    vec![
                        ("reports/by-a-person.md", "ambiguous_owner"),
                        ("reports/link.md", "symlink"),
                    ]
                )
            );
        }
    }
}

#[test]
fn a_file_that_another_run_has_is_not_told_of_each_run_beside_it() {
    let host = written();
    let other = json!({"openclawSessionKey": "other", "runId": "r", "appThreadKey": "o"});
    host.prepare(other.clone()).unwrap();
    put(&host.ws(), "reports/others.md", "x");
    let dirs = json!({"expectedArtifactDirs": ["reports"], "commandSpans": []});
    let named = json!({"writtenFiles": ["reports/others.md"]});
    let theirs = host.export(with(other, with(dirs.clone(), named))).unwrap();
    assert_eq!(paths(&theirs), ["reports/others.md"]);
    let ours = host.export(turn(dirs)).unwrap();
    assert_eq!(
        (paths(&ours), omitted(&ours)),
        (
            vec![],
            vec![
                ("reports/final.md", "ambiguous_owner"),
                ("reports/old.md", "changed_outside_run"),
            ]
        )
    );
}

#[test]
fn what_cannot_be_delivered_is_told_of_the_run_that_made_it_and_of_no_later_one() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let host = Host::new();
    put(&host.ws(), "reports/node_modules/old.js", "x");
    let bad = |bytes: &[u8]| host.ws().join("reports").join(OsStr::from_bytes(bytes));
    fs::write(bad(b"old-\xff.md"), "x").unwrap();
    moment();
    host.prepare(run_params("turn-1")).unwrap();
    fs::write(bad(b"new-\xff.md"), "x").unwrap();
    put(&host.ws(), "reports/.cache/new", "x");
    let result = host.export(expected(json!({}))).unwrap();
    assert_eq!(
        omitted(&result),
        [
            ("reports/.cache", "skipped"),
            ("reports/new-\\xff.md", "name_not_utf8"),
        ]
    );
}

/// What is brought from an output folder is not what the run put into its scope itself.
#[test]
fn files_of_output_folders_do_not_keep_those_of_expected_folders_out() {
    let host = written();
    put(&host.tmp(), "shot.png", "x");
    let collected = host.collect(turn(json!({}))).unwrap();
    assert_eq!(
        texts(&collected["copiedFiles"]),
        ["artifacts/tmp-openclaw/shot.png"]
    );
    for _ in 0..2 {
        assert_eq!(
            paths(&host.export(expected(json!({}))).unwrap()),
            [
                "artifacts/tmp-openclaw/shot.png",
                "assets/images/cover.png",
                "reports/final.md"
            ]
        );
    }
}

/// A folder that all runs share grows with every run.
#[test]
fn what_the_run_had_nothing_to_do_with_comes_last_and_is_not_all_named() {
    let host = Host::new();
    for i in 0..50 {
        put(&host.ws(), &format!("reports/old-{i:02}.md"), "x");
    }
    moment();
    host.prepare(run_params("turn-1")).unwrap();
    put(&host.ws(), "reports/z.md", "x");
    let result = host.export(expected(json!({"overlapped": true}))).unwrap();
    let told = omitted(&result);
    assert_eq!(
        (told[0], told[1], told.len()),
        (
            ("reports/z.md", "ambiguous_owner"),
            ("reports/old-00.md", "changed_outside_run"),
            21
        )
    );
    assert_eq!(
        result["omitted"]["byReason"],
        json!({"ambiguous_owner": 1, "changed_outside_run": 50})
    );
}

#[test]
fn p65_a_linked_folder_is_not_entered() {
    let host = Host::prepared();
    put(host.temp.path(), "outside/final.md", "secret");
    symlink(host.temp.path().join("outside"), host.ws().join("reports")).unwrap();
    let result = host
        .export(expected(json!({"writtenFiles": ["reports/final.md"]})))
        .unwrap();
    assert_eq!(paths(&result), Vec::<&str>::new());
    assert_eq!(
        omitted(&result),
        [("reports/", "symlink"), ("reports/final.md", "symlink")]
    );
    assert_eq!(texts(&result["warnings"]).len(), 2);
    assert_eq!(
        result["expectedArtifactDirStatus"][1],
        json!({"relativePath": "reports/", "exists": false})
    );
}

#[test]
fn folders_that_overlap_list_a_file_once() {
    let host = Host::prepared();
    put(&host.ws(), "assets/images/cover.png", "x");
    put(&host.ws(), "assets/a.css", "x");
    let dirs = json!({"expectedArtifactDirs": ["assets/", "assets/images/", "assets"]});
    let result = host.export(turn(dirs)).unwrap();
    assert_eq!(paths(&result), ["assets/a.css", "assets/images/cover.png"]);
    assert_eq!(result["manifest"]["totalCandidates"], 2);
}

#[test]
fn runs_own_folders_and_tools_folders_are_never_looked_at() {
    let host = Host::prepared();
    let other = json!({"openclawSessionKey": "other", "runId": "r", "appThreadKey": "o", "checkOnly": false});
    host.prepare(other).unwrap();
    put(&host.ws(), "tasks/other/r/theirs.md", "x");
    put(&host.ws(), "owners/a/threads/b/hint.md", "x");
    put(&host.ws(), "dist/node_modules/m.js", "x");
    put(&host.ws(), "dist/.cache/x", "x");
    put(&host.ws(), "dist/.env", "x");
    let params = json!({
        "expectedArtifactDirs": ["tasks/other/r", "owners", "dist"],
        "writtenFiles": ["tasks/other/r/theirs.md"],
        "overlapped": false,
    });
    let result = host.export(turn(params)).unwrap();
    assert_eq!(paths(&result), Vec::<&str>::new());
    assert_eq!(
        omitted(&result),
        [
            ("dist/.cache", "skipped"),
            ("dist/.env", "skipped"),
            ("dist/node_modules", "skipped"),
            ("tasks/other/r/theirs.md", "outside_scope"),
        ]
    );
}

#[test]
fn an_ignore_file_in_an_expected_folder_counts() {
    let host = Host::prepared();
    put(&host.ws(), "reports/final.md", "x");
    put(&host.ws(), "reports/draft.tmp", "x");
    put(&host.ws(), "reports/raw/a.csv", "x");
    put(
        &host.ws(),
        "reports/artifact-ignore.md",
        "**/*.tmp\nreports/raw/\n",
    );
    let result = host.export(expected(json!({}))).unwrap();
    assert_eq!(paths(&result), ["reports/final.md"]);
    assert_eq!(
        omitted(&result),
        [
            "reports/artifact-ignore.md",
            "reports/draft.tmp",
            "reports/raw/a.csv"
        ]
        .map(|path| (path, "ignored"))
    );
}

/// Killed after some of the copies: the scope is no longer empty, and still the rest comes.
#[test]
fn a_kill_in_the_middle_is_made_good() {
    let host = Host::prepared();
    for i in 0..6 {
        put(&host.ws(), &format!("reports/f{i}.md"), format!("{i}"));
    }
    let whole = paths(&host.export(expected(json!({}))).unwrap()).join(" ");
    fs::remove_file(host.scope().join("reports/f2.md")).unwrap();
    fs::remove_file(host.scope().join("reports/f4.md")).unwrap();
    put(&host.scope(), ".xworkmate/staging/half", "x");
    assert_eq!(
        paths(&host.export(expected(json!({}))).unwrap()).join(" "),
        whole
    );
}

/// The same file is not another session's too, however late that one asks.
#[test]
fn a_file_goes_to_one_run_only() {
    let host = written();
    host.export(expected(json!({}))).unwrap();
    let other = json!({"openclawSessionKey": "other", "runId": "r", "appThreadKey": "o"});
    host.prepare(other.clone()).unwrap();
    let claims = json!({
        "expectedArtifactDirs": ["reports"], "writtenFiles": ["reports/final.md"],
        "sinceUnixMs": 1, "overlapped": false,
    });
    let result = host.export(with(other, claims)).unwrap();
    assert_eq!(paths(&result), ["reports/old.md"], "only what nobody has");
    assert_eq!(omitted(&result), [("reports/final.md", "ambiguous_owner")]);
}

#[test]
fn an_old_file_whose_rights_a_run_changes_is_not_its_work() {
    let host = Host::new();
    for name in ["chmodded.sh", "linked.md", "rewritten.md", "touched.md"] {
        put(&host.ws(), &format!("reports/{name}"), "old");
    }
    put(&host.ws(), "elsewhere.md", "old");
    settle();
    let prepared = run_params("turn-1");
    let prepared = with(prepared, json!({"expectedArtifactDirs": ["reports"]}));
    host.prepare(prepared.clone()).unwrap();
    let at = |name: &str| host.ws().join("reports").join(name);
    // Written in the run before it is prepared once more: still the run's.
    put(&host.ws(), "reports/new.md", "new");
    host.prepare(prepared).unwrap();
    let rights = fs::Permissions::from_mode(0o755);
    fs::set_permissions(at("chmodded.sh"), rights).unwrap();
    fs::hard_link(at("linked.md"), host.ws().join("second.md")).unwrap();
    // Bytes of another time, written in place: `cp -p`.
    fs::write(at("rewritten.md"), "odd").unwrap();
    age(&host.ws(), "reports/rewritten.md", 3_600);
    age(&host.ws(), "reports/touched.md", 0);
    // Moved in, with its old time.
    fs::rename(host.ws().join("elsewhere.md"), at("moved.md")).unwrap();

    // Also when commands of the run name them.
    let named = json!({"writtenFiles": ["reports/chmodded.sh", "reports/linked.md"]});
    let unchanged = [
        ("reports/chmodded.sh", "changed_outside_run"),
        ("reports/linked.md", "changed_outside_run"),
    ];
    let collected = host.collect(turn(named)).unwrap();
    assert_eq!(texts(&collected["copiedFiles"]), [""; 0]);
    assert_eq!(omitted(&collected), unchanged);
    let result = host
        .export(turn(json!({"expectedArtifactDirs": ["reports"]})))
        .unwrap();
    assert_eq!(
        paths(&result),
        [
            "reports/moved.md",
            "reports/new.md",
            "reports/rewritten.md",
            "reports/touched.md"
        ]
    );
    assert_eq!(omitted(&result), unchanged);
}

#[test]
fn a_run_that_took_its_notes_away_is_judged_by_times() {
    let host = Host::new();
    put(&host.ws(), "reports/old.sh", "old");
    settle();
    let expected = json!({"expectedArtifactDirs": ["reports"]});
    host.prepare(turn(expected.clone())).unwrap();
    fs::remove_dir_all(host.scope().join(".xworkmate")).unwrap();
    let rights = fs::Permissions::from_mode(0o755);
    fs::set_permissions(host.ws().join("reports/old.sh"), rights).unwrap();
    let result = host.export(turn(expected)).unwrap();
    assert_eq!(paths(&result), ["reports/old.sh"]);
}

#[test]
fn an_old_link_is_not_told_of_each_run_that_comes_after() {
    let host = Host::new();
    put(&host.ws(), "reports/old.md", "old");
    symlink("old.md", host.ws().join("reports/link.md")).unwrap();
    moment();
    host.prepare(run_params("turn-1")).unwrap();
    let result = host.export(expected(json!({}))).unwrap();
    assert_eq!(
        omitted(&result),
        [("reports/old.md", "changed_outside_run")]
    );
    symlink("old.md", host.ws().join("reports/new-link.md")).unwrap();
    let result = host.export(expected(json!({}))).unwrap();
    assert_eq!(
        omitted(&result),
        [
            ("reports/new-link.md", "symlink"),
            ("reports/old.md", "changed_outside_run"),
        ]
    );
}
