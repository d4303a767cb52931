//! Who owns a folder.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, os::unix::fs::symlink};

use common::{World, put, run, session, tree};
use pretty_assertions::assert_eq;
use threadline_artifacts::{Error, Workspace};
use threadline_contract::{Code, Fault, scope::BadScope};

#[test]
fn a_prepared_run_has_its_folders_and_its_stamp() {
    let t = tempfile::tempdir().unwrap();
    let ws = Workspace::open(t.path()).unwrap();
    let key = session("agent:main:draft:1780658097668838-1"); // P01, P20
    for _ in 0..2 {
        let prepared = ws.prepare(&key, &run("turn-1")).unwrap();
        let folder = "tasks/agent-main-draft-1780658097668838-1";
        assert_eq!(prepared.scope.as_str(), format!("{folder}/turn-1"));
        assert_eq!(prepared.artifact_dir, ws.path().join(folder).join("turn-1"));
        assert_eq!(prepared.work_dir, ws.path().join(folder).join("work"));
        assert!(prepared.work_dir.is_dir());
        let stamp =
            fs::read_to_string(prepared.artifact_dir.join(".xworkmate/scope.json")).unwrap();
        assert_eq!(
            stamp,
            r#"{"sessionKey":"agent:main:draft:1780658097668838-1","runId":"turn-1"}"#
        );
        let stamp = ws.path().join(folder).join(".xworkmate/session.json");
        assert_eq!(
            fs::read_to_string(stamp).unwrap(),
            r#"{"sessionKey":"agent:main:draft:1780658097668838-1"}"#
        );
    }
    ws.prepare(&key, &run("run-9")).unwrap(); // P26
    assert_eq!(tree(t.path()), []);
}

#[test]
fn keys_that_would_share_a_folder_fail_closed() {
    let t = tempfile::tempdir().unwrap();
    let ws = Workspace::open(t.path()).unwrap();
    let r = run("turn-1");
    let long = "k".repeat(96);
    for (first, second) in [
        ("na\u{ef}ve", "nai\u{308}ve"), // P09
        ("a:b", "a/b"),
        (&format!("{long}1"), &format!("{long}2")),
        ("tab\tkey", "tab-key"),
    ] {
        ws.prepare(&session(first), &r).unwrap();
        let before = fs::read_dir(t.path().join("tasks")).unwrap().count();
        for attempt in [&r, &run("other")] {
            let refused = ws.prepare(&session(second), attempt).unwrap_err();
            assert!(
                matches!(refused, Error::SharedFolder { .. }),
                "{second}: {refused}"
            );
            assert_eq!(refused.code(), Code::Conflict);
        }
        assert_eq!(
            fs::read_dir(t.path().join("tasks")).unwrap().count(),
            before
        );
        ws.prepare(&session(first), &r).unwrap();
        // And nobody else can look at what lies there.
        assert!(matches!(
            ws.manifest(&session(second), &r),
            Err(Error::SharedFolder { .. })
        ));
    }
    // Runs of one session too.
    let s = session("s");
    ws.prepare(&s, &run("r:1")).unwrap();
    assert!(matches!(
        ws.prepare(&s, &run("r/1")),
        Err(Error::Conflict { .. })
    ));
    assert!(matches!(
        ws.manifest(&s, &run("r/1")),
        Err(Error::Conflict { .. })
    ));
}

#[test]
fn of_two_twins_at_once_one_wins() {
    for _ in 0..20 {
        let t = tempfile::tempdir().unwrap();
        let ws = Workspace::open(t.path()).unwrap();
        let won: Vec<bool> = std::thread::scope(|s| {
            let keys = ["a:b", "a/b", "a*b", "a?b"];
            let all: Vec<_> = keys
                .into_iter()
                .map(|key| {
                    let ws = &ws;
                    s.spawn(move || match ws.prepare(&session(key), &run("r")) {
                        Ok(_) => true,
                        Err(Error::SharedFolder { .. }) => false,
                        Err(e) => panic!("{e}"),
                    })
                })
                .collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(won.iter().filter(|w| **w).count(), 1);
    }
}

#[test]
fn the_same_run_prepared_many_times_at_once_is_one_run() {
    let t = tempfile::tempdir().unwrap();
    let ws = Workspace::open(t.path()).unwrap();
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| ws.prepare(&session("s"), &run("r")).unwrap());
        }
    });
    assert_eq!(tree(t.path()), []);
}

#[test]
fn reserved_run_ids_are_refused_and_nothing_is_made() {
    let t = tempfile::tempdir().unwrap();
    let ws = Workspace::open(t.path()).unwrap();
    for id in ["work", ".xworkmate"] {
        let refused = ws.prepare(&session("s"), &run(id)).unwrap_err();
        assert!(matches!(&refused, Error::BadScope(BadScope::ReservedRun(r)) if r == id));
        assert_eq!(refused.code(), Code::InvalidRequest);
    }
    assert_eq!(fs::read_dir(t.path()).unwrap().count(), 0);
    ws.prepare(&session("s"), &run("works")).unwrap();
}

/// P36, at every level.
#[test]
fn a_linked_folder_is_refused_wherever_it_stands() {
    for linked in [
        "tasks",
        "tasks/s",
        "tasks/s/r",
        "tasks/s/work",
        "tasks/s/.xworkmate",
        "tasks/s/r/.xworkmate",
    ] {
        let t = tempfile::tempdir().unwrap();
        let out = tempfile::tempdir().unwrap();
        let path = t.path().join(linked);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(out.path(), &path).unwrap();
        let ws = Workspace::open(t.path()).unwrap();
        let refused = ws.prepare(&session("s"), &run("r")).unwrap_err();
        assert!(
            matches!(refused, Error::Escapes { .. }),
            "{linked}: {refused}"
        );
        let fault = Fault::from(refused);
        assert_eq!(fault.code, Code::PrepareFailed);
        assert!(
            fault.message.contains("escapes the workspace"),
            "{}",
            fault.message
        );
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "{linked}");
    }
}

#[test]
fn files_that_lay_there_before_are_not_the_runs() {
    let w = World::new();
    put(&w.scope_of(&run("turn-2")), "planted.pdf", "x");
    let refused = w.ws.prepare(&w.session, &run("turn-2")).unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
    assert!(
        w.ws.manifest(&w.session, &run("turn-2"))
            .unwrap()
            .artifacts
            .is_empty()
    );
    // A folder that a killed prepare left is simply finished.
    fs::create_dir_all(w.scope_of(&run("turn-3")).join(".xworkmate")).unwrap();
    w.prepare(&run("turn-3"));
    // The run's own second prepare is fine with its own files.
    put(&w.scope(), "mine.md", "x");
    w.prepare(&w.run);
}

#[test]
fn a_damaged_stamp_opens_the_folder_to_nobody() {
    let w = World::new();
    fs::write(w.scope().join(".xworkmate/scope.json"), "{\"sessionKey\":").unwrap();
    assert!(matches!(
        w.ws.prepare(&w.session, &w.run),
        Err(Error::Conflict { .. })
    ));
    assert!(matches!(
        w.ws.manifest(&w.session, &w.run),
        Err(Error::Conflict { .. })
    ));
}

#[test]
fn a_workspace_must_exist() {
    let t = tempfile::tempdir().unwrap();
    assert!(Workspace::open(t.path().join("none")).is_err());
}
