//! What a thread's policy makes of a permission, decided without doing anything.

use threadline_contract::{
    Answer, Millis, PermissionPolicy, QuestionKind, QuestionState, Rule, ToolKind, Who,
};
use threadline_store::StoredQuestion;

/// The question as the policy answers it; nothing when a person is to be asked. It only ever chooses
/// what holds this once: an answer that holds for longer is the person's own to give.
pub(crate) fn answered(
    policy: &PermissionPolicy,
    question: &StoredQuestion,
    at: Millis,
) -> Option<StoredQuestion> {
    if question.kind != QuestionKind::Permission {
        return None;
    }
    let (rule, words) = policy.rule(question.tool.unwrap_or(ToolKind::Other));
    let kind = match rule {
        Rule::Ask => return None,
        Rule::Allow => "allow_once",
        Rule::Reject => "reject_once",
    };
    let mut options = question.options.iter();
    let option = options.find(|o| o.kind.as_deref() == Some(kind))?;
    Some(StoredQuestion {
        state: QuestionState::Answered,
        closed_at: Some(at),
        answer: Some(Answer::OptionId(option.option_id.clone())),
        closed_by: Some(format!("policy:{words}")),
        closed_by_principal: Some(Who::Server),
        ..question.clone()
    })
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
