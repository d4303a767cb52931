use pretty_assertions::assert_eq;

use super::*;

fn step(state: StepState, detail: Option<&str>, duration_ms: Option<i64>) -> Step {
    Step {
        step_id: "a".into(),
        title: "Wrote notes.md".into(),
        tool: None,
        state,
        detail: detail.map(str::to_owned),
        duration_ms,
    }
}

#[test]
fn a_step_that_took_long_says_so_and_one_that_failed_says_why() {
    let told = |step| ended(&step, Terminal::PLAIN);
    assert_eq!(
        told(step(StepState::Done, Some("40 lines"), Some(300))),
        "  ✓ Wrote notes.md"
    );
    assert_eq!(
        told(step(StepState::Done, None, Some(12_300))),
        "  ✓ Wrote notes.md  12 s"
    );
    assert_eq!(
        told(step(StepState::Failed, Some("no\nspace left"), None)),
        "  ✗ Wrote notes.md: no space left"
    );
    let color = Terminal {
        person: true,
        color: true,
        width: 80,
    };
    assert_eq!(
        ended(&step(StepState::Done, None, Some(2000)), color),
        "  \u{1b}[32m✓\u{1b}[0m Wrote notes.md  \u{1b}[2m2.0 s\u{1b}[0m"
    );
}
