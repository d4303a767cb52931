//! Listing trees, hostile ones included, and hashing what is found.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    ffi::OsStr,
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, fs::symlink, net::UnixListener},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use common::{both, nobody};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mkdirat, mknodat, openat};
use sha2::{Digest as _, Sha256};
use threadline_files::{
    Access, Root, Stamp,
    hash::{self, Hashed},
    walk::{Found, Problem, walk},
};

/// What a walk yields, without the stamps.
fn seen(root: &Root, depth: usize) -> Vec<(String, &'static str)> {
    walk(root, depth)
        .enter_if(|p| !p.ends_with("skip"))
        .map(short)
        .collect()
}

fn short(found: Found) -> (String, &'static str) {
    match found {
        Found::File { path, .. } => (path, "file"),
        Found::NotEntered { path } => (path, "not entered"),
        Found::Problem { path, problem, .. } => (
            path,
            match problem {
                Problem::Symlink => "symlink",
                Problem::Special => "special",
                Problem::NameNotUtf8 => "name",
                Problem::Unreadable => "unreadable",
                Problem::TooDeep => "too deep",
                Problem::Protected => "protected",
            },
        ),
    }
}

#[test]
fn everything_is_named_in_one_order() {
    let t = tempfile::tempdir().unwrap();
    let p = t.path();
    for dir in ["a/b", "a.d", "a-d", "skip/x", "deep/2/3", "q/\u{e9}"] {
        fs::create_dir_all(p.join(dir)).unwrap();
    }
    for file in [
        "a/b/1",
        "a/z",
        "a.d/1",
        "a-d/1",
        "a.txt",
        "a-txt",
        "skip/x/no",
        "deep/2/3/no",
        "q/\u{e9}/f",
    ] {
        fs::write(p.join(file), file).unwrap();
    }
    fs::write(p.join(OsStr::from_bytes(b"bad\xff.txt")), "").unwrap();
    fs::create_dir(p.join(OsStr::from_bytes(b"q/\xc3"))).unwrap();
    fs::write(p.join(OsStr::from_bytes(b"q/\xc3/in")), "").unwrap();
    symlink("a.txt", p.join("link")).unwrap();
    symlink("/", p.join("q/root")).unwrap();
    mknodat(CWD, p.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(p.join("socket")).unwrap();
    for root in both(p) {
        assert_eq!(
            seen(&root, 2),
            [
                ("a-d/1", "file"),
                ("a-txt", "file"),
                ("a.d/1", "file"),
                ("a.txt", "file"),
                ("a/b/1", "file"),
                ("a/z", "file"),
                ("bad\\xff.txt", "name"),
                ("deep/2/3", "too deep"),
                ("fifo", "special"),
                ("link", "symlink"),
                ("q/root", "symlink"),
                ("q/\\xc3", "name"),
                ("q/\u{e9}/f", "file"),
                ("skip", "not entered"),
                ("socket", "special"),
            ]
            .map(|(p, k)| (p.to_owned(), k))
        );
    }
    let stamps: Vec<Stamp> = walk(&Root::open(p.join("a")).unwrap(), 0)
        .filter_map(|f| {
            if let Found::File { stamp, .. } = f {
                Some(stamp)
            } else {
                None
            }
        })
        .collect();
    let z = fs::File::open(p.join("a/z")).unwrap();
    assert_eq!(stamps, [Stamp::of(&z).unwrap()]);
}

#[test]
fn an_unreadable_folder_is_a_problem_not_an_end() {
    if nobody::handed_over("an_unreadable_folder_is_a_problem_not_an_end") {
        return;
    }
    let t = tempfile::tempdir().unwrap();
    fs::create_dir_all(t.path().join("closed/in")).unwrap();
    fs::write(t.path().join("open"), "").unwrap();
    fs::set_permissions(t.path().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    for root in both(t.path()) {
        assert_eq!(
            seen(&root, 9),
            [
                ("closed".to_owned(), "unreadable"),
                ("open".to_owned(), "file")
            ]
        );
    }
    fs::set_permissions(t.path().join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// A tree that is deeper than the system's longest path, and than many stacks.
#[test]
fn depth_costs_neither_stack_nor_descriptors() {
    const LEVELS: usize = 1_000;
    let t = tempfile::tempdir().unwrap();
    let name = "folder-with-a-long-name";
    let open = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let mut at = openat(CWD, t.path(), open, Mode::empty()).unwrap();
    for _ in 0..LEVELS {
        mkdirat(&at, name, Mode::RWXU).unwrap();
        at = openat(&at, name, open, Mode::empty()).unwrap();
    }
    mknodat(&at, "bottom", FileType::RegularFile, Mode::RWXU, 0).unwrap();
    drop(at);
    let bottom = format!("{}bottom", format!("{name}/").repeat(LEVELS));
    for root in both(t.path()) {
        assert_eq!(seen(&root, LEVELS), [(bottom.clone(), "file")]);
        assert_eq!(
            seen(&root, 255).iter().map(|f| f.1).collect::<Vec<_>>(),
            ["too deep"]
        );
        let file = root.open_file(&bottom).unwrap();
        assert_eq!(Stamp::of(&file).unwrap(), root.stat(&bottom).unwrap().stamp);
        root.write_atomic(&bottom, b"deep", Access::Shared).unwrap();
        assert_eq!(root.stat(&bottom).unwrap().stamp.size, 4);
    }
    let root = Root::open(t.path()).unwrap();
    root.remove_dir_all(name).unwrap();
    assert_eq!(root.entries("").unwrap(), []);
}

#[test]
fn a_hash_is_of_bytes_that_stood_still() {
    let t = tempfile::tempdir().unwrap();
    let root = Root::open(t.path()).unwrap();
    for size in [0usize, 1, 131_071, 131_072, 131_073, 500_000] {
        let bytes: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
        root.write_atomic("f", &bytes, Access::Shared).unwrap();
        let mut file = root.open_file("f").unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        let stamp = Stamp::of(&file).unwrap();
        assert_eq!(stamp.size, size as u64);
        let sha256 = Sha256::digest(&bytes).into();
        assert_eq!(hash::file(&file).unwrap(), Hashed::Stable { sha256, stamp });
    }

    // Overwritten in place, the size stays and only the stamp tells.
    let stop = AtomicBool::new(false);
    root.write_atomic("rewritten", &vec![1; 4_000_000], Access::Shared)
        .unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            use std::os::unix::fs::FileExt as _;
            let path = t.path().join("rewritten");
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            for i in 0u32.. {
                if stop.load(Relaxed) {
                    break;
                }
                let at = u64::from(i % 60) * 65_536;
                file.write_all_at(&i.to_le_bytes(), at).unwrap();
            }
        });
        let file = root.open_file("rewritten").unwrap();
        let changed = (0..100).any(|_| hash::file(&file).unwrap() == Hashed::Changed);
        stop.store(true, Relaxed);
        assert!(changed);
    });

    // A file that grows for ever is given up, not chased.
    let stop = AtomicBool::new(false);
    root.write_atomic("grows", &vec![1; 4_000_000], Access::Shared)
        .unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(t.path().join("grows"))
                .unwrap();
            while !stop.load(Relaxed) {
                file.write_all(&[2; 64]).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(20));
            }
        });
        let changed = (0..100)
            .any(|_| hash::file(&root.open_file("grows").unwrap()).unwrap() == Hashed::Changed);
        stop.store(true, Relaxed);
        assert!(changed);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever the names, files come in the byte order of their full paths.
    #[test]
    fn files_come_in_byte_order(paths in proptest::collection::btree_set("[a-c.!~-]{1,3}(/[a-c.!~-]{1,3}){0,3}", 1..24)) {
        let t = tempfile::tempdir().unwrap();
        let mut made = std::collections::BTreeSet::new();
        for path in &paths {
            let full = t.path().join(path);
            let plain = path.split('/').all(|p| p != "." && p != "..");
            if plain && fs::create_dir_all(full.parent().unwrap()).is_ok() && !full.exists() && fs::write(&full, "").is_ok() {
                made.insert(path.clone());
            }
        }
        let root = Root::open(t.path()).unwrap();
        let found: Vec<String> = walk(&root, 9).filter_map(|f| if let Found::File { path, .. } = f { Some(path) } else { None }).collect();
        prop_assert_eq!(found, made.into_iter().collect::<Vec<_>>());
    }
}
