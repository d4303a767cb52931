use std::{fs, io::Write as _};

use pretty_assertions::assert_eq;

use super::*;
use crate::{Frame, What};

fn entry(no: u64, bytes: usize) -> Entry {
    let text = format!(r#"{{"method":"tick","params":"{}"}}"#, "x".repeat(bytes));
    Entry {
        no,
        at: 0,
        what: What::Said(Frame::parse(text.as_bytes()).unwrap()),
    }
}

fn numbers(cursor: &mut Cursor) -> Vec<u64> {
    std::iter::from_fn(|| cursor.read().unwrap().map(|entry| entry.no)).collect()
}

fn pieces(folder: &Path) -> Vec<u64> {
    let mut found: Vec<u64> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|file| number(&file.unwrap().file_name()))
        .collect();
    found.sort_unstable();
    found
}

/// Entries of a little more than 1000 bytes: a new piece begins with every fifth one.
fn written(folder: &Path, count: u64) -> Segments {
    let mut segments = Segments::create(folder, 4_000).unwrap();
    for no in 1..=count {
        segments
            .append(&entry(no, 1_000), Durability::Later)
            .unwrap();
    }
    segments
}

#[test]
fn is_read_from_anywhere_across_its_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let _segments = written(folder.path(), 10);
    assert_eq!(pieces(folder.path()), [1, 5, 9]);
    for after in 0..=10 {
        let mut cursor = Cursor::<Entry>::after(folder.path(), after).unwrap();
        assert_eq!(numbers(&mut cursor), (after + 1..=10).collect::<Vec<_>>());
    }
}

#[test]
fn a_reader_at_the_end_sees_what_comes_also_in_a_new_piece() {
    let folder = tempfile::tempdir().unwrap();
    let mut segments = Segments::create(folder.path(), 4_000).unwrap();
    let mut cursor = Cursor::<Entry>::after(folder.path(), 0).unwrap();
    assert_eq!(numbers(&mut cursor), Vec::<u64>::new());
    for no in 1..=12 {
        segments
            .append(&entry(no, 1_000), Durability::Later)
            .unwrap();
        assert_eq!(numbers(&mut cursor), [no]);
    }
}

#[test]
fn what_was_acknowledged_goes_in_whole_pieces_and_asking_for_it_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let mut segments = written(folder.path(), 10);
    segments.forget(3).unwrap();
    assert_eq!(
        (pieces(folder.path()), segments.first()),
        (vec![1, 5, 9], 1)
    );
    segments.forget(4).unwrap();
    assert_eq!((pieces(folder.path()), segments.first()), (vec![5, 9], 5));
    segments.forget(10).unwrap();
    assert_eq!(pieces(folder.path()), [9], "the last one is written to");
    assert_eq!(
        numbers(&mut Cursor::<Entry>::after(folder.path(), 8).unwrap()),
        [9, 10]
    );
    match Cursor::<Entry>::after(folder.path(), 7) {
        Err(HostError::Gap {
            expected: 8,
            found: Some(9),
        }) => {}
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_torn_tail_is_the_end_and_a_lost_piece_is_not() {
    let folder = tempfile::tempdir().unwrap();
    drop(written(folder.path(), 10));
    let last = folder.path().join(name(9));
    let file = fs::OpenOptions::new().append(true).open(&last).unwrap();
    (&file).write_all(b"0123456789abcdef {\"no\":11").unwrap();
    assert_eq!(
        numbers(&mut Cursor::<Entry>::after(folder.path(), 8).unwrap()),
        [9, 10]
    );
    file.set_len(fs::metadata(&last).unwrap().len() - 100)
        .unwrap();
    assert_eq!(
        numbers(&mut Cursor::<Entry>::after(folder.path(), 8).unwrap()),
        [9]
    );

    fs::remove_file(folder.path().join(name(5))).unwrap();
    let mut cursor = Cursor::<Entry>::after(folder.path(), 0).unwrap();
    assert_eq!(numbers(&mut cursor), [1, 2, 3, 4]);
    match Cursor::<Entry>::after(folder.path(), 6) {
        Err(HostError::Gap {
            expected: 7,
            found: None,
        }) => {}
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn damage_in_the_middle_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut segments = Segments::create(folder.path(), 4_000).unwrap();
    for no in 1..=3 {
        segments.append(&entry(no, 10), Durability::Now).unwrap();
    }
    let path = folder.path().join(name(1));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut cursor = Cursor::<Entry>::after(folder.path(), 0).unwrap();
    assert_eq!(cursor.read().unwrap(), Some(entry(1, 10)));
    match cursor.read() {
        Err(HostError::Journal(JournalError::Damaged { .. })) => {}
        other => panic!("{other:?}"),
    }
}
