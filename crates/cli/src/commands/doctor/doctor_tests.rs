use pretty_assertions::assert_eq;

use super::*;

#[test]
fn each_check_says_what_to_do() {
    let checks = [
        Check::ok("data folder", "/d"),
        Check::warn("model", "none", "Set THREADLINE_MODEL_URL."),
        Check::bad(
            "database",
            "page 3 is damaged\npage 4 is damaged",
            "Restore it.",
        ),
    ];
    let want = "\
ok    data folder  /d
warn  model        none
                   Set THREADLINE_MODEL_URL.
bad   database     page 3 is damaged
                   page 4 is damaged
                   Restore it.
";
    assert_eq!(told(&checks, Terminal::PLAIN), want);
}
