use pretty_assertions::assert_eq;

use super::*;

fn columns(text: &str) -> usize {
    text.chars().map(of).sum()
}

#[test]
fn letters_of_the_world_take_the_columns_that_a_terminal_gives_them() {
    let table = [
        ("river", 5),
        ("Báo cáo về những dòng sông dài nhất", 35),
        ("Ế ộ ữ ḁ", 7),
        // The same letters, composed of a letter and its marks.
        ("e\u{302}\u{301}", 1),
        ("Ὀδυσσεύς", 8),
        ("Русский", 7),
        ("עברית", 5),
        ("हिन्दी", 5),
        ("ไทย", 3),
        ("የኢትዮጵያ", 6),
        ("中文", 4),
        ("日本語のレポート", 16),
        ("한국어", 6),
        ("ＡＢ", 4),
        ("→ … ✓ ✗ ● ›", 11),
        ("🙂", 2),
        ("a\u{200b}b", 2),
    ];
    for (text, want) in table {
        assert_eq!(columns(text), want, "{text}");
    }
}

#[test]
fn the_ranges_are_in_order() {
    for ranges in [&WIDE[..], &NO_WIDTH] {
        let flat: Vec<u32> = ranges.iter().flat_map(|(a, b)| [*a, *b]).collect();
        assert!(flat.is_sorted(), "{flat:x?}");
    }
}
