//! Somebody swaps folders and symlinks as fast as the system allows. Nobody is fooled.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]
#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    io::Read as _,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use common::both;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use threadline_files::{
    Access, Root,
    walk::{Found, walk},
};

/// Runs `attempt` for a while against a thread that swaps `a` and `b`; counts right, refused and
/// escaped attempts.
fn under_attack(a: &Path, b: &Path, attempt: impl Fn() -> Option<bool>) -> [u64; 3] {
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) {
                // One of the two may be away for a moment.
                let _ = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
            }
        });
        let end = Instant::now() + Duration::from_secs(1);
        let mut count = [0; 3];
        while Instant::now() < end {
            let slot = match attempt() {
                Some(true) => 0,
                None => 1,
                Some(false) => 2,
            };
            count[slot] += 1;
        }
        stop.store(true, Relaxed);
        count
    })
}

struct World {
    temp: tempfile::TempDir,
}

impl World {
    /// `root/sub/f` is ours, `out/f` is not, and `root/trap` leads out.
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let p = temp.path();
        fs::create_dir_all(p.join("root/sub")).unwrap();
        fs::create_dir_all(p.join("out")).unwrap();
        fs::write(p.join("root/sub/f"), "mine").unwrap();
        fs::write(p.join("out/f"), "stolen").unwrap();
        symlink(p.join("out"), p.join("root/trap")).unwrap();
        Self { temp }
    }
    fn at(&self, rel: &str) -> std::path::PathBuf {
        self.temp.path().join(rel)
    }
}

#[track_caller]
fn held(what: &str, [right, refused, escaped]: [u64; 3]) {
    println!("{what}: right {right}, refused {refused}, escaped {escaped}");
    assert_eq!(escaped, 0, "{what}");
    assert!(right > 0 && refused > 0, "{what}: the race must be real");
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the control shows why it must not be used"
)]
fn reading_never_leaves_the_root() {
    let w = World::new();
    // The control: what a careful-looking program does, and how it is fooled.
    let naive = under_attack(&w.at("root/sub"), &w.at("root/trap"), || {
        let path = w.at("root/sub/f");
        let real = path.canonicalize().ok()?;
        if !real.starts_with(w.at("root")) {
            return None;
        }
        Some(fs::read_to_string(&path).ok()? == "mine")
    });
    println!("canonicalize, then open: {naive:?}");
    for root in both(&w.at("root")) {
        let count = under_attack(&w.at("root/sub"), &w.at("root/trap"), || {
            let mut text = String::new();
            root.open_file("sub/f")
                .ok()?
                .read_to_string(&mut text)
                .ok()?;
            Some(text == "mine")
        });
        held(&format!("{:?} open_file", root.resolver()), count);
    }
}

#[test]
fn writing_and_removing_never_leave_the_root() {
    let w = World::new();
    for root in both(&w.at("root")) {
        let before = fs::read_dir(w.at("out")).unwrap().count();
        let count = under_attack(&w.at("root/sub"), &w.at("root/trap"), || {
            root.write_atomic("sub/new", b"x", Access::Shared).ok()?;
            root.create_dir_all("sub/made/here", Access::Shared).ok()?;
            root.remove_file("sub/new").ok()?;
            Some(fs::read_dir(w.at("out")).unwrap().count() == before)
        });
        held(&format!("{:?} write", root.resolver()), count);
        assert_eq!(fs::read_dir(w.at("out")).unwrap().count(), before);
    }
}

#[test]
fn walking_and_removing_trees_never_leave_the_root() {
    let w = World::new();
    for root in both(&w.at("root")) {
        let count = under_attack(&w.at("root/sub"), &w.at("root/trap"), || {
            let mut seen = None;
            for found in walk(&root, 8) {
                if let Found::File { path, stamp } = found {
                    seen = Some(path.ends_with("/f") && stamp.size == 4);
                }
            }
            seen
        });
        let [right, _, escaped] = count;
        println!("{:?} walk: {count:?}", root.resolver());
        assert_eq!(escaped, 0);
        assert!(right > 0);
    }
    let root = Root::open(w.at("root")).unwrap();
    let count = under_attack(&w.at("root/sub"), &w.at("root/trap"), || {
        root.remove_dir_all("sub").ok()?;
        let intact = w.at("out/f").exists();
        // Put it back, under whichever name is free, for the next attempt.
        for name in ["root/sub", "root/trap"] {
            if fs::create_dir(w.at(name)).is_ok() {
                let _ = fs::write(w.at(name).join("f"), "mine");
            }
        }
        Some(intact)
    });
    println!("remove_dir_all: {count:?}");
    assert!(w.at("out/f").exists() && count[2] == 0);
}
