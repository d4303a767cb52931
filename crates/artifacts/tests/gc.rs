//! Making room: exactly what was said, never what is needed, and nothing by halves.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use common::{World, put, run, session};
use pretty_assertions::assert_eq;
use threadline_artifacts::{
    Error, KeptFor, Removal, RemovalPlan, RemovedFor, Retention, Tombstone, Workspace,
};
use threadline_contract::{EmptyReason, RunId, SessionKey};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn in_days(days: u32) -> SystemTime {
    SystemTime::now() + DAY * days
}
fn nobody(_: &SessionKey, _: &RunId) -> bool {
    false
}
/// Whatever happens in a test, this one goes on.
fn the_other(session: &SessionKey, _: &RunId) -> bool {
    session.as_str() == "agent:main:other"
}
fn older_than(days: u32) -> Retention {
    Retention {
        max_age: Some(DAY * days),
        ..Retention::default()
    }
}

/// A run with files and a receipt.
fn delivered(w: &World, id: &str, bytes: usize) -> RunId {
    let run = run(id);
    w.prepare(&run);
    put(&w.scope_of(&run), "out/a.txt", vec![b'a'; bytes]);
    put(&w.scope_of(&run), "node_modules/x/y.js", "skipped");
    let export = w.ws.manifest(&w.session, &run).unwrap();
    w.ws.write_receipt(&w.session, &run, &export.artifacts.into())
        .unwrap();
    run
}

fn names(removals: &[Removal]) -> Vec<(&str, RemovedFor)> {
    let name = |r: &'_ Removal| r.scope.run_id.as_str().to_owned().leak() as &str;
    removals.iter().map(|r| (name(r), r.why)).collect()
}

fn remove(w: &World, plan: &RemovalPlan, retention: &Retention, now: SystemTime) -> Vec<Removal> {
    let mut done = Vec::new();
    let kept =
        w.ws.remove(plan, retention, now, &the_other, &mut |r| {
            done.push(r.clone())
        })
        .unwrap();
    assert_eq!(kept, []);
    done
}

