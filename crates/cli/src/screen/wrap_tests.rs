use pretty_assertions::assert_eq;

use super::*;

#[test]
fn lines_break_between_words_however_the_text_comes() {
    let text = "one two three four\nfive sixandseven\n\n  let x = a very long line;\n| a | table row | b |\n";
    let want = "one two\nthree four\nfive\nsixandseven\n\n  let x = a very long line;\n| a | table row | b |\n";
    assert_eq!(wrap(text, 11), want);
    for size in 1..7 {
        let mut wrap = Wrap::new(11);
        let chars: Vec<char> = text.chars().collect();
        let mut out = String::new();
        for piece in chars.chunks(size) {
            out.push_str(&wrap.feed(&piece.iter().collect::<String>()));
        }
        out.push_str(&wrap.rest());
        assert_eq!(out, want, "in pieces of {size}");
    }
}

#[test]
fn wide_letters_count_twice_and_a_word_is_never_broken() {
    assert_eq!(wrap("河流 报告", 8), "河流\n报告");
    assert_eq!(wrap("averyverylongword x", 5), "averyverylongword\nx");
    assert_eq!(wrap("", 5), "");
    assert_eq!(
        hanging("one two three four five", 24, 4),
        "one two three four\n    five"
    );
}

#[test]
fn no_space_is_left_at_the_end_of_a_line() {
    assert_eq!(wrap("one two  \nthree ", 7), "one two\nthree");
}
