//! Listing a tree at once finds what walking it finds.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink, net::UnixListener},
};

use common::both;
use pretty_assertions::assert_eq;
use threadline_files::{
    Root, tree,
    walk::{Found, walk},
};

fn both_ways(root: &Root, depth: usize, enter: impl Fn(&str) -> bool + Sync) {
    let mut walked: Vec<Found> = walk(root, depth).enter_if(&enter).collect();
    let tree = tree::list(root, depth, &enter);
    let mut listed = tree.others;
    assert!(listed.is_sorted_by_key(|f| f.path().to_owned()));
    let files = tree.files.into_iter();
    listed.extend(files.map(|(path, stamp)| Found::File { path, stamp }));
    walked.sort_by(|a, b| a.path().cmp(b.path()));
    listed.sort_by(|a, b| a.path().cmp(b.path()));
    assert_eq!(listed, walked);
}

#[test]
fn both_find_the_same() {
    let t = tempfile::tempdir().unwrap();
    let p = t.path();
    for folder in ["a/b/c/d/e", "skip/me", "empty", "a-b"] {
        fs::create_dir_all(p.join(folder)).unwrap();
        for n in 0..7 {
            fs::write(p.join(folder).join(format!("f{n}")), "x".repeat(n)).unwrap();
        }
    }
    // More than one thread takes for itself.
    fs::create_dir(p.join("many")).unwrap();
    for n in 0..1_500 {
        fs::write(p.join(format!("many/{n}")), "").unwrap();
    }
    symlink("/etc", p.join("a/link")).unwrap();
    symlink("f1", p.join("a-b/link")).unwrap();
    let _socket = UnixListener::bind(p.join("socket")).unwrap();
    fs::write(p.join(OsStr::from_bytes(b"bad-\xff")), "x").unwrap();
    fs::create_dir(p.join(OsStr::from_bytes(b"bad-folder-\xff"))).unwrap();
    for root in both(p) {
        both_ways(&root, 256, |_| true);
        both_ways(&root, 256, |path| path != "skip");
        both_ways(&root, 2, |_| true);
        both_ways(&root, 0, |_| true);
    }
}
