use std::fs;

use pretty_assertions::assert_eq;
use threadline_contract::Omitted;

use super::*;

/// Between the walk and the reading anything can happen to a file (P76, P98).
#[test]
fn a_file_that_changes_hands_after_the_walk_costs_only_itself() {
    let t = tempfile::tempdir().unwrap();
    for name in ["gone", "link", "folder", "large", "stays"] {
        fs::write(t.path().join(name), name).unwrap();
    }
    let root = Root::open(t.path()).unwrap();
    let (all, mut omitted) = candidates(&root, 100);
    assert_eq!((all.len(), omitted.total()), (5, 0));

    fs::write(t.path().join("secret"), "secret").unwrap();
    for name in ["gone", "link", "folder"] {
        fs::remove_file(t.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink("secret", t.path().join("link")).unwrap();
    fs::create_dir(t.path().join("folder")).unwrap();
    fs::write(t.path().join("large"), vec![0; 101]).unwrap();

    let (verified, digests) = (Verified::default(), Digests::default());
    let read = read_all(&root, &all, 100, &verified, &digests, &mut omitted);
    assert_eq!(
        read.iter().map(|a| a.path.as_str()).collect::<Vec<_>>(),
        ["stays"]
    );
    omitted.named.sort();
    let omit = |path: &str, reason| Omitted {
        path: path.to_owned(),
        reason,
    };
    assert_eq!(
        omitted.named,
        [
            omit("folder", OmitReason::SpecialFile),
            omit("gone", OmitReason::Vanished),
            omit("large", OmitReason::TooLarge),
            omit("link", OmitReason::Symlink),
        ]
    );
}

#[test]
fn a_cursor_survives_files_that_come_and_go() {
    let at = |path: &str, mtime_ns| Candidate {
        path: ArtifactPath::new(path).unwrap(),
        stamp: Stamp {
            dev: 1,
            ino: 1,
            size: 1,
            mtime_ns,
            ctime_ns: 0,
        },
    };
    let session = SessionKey::new("s").unwrap();
    let scope = ArtifactScope::of(&session, &RunId::new("r").unwrap()).unwrap();
    let text = cursor(&at("m", 5), &scope).unwrap();
    let position = |all: &[Candidate]| after(all, &text, &scope).unwrap();
    assert_eq!(
        position(&[at("a", 9), at("m", 5), at("n", 5), at("z", 1)]),
        2
    );
    assert_eq!(
        position(&[at("a", 9), at("n", 5), at("z", 1)]),
        1,
        "its own file is gone"
    );
    assert_eq!(position(&[at("a", 9), at("b", 8), at("m", 5)]), 3);
    assert_eq!(position(&[]), 0);

    let other = ArtifactScope::of(&session, &RunId::new("r2").unwrap()).unwrap();
    assert!(matches!(after(&[], &text, &other), Err(Error::BadCursor)));
    for junk in ["", "x", "e30", "!!!!", "bnVsbA"] {
        assert!(
            matches!(after(&[], junk, &scope), Err(Error::BadCursor)),
            "{junk}"
        );
    }
}