/// Every path beneath a folder, whatever it is.
fn all(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            found.insert(path.strip_prefix(root).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn a_dry_run_lists_exactly_what_goes_and_touches_nothing() {
    let w = World::new();
    let (a, b) = (delivered(&w, "a", 100), delivered(&w, "b", 200));
    put(&w.work(), "kept.txt", "the session's own");
    let before = all(&w.root());
    let retention = older_than(30);
    assert_eq!(
        w.ws.plan_removal(&retention, in_days(29), &nobody)
            .unwrap()
            .remove,
        []
    );
    let plan = w.ws.plan_removal(&retention, in_days(31), &nobody).unwrap();
    assert_eq!(all(&w.root()), before, "a plan touches nothing");
    let wanted = [
        ("a", RemovedFor::Age),
        ("b", RemovedFor::Age),
        ("turn-1", RemovedFor::Age),
    ];
    let mut planned = names(&plan.remove);
    planned.sort_unstable_by_key(|(name, _)| *name);
    assert_eq!((planned, plan.bytes_after), (wanted.to_vec(), 0));
    assert_eq!(plan.remove, remove(&w, &plan, &retention, in_days(31)));

    for run in [&a, &b] {
        assert!(!w.scope_of(run).exists());
        let export = w.ws.manifest(&w.session, run).unwrap();
        assert_eq!(
            (export.artifacts, export.empty_reason),
            (vec![], Some(EmptyReason::ScopeRemoved))
        );
        let receipt = w.ws.receipt(&w.session, run).unwrap().unwrap();
        assert_eq!(receipt.files().len(), 1);
        let stone = w.ws.tombstone(&w.session, run).unwrap().unwrap();
        assert_eq!(
            stone,
            Tombstone {
                session_key: w.session.clone(),
                run_id: run.clone(),
                scope: receipt.scope.clone(),
                removed_at: stone.removed_at,
                why: RemovedFor::Age,
                files: 3,
                bytes: stone.bytes,
                receipt: Some(receipt.digest()),
                names: vec![],
            }
        );
        // What was removed does not come back under its name.
        let again = w.ws.prepare(&w.session, run);
        assert!(matches!(again, Err(Error::Removed { .. })), "{again:?}");
    }
    assert!(w.work().join("kept.txt").exists());
    assert!(w.ws.prepare(&w.session, &run("c")).is_ok());
    let plan = w.ws.plan_removal(&retention, in_days(31), &nobody).unwrap();
    assert_eq!(names(&plan.remove), [("c", RemovedFor::Age)]);
}

#[test]
fn bytes_make_the_oldest_go_first() {
    let w = World::new();
    std::thread::sleep(Duration::from_millis(1_100));
    delivered(&w, "a", 60_000);
    std::thread::sleep(Duration::from_millis(1_100));
    delivered(&w, "b", 50_000);
    std::thread::sleep(Duration::from_millis(1_100));
    delivered(&w, "c", 40_000);
    let retention = Retention {
        max_bytes: Some(95_000),
        ..Retention::default()
    };
    // The scope that `World` made has nothing but its stamp, and is the oldest.
    let plan = w.ws.plan_removal(&retention, in_days(2), &nobody).unwrap();
    assert_eq!(
        names(&plan.remove),
        [("turn-1", RemovedFor::Bytes), ("a", RemovedFor::Bytes)]
    );
    assert!(plan.bytes_before > 150_000 && plan.bytes_after < 95_000);
    // Within the time that a reference lives nothing goes, however large it is.
    let plan =
        w.ws.plan_removal(&retention, SystemTime::now(), &nobody)
            .unwrap();
    assert_eq!(plan.remove, []);
    assert!(plan.keep.iter().all(|k| k.why == KeptFor::Grace) && plan.keep.len() == 4);
}

#[test]
fn live_runs_and_held_scopes_stay() {
    let w = World::new();
    let (live, held) = (delivered(&w, "live", 10), delivered(&w, "held", 10));
    let until = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_secs()).unwrap()
    };
    w.ws.hold(&w.session, &held, until(in_days(40))).unwrap();
    // A shorter one does not shorten it.
    w.ws.hold(&w.session, &held, until(in_days(1))).unwrap();
    let is_live = |_: &SessionKey, run: &RunId| *run == live;
    let retention = older_than(30);
    let plan =
        w.ws.plan_removal(&retention, in_days(31), &is_live)
            .unwrap();
    assert_eq!(names(&plan.remove), [("turn-1", RemovedFor::Age)]);
    let mut kept: Vec<_> = plan
        .keep
        .iter()
        .map(|k| (k.scope.to_string(), k.why))
        .collect();
    kept.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(kept.len(), 2);
    assert!(matches!(kept[0].1, KeptFor::Held { .. }) && kept[1].1 == KeptFor::Live);

    // What becomes protected after the plan was made stays as well.
    let plan = w.ws.plan_removal(&retention, in_days(60), &nobody).unwrap();
    assert_eq!(plan.remove.len(), 3);
    w.ws.hold(&w.session, &held, until(in_days(90))).unwrap();
    let mut done = Vec::new();
    let kept =
        w.ws.remove(&plan, &retention, in_days(60), &is_live, &mut |r| {
            done.push(r.scope.run_id.clone());
        })
        .unwrap();
    assert_eq!((kept.len(), done), (2, vec![w.run.clone()]));
    assert!(w.scope_of(&live).exists() && w.scope_of(&held).exists());
    // And a hold that comes too late is told so.
    let late = w.ws.hold(&w.session, &w.run, until(in_days(99)));
    assert!(matches!(late, Err(Error::Removed { .. })), "{late:?}");
    // A note that cannot be read holds for ever.
    let note = w
        .root()
        .join("tasks/agent-main-draft-1/.xworkmate/runs/held/held.json");
    fs::write(note, "{").unwrap();
    let plan =
        w.ws.plan_removal(&retention, in_days(5_000), &is_live)
            .unwrap();
    assert_eq!(plan.remove, []);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let w = World::new();
    put(
        &w.root(),
        "tasks/peer_session/run_1/report.md",
        "the earlier plugin's",
    );
    put(
        &w.root(),
        "tasks/agent-main-draft-1/by-hand/x",
        "a person's",
    );
    put(&w.root(), "elsewhere/x", "x");
    // A stamp that was copied from another scope, and one that cannot be read.
    for (folder, stamp) in [
        (
            "copied",
            fs::read(w.scope().join(".xworkmate/scope.json")).unwrap(),
        ),
        ("broken", b"{".to_vec()),
    ] {
        put(
            &w.root(),
            &format!("tasks/agent-main-draft-1/{folder}/.xworkmate/scope.json"),
            stamp,
        );
    }
    fs::create_dir(w.temp.path().join("outside")).unwrap();
    put(w.temp.path(), "outside/precious", "x");
    let link = |name: &str| {
        std::os::unix::fs::symlink(w.temp.path().join("outside"), w.root().join(name)).unwrap();
    };
    link("tasks/linked");
    link("tasks/agent-main-draft-1/linked");
    let retention = older_than(1);
    let plan = w.ws.plan_removal(&retention, in_days(50), &nobody).unwrap();
    assert_eq!(names(&plan.remove), [("turn-1", RemovedFor::Age)]);
    assert_eq!(
        plan.unknown,
        [
            "tasks/agent-main-draft-1/broken",
            "tasks/agent-main-draft-1/by-hand",
            "tasks/agent-main-draft-1/copied",
            "tasks/peer_session/run_1",
        ]
    );
    let before = all(&w.root());
    remove(&w, &plan, &retention, in_days(50));
    let gone: Vec<String> = before.difference(&all(&w.root())).cloned().collect();
    assert!(
        gone.iter()
            .all(|p| p.starts_with("tasks/agent-main-draft-1/turn-1")),
        "{gone:?}"
    );
    assert!(w.temp.path().join("outside/precious").exists());
}

