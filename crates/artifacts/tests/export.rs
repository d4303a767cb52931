//! What a scope delivers.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, fs::symlink, net::UnixListener},
    time::{Duration, SystemTime},
};

use common::{World, age, omit, paths, put, run, session, sha};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, mkdirat, mknodat, openat};
use threadline_artifacts::{ArtifactIdentity, Error, ExportOptions, KeyRing};
use threadline_contract::{Artifact, ArtifactPath, EmptyReason, OmitReason, Sha256};

/// P50.
#[test]
fn an_artifact_has_size_digest_and_type() {
    let w = World::new();
    put(&w.scope(), "reports/final.md", "# Done\n");
    let export = w.export();
    assert_eq!(
        export.artifacts,
        [Artifact {
            path: ArtifactPath::new("reports/final.md").unwrap(),
            size: 7,
            sha256: Sha256::from_hex(
                "1c756e4db5b787b6e660c80caf23f7c10b6b9543e53c38e1eff47837eaad1338"
            )
            .unwrap(),
            content_type: "text/markdown".into(),
        }]
    );
    assert_eq!((export.total_candidates, export.remaining), (1, 0));
    assert_eq!(
        (
            export.next_cursor,
            export.empty_reason,
            export.omitted.total()
        ),
        (None, None, 0)
    );
    assert_eq!(export.scope.as_str(), "tasks/agent-main-draft-1/turn-1");
}

/// P52, P56, and the three ways to be empty.
#[test]
fn empty_says_why() {
    let w = World::new();
    put(&w.scope(), "old.pdf", "last week's");
    let never = w.ws.manifest(&w.session, &run("never")).unwrap();
    assert_eq!(
        (never.artifacts.len(), never.empty_reason),
        (0, Some(EmptyReason::ScopeMissing))
    );
    w.prepare(&run("turn-2"));
    let empty = w.ws.manifest(&w.session, &run("turn-2")).unwrap();
    assert_eq!(
        (empty.artifacts.len(), empty.empty_reason),
        (0, Some(EmptyReason::ScopeEmpty))
    );
    put(&w.scope_of(&run("turn-2")), "node_modules/x.js", "x");
    let skipped = w.ws.manifest(&w.session, &run("turn-2")).unwrap();
    assert_eq!(
        (skipped.artifacts.len(), skipped.empty_reason),
        (0, Some(EmptyReason::AllOmitted))
    );
    assert_eq!(
        skipped.omitted.named,
        [omit("node_modules", OmitReason::Skipped)]
    );
}

/// P53, P57.
#[test]
fn tool_folders_are_left_out_and_build_folders_are_not() {
    let w = World::new();
    for path in [
        ".git/secret",
        ".xworkmate/a/i.json",
        "node_modules/x.js",
        "sub/.next/y",
        "sub/.xworkmate/z",
        "real.txt",
        "dist/final.pdf",
        "build/assets/cover.png",
        ".env",
        ".gitignore",
        "x/.turbo/y",
        ".pi/z",
        ".openclaw/a",
        ".dart_tool/b",
    ] {
        put(&w.scope(), path, path);
    }
    let export = w.export();
    let mut found = paths(&export);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ".env",
            ".gitignore",
            "build/assets/cover.png",
            "dist/final.pdf",
            "real.txt"
        ]
    );
    let skipped = [
        ".dart_tool",
        ".git",
        ".openclaw",
        ".pi",
        "node_modules",
        "sub/.next",
        "sub/.xworkmate",
        "x/.turbo",
    ];
    assert_eq!(
        export.omitted.named,
        skipped.map(|path| omit(path, OmitReason::Skipped))
    );
}

