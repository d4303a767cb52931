//! Reading what a walk saw, and what is in memory.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt as _, symlink},
};

use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use sha2::{Digest as _, Sha256};
use threadline_files::{Root, Stamp, read_held_at};

#[test]
fn a_digest_is_given_only_of_what_was_seen() {
    let temp = tempfile::tempdir().unwrap();
    let root = Root::open(temp.path()).unwrap();
    let path = temp.path().join("f");
    let seen = || {
        fs::write(&path, "content").unwrap();
        Stamp::of(File::open(&path).unwrap()).unwrap()
    };
    let stamp = seen();
    let mut shown = vec![];
    let digest = root.hash_as_seen("f", &stamp, |bytes| shown.extend_from_slice(bytes));
    assert_eq!(digest, Some(Sha256::digest("content").into()));
    assert_eq!(shown, b"content");

    let after = |change: &dyn Fn()| {
        let _ = fs::remove_file(&path);
        let stamp = seen();
        change();
        root.hash_as_seen("f", &stamp, |_| {})
    };
    let other = temp.path().join("other");
    let changes: [(&str, &dyn Fn()); 6] = [
        ("gone", &|| fs::remove_file(&path).unwrap()),
        ("longer", &|| fs::write(&path, "content and more").unwrap()),
        ("shorter", &|| fs::write(&path, "con").unwrap()),
        ("another file of the same size", &|| {
            fs::write(&other, "CONTENT").unwrap();
            fs::rename(&other, &path).unwrap();
        }),
        ("a link", &|| {
            fs::rename(&path, &other).unwrap();
            symlink("other", &path).unwrap();
        }),
        ("a pipe", &|| {
            fs::remove_file(&path).unwrap();
            mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }),
    ];
    for (what, change) in changes {
        assert_eq!(after(change), None, "{what}");
    }
}

#[test]
fn what_is_in_memory_is_read_and_nothing_else_is_made_up() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("f");
    fs::write(&path, "0123456789").unwrap();
    let file = File::open(&path).unwrap();
    // Where the file system cannot tell, whoever may wait reads.
    for (offset, want) in [(0, "01234"), (7, "789"), (10, ""), (99, "")] {
        let mut buffer = [0; 5];
        file.read_at(&mut buffer, offset).unwrap();
        let mut held = [0; 5];
        if let Some(got) = read_held_at(&file, &mut held, offset).unwrap() {
            assert_eq!(&held[..got], want.as_bytes());
        }
    }
}
