use pretty_assertions::assert_eq;

use super::*;

#[test]
fn what_is_for_terminals_is_left_out() {
    let said = [
        ("plain", "plain"),
        ("\u{1b}[31;1mError:\u{1b}[0m no key\u{7}", "Error: no key"),
        ("\u{1b}]0;title\u{7}gone", "gone"),
        ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
        ("\u{9b}2Kdone\r\n  and\tmore ", "done and more"),
        ("\u{1b}", ""),
        ("\u{1b}[", ""),
        ("Zürich 東京", "Zürich 東京"),
    ];
    for (text, want) in said {
        assert_eq!(plain(text), want, "{text:?}");
    }
}

#[test]
fn lines_of_a_log_that_tell_of_no_trouble_are_not_last_words() {
    let lines = "\u{1b}[31mpanic: no model\u{1b}[0m\n2026-01-02T03:04:05.678Z  INFO agent: shutting down\n[debug] bye\n\n";
    assert_eq!(last_words(lines), "panic: no model");
    assert_eq!(last_words("INFO starting\n"), "");
    assert_eq!(
        last_words("no info about it\nlevel=info msg=bye"),
        "no info about it"
    );
    assert_eq!(
        last_words("12:00 ERROR agent: no INFO about it"),
        "12:00 ERROR agent: no INFO about it"
    );
}
