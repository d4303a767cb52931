use pretty_assertions::assert_eq;
use threadline_contract::{RunId, SessionKey};

use super::*;

fn at(path: &str, mtime_ns: i64, wanted: bool) -> Candidate {
    Candidate {
        path: ArtifactPath::new(path).unwrap(),
        stamp: Stamp {
            dev: 1,
            ino: 1,
            size: 1,
            mtime_ns,
            ctime_ns: 0,
        },
        wanted,
    }
}

fn paths(all: &[Candidate]) -> Paths {
    let mut paths = Paths::default();
    all.iter().for_each(|candidate| paths.add(candidate));
    paths
}

#[test]
fn the_first_are_found_whatever_order_they_come_in() {
    let mut all: Vec<Candidate> = (0..50)
        .map(|n| at(&format!("{n:02}"), n % 7, n % 5 == 0))
        .collect();
    let mut first = First::new(10);
    for n in 0..50 {
        first.add(all[n * 37 % 50].clone());
    }
    all.sort_by(|a, b| a.key().cmp(&b.key()));
    all.truncate(10);
    assert_eq!(first.ordered(), all);
}

#[test]
fn a_cursor_survives_files_that_come_and_go() {
    let session = SessionKey::new("s").unwrap();
    let scope = ArtifactScope::of(&session, &RunId::new("r").unwrap()).unwrap();
    let plain = |path, mtime| at(path, mtime, false);
    let listed = [plain("a", 9), plain("m", 5)];
    let text = cursor(&listed[1], paths(&listed), &scope, "").unwrap();
    let behind = Position::read(&text, &scope, "").unwrap();
    let position = |all: &[Candidate]| all.iter().filter(|c| behind.is_behind(c)).count();
    let unchanged = |all: &[Candidate]| {
        let before: Vec<Candidate> = all
            .iter()
            .filter(|c| behind.is_behind(c))
            .cloned()
            .collect();
        behind.is_same(paths(&before))
    };
    assert_eq!(
        position(&[plain("a", 9), plain("m", 5), plain("n", 5), plain("z", 1)]),
        2
    );
    assert_eq!(
        position(&[plain("a", 9), plain("n", 5), plain("z", 1)]),
        1,
        "its own file is gone"
    );
    assert_eq!(position(&[plain("a", 9), plain("b", 8), plain("m", 5)]), 3);
    assert_eq!(
        position(&[at("old", 1, true), plain("m", 5)]),
        2,
        "asked for comes first"
    );
    assert_eq!(position(&[]), 0);

    assert!(unchanged(&[plain("a", 9), plain("m", 5), plain("new", 1)]));
    assert!(unchanged(&[plain("a", 7), plain("m", 5)]));
    assert!(!unchanged(&[plain("a", 9), plain("new", 8), plain("m", 5)]));
    assert!(!unchanged(&[plain("m", 5), plain("a", 1)]));

    let other = ArtifactScope::of(&session, &RunId::new("r2").unwrap()).unwrap();
    assert!(matches!(
        Position::read(&text, &other, ""),
        Err(Error::BadCursor)
    ));
    assert!(matches!(
        Position::read(&text, &scope, "pdf"),
        Err(Error::BadCursor)
    ));
    for junk in ["", "x", "e30", "!!!!", "bnVsbA"] {
        assert!(
            matches!(Position::read(junk, &scope, ""), Err(Error::BadCursor)),
            "{junk}"
        );
    }
}
