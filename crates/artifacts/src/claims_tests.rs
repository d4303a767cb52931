use std::{fs, io::Write as _, thread};

use pretty_assertions::assert_eq;

use super::*;

fn by(session: &str, run: &str) -> Claimant {
    Claimant {
        workspace: "/ws".into(),
        session: SessionKey::new(session).unwrap(),
        run: RunId::new(run).unwrap(),
    }
}

fn stamp(ino: u64, mtime_ns: i64) -> Stamp {
    Stamp {
        dev: 1,
        ino,
        size: 3,
        mtime_ns,
        ctime_ns: mtime_ns,
    }
}

#[test]
fn a_file_in_one_state_is_claimed_by_one_run() {
    let t = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(t.path().join("a/b"));
    let (first, second) = (by("s1", "r"), by("s2", "r"));
    {
        let mut book = ledger.open().unwrap();
        assert!(book.claim(&first, &stamp(1, 10), "x").unwrap());
        assert!(!book.claim(&second, &stamp(1, 10), "x").unwrap());
        assert!(book.claim(&first, &stamp(1, 10), "x").unwrap(), "again");
        assert!(book.claim(&first, &stamp(1, 10), "other name").unwrap());
        book.sync().unwrap();
    }
    // Another process, later; rights changed; then the file was written anew.
    let mut book = ledger.open().unwrap();
    let chmodded = Stamp {
        ctime_ns: 99,
        ..stamp(1, 10)
    };
    assert!(!book.claim(&second, &chmodded, "x").unwrap());
    assert!(book.claim(&second, &stamp(1, 11), "x").unwrap());
    assert!(!book.claim(&first, &stamp(1, 11), "x").unwrap());
    let end = book.open.as_ref().map(|held| held.journal.end());
    assert!(book.claim(&second, &stamp(1, 11), "x").unwrap());
    assert_eq!(
        book.open.as_ref().map(|held| held.journal.end()),
        end,
        "nothing new to say"
    );
    for (who, to, want) in [
        (&first, "x", true),
        (&first, "other name", true),
        (&second, "other name", false),
    ] {
        assert_eq!(book.copied(who, to), want);
    }
}

#[test]
fn of_many_at_once_each_file_has_one_owner() {
    let t = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(t.path());
    let won: Vec<Vec<u64>> = thread::scope(|s| {
        let all: Vec<_> = (0..6)
            .map(|i| {
                let ledger = &ledger;
                s.spawn(move || {
                    let me = by(&format!("s{i}"), "r");
                    let mut mine = Vec::new();
                    for ino in 0..40 {
                        let mut book = ledger.open().unwrap();
                        if book.claim(&me, &stamp(ino, 1), "x").unwrap() {
                            mine.push(ino);
                        }
                        book.sync().unwrap();
                    }
                    mine
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut all = won.concat();
    all.sort_unstable();
    assert_eq!(all, (0..40).collect::<Vec<_>>());
}

#[test]
fn overlap_is_of_other_sessions_and_of_time() {
    let t = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(t.path());
    let mut book = ledger.open().unwrap();
    let me = by("me", "r2");
    let window = Window {
        since_ns: 2 * DAY_NS,
        until_ns: 3 * DAY_NS,
    };
    book.began(&me, window.since_ns).unwrap();
    book.began(&by("me", "r1"), window.since_ns).unwrap();
    assert!(!book.overlapped(&me, &window), "its own session");
    book.began(&by("before", "r"), 0).unwrap();
    assert!(!book.overlapped(&me, &window), "nobody works for two days");
    book.began(&by("after", "r"), window.until_ns + 1).unwrap();
    assert!(!book.overlapped(&me, &window));
    book.began(&by("other", "r"), window.since_ns - 1).unwrap();
    assert!(book.overlapped(&me, &window), "not known to have ended");
    book.ended(&by("other", "r"), window.since_ns - 1).unwrap();
    assert!(!book.overlapped(&me, &window));
    book.ended(&by("late", "r"), window.until_ns).unwrap();
    assert!(book.overlapped(&me, &window), "known by its end alone");
}

#[test]
fn old_claims_go_and_young_ones_stay() {
    let t = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(t.path());
    let now = now_ns();
    let (old, young) = (by("old", "r"), by("young", "r"));
    let claim = |by: &Claimant, ino, to: String, at| Entry::Claim {
        by: by.clone(),
        file: FileState::of(&stamp(ino, 1)),
        to,
        at,
    };
    {
        let mut book = ledger.open().unwrap();
        book.began(&old, now - KEPT_NS - 5).unwrap();
        book.ended(&old, now - KEPT_NS - 1).unwrap();
        book.began(&young, now).unwrap();
        for i in 0..20_000 {
            let padding = "x".repeat(200);
            book.add(claim(&old, i, format!("{padding}{i}"), now - KEPT_NS - 1))
                .unwrap();
        }
        for (ino, to) in [(70_000, "a"), (70_000, "b"), (70_001, "c")] {
            book.add(claim(&young, ino, to.to_owned(), now)).unwrap();
        }
        book.sync().unwrap();
    }
    let size = || fs::metadata(t.path().join(NAME)).unwrap().len();
    assert!(size() > COMPACT_BYTES);
    // What an earlier rewriting left when it was killed is of no use.
    fs::write(t.path().join(NEW), "half").unwrap();
    for _ in 0..2 {
        let mut book = ledger.open().unwrap();
        assert!(size() < 10_000);
        assert_eq!((book.runs.len(), book.claims.len()), (1, 2));
        for to in ["a", "b", "c"] {
            assert!(book.copied(&young, to));
        }
        assert!(!book.claim(&old, &stamp(70_000, 1), "x").unwrap());
    }
}

#[test]
fn a_torn_end_costs_nothing_and_damage_is_said() {
    let t = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(t.path());
    let me = by("s", "r");
    for ino in 0..3 {
        let mut book = ledger.open().unwrap();
        book.claim(&me, &stamp(ino, 1), "x").unwrap();
        book.sync().unwrap();
    }
    let path = t.path().join(NAME);
    let whole = fs::read(&path).unwrap();
    fs::File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"half a li")
        .unwrap();
    assert_eq!(ledger.open().unwrap().claims.len(), 3);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&path, damaged).unwrap();
    let refused = ledger.open().unwrap_err();
    assert!(
        matches!(refused, Error::BadLedger(JournalError::Damaged { .. })),
        "{refused}"
    );
}
