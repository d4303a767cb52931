//! What a turn wrote, and only that, comes into its scope.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, fs::symlink, net::UnixListener},
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use common::{World, age, copied, omit, paths, put, run, session, settle, sha, tree};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use threadline_artifacts::{
    Change, ChangeKind, ChangeSummary, CollectOptions, Copied, Error, Evidence, Listed, WorkFolder,
};
use threadline_contract::{ArtifactPath, OmitReason};

fn content(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn what_the_turn_wrote_is_copied_and_the_rest_is_not() {
    let w = World::new();
    let work = w.work();
    for path in [
        "old.md",
        "sub/old.md",
        "edited.md",
        "replaced.md",
        "touched.md",
        "chmodded.md",
        "gone.md",
        "moved.md",
        "swapped.md",
    ] {
        put(&work, path, "before");
        age(&work, path, 1_000);
    }
    settle();
    w.list();

    put(&work, "new.md", "new");
    put(&work, "deep/er/new.csv", "a,b");
    put(&work, "edited.md", "after!");
    fs::write(work.join("tmp"), "other").unwrap();
    fs::rename(work.join("tmp"), work.join("replaced.md")).unwrap();
    age(&work, "touched.md", 0);
    fs::set_permissions(work.join("chmodded.md"), fs::Permissions::from_mode(0o600)).unwrap();
    // Another file of the same size, with the same time.
    let time = fs::metadata(work.join("swapped.md"))
        .unwrap()
        .modified()
        .unwrap();
    fs::write(work.join("tmp"), "before").unwrap();
    let swapped = fs::File::options()
        .write(true)
        .open(work.join("tmp"))
        .unwrap();
    swapped.set_modified(time).unwrap();
    fs::rename(work.join("tmp"), work.join("swapped.md")).unwrap();
    fs::remove_file(work.join("gone.md")).unwrap();
    fs::rename(work.join("moved.md"), work.join("here.md")).unwrap();

    let collected = w.collect(&[]);
    assert_eq!(
        collected.copied,
        [
            ("deep/er/new.csv", "a,b"),
            ("edited.md", "after!"),
            ("here.md", "before"),
            ("new.md", "new"),
            ("replaced.md", "other"),
            ("swapped.md", "before"),
            // Written anew with the same bytes: it is this turn's all the same.
            ("touched.md", "before"),
        ]
        .map(|(path, content)| Copied {
            path: ArtifactPath::new(path).unwrap(),
            size: content.len() as u64,
            sha256: sha(content.as_bytes()),
        })
    );
    assert_eq!((collected.already_present, collected.kept.len()), (0, 0));
    assert_eq!((collected.omitted.total(), collected.summary), (0, None));
    assert_eq!(content(&w.scope(), "deep/er/new.csv"), "a,b");
    // The order of an export tells when the agent wrote.
    let times: Vec<_> = ["new.md", "edited.md"]
        .map(|p| fs::metadata(w.scope().join(p)).unwrap().modified().unwrap())
        .into();
    assert_eq!(
        times[0],
        fs::metadata(work.join("new.md"))
            .unwrap()
            .modified()
            .unwrap()
    );
    assert_eq!(w.export().artifacts.len(), 7);
}

/// The second turn of a session delivers its own files, not the first one's.
#[test]
fn each_turn_delivers_its_own() {
    let mut w = World::new();
    w.list();
    put(&w.work(), "final.md", "one");
    put(&w.work(), "data.csv", "1");
    assert_eq!(copied(&w.collect(&[])), ["data.csv", "final.md"]);

    // At once: the first turn's files are younger than a tick, and their digests decide.
    w.run = run("turn-2");
    w.prepare(&w.run);
    w.list();
    let listing = content(&w.scope(), ".xworkmate/before.jsonl");
    assert_eq!(listing.matches("sha256").count(), 2, "{listing}");
    put(&w.work(), "final.md", "two");
    assert_eq!(copied(&w.collect(&[])), ["final.md"]);
    assert_eq!(tree(&w.scope()), [("final.md".to_owned(), b"two".to_vec())]);
    assert_eq!(content(&w.scope_of(&run("turn-1")), "final.md"), "one");

    // A turn that writes nothing delivers nothing.
    w.run = run("turn-3");
    w.prepare(&w.run);
    w.list();
    assert_eq!(w.collect(&[]).copied, []);
}

/// Within one tick the stamp can stay the same while the bytes do not.
#[test]
fn a_change_that_no_stamp_shows_is_found() {
    let w = World::new();
    put(&w.work(), "f", "one");
    let path = w.work().join("f");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    w.list();
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all(b"two").unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(copied(&w.collect(&[])), ["f"]);
    assert_eq!(content(&w.scope(), "f"), "two");
}

#[test]
fn the_listing_is_taken_once() {
    let w = World::new();
    let take = || {
        w.ws.list_before(&w.session, &w.run, &WorkFolder::Session)
            .unwrap()
    };
    put(&w.work(), "before.md", "x");
    age(&w.work(), "before.md", 100);
    assert_eq!(take(), Listed::Taken);
    let first = content(&w.scope(), ".xworkmate/before.jsonl");
    put(&w.work(), "written-by-the-turn.md", "x");
    // The bridge was killed and starts the run again: the turn's file must stay the turn's.
    assert_eq!(take(), Listed::Kept);
    assert_eq!(content(&w.scope(), ".xworkmate/before.jsonl"), first);
    assert_eq!(copied(&w.collect(&[])), ["written-by-the-turn.md"]);
}

#[test]
fn the_listing_is_sorted_lines() {
    let w = World::new();
    for path in ["b", "a/z", "a.txt", "a-b/c", "\u{e9}"] {
        put(&w.work(), path, path);
        age(&w.work(), path, 100);
    }
    settle();
    w.list();
    let text = content(&w.scope(), ".xworkmate/before.jsonl");
    let listed: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|line| Some(line.get("path")?.as_str()?.to_owned()))
        .collect();
    assert_eq!(listed, ["a-b/c", "a.txt", "a/z", "b", "\u{e9}"]);
    assert!(
        text.starts_with(r#"{"v":1,"folder":"work","takenNs":"#),
        "{text}"
    );
    assert!(
        text.ends_with("{\"files\":5,\"complete\":true}\n"),
        "{text}"
    );
}

#[test]
fn without_a_whole_listing_nothing_is_taken() {
    let w = World::new();
    put(&w.work(), "f", "f");
    let refused = w
        .collect_from(&WorkFolder::Session, &["f"], &[])
        .unwrap_err();
    assert!(matches!(refused, Error::NotListed { .. }), "{refused}");
    w.list();
    let listing = w.scope().join(".xworkmate/before.jsonl");
    let whole = fs::read(&listing).unwrap();
    for length in 0..whole.len() {
        fs::write(&listing, &whole[..length]).unwrap();
        let refused = w
            .collect_from(&WorkFolder::Session, &["f"], &[])
            .unwrap_err();
        assert!(
            matches!(refused, Error::BadListing { .. }),
            "{length}: {refused}"
        );
    }
    let text = String::from_utf8(whole.clone()).unwrap();
    let without_f: String = text
        .lines()
        .filter(|l| !l.contains("path"))
        .map(|l| format!("{l}\n"))
        .collect();
    fs::write(&listing, without_f).unwrap();
    let refused = w
        .collect_from(&WorkFolder::Session, &["f"], &[])
        .unwrap_err();
    assert!(
        refused.to_string().ends_with("it has 0 of 1 files"),
        "{refused}"
    );
    fs::write(&listing, &whole).unwrap();
    let elsewhere = WorkFolder::User(w.work());
    let refused = w.collect_from(&elsewhere, &[], &[]).unwrap_err();
    assert!(
        matches!(refused, Error::BadListing { .. }),
        "a listing of another folder: {refused}"
    );
    assert_eq!(tree(&w.scope()), []);
    assert!(matches!(
        w.ws.list_before(&w.session, &run("never"), &WorkFolder::Session),
        Err(Error::NotPrepared { .. })
    ));
}

#[test]
fn dotfiles_and_caches_need_evidence() {
    let w = World::new();
    let work = w.work();
    w.list();
    for path in [
        "report.md",
        ".env",
        ".github/workflows/ci.yml",
        ".github/other.yml",
        "node_modules/m/i.js",
        "__pycache__/x.pyc",
        "sub/venv/bin/python",
        ".git/config",
        "dist/app.js",
        "target/debug/app",
    ] {
        put(&work, path, path);
    }
    put(
        &work,
        "target/CACHEDIR.TAG",
        "Signature: 8a477f597d28d172789f06886806bc55\n# made by a tool",
    );
    put(&work, "notacache/CACHEDIR.TAG", "just a name");
    let absolute = work.join(".env");
    let collected = w.collect(&[
        ".github/workflows/ci.yml",
        absolute.to_str().unwrap(),
        ".git/config",
    ]);
    assert_eq!(
        copied(&collected),
        [
            ".env",
            ".github/workflows/ci.yml",
            "dist/app.js",
            "notacache/CACHEDIR.TAG",
            "report.md"
        ]
    );
    assert_eq!(
        collected.omitted.named,
        [
            ".git",
            ".git/config",
            ".github",
            "__pycache__",
            "node_modules",
            "sub/venv",
            "target"
        ]
        .map(|path| omit(path, OmitReason::Skipped))
    );
}

#[test]
fn evidence_alone_does_not_make_an_old_file_new() {
    let w = World::new();
    put(&w.work(), "last-week.pdf", "old");
    age(&w.work(), "last-week.pdf", 600_000);
    settle();
    w.list();
    let collected = w.collect(&[
        "last-week.pdf",
        "scratch-that-is-gone.py",
        "/etc/passwd",
        "../outside.txt",
    ]);
    assert_eq!(collected.copied, []);
    assert_eq!(
        collected.omitted.named,
        [
            omit("../outside.txt", OmitReason::OutsideScope),
            omit("/etc/passwd", OmitReason::OutsideScope),
            omit("last-week.pdf", OmitReason::ChangedOutsideRun),
        ]
    );
}

#[test]
fn hostile_files_are_named_and_cost_only_themselves() {
    let w = World::new();
    let work = w.work();
    w.list();
    put(w.temp.path(), "secret", "secret");
    put(&work, "fine.md", "fine");
    symlink(w.temp.path().join("secret"), work.join("leak")).unwrap();
    symlink(w.temp.path(), work.join("leakdir")).unwrap();
    mknodat(CWD, work.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(work.join("socket")).unwrap();
    fs::write(work.join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    put(&work, "back\\slash", "x");
    put(&work, &format!("{}too-deep", "d/".repeat(257)), "x");
    put(&work, "large", vec![0; 65]);
    let options = CollectOptions { max_file_bytes: 64 };
    let evidence = Evidence {
        written: vec!["leak".into(), "leakdir/secret".into()],
        ..Evidence::default()
    };
    let collected =
        w.ws.collect(
            &w.session,
            &w.run,
            &WorkFolder::Session,
            &evidence,
            &options,
        )
        .unwrap();
    assert_eq!(copied(&collected), ["fine.md"]);
    let deep = format!("{}d", "d/".repeat(256));
    assert_eq!(
        collected.omitted.named,
        [
            omit("back\\slash", OmitReason::UnsafeName),
            omit("bad\\xff", OmitReason::NameNotUtf8),
            omit(&deep, OmitReason::TooDeep),
            omit("fifo", OmitReason::SpecialFile),
            omit("large", OmitReason::TooLarge),
            omit("leak", OmitReason::Symlink),
            omit("leakdir", OmitReason::Symlink),
            omit("leakdir/secret", OmitReason::Symlink),
            omit("socket", OmitReason::SpecialFile),
        ]
    );
    assert_eq!(tree(&w.scope()), [("fine.md".to_owned(), b"fine".to_vec())]);
}

/// P45, P48: also when it is killed in the middle, whatever state that left.
#[test]
fn a_repeat_ends_in_the_same_scope() {
    let w = World::new();
    w.list();
    for i in 0..40 {
        put(
            &w.work(),
            &format!("d{}/f{i}.txt", i % 3),
            format!("content {i}"),
        );
    }
    let first = w.collect(&[]);
    assert_eq!((first.copied.len(), first.already_present), (40, 0));
    let whole = tree(&w.scope());
    let manifest = w.ws.manifest(&w.session, &w.run).unwrap();

    let again = w.collect(&[]);
    assert_eq!((again.copied.len(), again.already_present), (0, 40));

    // Killed after some files, with half of one in the staging folder.
    for i in [3, 7, 30] {
        fs::remove_file(w.scope().join(format!("d{}/f{i}.txt", i % 3))).unwrap();
    }
    put(&w.scope(), ".xworkmate/staging/.threadline-1-1.tmp", "cont");
    put(&w.scope(), ".xworkmate/staging/deeper/x", "cont");
    let after = w.collect(&[]);
    assert_eq!((after.copied.len(), after.already_present), (3, 37));
    assert_eq!(tree(&w.scope()), whole);
    assert!(!w.scope().join(".xworkmate/staging").exists());
    assert_eq!(
        w.ws.manifest(&w.session, &w.run).unwrap(),
        manifest,
        "order and all"
    );

    // Killed before the first file.
    fs::remove_dir_all(w.scope().join("d0")).unwrap();
    symlink("/etc", w.scope().join(".xworkmate/staging")).unwrap();
    assert_eq!(w.collect(&[]).copied.len(), 14);
    assert_eq!(tree(&w.scope()), whole);
}

#[test]
fn two_collections_at_once_do_not_disturb_each_other() {
    let w = World::new();
    w.list();
    for i in 0..60 {
        put(&w.work(), &format!("f{i}"), format!("{i}"));
    }
    let total: usize = std::thread::scope(|s| {
        let all: Vec<_> = (0..4)
            .map(|_| s.spawn(|| w.collect(&[]).copied.len()))
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(total, 60, "each file was copied once");
    assert_eq!(tree(&w.scope()).len(), 60);
}

#[test]
fn what_the_agent_put_into_the_scope_stays_if_it_is_newer() {
    let w = World::new();
    w.list();
    for (path, work_age, scope_age) in [("newer-in-scope", 50, 10), ("newer-in-work", 10, 50)] {
        put(&w.work(), path, "work");
        age(&w.work(), path, work_age);
        put(&w.scope(), path, "scope");
        age(&w.scope(), path, scope_age);
    }
    put(&w.work(), "same", "same");
    put(&w.scope(), "same", "same");
    put(&w.work(), "is-a-folder", "x");
    put(&w.scope(), "is-a-folder/inner", "inner");
    put(&w.work(), "is-a-file/inner", "x");
    put(&w.scope(), "is-a-file", "file");
    put(&w.work(), "was-a-link", "real");
    symlink("/etc/passwd", w.scope().join("was-a-link")).unwrap();
    put(&w.work(), "through-a-link/f", "x");
    symlink(w.temp.path(), w.scope().join("through-a-link")).unwrap();

    for round in 0..2 {
        let collected = w.collect(&[]);
        let want: &[&str] = if round == 0 {
            &["newer-in-work", "was-a-link"]
        } else {
            &[]
        };
        assert_eq!(copied(&collected), want);
        assert_eq!(collected.already_present, if round == 0 { 1 } else { 3 });
        let kept: Vec<&str> = collected.kept.iter().map(|p| p.as_str()).collect();
        assert_eq!(kept, ["is-a-file/inner", "is-a-folder", "newer-in-scope"]);
        assert_eq!(
            collected.omitted.named,
            [omit("through-a-link/f", OmitReason::Symlink)]
        );
    }
    let want = [
        ("is-a-file", "file"),
        ("is-a-folder/inner", "inner"),
        ("newer-in-scope", "scope"),
        ("newer-in-work", "work"),
        ("same", "same"),
        ("was-a-link", "real"),
    ]
    .map(|(p, c)| (p.to_owned(), c.as_bytes().to_vec()));
    assert_eq!(tree(&w.scope()), want);
    assert!(!w.temp.path().join("f").exists());
}

/// P48: one that grows, and one that is rewritten in place and keeps its size.
#[test]
fn a_file_that_does_not_stand_still_is_not_copied_half() {
    use std::os::unix::fs::FileExt as _;
    let mut w = World::new();
    w.list();
    put(&w.work(), "still", "still");
    put(&w.work(), "grows", vec![b'x'; 1_000_000]);
    put(&w.work(), "rewritten", vec![b'x'; 1_000_000]);
    let (stop, work) = (AtomicBool::new(false), w.work());
    let mut reported = std::collections::BTreeSet::new();
    std::thread::scope(|s| {
        s.spawn(|| {
            let open = |name| {
                fs::File::options()
                    .write(true)
                    .open(work.join(name))
                    .unwrap()
            };
            let (grows, rewritten) = (open("grows"), open("rewritten"));
            for i in 0u64.. {
                if stop.load(Relaxed) {
                    break;
                }
                grows.write_all_at(b"more", 1_000_000 + i * 4).unwrap();
                rewritten.write_all_at(&i.to_le_bytes(), 0).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        // On a busy machine the writer may sleep through a whole copy; then that one is fine.
        for round in 0..50 {
            let collected = w.collect(&[]);
            assert!(round > 0 || copied(&collected).contains(&"still"));
            for omitted in collected.omitted.named {
                assert_eq!(omitted.reason, OmitReason::ChangedWhileReading);
                assert!(!w.scope().join(&omitted.path).exists(), "{}", omitted.path);
                reported.insert(omitted.path);
            }
            if reported.len() == 2 {
                break;
            }
            w.run = run(&format!("round-{round}"));
            w.prepare(&w.run);
            w.list();
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(
        reported.into_iter().collect::<Vec<_>>(),
        ["grows", "rewritten"]
    );
    // They stand still now.
    w.collect(&[]);
    for name in ["grows", "rewritten"] {
        assert!(fs::read(w.scope().join(name)).unwrap() == fs::read(work.join(name)).unwrap());
    }
}

fn users_folder(w: &World) -> (std::path::PathBuf, WorkFolder) {
    let path = w.temp.path().join("project");
    fs::create_dir_all(&path).unwrap();
    (path.clone(), WorkFolder::User(path))
}

#[test]
fn in_a_users_folder_only_named_and_declared_files_are_taken() {
    let w = World::new();
    let (user, folder) = users_folder(&w);
    for path in [
        "old.md",
        "report.pdf",
        "edited.rs",
        "removed.rs",
        "stale.pdf",
    ] {
        put(&user, path, "before");
        age(&user, path, 1_000);
    }
    settle();
    assert_eq!(
        w.ws.list_before(&w.session, &w.run, &folder).unwrap(),
        Listed::Taken
    );
    put(&user, "named.md", "named");
    put(&user, "report.pdf", "made now");
    put(&user, "edited.rs", "by the user, perhaps");
    put(&user, "unnamed.md", "whose?");
    put(&user, ".git/index", "x");
    put(&user, ".config/app.toml", "named too");
    fs::remove_file(user.join("removed.rs")).unwrap();
    symlink("/etc", user.join("link")).unwrap();
    let before = tree(&user);

    let named = [
        user.join("named.md").to_str().unwrap().to_owned(),
        ".config/app.toml".into(),
        "old.md".into(),
    ];
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let collected = w
        .collect_from(&folder, &named, &["*.pdf", "**/*.none"])
        .unwrap();
    assert_eq!(
        copied(&collected),
        [".config/app.toml", "named.md", "report.pdf"]
    );
    assert_eq!(
        collected.omitted.named,
        [omit("old.md", OmitReason::ChangedOutsideRun)]
    );
    let change = |path: &str, kind| Change {
        path: path.to_owned(),
        kind,
    };
    assert_eq!(
        collected.summary,
        Some(ChangeSummary {
            created: 1,
            modified: 1,
            removed: 1,
            first: vec![
                change("edited.rs", ChangeKind::Modified),
                change("removed.rs", ChangeKind::Removed),
                change("unnamed.md", ChangeKind::Created),
            ],
            complete: true,
        })
    );
    assert_eq!(content(&w.scope(), "report.pdf"), "made now");
    assert_eq!(w.export().artifacts.len(), 3);
    assert_eq!(tree(&user), before, "nothing of the user's was touched");
}

#[test]
fn a_long_summary_names_the_first_fifty() {
    let w = World::new();
    let (user, folder) = users_folder(&w);
    w.ws.list_before(&w.session, &w.run, &folder).unwrap();
    for i in 0..120 {
        put(&user, &format!("f{i:03}"), "x");
    }
    let collected = w.collect_from(&folder, &[], &[]).unwrap();
    let summary = collected.summary.unwrap();
    assert_eq!(
        (summary.created, summary.first.len(), summary.complete),
        (120, 50, true)
    );
    assert_eq!(summary.first[49].path, "f049");
    assert_eq!(collected.copied, []);
}

/// A user's folder may lie above the workspace: other sessions' files are in there.
#[test]
fn a_users_folder_never_leads_into_the_workspace() {
    let w = World::new();
    let folder = WorkFolder::User(w.temp.path().to_owned());
    w.ws.list_before(&w.session, &w.run, &folder).unwrap();
    let other = w.ws.prepare(&session("other"), &run("r")).unwrap();
    put(&other.artifact_dir, "theirs.pdf", "theirs");
    put(w.temp.path(), "mine.pdf", "mine");
    let collected = w.collect_from(&folder, &[], &["**/*.pdf"]).unwrap();
    assert_eq!(copied(&collected), ["mine.pdf"]);
    assert_eq!(collected.summary.unwrap().created, 0);
}

#[test]
fn a_users_folder_that_is_gone_is_said() {
    let w = World::new();
    let (user, folder) = users_folder(&w);
    w.ws.list_before(&w.session, &w.run, &folder).unwrap();
    fs::remove_dir(&user).unwrap();
    let refused = w.collect_from(&folder, &[], &[]).unwrap_err();
    assert!(matches!(refused, Error::NoWorkFolder { .. }), "{refused}");
}

#[test]
fn a_bad_pattern_is_refused_before_anything_is_copied() {
    let w = World::new();
    w.list();
    put(&w.work(), "f", "f");
    let refused = w
        .collect_from(&WorkFolder::Session, &[], &["a["])
        .unwrap_err();
    assert!(matches!(refused, Error::BadGlob(_)));
    assert_eq!(tree(&w.scope()), []);
}

#[test]
fn five_thousand_files_come_over_whole() {
    let w = World::new();
    for i in 0..2_500 {
        put(&w.work(), &format!("old/{}/f{i}", i % 50), "old");
    }
    settle();
    w.list();
    for i in 0..5_000 {
        put(&w.work(), &format!("new/{}/f{i}", i % 50), format!("{i}"));
    }
    let started = std::time::Instant::now();
    let collected = w.collect(&[]);
    println!("5,000 files in {:?}", started.elapsed());
    assert_eq!(
        (collected.copied.len(), collected.omitted.total()),
        (5_000, 0)
    );
    let manifest = w.ws.manifest(&w.session, &w.run).unwrap();
    assert_eq!(manifest.artifacts.len(), 5_000);
    for artifact in manifest.artifacts {
        assert_eq!(
            artifact.sha256,
            sha(&artifact.path.file_name().as_bytes()[1..])
        );
    }
    assert_eq!(w.collect(&[]).already_present, 5_000);
}

/// While a turn's leftovers keep swapping a folder and a link, nothing from outside comes in.
#[cfg(target_os = "linux")]
#[test]
fn a_swap_race_never_brings_in_the_secret() {
    use rustix::fs::{RenameFlags, renameat_with};
    let mut w = World::new();
    put(w.temp.path(), "out/f", "theirs");
    let (stop, work) = (AtomicBool::new(false), w.work());
    put(&work, "sub/f", "mine");
    symlink(w.temp.path().join("out"), work.join("trap")).unwrap();
    let mut taken = 0;
    std::thread::scope(|s| {
        let (work, stop) = (&work, &stop);
        s.spawn(move || {
            while !stop.load(Relaxed) {
                let (a, b) = (work.join("sub"), work.join("trap"));
                renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for i in 0..150 {
            w.run = run(&format!("race-{i}"));
            w.prepare(&w.run);
            w.list();
            w.collect(&["sub/f", "trap/f"]);
            for (path, bytes) in tree(&w.scope()) {
                assert_eq!(bytes, b"mine", "{path}");
                taken += 1;
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(taken > 0);
    assert_eq!(paths(&w.export()).len(), tree(&w.scope()).len());
}
