//! Replaying a run's journal is the same as having listened.

use proptest::prelude::*;
use threadline_contract::{Code, QuestionKind, QuestionOption, Step};

use super::*;
use crate::{
    Ask, EndStatus,
    journaled::replay::{self, Moments},
};

/// A line without its place in the journal.
#[derive(Clone, Debug)]
enum Written {
    Frame(Update, Option<Fact>),
    Other(Entry),
}

fn question(n: u8) -> QuestionId {
    QuestionId::new(format!("question-{n}")).unwrap()
}

fn update() -> impl Strategy<Value = Update> {
    let step = (0u8..4, "[a-zé✓ ]{0,20}", 0u8..3).prop_map(|(id, title, state)| {
        let state = match state {
            0 => StepState::Running,
            1 => StepState::Done,
            _ => StepState::Failed,
        };
        Update::Step(Step {
            step_id: format!("step-{id}"),
            title,
            tool: None,
            state,
            detail: None,
            duration_ms: None,
        })
    });
    let asked = (0u8..4, any::<bool>()).prop_map(|(id, free_text)| {
        let option = QuestionOption {
            option_id: "yes".into(),
            label: "Yes\n".into(),
            kind: None,
        };
        Update::Asked(Ask {
            id: question(id),
            kind: QuestionKind::Question,
            text: "Go on?".into(),
            options: vec![option],
            free_text,
            tool: None,
        })
    });
    prop_oneof![
        6 => "[a-zé✓\\n\"]{0,60}".prop_map(Update::Text),
        1 => (0u64..40).prop_map(|keep| Update::Reset { keep }),
        3 => step,
        1 => asked,
        1 => (0u8..4).prop_map(|id| Update::Unasked(question(id))),
        1 => "[a-z ]{0,20}".prop_map(Update::Note),
        1 => (0u64..900).prop_map(|n| Update::Usage(Usage { input_tokens: Some(n), ..Usage::default() })),
    ]
}

fn fact() -> impl Strategy<Value = Fact> {
    let file = || prop::option::of("[a-c]\\.md");
    prop_oneof![
        (0u32..9, file()).prop_map(|(no, wrote)| Fact::Scene { no, wrote }),
        "[a-z ]{0,40}".prop_map(|text| Fact::Said(Said {
            text,
            ..Said::default()
        })),
        (0u8..4).prop_map(|n| Fact::Asked {
            step: format!("step-{n}")
        }),
        (0u8..4, file()).prop_map(|(n, wrote)| Fact::Ran(Ran {
            step: format!("step-{n}"),
            result: "done".into(),
            wrote,
        })),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let end = (0u8..3).prop_map(|status| End {
        status: match status {
            0 => EndStatus::Completed,
            1 => EndStatus::Failed,
            _ => EndStatus::Cancelled,
        },
        code: (status == 1).then_some(Code::ModelFailed),
        message: None,
        text: Some("All of it.".into()),
        usage: None,
        wrote: vec!["a.md".into()],
    });
    let answered = (0u8..4, prop::option::of("[a-z]{0,9}"));
    prop_oneof![
        20 => (update(), prop::option::of(fact())).prop_map(|(u, f)| Written::Frame(u, f)),
        3 => fact().prop_map(|fact| Written::Other(Entry::Fact(fact))),
        2 => answered.prop_map(|(n, answer)| {
            Written::Other(Entry::Answered { question: question(n), answer })
        }),
        1 => Just(Written::Other(Entry::CancelAsked)),
        1 => end.prop_map(|end| Written::Other(Entry::Ended(end))),
    ]
}

fn numbered(written: Vec<Written>) -> Vec<Entry> {
    let mut no = 0;
    let number = |line| match line {
        Written::Frame(update, fact) => {
            no += 1;
            Entry::Frame {
                frame: Frame { no, update },
                fact,
            }
        }
        Written::Other(entry) => entry,
    };
    written.into_iter().map(number).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn replaying_a_journal_is_the_same_as_having_listened(
        lines in prop::collection::vec(written(), 0..40),
        moments in Moments::any(),
    ) {
        replay::check::<Past>(numbered(lines), &moments, |no| Entry::Frame {
            frame: Frame { no, update: Update::Text(format!("and {no}")) },
            fact: None,
        });
    }
}
