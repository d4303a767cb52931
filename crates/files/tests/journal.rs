//! The journal under crashes, damage and readers.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;
use serde::{Deserialize, Serialize};
use threadline_files::{
    Durability, Journal, JournalError, JournalReader, Reason,
    journal::{Cut, Record},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    n: u32,
    text: String,
}

fn step(n: u32) -> Step {
    Step {
        n,
        text: format!("line\n\"{n}\" \u{1f600}\0"),
    }
}

struct World {
    _temp: tempfile::TempDir,
    path: PathBuf,
}

fn world() -> World {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("run.jsonl");
    World { _temp: temp, path }
}

fn all(path: &Path) -> Vec<Step> {
    let reader = JournalReader::open(path).unwrap();
    reader
        .read_after(0)
        .unwrap()
        .map(|r| r.unwrap().value)
        .collect()
}

#[test]
fn records_come_back_in_order_and_by_cursor() {
    let w = world();
    let mut journal = Journal::open(&w.path).unwrap();
    assert_eq!(
        fs::metadata(&w.path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mut cursors = vec![0];
    for n in 0..50 {
        let how = if n % 7 == 0 {
            Durability::Now
        } else {
            Durability::Later
        };
        cursors.push(journal.append(&step(n), how).unwrap());
    }
    journal.sync().unwrap();
    for (n, cursor) in cursors.iter().enumerate() {
        let rest: Vec<Record<Step>> = journal
            .read_after(*cursor)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let want: Vec<Record<Step>> = (n..50)
            .map(|i| Record {
                offset: cursors[i],
                next: cursors[i + 1],
                value: step(i as u32),
            })
            .collect();
        assert_eq!(rest, want);
    }
    drop(journal);
    let mut journal = Journal::open(&w.path).unwrap();
    assert_eq!((journal.cut(), journal.end()), (None, cursors[50]));
    journal.append(&step(50), Durability::Now).unwrap();
    assert_eq!(all(&w.path), (0..51).map(step).collect::<Vec<_>>());
}

/// Killed at any byte of the last write: the records before it stand, and the next one follows.
#[test]
fn a_torn_tail_is_cut_at_every_offset() {
    let w = world();
    let mut journal = Journal::open(&w.path).unwrap();
    journal.append(&step(0), Durability::Now).unwrap();
    let second = journal.append(&step(1), Durability::Now).unwrap();
    let end = journal.append(&step(2), Durability::Now).unwrap();
    drop(journal);
    let whole = fs::read(&w.path).unwrap();
    assert_eq!(whole.len() as u64, end);
    for length in second..end {
        fs::write(&w.path, &whole[..length as usize]).unwrap();
        assert_eq!(all(&w.path), [step(0), step(1)], "a reader stops before it");
        let mut journal = Journal::open(&w.path).unwrap();
        let cut = (length > second).then(|| Cut {
            offset: second,
            bytes: length - second,
        });
        assert_eq!(journal.cut(), cut);
        journal.append(&step(9), Durability::Now).unwrap();
        drop(journal);
        assert_eq!(all(&w.path), [step(0), step(1), step(9)]);
    }
}

/// A flipped bit is found wherever it is; in the tail it is cut, before it it is an error.
#[test]
fn a_flipped_bit_is_found_at_every_offset() {
    let w = world();
    let mut journal = Journal::open(&w.path).unwrap();
    let first = journal.append(&step(0), Durability::Later).unwrap();
    let second = journal.append(&step(1), Durability::Later).unwrap();
    journal.append(&step(2), Durability::Now).unwrap();
    drop(journal);
    let whole = fs::read(&w.path).unwrap();
    for at in 0..whole.len() {
        for bit in [0, 3, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(&w.path, &bytes).unwrap();
            let start = [0, first, second]
                .into_iter()
                .rfind(|s| *s <= at as u64)
                .unwrap();
            match Journal::open(&w.path) {
                Ok(journal) => {
                    assert_eq!(start, second, "byte {at}");
                    assert_eq!(journal.cut().unwrap().offset, second);
                    drop(journal);
                    assert_eq!(all(&w.path), [step(0), step(1)]);
                }
                Err(JournalError::Damaged { offset, .. }) => {
                    assert!(start < second, "byte {at}");
                    // Also when a newline vanished, so that two lines look like one.
                    assert_eq!(offset, start, "byte {at}");
                    assert_eq!(fs::read(&w.path).unwrap(), bytes, "left as it is");
                    let reader = JournalReader::open(&w.path).unwrap();
                    let last = reader.read_after::<Step>(0).unwrap().last().unwrap();
                    assert!(matches!(last, Err(JournalError::Damaged { .. })));
                }
                Err(e) => panic!("byte {at}: {e}"),
            }
        }
    }
}

#[test]
fn garbage_after_the_end_is_cut() {
    let w = world();
    let mut journal = Journal::open(&w.path).unwrap();
    let end = journal.append(&step(0), Durability::Now).unwrap();
    drop(journal);
    let whole = fs::read(&w.path).unwrap();
    let zeros = vec![0; 100_000];
    // An intact line of another place does not count: its check is for another offset.
    for tail in [
        b"{}\n".to_vec(),
        zeros,
        b"\n\n\n".to_vec(),
        whole.clone(),
        b"\xff\xfe\n0".to_vec(),
    ] {
        fs::write(&w.path, [whole.clone(), tail.clone()].concat()).unwrap();
        let journal = Journal::open(&w.path).unwrap();
        assert_eq!(
            journal.cut(),
            Some(Cut {
                offset: end,
                bytes: tail.len() as u64
            })
        );
        drop(journal);
        assert_eq!(fs::read(&w.path).unwrap(), whole);
    }
}

#[test]
fn one_writer_and_many_readers() {
    let w = world();
    let mut journal = Journal::open(&w.path).unwrap();
    assert!(matches!(
        Journal::open(&w.path),
        Err(JournalError::Busy { .. })
    ));
    let path = w.path.clone();
    let follower = std::thread::spawn(move || {
        let reader = JournalReader::open(path).unwrap();
        let (mut cursor, mut got) = (0, Vec::new());
        while got.len() < 2_000 {
            for record in reader.read_after::<Step>(cursor).unwrap() {
                let record = record.unwrap();
                cursor = record.next;
                got.push(record.value);
            }
        }
        got
    });
    for n in 0..2_000 {
        journal.append(&step(n), Durability::Later).unwrap();
    }
    assert_eq!(
        follower.join().unwrap(),
        (0..2_000).map(step).collect::<Vec<_>>()
    );
    drop(journal);
    Journal::open(&w.path).unwrap();
}

#[test]
fn wrong_questions_get_errors() {
    let w = world();
    let missing = JournalReader::open(&w.path).unwrap_err();
    assert!(matches!(missing, JournalError::Files(e) if e.reason() == Reason::NotFound));
    let mut journal = Journal::open(&w.path).unwrap();
    let end = journal.append(&step(0), Durability::Now).unwrap();
    assert!(matches!(
        journal.read_after::<Step>(end + 1),
        Err(JournalError::PastEnd { cursor, end: at, .. }) if cursor == end + 1 && at == end
    ));
    let wrong: Vec<_> = journal.read_after::<u32>(0).unwrap().collect();
    assert!(
        matches!(
            &wrong[..],
            [Err(JournalError::NotUnderstood { offset: 0, .. })]
        ),
        "{wrong:?}"
    );
    let huge = "x".repeat(threadline_files::journal::LONGEST_RECORD);
    assert!(matches!(
        journal.append(&huge, Durability::Now),
        Err(JournalError::TooLarge { .. })
    ));
    assert_eq!(journal.end(), end, "nothing was written");
    std::os::unix::fs::symlink(&w.path, w.path.with_extension("link")).unwrap();
    let link = Journal::open(w.path.with_extension("link")).unwrap_err();
    assert!(matches!(link, JournalError::Files(e) if e.reason() == Reason::Symlink));
}

/// A record as long as allowed comes back; replay holds one at a time.
#[test]
fn the_longest_record_comes_back() {
    let w = world();
    let mut journal = Journal::open(&w.path).unwrap();
    let text = "x".repeat(threadline_files::journal::LONGEST_RECORD - 2);
    let first = journal.append(&text, Durability::Later).unwrap();
    journal.append(&"after", Durability::Later).unwrap();
    drop(journal);
    let journal = Journal::open(&w.path).unwrap();
    assert_eq!(journal.cut(), None);
    let lengths: Vec<usize> = journal
        .read_after::<String>(0)
        .unwrap()
        .map(|r| r.unwrap().value.len())
        .collect();
    assert_eq!(lengths, [text.len(), 5]);
    drop(journal);
    // Torn inside the long one.
    fs::File::options()
        .write(true)
        .open(&w.path)
        .unwrap()
        .set_len(first - 1)
        .unwrap();
    assert_eq!(
        Journal::open(&w.path).unwrap().cut(),
        Some(Cut {
            offset: 0,
            bytes: first - 1
        })
    );
}
