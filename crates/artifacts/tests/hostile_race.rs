//! Somebody swaps folders, links and files as fast as the system allows. Nobody is fooled.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]
#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use common::{World, put, sha};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use threadline_artifacts::{ExportOptions, Workspace};
use threadline_contract::{OmitReason, Omitted};
use threadline_files::Resolver;

const TIME: Duration = Duration::from_millis(1_500);

/// Repeats `attack` in threads of its own, and `work` in this one, for a while.
fn while_attacked(attacks: &[&(dyn Fn(u64) + Sync)], mut work: impl FnMut()) -> u64 {
    let stop = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    std::thread::scope(|s| {
        for attack in attacks {
            let (stop, swaps) = (&stop, &swaps);
            s.spawn(move || {
                while !stop.load(Relaxed) {
                    attack(swaps.fetch_add(1, Relaxed));
                }
            });
        }
        // Also when the work fails: a scope waits for its threads.
        let _stop = Stop(&stop);
        let end = Instant::now() + TIME;
        while Instant::now() < end {
            work();
        }
    });
    swaps.into_inner()
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn exchange(a: &Path, b: &Path) {
    // One of the two may be away for a moment.
    let _ = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
}

struct Trap {
    w: World,
}

impl Trap {
    /// `sub/f.txt` is the run's, `out/f.txt` is not, and `trap` leads there; the same for a file.
    fn new() -> Self {
        let w = World::new();
        put(&w.scope(), "sub/f.txt", "mine");
        put(&w.scope(), "sub/deep/f.txt", "mine");
        put(&w.scope(), "g.txt", "mine");
        put(w.temp.path(), "out/f.txt", "STOLEN");
        put(w.temp.path(), "out/deep/f.txt", "STOLEN");
        symlink(w.temp.path().join("out"), w.scope().join("trap")).unwrap();
        symlink(w.temp.path().join("out/f.txt"), w.scope().join("g-trap")).unwrap();
        Self { w }
    }
    fn swap_folders(&self, _: u64) {
        exchange(&self.w.scope().join("sub"), &self.w.scope().join("trap"));
    }
    fn swap_files(&self, _: u64) {
        exchange(
            &self.w.scope().join("g.txt"),
            &self.w.scope().join("g-trap"),
        );
    }
}

#[test]
fn listing_and_reading_never_leave_the_scope() {
    for how in [Resolver::Kernel, Resolver::StepByStep] {
        let t = Trap::new();
        let ws = Workspace::open(t.w.root()).unwrap().with_resolver(how);
        let stolen = sha(b"STOLEN");
        let (mut listed, mut read, mut refused, mut escaped) = (0_u64, 0_u64, 0_u64, 0_u64);
        let swaps = while_attacked(&[&|n| t.swap_folders(n), &|n| t.swap_files(n)], || {
            let export = ws.manifest(&t.w.session, &t.w.run).unwrap();
            listed += export.artifacts.len() as u64;
            refused += export.omitted.total();
            escaped += export
                .artifacts
                .iter()
                .filter(|a| a.sha256 == stolen)
                .count() as u64;
            for path in ["sub/f.txt", "sub/deep/f.txt", "g.txt"] {
                // A file that is moved while it is read has changed too; what is read is right.
                let reader = ws.read(&t.w.identity(path, b"mine"));
                match reader.and_then(|reader| reader.read_range(0, 100)) {
                    Ok(chunk) => {
                        read += 1;
                        escaped += u64::from(chunk.bytes != b"mine");
                    }
                    Err(_) => refused += 1,
                }
                // An attacker who knows what lies outside asks for exactly that.
                escaped += u64::from(ws.read(&t.w.identity(path, b"STOLEN")).is_ok());
            }
        });
        println!(
            "{how:?}: {swaps} swaps, {listed} listed, {read} read, {refused} refused, {escaped} escaped"
        );
        assert_eq!(escaped, 0);
        assert!(
            swaps > 1_000 && listed > 0 && read > 0 && refused > 0,
            "the race must be real"
        );
    }
}

#[test]
fn collecting_never_takes_from_outside_or_writes_there() {
    for how in [Resolver::Kernel, Resolver::StepByStep] {
        let t = Trap::new();
        let w = &t.w;
        let ws = Workspace::open(w.root()).unwrap().with_resolver(how);
        w.list();
        // The same trap in the work folder, where files come from.
        put(&w.work(), "sub/f.txt", "made");
        symlink(w.temp.path().join("out"), w.work().join("trap")).unwrap();
        let work_swap = |_| exchange(&w.work().join("sub"), &w.work().join("trap"));
        let (mut copied, mut other, mut round) = (0_u64, 0_u64, 0_u64);
        let swaps = while_attacked(&[&work_swap, &|n| t.swap_folders(n)], || {
            round += 1;
            put_again(&w.work(), "sub/f.txt", &format!("made {round}"));
            let collected = ws.collect(
                &w.session,
                &w.run,
                &threadline_artifacts::WorkFolder::Session,
                &Default::default(),
                &Default::default(),
            );
            match collected {
                Ok(collected) => copied += collected.copied.len() as u64,
                Err(_) => other += 1,
            }
            let stolen = ws.manifest(&w.session, &w.run).unwrap();
            assert!(stolen.artifacts.iter().all(|a| a.sha256 != sha(b"STOLEN")));
        });
        println!("{how:?}: {swaps} swaps, {copied} copied, {other} refused");
        assert!(swaps > 1_000 && copied > 0, "the race must be real");
        let outside = common::tree(&w.temp.path().join("out"));
        let names: Vec<&str> = outside.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            names,
            ["deep/f.txt", "f.txt"],
            "nothing was written outside"
        );
        assert!(outside.iter().all(|(_, bytes)| bytes == b"STOLEN"));
    }
}

