//! What a run left in the gateway's output folders, which all runs share.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use common::{
    host::{Host, call, each, moment, omitted, run_params, texts, turn, with},
    put, tree,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::plugin::CollectParams;

fn copied(result: &Value) -> Vec<&str> {
    texts(&result["copiedFiles"])
}

#[test]
fn p40_what_changed_in_the_run_is_copied_and_older_files_are_not() {
    let host = Host::prepared();
    put(&host.media(), "browser/old.png", "old");
    let since = moment();
    put(&host.media(), "browser/current.png", "current");
    put(&host.tmp(), "renders/final.mp4", "movie");
    let result = host.collect(turn(json!({"sinceUnixMs": since}))).unwrap();
    let want = [
        "artifacts/media/browser/current.png",
        "artifacts/tmp-openclaw/renders/final.mp4",
    ];
    assert_eq!(copied(&result), want);
    assert_eq!(result["warnings"], json!([]));
    assert_eq!(
        result["omitted"],
        json!({"count": 0, "bytes": 0, "byReason": {}, "files": []})
    );
    assert_eq!(
        result["snapshotDirectory"],
        json!(fs::canonicalize(host.scope()).unwrap().join("artifacts"))
    );
    assert_eq!(
        tree(&host.scope()),
        [
            (want[0].to_owned(), b"current".to_vec()),
            (want[1].to_owned(), b"movie".to_vec())
        ]
    );
    let exported = host.list(turn(json!({}))).unwrap();
    assert_eq!(each(&exported["artifacts"], "relativePath").len(), 2);
}

/// Without a start the run's own preparing is one; after its end nothing is taken any more.
#[test]
fn a_run_has_a_beginning_and_an_end() {
    let host = Host::new();
    put(&host.media(), "before.png", "x");
    moment();
    host.prepare(run_params("turn-1")).unwrap();
    put(&host.media(), "within.png", "x");
    let until = moment();
    put(&host.media(), "after.png", "x");
    let result = host.collect(turn(json!({"untilUnixMs": until}))).unwrap();
    assert_eq!(copied(&result), ["artifacts/media/within.png"]);
    // What the runtime names must have changed in the run as well.
    let named = ["before.png", "after.png"].map(|name| host.media().join(name));
    let result = host
        .collect(turn(json!({"untilUnixMs": until, "writtenFiles": named})))
        .unwrap();
    assert_eq!(copied(&result), Vec::<&str>::new());
    assert_eq!(
        omitted(&result),
        [
            ("media/after.png", "changed_outside_run"),
            ("media/before.png", "changed_outside_run")
        ]
    );
}

#[test]
fn p41_links_are_named_and_not_followed() {
    let host = Host::prepared();
    symlink("/etc/hostname", host.media().join("leak")).unwrap();
    symlink("/etc", host.media().join("leakdir")).unwrap();
    put(&host.media(), "fine.png", "fine");
    let result = host.collect(turn(json!({}))).unwrap();
    assert_eq!(copied(&result), ["artifacts/media/fine.png"]);
    let why = "was not taken: it is a symbolic link, and links are never followed.";
    assert_eq!(
        texts(&result["warnings"]),
        [
            format!("`media/leak` {why}"),
            format!("`media/leakdir` {why}")
        ]
    );
    assert_eq!(
        omitted(&result),
        [("media/leak", "symlink"), ("media/leakdir", "symlink")]
    );
}

#[test]
fn what_the_run_is_known_to_have_written_in_the_workspace_comes_home() {
    let host = Host::new();
    put(&host.ws(), "older.md", "before the run");
    moment();
    host.prepare(run_params("turn-1")).unwrap();
    put(&host.ws(), "note.md", "named");
    put(&host.ws(), "reports/chart.svg", "not named");
    put(&host.ws(), "unnamed.md", "somebody's");
    put(&host.ws(), "tasks/other/r/theirs.md", "another's");
    let proof = json!({
        "writtenFiles": ["note.md", "older.md", "tasks/other/r/theirs.md", "gone.md"],
    });
    let result = host.collect(turn(proof.clone())).unwrap();
    assert_eq!(copied(&result), ["note.md"]);
    assert_eq!(
        omitted(&result),
        [
            ("tasks/other/r/theirs.md", "outside_scope"),
            ("older.md", "changed_outside_run"),
        ]
    );
    // The agent itself left nothing in the scope, so the expected folders still count.
    let dirs = with(proof, json!({"expectedArtifactDirs": ["reports"]}));
    let listed = host.export(turn(dirs)).unwrap();
    let mut listed = each(&listed["artifacts"], "relativePath");
    listed.sort_unstable();
    assert_eq!(listed, ["note.md", "reports/chart.svg"]);
    // Said twice, done once.
    let again = host.collect(turn(json!({"writtenFiles": ["note.md"]})));
    let again = again.unwrap();
    assert_eq!(
        (copied(&again), again["alreadyPresent"].as_u64()),
        (vec![], Some(1))
    );
}

