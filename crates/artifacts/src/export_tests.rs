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
    let options = ExportOptions {
        max_file_bytes: 100,
        ..ExportOptions::default()
    };
    let (verified, digests) = (Verified::default(), Digests::default());
    let rules = Rules::new(&root, &options, None).unwrap();
    let looked = look(&root, &rules, None, &digests);
    let (all, mut omitted) = (looked.first.ordered(), looked.omitted.ordered());
    assert_eq!((all.len(), omitted.total()), (5, 0));

    fs::write(t.path().join("secret"), "secret").unwrap();
    for name in ["gone", "link", "folder"] {
        fs::remove_file(t.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink("secret", t.path().join("link")).unwrap();
    fs::create_dir(t.path().join("folder")).unwrap();
    fs::write(t.path().join("large"), vec![0; 101]).unwrap();

    let reading = Reading {
        scope: &root,
        max_file_bytes: 100,
        verified: &verified,
        digests: &digests,
    };
    let read = reading.all(all, &mut omitted);
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