/// P54, P55, P77, and everything else that is not a plain file; none of it stops the rest.
#[test]
fn nothing_is_left_out_without_a_reason() {
    let w = World::new();
    let s = w.scope();
    put(&s, "real.txt", "real");
    symlink("real.txt", s.join("linked.txt")).unwrap();
    symlink("/etc", s.join("linkdir")).unwrap();
    mknodat(CWD, s.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(s.join("socket")).unwrap();
    fs::write(s.join(OsStr::from_bytes(b"bad\xffname")), "x").unwrap();
    put(&s, "back\\slash.txt", "x");
    put(&s, "large.bin", vec![0; 65]);
    let options = ExportOptions {
        max_file_bytes: 64,
        ..ExportOptions::default()
    };
    let export = w.ws.export(&w.session, &w.run, &options).unwrap();
    assert_eq!(paths(&export), ["real.txt"]);
    assert_eq!(
        export.omitted.named,
        [
            omit("back\\slash.txt", OmitReason::UnsafeName),
            omit("bad\\xffname", OmitReason::NameNotUtf8),
            omit("fifo", OmitReason::SpecialFile),
            omit("large.bin", OmitReason::TooLarge),
            omit("linkdir", OmitReason::Symlink),
            omit("linked.txt", OmitReason::Symlink),
            omit("socket", OmitReason::SpecialFile),
        ]
    );
    assert_eq!(export.total_candidates, 1);
}

#[test]
fn unreadable_and_foreign_files_are_named() {
    let w = World::new();
    put(&w.scope(), "mine", "mine");
    put(&w.scope(), "other", "other");
    fs::hard_link(w.scope().join("other"), w.scope().join("second")).unwrap();
    if std::os::unix::fs::chown(w.scope().join("other"), Some(65_534), None).is_err() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let export = w.export();
    assert_eq!(paths(&export), ["mine"]);
    let want = ["other", "second"].map(|path| omit(path, OmitReason::HardLink));
    assert_eq!(export.omitted.named, want);
}

/// P69.
#[test]
fn the_latest_comes_first_and_ties_go_by_bytes() {
    let w = World::new();
    let s = w.scope();
    let now = SystemTime::now();
    for (path, seconds) in [
        ("older.txt", 9),
        ("newer-b", 5),
        ("newer-a", 5),
        ("newer-B", 5),
        ("newest/\u{e9}", 1),
    ] {
        put(&s, path, path);
        let file = fs::File::options().write(true).open(s.join(path)).unwrap();
        file.set_modified(now - Duration::from_secs(seconds))
            .unwrap();
    }
    assert_eq!(
        paths(&w.export()),
        [
            "newest/\u{e9}",
            "newer-B",
            "newer-a",
            "newer-b",
            "older.txt"
        ]
    );
}

/// P66.
#[test]
fn pages_cover_everything_once() {
    let w = World::new();
    for i in 0..250 {
        put(&w.scope(), &format!("f{i:03}.txt"), i.to_string());
    }
    symlink("f000.txt", w.scope().join("link")).unwrap();
    let first = w.export();
    assert_eq!(
        (
            first.artifacts.len(),
            first.total_candidates,
            first.remaining
        ),
        (200, 250, 50)
    );
    assert_eq!(first.omitted.total(), 1);
    let cursor = first.next_cursor.clone();
    let page = |cursor: &Option<String>, max_files| {
        let options = ExportOptions {
            max_files,
            cursor: cursor.clone(),
            ..ExportOptions::default()
        };
        w.ws.export(&w.session, &w.run, &options).unwrap()
    };
    let second = page(&cursor, 200);
    assert_eq!(
        (
            second.artifacts.len(),
            second.total_candidates,
            second.remaining
        ),
        (50, 250, 0)
    );
    assert_eq!(
        (
            second.next_cursor,
            second.omitted.total(),
            second.empty_reason
        ),
        (None, 0, None)
    );

    let all = w.ws.manifest(&w.session, &w.run).unwrap();
    assert_eq!(all.artifacts, [first.artifacts, second.artifacts].concat());
    for size in [1, 7, 249, 250, 251] {
        let (mut cursor, mut got) = (None, Vec::new());
        loop {
            let part = page(&cursor, size);
            got.extend(part.artifacts);
            cursor = part.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(got, all.artifacts, "pages of {size}");
    }
    let wrong = ExportOptions {
        cursor: Some("nonsense".into()),
        ..ExportOptions::default()
    };
    assert!(matches!(
        w.ws.export(&w.session, &w.run, &wrong),
        Err(Error::BadCursor)
    ));
}

/// P73, P74: from a hostile name to the same bytes again.
#[test]
fn hostile_names_come_back_byte_for_byte() {
    let w = World::new();
    let names = [
        "new\nline.txt",
        "quo\"te'.txt",
        "a::b",
        "\u{1f600}.png",
        "x%2F..%2Fy",
        "%3A%25",
        " lead and trail ",
        "-rf",
        "a b/c:d/e",
        "empty",
        "...",
        "<script>.html",
    ];
    for name in names {
        put(&w.scope(), name, if name == "empty" { "" } else { name });
    }
    let export = w.export();
    assert_eq!(export.artifacts.len(), names.len());
    assert_eq!(export.omitted.total(), 0);
    let ring = KeyRing::generate(1_800_000_000);
    for artifact in &export.artifacts {
        let identity = ArtifactIdentity::of(&w.session, &w.run, artifact);
        let text = ring.sign(&identity, 1_800_000_100);
        let back = ring.verify(&text, 1_800_000_100, 1_800_000_000).unwrap();
        assert_eq!(back, identity);
        let reader = w.ws.read(&back).unwrap();
        let path = artifact.path.as_str();
        let want = if path == "empty" { "" } else { path };
        assert_eq!(
            (reader.size(), artifact.sha256),
            (want.len() as u64, sha(want.as_bytes()))
        );
        assert_eq!(reader.read_range(0, 999).unwrap().bytes, want.as_bytes());
    }
    let empty = export
        .artifacts
        .iter()
        .find(|a| a.path.as_str() == "empty")
        .unwrap();
    assert_eq!(
        empty.sha256.to_hex(),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn the_first_bytes_speak_when_the_name_does_not() {
    let w = World::new();
    put(&w.scope(), "picture", b"\x89PNG\r\n\x1a\n0000");
    put(&w.scope(), "liar.txt", b"\x89PNG\r\n\x1a\n0000");
    put(&w.scope(), "words", "words");
    let export = w.export();
    let mut types: Vec<(&str, &str)> = export
        .artifacts
        .iter()
        .map(|a| (a.path.as_str(), &*a.content_type))
        .collect();
    types.sort_unstable();
    assert_eq!(
        types,
        [
            ("liar.txt", "text/plain"),
            ("picture", "image/png"),
            ("words", "application/octet-stream")
        ]
    );
}

/// P80.
#[test]
fn concurrent_exports_see_their_own_scope_only() {
    let w = World::new();
    let runs: Vec<_> = (0..3).map(|i| run(&format!("run-{i}"))).collect();
    for r in &runs {
        w.prepare(r);
        put(&w.scope_of(r), &format!("{r}.txt"), r.as_str());
    }
    std::thread::scope(|s| {
        for r in &runs {
            let w = &w;
            s.spawn(move || {
                for _ in 0..50 {
                    let export = w.ws.manifest(&w.session, r).unwrap();
                    assert_eq!(paths(&export), [format!("{r}.txt")]);
                }
            });
        }
    });
}

#[test]
fn a_scope_that_became_a_link_delivers_nothing() {
    let w = World::new();
    put(&w.scope(), "f", "f");
    fs::rename(w.scope(), w.temp.path().join("away")).unwrap();
    symlink(w.temp.path().join("away"), w.scope()).unwrap();
    assert!(matches!(
        w.ws.manifest(&w.session, &w.run),
        Err(Error::Escapes { .. })
    ));
    assert!(matches!(
        w.ws.read(&w.identity("f", b"f")),
        Err(Error::SymlinkRejected { .. })
    ));
}

/// A tree of 1,000 levels: what lies too deep is named, the rest delivered.
#[test]
fn depth_is_limited_and_said() {
    let w = World::new();
    let open = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let mut at = openat(CWD, w.scope(), open, Mode::empty()).unwrap();
    for level in 0..1_000 {
        if level == 256 {
            mknodat(&at, "at-256", FileType::RegularFile, Mode::RWXU, 0).unwrap();
        }
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", open, Mode::empty()).unwrap();
    }
    mknodat(&at, "bottom", FileType::RegularFile, Mode::RWXU, 0).unwrap();
    put(&w.scope(), "top", "top");
    let export = w.export();
    let deep = format!("{}at-256", "d/".repeat(256));
    let mut found = paths(&export);
    found.sort_unstable();
    assert_eq!(found, [deep.as_str(), "top"]);
    let folder = format!("{}d", "d/".repeat(256));
    assert_eq!(export.omitted.named, [omit(&folder, OmitReason::TooDeep)]);
}

#[test]
fn five_thousand_files_are_listed_whole() {
    let w = World::new();
    for i in 0..5_000 {
        put(
            &w.scope(),
            &format!("d{}/e{}/f{i}.bin", i % 10, i % 7),
            format!("{i}"),
        );
    }
    for link in 0..1_500 {
        symlink("x", w.scope().join(format!("link{link:04}"))).unwrap();
    }
    let all = w.ws.manifest(&w.session, &w.run).unwrap();
    assert_eq!((all.artifacts.len(), all.total_candidates), (5_000, 5_000));
    for artifact in &all.artifacts {
        let n = artifact
            .path
            .file_name()
            .trim_start_matches('f')
            .trim_end_matches(".bin");
        assert_eq!(artifact.sha256, sha(n.as_bytes()));
    }
    // Names are bounded, counts are not.
    assert_eq!(
        (all.omitted.named.len(), all.omitted.total()),
        (1_000, 1_500)
    );
}

#[test]
fn a_file_that_is_being_written_is_not_delivered_half() {
    let w = World::new();
    put(&w.scope(), "still.txt", "still");
    put(&w.scope(), "grows.log", vec![b'x'; 2_000_000]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            use std::io::Write as _;
            let mut log = fs::File::options()
                .append(true)
                .open(w.scope().join("grows.log"))
                .unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                log.write_all(b"more").unwrap();
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        let reported = (0..100).any(|_| {
            let export = w.export();
            assert!(paths(&export).contains(&"still.txt"));
            export.omitted.named == [omit("grows.log", OmitReason::ChangedWhileReading)]
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reported);
    });
}

#[test]
fn other_sessions_do_not_exist_here() {
    let w = World::new();
    put(&w.scope(), "f", "f");
    let other =
        w.ws.manifest(&session("agent:main:draft:2"), &w.run)
            .unwrap();
    assert_eq!(other.empty_reason, Some(EmptyReason::ScopeMissing));
    age(&w.scope(), "f", 100);
    fs::set_permissions(w.scope().join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(paths(&w.export()), ["f"]);
}