#[test]
fn p43_named_sources_must_lie_in_an_output_folder() {
    let host = Host::prepared();
    put(&host.media(), "a/x.png", "x");
    put(&host.media(), "a/unnamed.png", "x");
    let x = host.media().join("a/x.png");
    let climbs = host.media().join("../workspace/secret");
    let missing = host.media().join("a/missing.png");
    let sources = json!([x, "rel.png", "/etc/hostname", climbs, missing]);
    let result = host.collect(turn(json!({"sourceFiles": sources}))).unwrap();
    assert_eq!(copied(&result), ["artifacts/media/a/x.png"]);
    let warnings = texts(&result["warnings"]);
    assert_eq!(
        warnings[0],
        "`rel.png` is not an absolute path, so it was not collected."
    );
    assert_eq!(
        warnings[1],
        "`/etc/hostname` lies outside the output folders, so it was not collected."
    );
    assert!(warnings[2].ends_with("lies outside the output folders, so it was not collected."));
    assert_eq!(
        result["omitted"]["byReason"],
        json!({"outside_scope": 3, "vanished": 1})
    );
    // Nothing named, nothing taken.
    let none = host.collect(turn(json!({"sourceFiles": []}))).unwrap();
    assert_eq!(
        (copied(&none), none["alreadyPresent"].as_u64()),
        (vec![], Some(0))
    );
}

/// What is repeated undoes nothing: a copy follows its source, but not over what was done to it here.
#[test]
fn a_repeat_keeps_what_the_run_made_of_a_copy() {
    let host = Host::prepared();
    put(&host.media(), "y.txt", "tool");
    let collect = || host.collect(turn(json!({}))).unwrap();
    let copy = host.scope().join("artifacts/media/y.txt");
    assert_eq!(copied(&collect()), ["artifacts/media/y.txt"]);

    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&copy, "edited").unwrap();
    let again = collect();
    assert_eq!(
        (copied(&again), &again["omitted"]["byReason"]),
        (vec![], &json!({"name_taken": 1}))
    );
    assert_eq!(fs::read_to_string(&copy).unwrap(), "edited");

    std::thread::sleep(std::time::Duration::from_millis(20));
    put(&host.media(), "y.txt", "written anew");
    assert_eq!(copied(&collect()), ["artifacts/media/y.txt"]);
    assert_eq!(fs::read_to_string(&copy).unwrap(), "written anew");
}

#[test]
fn p44_p45_names_that_are_the_same_stay_apart_and_a_repeat_copies_nothing() {
    let host = Host::prepared();
    put(&host.media(), "a/x.png", "A");
    put(&host.media(), "b/x.png", "B");
    let both = ["a/x.png", "b/x.png"].map(|path| host.media().join(path));
    let params = turn(json!({"sourceFiles": [both[0], both[1], both[0]]}));
    let result = host.collect(params.clone()).unwrap();
    assert_eq!(
        copied(&result),
        ["artifacts/media/a/x.png", "artifacts/media/b/x.png"]
    );
    let whole = tree(&host.scope());
    assert_eq!(
        whole
            .iter()
            .map(|(_, bytes)| bytes.as_slice())
            .collect::<Vec<_>>(),
        [b"A", b"B"]
    );
    for _ in 0..2 {
        let again = host.collect(params.clone()).unwrap();
        assert_eq!(
            (copied(&again), again["alreadyPresent"].as_u64()),
            (vec![], Some(2))
        );
        assert_eq!(tree(&host.scope()), whole);
    }
    // Written anew: the copy follows.
    put(&host.media(), "a/x.png", "A2");
    let again = host.collect(params).unwrap();
    assert_eq!(copied(&again), ["artifacts/media/a/x.png"]);
    assert_eq!(
        fs::read(host.scope().join("artifacts/media/a/x.png")).unwrap(),
        b"A2"
    );
}