/// Writes into the folder only while it is a folder: the test itself must not write outside.
fn put_again(root: &Path, path: &str, text: &str) {
    if let Ok(held) = threadline_files::Root::open(root) {
        let _ = held.write_atomic(path, text.as_bytes(), threadline_files::Access::Shared);
    }
}

/// A number at the beginning, the same at the end, and much in between.
fn numbered(first: u64, last: u64) -> Vec<u8> {
    let mut bytes = vec![7; 200_000];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[199_992..].copy_from_slice(&last.to_le_bytes());
    bytes
}

#[test]
fn a_file_that_changes_under_the_reader_is_reported_not_delivered() {
    use std::os::unix::fs::FileExt as _;
    let w = World::new();
    put(&w.scope(), "stays.txt", "stays");
    put(&w.scope(), "counts.bin", numbered(0, 0));
    put(&w.scope(), "grows.bin", "");
    let open = |name: &str| {
        let mut options = fs::File::options();
        options.write(true).open(w.scope().join(name)).unwrap()
    };
    let (counts, grows) = (open("counts.bin"), open("grows.bin"));
    // First the beginning, then the end: a file with an older beginning than end never was.
    let number = AtomicU64::new(0);
    let count = |_| {
        let next = number.load(Relaxed) + 1;
        counts.write_all_at(&next.to_le_bytes(), 0).unwrap();
        counts.write_all_at(&next.to_le_bytes(), 199_992).unwrap();
        number.store(next, Relaxed);
        std::thread::sleep(Duration::from_micros(50));
    };
    let grow = |_| {
        let size = grows.metadata().unwrap().len();
        if size > 50_000_000 {
            grows.set_len(0).unwrap();
        } else {
            grows.write_all_at(&[7; 50_000], size).unwrap();
        }
    };
    let (mut reported, mut listed, mut torn) = (0_u64, 0_u64, 0_u64);
    while_attacked(&[&count, &grow], || {
        let from = number.load(Relaxed);
        let options = ExportOptions::default();
        let export = w.ws.export(&w.session, &w.run, &options).unwrap();
        let to = number.load(Relaxed) + 1;
        let of = |path: &str| export.artifacts.iter().find(|a| a.path.as_str() == path);
        assert!(of("stays.txt").is_some());
        let changed = |o: &&Omitted| o.reason == OmitReason::ChangedWhileReading;
        reported += export.omitted.named.iter().filter(changed).count() as u64;
        if let Some(counts) = of("counts.bin") {
            listed += 1;
            let real = (from..=to).any(|n| {
                [n, n.saturating_sub(1)]
                    .iter()
                    .any(|last| sha(&numbered(n, *last)) == counts.sha256)
            });
            torn += u64::from(!real);
        }
        if let Some(grows) = of("grows.bin") {
            torn += u64::from(sha(&vec![7; grows.size as usize]) != grows.sha256);
        }
    });
    println!("{reported} reported, {listed} listed, {torn} torn");
    assert!(reported > 0, "the race must be real");
    assert_eq!(torn, 0);
}
