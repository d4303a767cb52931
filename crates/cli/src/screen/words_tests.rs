use pretty_assertions::assert_eq;

use super::*;

#[test]
fn nothing_from_elsewhere_steers_the_terminal() {
    assert_eq!(
        clean("a\x1b]0;owned\x07b\r\u{9b}31m\u{202e}c\n\td"),
        "a\u{fffd}]0;owned\u{fffd}b\u{fffd}\u{fffd}31m\u{fffd}c\n\td"
    );
    assert_eq!(line("  a\n\n b\tc "), "a b c");
    assert_eq!(short("one two three", 8), "one two…");
    assert_eq!(short("äöü", 3), "äöü");
    let raw = serde_json::json!({"a\u{7f}b": "x\u{9b}31m\u{202e}y\u{1b}]0;z\n é 河"});
    let safe = escaped_json(&raw.to_string());
    assert_eq!(safe, r#"{"a\u007fb":"x\u009b31m\u202ey\u001b]0;z\n é 河"}"#);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
        raw
    );
    // Marks of direction and separators of lines: a name could be read as another one.
    let marks = "a\u{61c}b\u{200e}c\u{200f}d\u{2028}e\u{2029}f\u{2066}g";
    let shown = clean(marks).replace('\u{fffd}', "?");
    assert_eq!(shown, "a?b?c?d?e?f?g");
    assert_eq!(
        escaped_json(marks),
        r"a\u061cb\u200ec\u200fd\u2028e\u2029f\u2066g"
    );
    assert_eq!(fit("Báo cáo về sông", 15), "Báo cáo về sông");
    assert_eq!(fit("河流报告", 8), "河流报告");
    assert_eq!(fit("河流报告", 7), "河流报…");
    assert_eq!(fit("河流报告", 6), "河流…");
}

#[test]
fn paths_are_short_for_people_and_whole_for_links() {
    assert_eq!(short_path("/home/me/x/y", Some("/home/me")), "~/x/y");
    assert_eq!(short_path("/home/me", Some("/home/me/")), "~");
    assert_eq!(short_path("/home/mean/x", Some("/home/me")), "/home/mean/x");
    assert_eq!(short_path("/x", None), "/x");
    assert_eq!(url_path("/a b/ü%"), "/a%20b/%C3%BC%25");
}

#[test]
fn words_survive_a_shell() {
    assert_eq!(quoted("river-report"), "river-report");
    assert_eq!(quoted("it's here"), "'it'\\''s here'");
    assert_eq!(quoted(""), "''");
}

#[test]
fn columns_are_what_is_seen() {
    assert_eq!(columns("\u{1b}[2m河 a\u{1b}[0m ━"), 6);
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
