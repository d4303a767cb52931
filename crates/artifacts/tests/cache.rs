//! Listing an unchanged scope reads nothing; a changed one is never believed to be unchanged.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]
#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::PathBuf,
};

use common::{World, age, put, settle, sha};
use pretty_assertions::assert_eq;
use threadline_artifacts::{Error, Export, Workspace};

fn cache(w: &World) -> PathBuf {
    let notes = "tasks/agent-main-draft-1/.xworkmate/runs/turn-1/digests";
    w.root().join(notes)
}

/// A listing by a process that has never seen the files, and how many bytes of them it read.
fn anew(w: &World) -> (Export, u64) {
    let ws = Workspace::open(w.root()).unwrap();
    let export = ws.manifest(&w.session, &w.run).unwrap();
    (export, ws.content_bytes_read())
}

/// Everything that this process has read from anywhere, as the system counts it.
fn read_by_system() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|l| l.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn the_second_listing_reads_no_contents() {
    let w = World::new();
    let mut bytes = 0;
    for n in 0..50_u64 {
        // Half of them have names that do not say what they are.
        let (name, content) = if n % 2 == 0 {
            (format!("d/{n}.txt"), vec![b'x'; 10_000])
        } else {
            (format!("d/{n}"), b"%PDF-1.7".repeat(2_000))
        };
        bytes += content.len() as u64;
        put(&w.scope(), &name, content);
    }
    settle();
    let (first, read) = anew(&w);
    assert_eq!((first.artifacts.len(), read), (50, bytes));

    let before = read_by_system();
    let (second, read) = anew(&w);
    let by_system = read_by_system() - before;
    assert_eq!((&second, read), (&first, 0));
    // Only our own notes: the stamp and the cache itself, far less than one of the files per file.
    assert!(by_system < 15_000, "{by_system} bytes were read");
    assert!(
        second
            .artifacts
            .iter()
            .any(|a| a.content_type == "application/pdf")
    );

    // One that changes is read, alone; one that only moves is not.
    put(&w.scope(), "d/0.txt", vec![b'y'; 10_000]);
    fs::rename(w.scope().join("d/2.txt"), w.scope().join("moved.md")).unwrap();
    let (third, read) = anew(&w);
    // A rename is a change of attributes on this file system, so it is read again as well; the one
    // that was just written twice, because somebody might still be writing.
    assert_eq!(read, 30_000);
    let of = |path: &str| {
        third
            .artifacts
            .iter()
            .find(|a| a.path.as_str() == path)
            .unwrap()
    };
    assert_eq!(of("d/0.txt").sha256, sha(&[b'y'; 10_000]));
    assert_eq!(of("moved.md").sha256, sha(&[b'x'; 10_000]));
}

#[test]
fn a_file_that_was_just_written_is_not_believed() {
    let w = World::new();
    put(&w.scope(), "a.txt", "one");
    let (_, read) = anew(&w);
    assert_eq!(read, 6, "twice, because somebody might still be writing");
    // Same size, and its time set back to what it was: only the time that nobody can set differs,
    // and on a coarse clock not even that.
    put(&w.scope(), "a.txt", "two");
    age(&w.scope(), "a.txt", 1_000);
    let (second, read) = anew(&w);
    assert_eq!((second.artifacts[0].sha256, read), (sha(b"two"), 3));
    let (_, read) = anew(&w);
    assert_eq!(read, 3, "its attributes changed a moment ago");
    settle();
    let reads: Vec<u64> = (0..3).map(|_| anew(&w).1).collect();
    assert_eq!(reads, [3, 0, 0]);
}

#[test]
fn a_changed_file_with_its_old_size_and_time_is_read() {
    let w = World::new();
    put(&w.scope(), "a.txt", "one");
    age(&w.scope(), "a.txt", 1_000);
    settle();
    assert_eq!(anew(&w).1, 3);
    assert_eq!(anew(&w).1, 0);
    let before = fs::metadata(w.scope().join("a.txt")).unwrap();
    fs::write(w.scope().join("a.txt"), "two").unwrap();
    let file = fs::File::options()
        .write(true)
        .open(w.scope().join("a.txt"));
    file.unwrap()
        .set_modified(before.modified().unwrap())
        .unwrap();
    let after = fs::metadata(w.scope().join("a.txt")).unwrap();
    assert_eq!(
        (before.mtime_nsec(), before.size(), before.ino()),
        (after.mtime_nsec(), after.size(), after.ino())
    );
    assert_eq!(anew(&w).0.artifacts[0].sha256, sha(b"two"));
}

