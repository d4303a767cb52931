use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[test]
fn a_question_that_offers_nothing_says_how_it_can_be_ended() {
    let question: Question = serde_json::from_value(json!({
        "questionId": "q", "threadId": "t", "runId": "r", "kind": "permission", "text": "Allow this?",
        "options": [], "state": "open", "askedAt": 1,
    }))
    .unwrap();
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
