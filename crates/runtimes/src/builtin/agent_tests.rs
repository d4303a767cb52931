use pretty_assertions::assert_eq;

use super::*;

fn call(step: &str) -> Call {
    Call {
        step: step.into(),
        id: format!("id-{step}"),
        tool: "list_files".into(),
        arguments: "{}".into(),
    }
}

fn said(calls: &[&str]) -> Entry {
    Entry::Fact(Fact::Said(Said {
        calls: calls.iter().map(|c| call(c)).collect(),
        ..Said::default()
    }))
}

fn ran(step: &str) -> Entry {
    Entry::Fact(Fact::Ran(Ran {
        step: step.into(),
        result: "fine".into(),
        wrote: None,
    }))
}

#[test]
fn what_comes_next_is_read_from_the_record() {
    let cases = [
        (vec![], Next::Ask),
        (vec![said(&["a", "b"])], Next::Run(call("a"))),
        (vec![said(&["a", "b"]), ran("a")], Next::Run(call("b"))),
        (vec![said(&["a", "b"]), ran("a"), ran("b")], Next::Ask),
        (vec![said(&["a"]), ran("a"), said(&[])], Next::Done),
    ];
    for (lines, want) in cases {
        let mut past = Past::default();
        for line in lines {
            past.apply(line);
        }
        assert_eq!(next(&past), want);
    }
}

#[test]
fn time_spent_waiting_for_a_person_does_not_count() {
    let mut clock = Clock::after(Duration::from_secs(60));
    clock.waited(Duration::from_secs(3600));
    let spent = clock.spent();
    assert!(spent >= Duration::from_secs(60) && spent < Duration::from_secs(70));
}
