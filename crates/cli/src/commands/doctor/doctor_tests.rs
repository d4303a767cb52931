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

#[test]
fn a_narrow_terminal_has_what_was_found_beneath() {
    let checks = [Check::warn(
        "background process",
        "process 12 (in the background), at http://127.0.0.1:8787",
        "Set THREADLINE_MODEL_URL and THREADLINE_MODEL to an endpoint.",
    )];
    let to = Terminal {
        person: true,
        color: false,
        width: 50,
    };
    let want = "\
warn  background process
      process 12 (in the background), at
      http://127.0.0.1:8787
      Set THREADLINE_MODEL_URL and
      THREADLINE_MODEL to an endpoint.
";
    assert_eq!(told(&checks, to), want);
}
