use pretty_assertions::assert_eq;

use super::*;

fn prompt() -> Prompt {
    let record = json!({
        "id": "ask_1", "runId": "turn-1", "status": "pending", "createdAtMs": 1, "expiresAtMs": 2,
        "questions": [
            {"questionId": "color", "header": "Color", "question": "Which color?", "isOther": true,
             "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}]},
            {"questionId": "sizes", "header": "Sizes", "question": "Which sizes?", "multiSelect": true,
             "options": [{"label": "S"}, {"label": "M"}]},
        ],
    });
    serde_json::from_value(record).unwrap()
}

#[test]
fn a_prompt_is_a_question_for_each_of_its_parts() {
    let prompt = prompt();
    assert!(prompt.is_open("turn-1") && !prompt.is_open("turn-2"));
    let option = |label: &str| QuestionOption {
        option_id: label.into(),
        label: label.into(),
        kind: None,
    };
    let asks = prompt.asks();
    assert_eq!(
        asks[0],
        Ask {
            id: QuestionId::new("openclaw-ask:ask_1:color").unwrap(),
            kind: QuestionKind::Question,
            text: "Which color?\n- Red: warm".into(),
            options: vec![option("Red"), option("Blue")],
            free_text: true,
            tool: None,
        }
    );
    let named = Named::Part {
        prompt: "ask_1",
        question: "sizes",
    };
    assert_eq!(Named::read(&asks[1].id), Some(named));
    assert_eq!(Named::read(&QuestionId::new("other").unwrap()), None);
}

#[test]
fn it_is_answered_when_all_of_it_is() {
    let prompt = prompt();
    let mut given = Given::new();
    given.insert("color".into(), prompt.values("color", "Red, Blue"));
    assert!(!prompt.is_answered(&given));
    given.insert("sizes".into(), prompt.values("sizes", "S, M"));
    assert!(prompt.is_answered(&given));
    assert_eq!(
        serde_json::to_value(Resolve::new("ask_1", Some(&given))).unwrap(),
        json!({"id": "ask_1", "resolvedBy": "threadline", "answers": {"answers": {
            // Own words, where only one can be chosen.
            "color": ["Red, Blue"], "sizes": ["S", "M"]}}})
    );
    assert_eq!(
        serde_json::to_value(Resolve::new("ask_1", None)).unwrap(),
        json!({"id": "ask_1", "resolvedBy": "threadline", "cancel": true})
    );
}

#[test]
fn a_command_is_a_permission_with_what_the_gateway_takes() {
    let record = json!({"id": "e-1", "request": {
        "command": "touch x", "cwd": "/w", "warningText": null, "runId": "turn-1",
        "allowedDecisions": ["allow-once", "deny"], "unavailableDecisions": ["allow-always"]}});
    let approval: Approval = serde_json::from_value(record).unwrap();
    assert!(approval.is_of("turn-1") && !approval.is_of("turn-2"));
    let option = |id: &str, label: &str, kind: &str| QuestionOption {
        option_id: id.into(),
        label: label.into(),
        kind: Some(kind.into()),
    };
    let ask = approval.ask().unwrap();
    assert_eq!(
        ask,
        Ask {
            id: QuestionId::new("openclaw-exec:e-1").unwrap(),
            kind: QuestionKind::Permission,
            text: "Allow this command? touch x\n\nIn /w".into(),
            options: vec![
                option("allow-once", "Allow once", "allow_once"),
                option("deny", "Deny", "reject_once"),
            ],
            free_text: false,
            tool: Some(ToolKind::Execute),
        }
    );
    assert_eq!(Named::read(&ask.id), Some(Named::Command("e-1")));
}

#[test]
fn only_a_clear_yes_is_a_yes() {
    let decisions = [
        Some("Allow once"),
        Some("allow-always"),
        Some("Deny"),
        Some("yes"),
        None,
    ];
    assert_eq!(
        decisions.map(decision),
        ["allow-once", "allow-always", "deny", "deny", "deny"]
    );
}
