use pretty_assertions::assert_eq;

use threadline_contract::QuestionKind;

use super::*;

#[test]
fn a_question_that_offers_nothing_says_how_it_can_be_ended() {
    let question = StoredQuestion {
        id: "q".parse().unwrap(),
        owner: "thread:t".parse().unwrap(),
        run: "r".parse().unwrap(),
        kind: QuestionKind::Permission,
        text: "Allow this?".to_owned(),
        options: vec![],
        free_text: false,
        tool: None,
        state: QuestionState::Open,
        asked_at: Millis(1),
        closed_at: None,
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    };
    let advice = "It offers nothing to choose, and can only be declined: `xworkmate.permissions.respond` with the decision `cancel`, or cancel the run.";
    let said = |text: &str| Some(text.to_owned());
    for (option, text, why) in [
        (None, said("yes"), "This question takes no own words."),
        (said("y"), None, "`y` is not offered."),
    ] {
        let fault = choose(&question, option, text).unwrap_err();
        assert_eq!(
            (fault.code, fault.message),
            (Code::QuestionOptionNotOffered, format!("{why} {advice}"))
        );
    }
}
