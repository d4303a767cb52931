use std::io::Cursor;

use pretty_assertions::assert_eq;

use super::*;

fn all(input: &str, longest: usize) -> Vec<Line> {
    let mut lines = Lines::new(Cursor::new(input.as_bytes().to_vec()), longest);
    std::iter::from_fn(|| lines.next().unwrap()).collect()
}

fn whole(text: &str) -> Line {
    Line::Whole(text.as_bytes().to_vec())
}

#[test]
fn lines_end_at_their_end_or_the_inputs() {
    assert_eq!(all("", 4), []);
    assert_eq!(
        all("ab\n\nc\r\nd", 4),
        [whole("ab"), whole(""), whole("c\r"), whole("d")]
    );
}

#[test]
fn the_rest_of_a_long_line_is_skipped() {
    let cut = |text: &str| Line::TooLong(text.as_bytes().to_vec());
    assert_eq!(
        all("abcd\nabcde\nx\n", 4),
        [whole("abcd"), cut("abcde"), whole("x")]
    );
    assert_eq!(all("abcdefghi", 4), [cut("abcde")]);
    // As long as it may be, at the end of the input.
    assert_eq!(all("abcd", 4), [whole("abcd")]);
    // Longer than any buffer.
    let long = format!("{}\nnext\n", "y".repeat(3 * BUFFER));
    assert_eq!(all(&long, 4), [cut("yyyyy"), whole("next")]);
}
