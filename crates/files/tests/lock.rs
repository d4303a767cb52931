//! One owner per folder, also between processes.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use pretty_assertions::assert_eq;
use threadline_files::{Lock, LockError};

fn holder(result: Result<Lock, LockError>) -> Option<u32> {
    match result {
        Err(LockError::Held { pid, .. }) => pid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_second_is_told_who_holds_it() {
    let t = tempfile::tempdir().unwrap();
    let path = t.path().join("owner.lock");
    let lock = Lock::try_acquire(&path).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{}\n", std::process::id())
    );
    assert_eq!(holder(Lock::try_acquire(&path)), Some(std::process::id()));
    drop(lock);
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
    Lock::try_acquire(&path).unwrap();

    // A stale number of a dead process is overwritten, a shorter one does not leave digits behind.
    fs::write(&path, "4194303999\n").unwrap();
    let lock = Lock::try_acquire(&path).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{}\n", std::process::id())
    );
    drop(lock);
    assert!(matches!(
        Lock::try_acquire(t.path().join("no/where")),
        Err(LockError::Files(_))
    ));
}

/// Runs as a child of the test below: takes the lock, says so, and waits to be killed.
#[test]
fn hold_for_the_other_test() {
    let Ok(path) = std::env::var("HOLD_LOCK") else {
        return;
    };
    let _lock = Lock::try_acquire(PathBuf::from(path)).unwrap();
    println!("\nholding");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_killed_owner_lets_go() {
    let t = tempfile::tempdir().unwrap();
    let path = t.path().join("owner.lock");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["hold_for_the_other_test", "--exact", "--nocapture"])
        .env("HOLD_LOCK", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "holding"));
    assert_eq!(holder(Lock::try_acquire(&path)), Some(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    Lock::try_acquire(&path).unwrap();
}

#[test]
fn of_many_at_once_one_wins_each_time() {
    let t = tempfile::tempdir().unwrap();
    let path = t.path().join("owner.lock");
    let inside = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                use std::sync::atomic::Ordering::SeqCst;
                for _ in 0..500 {
                    if let Ok(_lock) = Lock::try_acquire(&path) {
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                    }
                }
            });
        }
    });
}

/// A lock on a file that has lost its name keeps nobody out, and must not be taken for one.
#[test]
fn removing_the_file_makes_no_second_owner() {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    let t = tempfile::tempdir().unwrap();
    let path = t.path().join("owner.lock");
    let (inside, owned) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..5_000 {
                    let Ok(lock) = Lock::try_acquire(&path) else {
                        continue;
                    };
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    std::thread::yield_now();
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                    owned.fetch_add(1, SeqCst);
                    fs::remove_file(&path).unwrap();
                    drop(lock);
                }
            });
        }
    });
    assert!(owned.into_inner() > 0);
}
