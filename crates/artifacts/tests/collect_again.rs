//! Collecting twice, at once, over what the agent left, and while it still writes.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use common::{World, age, copied, omit, paths, put, run, tree};
use pretty_assertions::assert_eq;
use rustix::fs::CWD;
use threadline_contract::OmitReason;

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
        assert_eq!(
            collected.omitted.named,
            [
                omit("is-a-file/inner", OmitReason::NameTaken),
                omit("is-a-folder", OmitReason::NameTaken),
                omit("newer-in-scope", OmitReason::NameTaken),
                omit("through-a-link/f", OmitReason::Symlink),
            ]
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
