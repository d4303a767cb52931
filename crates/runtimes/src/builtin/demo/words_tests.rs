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
fn what_is_written_without_spaces_is_counted_by_its_characters() {
    assert_eq!(
        counted("茶を飲む。お茶 Rust入門 한국어 텍스트"),
        vec![
            ("茶".into(), 2, 1),
            ("rust".into(), 1, 4),
            ("お".into(), 1, 1),
            ("む".into(), 1, 1),
            ("を".into(), 1, 1),
            ("入".into(), 1, 1),
            ("門".into(), 1, 1),
            ("飲".into(), 1, 1),
            ("텍스트".into(), 1, 3),
            ("한국어".into(), 1, 3),
        ]
    );
    assert_eq!(Words::of("你好世界").total, 4);
    assert_eq!(
        Words::of("你好。世界！他说：“好。”再见").sentences,
        vec!["你好。", "世界！", "他说：“好。”再见"]
    );
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
