use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn folders() -> Folders {
    Folders {
        work: vec!["/link/work".into(), "/real/work".into()],
        scope: vec!["/data/tasks/s/r".into()],
    }
}

#[test]
fn paths_are_told_by_where_they_lie() {
    let cases = [
        ("/link/work/a/b.md", Some("a/b.md")),
        ("/real/work/b.md", Some("b.md")),
        ("b.md", Some("b.md")),
        ("/data/tasks/s/r/x.md", None),
        ("/etc/passwd", Some("/etc/passwd")),
        ("/real/work", None),
    ];
    for (path, want) in cases {
        assert_eq!(relative(path, &folders()).as_deref(), want, "{path}");
    }
}

#[test]
fn only_what_changed_is_shown_of_a_difference() {
    let diff = |old: &str, new: &str| difference("f", &json!({"oldText": old, "newText": new}));
    assert_eq!(diff("a\nb\nc", "a\nB\nc"), "f (+1 -1)\n-b\n+B");
    assert_eq!(diff("a\na", "a\na\na"), "f (+1 -0)\n+a");
    assert_eq!(diff("", "x"), "f (+1 -0)\n+x");
    assert_eq!(diff("x", "x"), "f (+0 -0)");
    let many: String = (0..50).map(|n| format!("{n}\n")).collect();
    assert!(diff("", &many).ends_with("\n+39\n(and 10 more lines)"));
}

#[test]
fn a_call_is_put_together_from_whatever_comes() {
    let after = |before: Option<&Tool>, update: Value, now: i64| {
        Tool::after(before, &update, &folders(), now).unwrap()
    };
    // Neither title nor state: it has begun.
    let first = after(None, json!({"toolCallId": "1"}), 10);
    assert_eq!(
        (first.title.as_str(), first.state, first.took),
        ("tool", StepState::Running, None)
    );
    let second = after(
        Some(&first),
        json!({"toolCallId": "1", "kind": "read", "title": " Look ", "locations": [{"path": "/real/work/a"}]}),
        20,
    );
    assert_eq!((second.title.as_str(), second.wrote.len()), ("Look", 0));
    let third = after(
        Some(&second),
        json!({"toolCallId": "1", "kind": "edit", "status": "completed", "locations": [{"path": "/real/work/a"}]}),
        35,
    );
    assert_eq!(
        (
            third.state,
            third.took,
            third.wrote.first().map(String::as_str)
        ),
        (StepState::Done, Some(25), Some("a"))
    );
    // An end is not taken back, and something that is not what it should be does no harm.
    let odd = json!({"toolCallId": "1", "status": "in_progress", "title": 7, "content": {"x": 1}, "locations": "?"});
    assert_eq!(after(Some(&third), odd, 50), third);
    assert_eq!(Tool::after(None, &json!({}), &folders(), 0), None);
}