#[test]
fn p48_a_source_that_grows_is_whole_or_reported() {
    let host = Host::prepared();
    let path = host.media().join("grows.mp4");
    fs::write(&path, vec![b'x'; 1_000_000]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut file = fs::File::options().append(true).open(&path).unwrap();
            while !stop.load(Relaxed) {
                file.write_all(b"more").unwrap();
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        let mut reported = false;
        for _ in 0..50 {
            let result = host.collect(turn(json!({}))).unwrap();
            reported |= omitted(&result) == [("media/grows.mp4", "changed_while_reading")];
            if reported {
                break;
            }
        }
        stop.store(true, Relaxed);
        assert!(reported);
    });
    let result = host.collect(turn(json!({}))).unwrap();
    assert_eq!(result["omitted"]["count"], 0);
    let copy = fs::read(host.scope().join("artifacts/media/grows.mp4")).unwrap();
    assert!(copy == fs::read(&path).unwrap());
    let exported = host.list(turn(json!({}))).unwrap();
    assert_eq!(
        exported["artifacts"][0]["sha256"],
        json!(common::sha(&copy))
    );
}

#[test]
fn p61b_the_gateways_own_files_are_never_collected() {
    let host = Host::prepared();
    let log = host.tmp().join("openclaw-2026-11-15.log");
    for name in ["openclaw-2026-11-15.log", "openclaw.log.1", "gateway.log"] {
        put(&host.tmp(), name, "line\n");
    }
    put(&host.tmp(), "uploads/from-the-user.pdf", "x");
    put(&host.tmp(), "logs/a.txt", "x");
    put(&host.media(), ".DS_Store", "x");
    put(&host.media(), ".cache/x.png", "x");
    put(&host.media(), "node_modules/x.js", "x");
    // Whoever names them.
    let named = json!([log, host.tmp().join("uploads/from-the-user.pdf")]);
    for params in [
        turn(json!({})),
        turn(json!({"writtenFiles": named})),
        turn(json!({"sourceFiles": named})),
    ] {
        let result = host.collect(params).unwrap();
        assert_eq!(copied(&result), Vec::<&str>::new());
        assert!(
            each(&result["omitted"]["files"], "reason")
                .iter()
                .all(|why| *why == "skipped")
        );
        assert!(result["omitted"]["count"].as_u64().unwrap() >= 2);
    }
    let exported = host.export(turn(json!({}))).unwrap();
    assert_eq!(exported["artifacts"], json!([]));
    assert_eq!(exported["emptyReason"], "scope_empty");
    // A log that a run itself made, somewhere below, is its output.
    put(&host.tmp(), "renders/ffmpeg.log", "x");
    assert_eq!(
        copied(&host.collect(turn(json!({}))).unwrap()),
        ["artifacts/tmp-openclaw/renders/ffmpeg.log"]
    );
}

#[test]
fn a_dotfile_that_the_runtime_names_is_taken() {
    let host = Host::prepared();
    put(&host.media(), ".hidden.png", "x");
    put(&host.media(), ".folder/x.png", "x");
    let named = json!([
        host.media().join(".hidden.png"),
        host.media().join(".folder/x.png")
    ]);
    let result = host.collect(turn(json!({"writtenFiles": named}))).unwrap();
    assert_eq!(
        copied(&result),
        [
            "artifacts/media/.folder/x.png",
            "artifacts/media/.hidden.png"
        ]
    );
}

fn other_run() -> Value {
    json!({"openclawSessionKey": "agent:main:other", "runId": "r", "appThreadKey": "other"})
}

