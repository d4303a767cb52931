use pretty_assertions::assert_eq;

use super::*;

fn refused(words: &[&str]) -> Error {
    let typed: Vec<OsString> = words.iter().map(OsString::from).collect();
    parsed(&typed).map(|_| ()).unwrap_err()
}

fn first(words: &[&str]) -> Vec<String> {
    let text = refused(words).render().to_string();
    let lines = text.lines().take_while(|l| !l.starts_with("Usage:"));
    lines.filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

#[test]
fn what_was_perhaps_meant_is_said() {
    assert_eq!(
        first(&["threadline", "rnu", "x"]),
        [
            "error: unrecognized subcommand 'rnu'",
            "  tip: a similar subcommand exists: 'run'"
        ]
    );
    assert_eq!(
        first(&["threadline", "run", "--exepct", "a", "b"])[1],
        "  tip: a similar argument exists: '--expect'"
    );
    assert_eq!(
        first(&["threadline", "run", "hello", "big", "world", "--json"]),
        [
            "error: unexpected argument 'big' found",
            "  tip: a task of several words stands in quotes: threadline run \"hello big world\""
        ]
    );
    assert_eq!(
        first(&["threadline", "show", "a", "b"]),
        ["error: unexpected argument 'b' found"],
        "only a task is words"
    );
}

#[test]
fn a_program_hears_one_sentence() {
    let said = |words: &[&str]| fault(&refused(words)).message;
    assert_eq!(
        said(&["threadline", "threads", "--limit", "0"]),
        "invalid value '0' for '--limit <N>': 0 is not in 1..=65535"
    );
    assert_eq!(
        said(&["threadline", "threads", "--limit", "-3"]),
        "invalid value '-3' for '--limit <N>': -3 is not in 1..=65535"
    );
    let usual = refused(&["threadline", "help"]).render().to_string();
    for flag in ["--json", "--help", "-h"] {
        let help = refused(&["threadline", "help", flag]);
        assert_eq!(help.kind(), ErrorKind::DisplayHelp);
        assert_eq!(help.render().to_string(), usual);
    }
    assert_eq!(
        said(&["threadline", "show"]),
        "the following required arguments were not provided: <THREAD>"
    );
    assert_eq!(
        said(&["threadline", "run", "hello", "world"]),
        "unexpected argument 'world' found tip: a task of several words stands in quotes: threadline run \"hello world\""
    );
    assert_eq!(
        said(&["threadline"]),
        "There is no command. `threadline --help` lists them."
    );
    let typed = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    assert!(wants_json(&typed(&["threadline", "show", "--json"])));
    assert!(!wants_json(&typed(&["threadline", "run", "--", "--json"])));
}
