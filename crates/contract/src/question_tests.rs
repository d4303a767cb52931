use pretty_assertions::assert_eq;

use super::*;

fn option(id: &str, label: &str, kind: &str) -> QuestionOption {
    QuestionOption {
        option_id: id.into(),
        label: label.into(),
        kind: Some(kind.into()),
    }
}

#[test]
fn a_run_is_told_what_became_of_its_question() {
    let asked = Question {
        question_id: QuestionId::new("q").unwrap(),
        thread_id: AppThreadKey::new("t").unwrap(),
        run_id: RunId::new("r").unwrap(),
        kind: QuestionKind::Permission,
        text: "May I?".into(),
        options: vec![
            option("y", "Yes", "allow_once"),
            option("never", "Never", "reject_always"),
            option("n", "No", "reject_once"),
        ],
        free_text: false,
        tool: None,
        state: QuestionState::Open,
        asked_at: Millis(0),
        closed_at: None,
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    };
    let told = |state, answer| {
        let question = Question {
            state,
            answer,
            ..asked.clone()
        };
        question.told().map(str::to_owned)
    };
    let yes = Answer::OptionId("y".into());
    assert_eq!(told(QuestionState::Answered, Some(yes)), Some("Yes".into()));
    assert_eq!(told(QuestionState::Declined, None), None);
    assert_eq!(told(QuestionState::Expired, None), Some("No".into()));
}
