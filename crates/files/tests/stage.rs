//! Whole files or none.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use common::{both, refusal};
use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};
use threadline_files::{Access, Durability, Reason, Root, Written, atomic};

fn sha(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Gives some bytes, then fails.
struct Torn(usize);
impl io::Read for Torn {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("cable pulled"));
        }
        let n = self.0.min(buffer.len());
        buffer[..n].fill(b'x');
        self.0 -= n;
        Ok(n)
    }
}

#[test]
fn copies_are_hashed_on_the_pass_and_all_or_nothing() {
    let t = tempfile::tempdir().unwrap();
    let big: Vec<u8> = (0..1_000_003u32).map(|i| i as u8).collect();
    for r in both(t.path()) {
        r.create_dir_all("d", Access::Shared).unwrap();
        let written = r
            .copy_in("d/big", &mut big.as_slice(), Access::Shared)
            .unwrap();
        assert_eq!(
            written,
            Written {
                size: 1_000_003,
                sha256: sha(&big)
            }
        );
        assert_eq!(fs::read(t.path().join("d/big")).unwrap(), big);

        let e = r
            .copy_in("d/big", &mut Torn(300_000), Access::Shared)
            .unwrap_err();
        assert_eq!(e.reason(), Reason::Source);
        assert!(
            e.to_string()
                .ends_with("the source of the copy failed (cable pulled)"),
            "{e}"
        );
        assert_eq!(
            fs::read(t.path().join("d/big")).unwrap(),
            big,
            "the old file stands"
        );
        assert_eq!(
            r.entries("d").unwrap().len(),
            1,
            "nothing is left beside it"
        );

        let empty = r.write_atomic("d/big", b"", Access::Private).unwrap();
        assert_eq!(
            empty,
            Written {
                size: 0,
                sha256: sha(b"")
            }
        );
        let mode = fs::metadata(t.path().join("d/big"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        r.remove_dir_all("d").unwrap();
    }
}

#[test]
fn a_name_is_given_once_when_asked_so() {
    let t = tempfile::tempdir().unwrap();
    let r = Root::open(t.path()).unwrap();
    r.create_file("f", b"first", Access::Shared).unwrap();
    assert_eq!(
        refusal(r.create_file("f", b"second", Access::Shared)),
        Reason::AlreadyExists
    );
    symlink("nowhere", t.path().join("link")).unwrap();
    assert_eq!(
        refusal(r.create_file("link", b"x", Access::Shared)),
        Reason::AlreadyExists
    );
    assert_eq!(fs::read(t.path().join("f")).unwrap(), b"first");

    let winners: usize = std::thread::scope(|s| {
        let all: Vec<_> = (0..8)
            .map(|i| {
                s.spawn({
                    let r = &r;
                    move || r.create_file("one", &[i], Access::Shared).is_ok()
                })
            })
            .collect();
        all.into_iter()
            .map(|t| usize::from(t.join().unwrap()))
            .sum()
    });
    assert_eq!(winners, 1);
    assert_eq!(
        r.entries("").unwrap().len(),
        3,
        "f, link, one: no temporary names"
    );
}

#[test]
fn staged_bytes_are_seen_only_when_published() {
    let t = tempfile::tempdir().unwrap();
    for r in both(t.path()) {
        let staging = r.create_dir_all("staging", Access::Private).unwrap();
        r.create_dir_all("place", Access::Shared).unwrap();
        let staged = staging
            .stage(&mut &b"abc"[..], Access::Shared, Durability::Later)
            .unwrap();
        assert_eq!(
            staged.written(),
            Written {
                size: 3,
                sha256: sha(b"abc")
            }
        );
        assert_eq!(r.entries("staging").unwrap().len(), 1);
        drop(staged);
        assert_eq!(r.entries("staging").unwrap(), [], "dropped, not published");

        let staged = staging
            .stage(&mut &b"abc"[..], Access::Shared, Durability::Later)
            .unwrap();
        staged.publish(&r, "place/f").unwrap();
        let again = staging
            .stage(&mut &b"def"[..], Access::Shared, Durability::Now)
            .unwrap();
        assert_eq!(
            refusal(again.publish_new(&r, "place/f")),
            Reason::AlreadyExists
        );
        assert_eq!(fs::read(t.path().join("place/f")).unwrap(), b"abc");
        assert_eq!(r.entries("staging").unwrap(), []);

        // A link under the name is replaced, not followed; a folder is refused.
        symlink("/etc/passwd", t.path().join("place/link")).unwrap();
        r.write_atomic("place/link", b"own", Access::Shared)
            .unwrap();
        assert!(
            t.path()
                .join("place/link")
                .symlink_metadata()
                .unwrap()
                .is_file()
        );
        r.create_dir_all("place/dir", Access::Shared).unwrap();
        assert_eq!(
            refusal(r.write_atomic("place/dir", b"x", Access::Shared)),
            Reason::NotRegular
        );
        assert_eq!(
            refusal(r.write_atomic("nowhere/f", b"x", Access::Shared)),
            Reason::NotFound
        );
        assert_eq!(
            refusal(r.write_atomic("../f", b"x", Access::Shared)),
            Reason::NotRelative
        );
        r.sync().unwrap();
        r.remove_dir_all("place").unwrap();
    }
}

#[test]
fn own_files_are_read_and_written_whole() {
    let t = tempfile::tempdir().unwrap();
    let dir = t.path().join("a/b");
    atomic::create_dir_all(&dir, Access::Private).unwrap();
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    atomic::create_dir_all(&dir, Access::Private).unwrap();
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700,
        "made private"
    );

    let file = dir.join("token");
    atomic::write(&file, b"secret", Access::Private).unwrap();
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(atomic::read_limited(&file, 6).unwrap(), b"secret");
    assert_eq!(refusal(atomic::read_limited(&file, 5)), Reason::TooLarge);
    assert_eq!(
        refusal(atomic::read_limited(dir.join("none"), 5)),
        Reason::NotFound
    );
    assert_eq!(refusal(atomic::read_limited(&dir, 5)), Reason::NotRegular);
    assert_eq!(
        refusal(atomic::create(&file, b"again", Access::Private)),
        Reason::AlreadyExists
    );
    symlink(&file, dir.join("link")).unwrap();
    assert_eq!(
        refusal(atomic::read_limited(dir.join("link"), 99)),
        Reason::Symlink
    );
    assert_eq!(
        refusal(atomic::write("/", b"", Access::Private)),
        Reason::NotRegular
    );
}

#[test]
fn a_copy_can_keep_its_time() {
    let t = tempfile::tempdir().unwrap();
    let r = Root::open(t.path()).unwrap();
    for ns in [1_700_000_000_123_456_789, 0, -1, 4_000_000_000_000_000_001] {
        let staged = r
            .stage(&mut &b"x"[..], Access::Shared, Durability::Later)
            .unwrap();
        staged.set_modified(ns).unwrap();
        staged.publish(&r, "f").unwrap();
        assert_eq!(r.stat("f").unwrap().stamp.mtime_ns, ns);
    }
}

#[test]
fn a_folder_is_held_by_one_at_a_time() {
    let t = tempfile::tempdir().unwrap();
    let r = Root::open(t.path()).unwrap();
    let inside = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                use std::sync::atomic::Ordering::SeqCst;
                for _ in 0..200 {
                    let _guard = r.clone().lock().unwrap();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                }
            });
        }
    });
}