#[test]
fn pages_together_fill_one_memory() {
    let w = World::new();
    for n in 0..5 {
        put(&w.scope(), &format!("{n}.txt"), "12345");
    }
    settle();
    let page = |cursor: Option<String>| {
        let options = threadline_artifacts::ExportOptions {
            max_files: 2,
            cursor,
            ..Default::default()
        };
        w.ws.export(&w.session, &w.run, &options).unwrap()
    };
    let mut next = page(None).next_cursor;
    while next.is_some() {
        next = page(next).next_cursor;
    }
    assert_eq!(w.ws.content_bytes_read(), 25);
    assert_eq!(anew(&w).1, 0);
}

#[test]
fn a_damaged_memory_costs_only_itself() {
    let w = World::new();
    put(&w.scope(), "a.txt", "content");
    settle();
    let (right, _) = anew(&w);
    let whole = fs::read(cache(&w)).unwrap();
    let mut flipped = whole.clone();
    flipped[40] ^= 1;
    for bad in [
        b"".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        flipped,
        vec![0; 4_096],
    ] {
        fs::write(cache(&w), bad).unwrap();
        assert_eq!(anew(&w), (right.clone(), 7), "read anew");
        assert_eq!(anew(&w), (right.clone(), 0), "and remembered again");
    }
    // A link to a good one elsewhere is not followed, and does not stop the listing either.
    fs::rename(cache(&w), w.root().join("elsewhere")).unwrap();
    symlink(w.root().join("elsewhere"), cache(&w)).unwrap();
    assert_eq!(anew(&w), (right.clone(), 7));
    assert_eq!(anew(&w), (right.clone(), 0));
    // A folder there can neither be read nor replaced: every listing reads, none fails.
    fs::remove_file(cache(&w)).unwrap();
    fs::create_dir_all(cache(&w).join("x")).unwrap();
    assert_eq!(anew(&w), (right.clone(), 7));
    assert_eq!(anew(&w), (right, 7));
}

/// The sum at the end of the file, which is no secret.
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(bytes.len() as u64, |sum, word| {
        (sum.rotate_left(26) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

#[test]
fn a_forged_memory_can_never_deliver_other_bytes() {
    let w = World::new();
    put(&w.scope(), "a.txt", "real");
    settle();
    anew(&w);
    let mut forged = fs::read(cache(&w)).unwrap();
    let digest = 16 + 40;
    assert_eq!(forged[digest..digest + 32], sha(b"real").0);
    forged[digest..digest + 32].copy_from_slice(&sha(b"fake").0);
    let end = forged.len() - 8;
    let sum = sum_of(&forged[..end]);
    forged[end..].copy_from_slice(&sum.to_le_bytes());
    fs::write(cache(&w), forged).unwrap();

    let ws = Workspace::open(w.root()).unwrap();
    let listed = ws.manifest(&w.session, &w.run).unwrap().artifacts.remove(0);
    assert_eq!(
        listed.sha256,
        sha(b"fake"),
        "the control: the forgery works"
    );
    let identity = threadline_artifacts::ArtifactIdentity::of(&w.session, &w.run, &listed);
    assert!(matches!(ws.read(&identity), Err(Error::Changed { .. })));
    assert!(ws.read(&w.identity("a.txt", b"real")).is_ok());
    ws.forget_digests(&w.session, &w.run).unwrap();
    assert_eq!(anew(&w).0.artifacts[0].sha256, sha(b"real"));
}

#[test]
fn the_memory_is_no_artifact_and_holds_only_what_is_there() {
    let w = World::new();
    for n in 0..200 {
        put(&w.scope(), &format!("{n}.txt"), "x");
    }
    settle();
    anew(&w);
    let large = fs::metadata(cache(&w)).unwrap().len();
    for n in 1..200 {
        fs::remove_file(w.scope().join(format!("{n}.txt"))).unwrap();
    }
    put(&w.scope(), "new.txt", "y");
    settle();
    let (export, _) = anew(&w);
    let small = fs::metadata(cache(&w)).unwrap().len();
    assert_eq!(common::paths(&export).len(), 2);
    assert!(small < large / 50, "{large} bytes, then {small}");
    assert!(!w.scope().join(".xworkmate/digests").exists());
}
