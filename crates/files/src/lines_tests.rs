use std::io::Cursor;

use pretty_assertions::assert_eq;

use super::*;

const HEAD: usize = 4096;

fn all(lines: &mut Lines) -> Vec<Line> {
    std::iter::from_fn(|| lines.next_line()).collect()
}

#[test]
fn cuts_the_same_lines_wherever_the_bytes_are_torn() {
    let text = b"one\r\n\n  \ntwo\n\xff three\nrest";
    for step in 1..=text.len() {
        let mut lines = Lines::new(100, HEAD);
        let mut got = vec![];
        for part in text.chunks(step) {
            lines.push(part);
            got.extend(all(&mut lines));
        }
        got.extend(lines.finish());
        assert_eq!(
            got,
            [
                Line::Whole(b"one".to_vec()),
                Line::Whole(b"two".to_vec()),
                Line::Whole(b"\xff three".to_vec()),
                Line::CutOff {
                    bytes: 4,
                    head: b"rest".to_vec()
                },
            ],
            "in steps of {step}"
        );
    }
}

#[test]
fn holds_no_more_than_its_limit_and_goes_on_after_a_line_that_is_too_long() {
    let mut lines = Lines::new(10_000, HEAD);
    let mut most = 0;
    for _ in 0..1_000 {
        lines.push(&[b'x'; 1_000]);
        assert_eq!(all(&mut lines), []);
        most = most.max(lines.held.len());
    }
    assert!(most <= 11_000, "{most} bytes were held");
    lines.push(b"\nnext\n");
    assert_eq!(
        all(&mut lines),
        [
            Line::TooLong {
                bytes: 1_000_000,
                head: vec![b'x'; HEAD]
            },
            Line::Whole(b"next".to_vec()),
        ]
    );
    assert_eq!(lines.finish(), None);
}

#[test]
fn the_limit_itself_fits() {
    let mut lines = Lines::new(4, 2);
    lines.push(b"four\nfive!\n");
    assert_eq!(
        all(&mut lines),
        [
            Line::Whole(b"four".to_vec()),
            Line::TooLong {
                bytes: 5,
                head: b"fi".to_vec()
            },
        ]
    );
}

fn read(input: &str, limit: usize) -> Vec<Line> {
    let input = Cursor::new(input.as_bytes().to_vec());
    let mut lines = LineReader::new(input, limit, limit);
    std::iter::from_fn(|| lines.next_line().unwrap()).collect()
}

fn whole(text: &str) -> Line {
    Line::Whole(text.as_bytes().to_vec())
}

fn too_long(bytes: u64, head: &str) -> Line {
    Line::TooLong {
        bytes,
        head: head.as_bytes().to_vec(),
    }
}

#[test]
fn lines_of_an_input_end_at_their_end_or_the_inputs() {
    assert_eq!(read("", 4), []);
    assert_eq!(
        read("ab\n\nc\r\nd", 4),
        [whole("ab"), whole("c"), whole("d")]
    );
    assert_eq!(read("ab\n  ", 4), [whole("ab")]);
}

#[test]
fn the_rest_of_a_long_line_of_an_input_is_skipped() {
    assert_eq!(
        read("abcd\nabcde\nx\n", 4),
        [whole("abcd"), too_long(5, "abcd"), whole("x")]
    );
    assert_eq!(read("abcdefghi", 4), [too_long(9, "abcd")]);
    // As long as it may be, at the end of the input.
    assert_eq!(read("abcd", 4), [whole("abcd")]);
    // Longer than what is read at once.
    let bytes = 3 * CHUNK;
    let long = format!("{}\nnext\n", "y".repeat(bytes));
    assert_eq!(
        read(&long, 4),
        [too_long(bytes as u64, "yyyy"), whole("next")]
    );
}
