use pretty_assertions::assert_eq;
use threadline_contract::{ArtifactPath, Sha256};

use super::*;

fn item(path: &str, size: u64, content_type: &str) -> Artifact {
    Artifact {
        path: ArtifactPath::new(path).unwrap(),
        size,
        sha256: Sha256([0; 32]),
        content_type: content_type.to_owned().into(),
    }
}

fn want(glob: &str) -> Deliverable {
    Deliverable {
        glob: glob.to_owned(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    }
}

#[test]
fn only_what_is_declared_can_be_missing() {
    let items = vec![
        item("reports/a.pdf", 10, "application/pdf"),
        item("reports/deep/b.pdf", 0, "application/pdf"),
        item("notes.md", 5, "text/markdown"),
        item("we[i]rd.txt", 1, "text/plain"),
    ];
    let items = FileList::from(items);
    let found = |deliverable: Deliverable| {
        missing(&items, &[deliverable])
            .unwrap()
            .first()
            .map(|m| m.found)
    };
    assert_eq!(missing(&items, &[]).unwrap(), []);
    assert_eq!(found(want("reports/*.pdf")), None);
    assert_eq!(
        found(want("*.pdf")),
        Some(0),
        "one star stays in its folder"
    );
    assert_eq!(found(want("**/*.pdf")), None);
    assert_eq!(found(want("**/*.md")), None, "no folder at all is fine too");
    assert_eq!(found(want("notes.md")), None);
    assert_eq!(found(want("NOTES.md")), Some(0));
    assert_eq!(found(want("we\\[i\\]rd.txt")), None);
    assert_eq!(found(want("*.{txt,docx}")), None);
    assert_eq!(
        found(Deliverable {
            min_count: Some(2),
            ..want("**/*.pdf")
        }),
        None
    );
    assert_eq!(
        found(Deliverable {
            min_count: Some(3),
            ..want("**/*.pdf")
        }),
        Some(2)
    );
    assert_eq!(
        found(Deliverable {
            min_count: Some(0),
            ..want("none")
        }),
        None
    );
    let sized = Deliverable {
        min_bytes: Some(1),
        min_count: Some(2),
        ..want("**/*.pdf")
    };
    assert_eq!(found(sized), Some(1), "an empty file does not count");
    let typed = |t: &str| Deliverable {
        content_type: Some(t.to_owned()),
        ..want("**")
    };
    assert_eq!(found(typed("Application/PDF; version=1")), None);
    assert_eq!(found(typed("image/png")), Some(0));
    assert_eq!(
        missing(&items, &[want("notes.md"), want("x.csv")]).unwrap(),
        [Missing {
            deliverable: want("x.csv"),
            found: 0
        }]
    );
}

#[test]
fn a_bad_glob_is_named() {
    for glob in ["a[", "{a,", "", "/etc/*", "../*.pdf", "a//b", "a/", "[z-a]"] {
        let refused = check(&[want("fine.md"), want(glob)]).unwrap_err();
        assert!(
            matches!(&refused, Error::BadGlob(bad) if bad.glob == glob),
            "{refused:?}"
        );
        assert!(
            refused
                .to_string()
                .starts_with(&format!("`{glob}` is not a pattern that files can match: "))
        );
        assert!(missing(&FileList::default(), &[want(glob)]).is_err());
    }
    check(&[want("**"), want("a/**/b"), want("*.{md,pdf}")]).unwrap();
}
