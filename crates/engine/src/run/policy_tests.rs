use pretty_assertions::assert_eq;
use threadline_contract::{AppThreadKey, QuestionId, QuestionOption, RunId};

use super::*;

fn permission(tool: Option<ToolKind>, kinds: &[&str]) -> StoredQuestion {
    let option = |kind: &&str| QuestionOption {
        option_id: format!("id-{kind}"),
        label: (*kind).to_owned(),
        kind: Some((*kind).to_owned()),
    };
    StoredQuestion {
        id: QuestionId::new("q-1").unwrap(),
        owner: AppThreadKey::new("draft:1").unwrap().into(),
        run: RunId::new("run-1").unwrap(),
        kind: QuestionKind::Permission,
        text: "May I?".into(),
        options: kinds.iter().map(option).collect(),
        free_text: false,
        tool,
        state: QuestionState::Open,
        asked_at: Millis(1),
        closed_at: None,
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    }
}

/// Which option, and by which rule.
fn choice(policy: &str, question: &StoredQuestion) -> Option<(String, String)> {
    let closed = answered(&policy.parse().unwrap(), question, Millis(5))?;
    assert_eq!(
        (closed.state, closed.closed_at),
        (QuestionState::Answered, Some(Millis(5)))
    );
    let Some(Answer::OptionId(option)) = closed.answer else {
        panic!("no option was chosen");
    };
    Some((option, closed.closed_by.unwrap()))
}

#[test]
fn a_policy_chooses_what_holds_this_once_or_nothing() {
    let all = ["allow_always", "allow_once", "reject_always", "reject_once"];
    let some = |option: &str, by: &str| Some((option.to_owned(), by.to_owned()));
    let read = permission(Some(ToolKind::Read), &all);
    let unknown = permission(None, &all);
    assert_eq!(choice("ask", &read), None);
    assert_eq!(
        choice("allow", &read),
        some("id-allow_once", "policy:allow")
    );
    assert_eq!(
        choice("read=allow", &read),
        some("id-allow_once", "policy:read=allow")
    );
    assert_eq!(
        choice("allow,read=reject", &read),
        some("id-reject_once", "policy:read=reject")
    );
    assert_eq!(choice("allow,read=ask", &read), None);
    // What has no kind is `other`, and no kind that was allowed by name.
    assert_eq!(choice("read=allow,search=allow", &unknown), None);
    assert_eq!(
        choice("other=reject", &unknown),
        some("id-reject_once", "policy:other=reject")
    );
    // What would hold for longer is not chosen for anybody.
    for (policy, kinds) in [
        ("allow", ["allow_always", "reject_once"]),
        ("reject", ["allow_once", "reject_always"]),
    ] {
        assert_eq!(choice(policy, &permission(None, &kinds)), None, "{policy}");
    }
    let question = StoredQuestion {
        kind: QuestionKind::Question,
        ..read
    };
    assert_eq!(choice("allow", &question), None);
}
