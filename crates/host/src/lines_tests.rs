use pretty_assertions::assert_eq;

use super::*;

fn all(lines: &mut Lines) -> Vec<Line> {
    std::iter::from_fn(|| lines.next()).collect()
}

#[test]
fn cuts_the_same_lines_wherever_the_bytes_are_torn() {
    let text = b"one\r\n\n  \ntwo\n\xff three\nrest";
    for step in 1..=text.len() {
        let mut lines = Lines::new(100);
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
    let mut lines = Lines::new(10_000);
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
    let mut lines = Lines::new(4);
    lines.push(b"four\nfive!\n");
    assert_eq!(
        all(&mut lines),
        [
            Line::Whole(b"four".to_vec()),
            Line::TooLong {
                bytes: 5,
                head: b"five!".to_vec()
            },
        ]
    );
}
