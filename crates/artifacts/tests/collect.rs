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
};

use common::{World, age, copied, omit, put, run, settle, sha, tree};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use threadline_artifacts::{CollectOptions, Copied, Error, Evidence, WorkFolder};
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
    assert_eq!(collected.already_present, 0);
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
    let options = CollectOptions {
        max_file_bytes: 64,
        ..CollectOptions::default()
    };
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

/// A name that is not safe is told once, whether a tool call names the file, the walk comes upon it, or
/// both; and of a user's own folder by the same reason.
#[test]
fn a_name_that_is_not_safe_is_told_once() {
    for own in [false, true] {
        let w = World::new();
        let theirs = w.temp.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        let (folder, work) = match own {
            true => (WorkFolder::User(theirs.clone()), theirs),
            false => (WorkFolder::Session, w.work()),
        };
        w.ws.list_before(&w.session, &w.run, &folder).unwrap();
        put(&work, "invoice-\u{202e}fdp.exe", "h");
        put(&work, "tab\there.md", "x");
        put(&work, ".hidden/a\tb.md", "x");
        let evidence = Evidence {
            written: vec![
                "invoice-\u{202e}fdp.exe".into(),
                "./tab\there.md".into(),
                ".hidden/a\tb.md".into(),
                "gone\t.md".into(),
            ],
            ..Evidence::default()
        };
        let options = CollectOptions::default();
        let collected =
            w.ws.collect(&w.session, &w.run, &folder, &evidence, &options)
                .unwrap();
        let mut want = vec![
            omit(".hidden/a\\tb.md", OmitReason::UnsafeName),
            omit("invoice-\\u{202e}fdp.exe", OmitReason::UnsafeName),
            omit("tab\\there.md", OmitReason::UnsafeName),
        ];
        if !own {
            want.insert(0, omit(".hidden", OmitReason::Skipped));
        }
        assert_eq!(collected.omitted.named, want, "own: {own}");
        assert_eq!(collected.omitted.total(), want.len() as u64);
        let changed = collected.summary.map(|s| s.first);
        assert_eq!(changed, own.then(Vec::new));
    }
}

/// The ignore file is of the folder, not of the turn that wrote it.
#[test]
fn what_the_ignore_file_names_stays_in_the_work_folder() {
    let mut w = World::new();
    put(&w.work(), "artifact-ignore.md", "raw/\n*.log\na?b\n");
    for turn in ["turn-1", "turn-2"] {
        w.run = run(turn);
        w.prepare(&w.run);
        w.list();
        for path in ["report.md", "raw/data.csv", "run.log"] {
            put(&w.work(), path, turn);
        }
        let collected = w.collect(&[]);
        assert_eq!(copied(&collected), ["report.md"], "{turn}");
        let left = ["raw/data.csv", "run.log"].map(|path| omit(path, OmitReason::Ignored));
        assert_eq!(collected.omitted.named, left);
        assert_eq!(collected.warnings.len(), 1);
    }
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