/// A file system with room for next to nothing, for as long as it lives.
struct Tiny(tempfile::TempDir);
impl Tiny {
    fn new(options: &str) -> Option<Self> {
        let t = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tiny"])
            .arg(t.path())
            .output()
            .is_ok_and(|o| o.status.success());
        if !mounted {
            eprintln!("skipped: cannot mount a file system here");
        }
        mounted.then_some(Self(t))
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}
impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_says_so_and_leaves_nothing_half_done() {
    let Some(tiny) = Tiny::new("size=256k") else {
        return;
    };
    let r = Root::open(tiny.path()).unwrap();
    r.write_atomic("old", b"old", Access::Shared).unwrap();
    let much = vec![7; 1_000_000];
    assert_eq!(
        refusal(r.write_atomic("old", &much, Access::Shared)),
        Reason::NoSpace
    );
    assert_eq!(fs::read(tiny.path().join("old")).unwrap(), b"old");
    assert_eq!(r.entries("").unwrap().len(), 1);

    // A journal on a full disk refuses the record, keeps its earlier ones, and goes on when there
    // is room again.
    let path = tiny.path().join("journal");
    let mut journal = threadline_files::Journal::open(&path).unwrap();
    journal.append(&"first", Durability::Now).unwrap();
    let text = "y".repeat(1_000_000);
    let e = journal.append(&text, Durability::Now).unwrap_err();
    assert!(
        matches!(&e, threadline_files::JournalError::Files(f) if f.reason() == Reason::NoSpace),
        "{e}"
    );
    assert_eq!(
        fs::metadata(&path).unwrap().len(),
        journal.end(),
        "no half record stays"
    );
    journal.append(&"second", Durability::Now).unwrap();
    let read: Vec<String> = journal
        .read_after(0)
        .unwrap()
        .map(|record| record.unwrap().value)
        .collect();
    assert_eq!(read, ["first", "second"]);
}

#[test]
fn a_read_only_disk_says_so() {
    let Some(tiny) = Tiny::new("size=256k") else {
        return;
    };
    let r = Root::open(tiny.path()).unwrap();
    r.write_atomic("f", b"f", Access::Shared).unwrap();
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(tiny.path())
        .output()
        .is_ok_and(|o| o.status.success());
    if !remounted {
        eprintln!("skipped: cannot remount here");
        return;
    }
    assert_eq!(
        refusal(r.write_atomic("f", b"g", Access::Shared)),
        Reason::ReadOnly
    );
    assert_eq!(
        refusal(r.create_dir_all("d", Access::Shared)),
        Reason::ReadOnly
    );
    assert_eq!(refusal(r.remove_file("f")), Reason::ReadOnly);
    assert_eq!(
        refusal(r.append_file("f", Access::Shared)),
        Reason::ReadOnly
    );
}
