use maud::html;
use pretty_assertions::assert_eq;

use super::{page, verbatim};

#[test]
fn what_misleads_is_replaced_and_other_letters_stay() {
    let drawn = |text: &str| page(html! { p title=(text) { (text) } }).0;
    for (text, shown) in [
        ("notes-\u{202e}txt.exe", "notes-\u{fffd}txt.exe"),
        (
            "\u{2066}a\u{2069}\u{200f}\u{200e}\u{61c}b",
            "\u{fffd}a\u{fffd}\u{fffd}\u{fffd}\u{fffd}b",
        ),
        (
            "\u{1b}[2J\u{7f}\u{9b}\0",
            "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}",
        ),
        ("one\r\n\ttwo", "one\r\n\ttwo"),
        ("שלום مرحبا", "שלום مرحبا"),
        // Families and flags are joined by letters that turn nothing.
        ("👩\u{200d}🚀 a\u{200c}b", "👩\u{200d}🚀 a\u{200c}b"),
    ] {
        assert_eq!(drawn(text), format!("<p title=\"{shown}\">{shown}</p>"));
    }
}

#[test]
fn what_is_sent_back_stays_as_it_is() {
    let field = page(html! { input value=(verbatim("<\u{202e}\u{1b}\u{9b}\"")); });
    assert_eq!(
        field.0,
        "<input value=\"&lt;&#x202e;&#x1b;\u{fffd}&quot;\">"
    );
}