#[test]
fn when_runs_overlap_only_named_files_are_taken() {
    let host = Host::prepared();
    host.prepare(other_run()).unwrap();
    put(&host.media(), "named.png", "x");
    put(&host.media(), "whose.png", "x");
    let named = json!([host.media().join("named.png")]);
    let result = host.collect(turn(json!({"writtenFiles": named}))).unwrap();
    assert_eq!(copied(&result), ["artifacts/media/named.png"]);
    assert_eq!(omitted(&result), [("media/whose.png", "ambiguous_owner")]);
    assert_eq!(
        texts(&result["warnings"]),
        ["`media/whose.png` was not taken: nothing shows that this run made it."]
    );
    // Somebody who sees the whole gateway may know better, in either direction.
    let result = host.collect(turn(json!({"overlapped": false}))).unwrap();
    assert_eq!(copied(&result), ["artifacts/media/whose.png"]);
    let late = with(run_params("turn-2"), json!({"openclawSessionKey": "late"}));
    host.prepare(late.clone()).unwrap();
    put(&host.media(), "third.png", "x");
    let result = host
        .collect(with(late, json!({"overlapped": true})))
        .unwrap();
    assert_eq!(copied(&result), Vec::<&str>::new());
}

#[test]
fn a_run_that_ended_before_does_not_overlap() {
    let host = Host::new();
    host.prepare(other_run()).unwrap();
    put(&host.media(), "first.png", "x");
    let until = moment();
    let result = host
        .collect(with(other_run(), json!({"untilUnixMs": until})))
        .unwrap();
    assert_eq!(copied(&result), ["artifacts/media/first.png"]);
    host.prepare(run_params("turn-1")).unwrap();
    // The same session once more: its runs follow each other.
    host.prepare(run_params("turn-2")).unwrap();
    put(&host.media(), "second.png", "x");
    let result = host.collect(turn(json!({}))).unwrap();
    assert_eq!(copied(&result), ["artifacts/media/second.png"]);
}

