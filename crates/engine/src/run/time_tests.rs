use pretty_assertions::assert_eq;
use threadline_contract::{AppThreadKey, QuestionId, QuestionKind, QuestionState, RunId};

use super::*;

fn asked(at: i64, closed: Option<i64>) -> StoredQuestion {
    StoredQuestion {
        id: QuestionId::new(format!("q-{at}")).unwrap(),
        owner: AppThreadKey::new("draft:1").unwrap().into(),
        run: RunId::new("run-1").unwrap(),
        kind: QuestionKind::Permission,
        text: "May I?".into(),
        options: vec![],
        free_text: false,
        tool: None,
        state: QuestionState::Open,
        asked_at: Millis(at),
        closed_at: closed.map(Millis),
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    }
}

#[test]
fn open_questions_count_once_and_only_within_the_run() {
    let waited = |questions: &[StoredQuestion]| waited(questions, Millis(100), Millis(200));
    assert_eq!(waited(&[]), 0);
    assert_eq!(waited(&[asked(120, Some(150))]), 30);
    // Two at once, one of them inside the other, and one after both.
    assert_eq!(
        waited(&[
            asked(120, Some(150)),
            asked(130, Some(140)),
            asked(145, Some(160)),
            asked(170, Some(180)),
        ]),
        50
    );
    // One that is still open, and one from before the run.
    assert_eq!(waited(&[asked(190, None)]), 10);
    assert_eq!(waited(&[asked(10, Some(50)), asked(90, Some(110))]), 10);
}

#[test]
fn each_class_has_its_minutes() {
    let minutes = |class| Budgets::default().minutes(class);
    assert_eq!(
        [
            minutes(LoadClass::ShortTask),
            minutes(LoadClass::default()),
            minutes(LoadClass::ComplexChainTask)
        ],
        [10, 30, 60]
    );
}