#[test]
fn a_scope_full_of_traps_goes_and_nothing_else() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let w = World::new();
    put(w.temp.path(), "outside/precious", "x");
    symlink(w.temp.path().join("outside"), w.scope().join("link")).unwrap();
    put(&w.scope(), "locked/x", "x");
    fs::set_permissions(w.scope().join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    let mut deep = w.scope();
    for _ in 0..60 {
        deep = deep.join("d".repeat(60));
    }
    fs::create_dir_all(&deep).unwrap();
    let retention = older_than(1);
    let plan = w.ws.plan_removal(&retention, in_days(50), &nobody).unwrap();
    remove(&w, &plan, &retention, in_days(50));
    assert!(!w.scope().exists() && w.temp.path().join("outside/precious").exists());
}

/// Runs as a process of its own, see below: removes everything that is older than a day.
#[test]
fn child_removes() {
    let Ok(place) = std::env::var("GC_CHILD") else {
        return;
    };
    let ws = Workspace::open(place).unwrap();
    let retention = older_than(1);
    let plan = ws
        .plan_removal(&retention, in_days(50), &the_other)
        .unwrap();
    println!("begin");
    ws.remove(&plan, &retention, in_days(50), &the_other, &mut |_| {})
        .unwrap();
}

#[test]
fn a_kill_at_any_moment_leaves_something_that_can_be_finished() {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };
    let w = World::new();
    w.ws.prepare(&session("agent:main:other"), &run("stays"))
        .unwrap();
    let mut halves = 0;
    for round in 0..8_u64 {
        let gone = run(&format!("gone-{round}"));
        w.prepare(&gone);
        for n in 0..1_500 {
            put(&w.scope_of(&gone), &format!("{}/{n}", n % 7), "x");
        }
        let export = w.ws.manifest(&w.session, &gone).unwrap();
        w.ws.write_receipt(&w.session, &gone, &export.artifacts.into())
            .unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child_removes", "--exact", "--nocapture"])
            .env("GC_CHILD", w.root())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("begin") {}
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(round * 2));
        } else {
            // Right after the decision, when the files are still being cleared away.
            let stone = format!("tasks/agent-main-draft-1/.xworkmate/runs/{gone}/tombstone.json");
            let stone = w.root().join(stone);
            while !stone.exists() && child.try_wait().unwrap().is_none() {}
            std::thread::sleep(Duration::from_millis(round / 2));
        }
        child.kill().unwrap();
        child.wait().unwrap();

        // Whatever was left, the scope is there whole or gone: never a part of it.
        let export = w.ws.manifest(&w.session, &gone).unwrap();
        let state = (export.artifacts.len(), export.empty_reason);
        assert!(
            state == (1_500, None) || state == (0, Some(EmptyReason::ScopeRemoved)),
            "{state:?}"
        );
        let retention = older_than(1);
        let plan =
            w.ws.plan_removal(&retention, in_days(50), &the_other)
                .unwrap();
        halves += plan
            .remove
            .iter()
            .filter(|r| r.why == RemovedFor::Unfinished)
            .count();
        let done = remove(&w, &plan, &retention, in_days(50));
        assert_eq!(done, plan.remove);
        let rest = all(&w.root().join("tasks/agent-main-draft-1"));
        let left: Vec<&String> = rest.iter().filter(|p| p.contains(gone.as_str())).collect();
        let notes = format!(".xworkmate/runs/{gone}");
        let wanted = [
            notes.clone(),
            format!("{notes}/receipt.json"),
            format!("{notes}/tombstone.json"),
        ];
        assert_eq!(left, wanted.iter().collect::<Vec<_>>());
        assert_eq!(
            w.ws.plan_removal(&retention, in_days(50), &the_other)
                .unwrap()
                .remove,
            []
        );
    }
    assert!(w.root().join("tasks/agent-main-other/stays").exists());
    assert!(halves > 0, "no round was interrupted half-way");
}