/// Two runs that end at the same time, in two processes: each file goes to one of them.
#[test]
fn a_file_is_never_given_to_two_runs() {
    let host = Host::new();
    let sessions: Vec<Value> = (0..4)
        .map(|i| {
            with(
                run_params("r"),
                json!({"openclawSessionKey": format!("s{i}"), "appThreadKey": format!("s{i}")}),
            )
        })
        .collect();
    for params in &sessions {
        host.prepare(params.clone()).unwrap();
    }
    for i in 0..200 {
        put(
            &host.media(),
            &format!("d{}/f{i}.png", i % 7),
            format!("{i}"),
        );
    }
    let taken: Vec<Vec<String>> = std::thread::scope(|s| {
        let all: Vec<_> = sessions
            .iter()
            .map(|params| {
                // Each with nothing in memory of the others.
                let service = host.restarted();
                let params = with(params.clone(), json!({"overlapped": false, "maxFiles": 90}));
                s.spawn(move || {
                    let collect = |p: CollectParams| service.collect(&p);
                    let result = call(params, collect).unwrap();
                    copied(&result).into_iter().map(str::to_owned).collect()
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut all = taken.concat();
    let total = all.len();
    all.sort();
    all.dedup();
    assert_eq!((total, all.len()), (200, 200));
    // And nobody can take another's later, nor is told of it.
    let mut kept = 0;
    for params in &sessions {
        let result = host
            .collect(with(params.clone(), json!({"overlapped": false})))
            .unwrap();
        assert_eq!(copied(&result), Vec::<&str>::new());
        assert_eq!(omitted(&result), []);
        kept += result["alreadyPresent"].as_u64().unwrap();
    }
    assert_eq!(kept, 200);
}

#[test]
fn a_kill_between_claim_and_copy_costs_nothing() {
    let host = Host::prepared();
    for i in 0..10 {
        put(&host.media(), &format!("f{i}.png"), format!("{i}"));
    }
    host.collect(turn(json!({}))).unwrap();
    let whole = tree(&host.scope());
    // Claimed and synced, but some copies never got their names; half of one is left.
    for i in [2, 5] {
        fs::remove_file(host.scope().join(format!("artifacts/media/f{i}.png"))).unwrap();
    }
    put(
        &host.scope(),
        ".xworkmate/staging/.threadline-1-1.tmp",
        "ha",
    );
    let service = host.restarted();
    let result = call(turn(json!({})), |p: CollectParams| service.collect(&p)).unwrap();
    assert_eq!(
        copied(&result),
        ["artifacts/media/f2.png", "artifacts/media/f5.png"]
    );
    assert_eq!(result["alreadyPresent"], 8);
    assert_eq!(tree(&host.scope()), whole);
}

#[test]
fn what_the_agent_put_into_the_scope_is_never_replaced() {
    let host = Host::prepared();
    put(&host.scope(), "artifacts/media/x.png", "the agent's");
    moment();
    put(&host.media(), "x.png", "the tool's");
    for _ in 0..2 {
        let result = host.collect(turn(json!({}))).unwrap();
        assert_eq!(copied(&result), Vec::<&str>::new());
        assert_eq!(omitted(&result), [("media/x.png", "name_taken")]);
    }
    assert_eq!(
        fs::read(host.scope().join("artifacts/media/x.png")).unwrap(),
        b"the agent's"
    );
}

#[test]
fn more_than_is_asked_for_is_named() {
    let host = Host::prepared();
    for i in 0..5 {
        put(&host.media(), &format!("f{i}.png"), "x");
    }
    let result = host.collect(turn(json!({"maxFiles": 3}))).unwrap();
    let paths = ["f0", "f1", "f2"].map(|name| format!("artifacts/media/{name}.png"));
    assert_eq!(copied(&result), paths);
    assert_eq!(
        omitted(&result),
        [
            ("media/f3.png", "over_limit"),
            ("media/f4.png", "over_limit")
        ]
    );
    // What was not taken was not claimed either.
    let other = with(other_run(), json!({"overlapped": false}));
    host.prepare(other_run()).unwrap();
    let since = json!({"sinceUnixMs": 1});
    let result = host.collect(with(other, since)).unwrap();
    assert_eq!(
        copied(&result),
        ["artifacts/media/f3.png", "artifacts/media/f4.png"]
    );
}

#[test]
fn a_copy_can_still_be_run() {
    let host = Host::prepared();
    put(&host.tmp(), "bin/tool.sh", "#!/bin/sh\n");
    put(&host.tmp(), "bin/data", "x");
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o111;
    let tool = host.tmp().join("bin/tool.sh");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    host.collect(turn(json!({}))).unwrap();
    let copy = |name: &str| host.scope().join("artifacts/tmp-openclaw/bin").join(name);
    assert_ne!(mode(copy("tool.sh").to_str().unwrap()) & 0o100, 0);
    assert_eq!(mode(copy("data").to_str().unwrap()), 0);
}

#[test]
fn folders_that_are_missing_linked_or_foreign_are_said() {
    let host = Host::prepared();
    fs::remove_dir(host.tmp()).unwrap();
    let result = host.collect(turn(json!({}))).unwrap();
    assert_eq!(
        texts(&result["warnings"]),
        [format!(
            "The output folder `{}` is not there, so nothing was collected from it.",
            host.tmp().display()
        )]
    );
    // Anybody can make a name in a folder for temporary files.
    put(host.temp.path(), "private/secret.txt", "secret");
    symlink(host.temp.path().join("private"), host.tmp()).unwrap();
    let result = host.collect(turn(json!({}))).unwrap();
    assert!(
        texts(&result["warnings"])[0]
            .ends_with("is a symbolic link, so nothing was collected from it.")
    );
    assert_eq!(copied(&result), Vec::<&str>::new());
    fs::remove_file(host.tmp()).unwrap();
    fs::create_dir(host.tmp()).unwrap();
    put(&host.tmp(), "theirs.txt", "x");
    if std::os::unix::fs::chown(host.tmp().join("theirs.txt"), Some(65_534), None).is_ok() {
        let result = host.collect(turn(json!({}))).unwrap();
        assert_eq!(
            omitted(&result),
            [("tmp-openclaw/theirs.txt", "ambiguous_owner")]
        );
        std::os::unix::fs::chown(host.tmp(), Some(65_534), None).unwrap();
        let result = host.collect(turn(json!({}))).unwrap();
        assert!(
            texts(&result["warnings"])[0]
                .ends_with("belongs to another user, so nothing was collected from it.")
        );
    }
}

#[test]
fn a_run_that_was_never_prepared_collects_nothing() {
    let host = Host::new();
    put(&host.media(), "x.png", "x");
    let (code, message) = host.collect(turn(json!({}))).unwrap_err();
    assert_eq!(code, "PREPARE_FAILED");
    assert!(message.ends_with("was never prepared."), "{message}");
}
