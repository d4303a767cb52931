use pretty_assertions::assert_eq;

use super::{Counted, Words};

fn counted(text: &str) -> Vec<(String, usize, usize)> {
    let words = Words::of(text).counted;
    words
        .into_iter()
        .map(
            |Counted {
                 word,
                 count,
                 length,
             }| (word, count, length),
        )
        .collect()
}

#[test]
fn words_are_counted_without_case_and_in_a_fixed_order() {
    assert_eq!(
        counted("Tea, tea & 'Don’t'! ünder TEA under 42"),
        vec![
            ("tea".into(), 3, 3),
            ("42".into(), 1, 2),
            ("don’t".into(), 1, 5),
            ("under".into(), 1, 5),
            ("ünder".into(), 1, 5),
        ]
    );
    assert_eq!(counted("!!! 🎈 — ''"), vec![]);
}

#[test]
fn sentences_end_at_marks_and_lines() {
    assert_eq!(
        Words::of("Write v1.2 down. Is it done?  Yes!\n- next line\n\n…").sentences,
        vec![
            "Write v1.2 down.",
            "Is it done?",
            "Yes!",
            "- next line",
            "…"
        ]
    );
    assert_eq!(Words::of("").sentences, Vec::<&str>::new());
}
