//! A question, answerable where it stands.

use maud::{Markup, html};
use threadline_app::api;
use threadline_contract::{Question, QuestionKind, QuestionOption};

use crate::shown::verbatim;

/// How a question's answers are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lay {
    /// Beside each other, as in a list.
    Row,
    /// Below each other, as in a conversation.
    Column,
}

/// What is asked, whole: nobody should allow what they cannot read. The command or the change itself
/// stands beneath the question, as it would be carried out.
pub(crate) fn text(question: &Question, href: Option<&str>, id: Option<&str>) -> Markup {
    let text = question.text.trim();
    let (asked, detail) = match text.split_once("\n\n") {
        Some((asked, detail)) => (asked, Some(detail.trim_matches('\n'))),
        None => (text, None),
    };
    html! {
        p.asked id=[id] {
            @match href {
                Some(href) => a.what href=(href) { (asked) },
                None => span.what { (asked) },
            }
        }
        @if let Some(detail) = detail { pre.asked tabindex="0" { (detail) } }
    }
}

/// The form that answers. The number keys choose its options while the question has the focus; nobody gives
/// a permission by a single key.
pub(crate) fn answers(question: &Question, lay: Lay, back: &str) -> Markup {
    let permission = question.kind == QuestionKind::Permission;
    let hint = match question.options.is_empty() {
        true => "Your answer",
        false => "Or in your own words",
    };
    let class = if lay == Lay::Row {
        "answers"
    } else {
        "answers column"
    };
    html! {
        form class=(class) method="post" action="/do" data-rpc=(api::ANSWER)
            data-guard data-question=(question.question_id) {
            // What the Enter key presses in a field is the first button: it must be no option.
            button type="submit" hidden data-text { "Answer" }
            input type="hidden" name="method" value=(api::ANSWER);
            input type="hidden" name="questionId" value=(verbatim(question.question_id.as_str()));
            input type="hidden" name="back" value=(back);
            @for (n, option) in (1..).zip(&question.options) {
                (choice(option, lay, (!permission && n <= 9).then_some(n), permission))
            }
            @if question.free_text || question.options.is_empty() {
                div.own {
                    input type="text" name="text" aria-label="Your answer" autocomplete="off"
                        placeholder=(hint);
                    button.button type="submit" data-text { "Answer" }
                }
            }
            p.error role="alert" data-own hidden {}
        }
    }
}

fn choice(option: &QuestionOption, lay: Lay, key: Option<usize>, permission: bool) -> Markup {
    let kind = option.kind.as_deref().unwrap_or_default();
    let allows = kind == "allow_once";
    let grants = permission && !kind.starts_with("reject");
    html! {
        button.button.choice.primary[allows] type="submit"
            name="optionId" value=(verbatim(&option.option_id)) data-key=[key] data-grants[grants] {
            @if lay == Lay::Column { @if let Some(key) = key { kbd { (key) } } }
            span { (option.label) }
            @if lay == Lay::Row { @if let Some(key) = key { kbd { (key) } } }
        }
    }
}

/// What kind of answer is wanted, in words.
pub(crate) fn wanted(question: &Question) -> &'static str {
    match question.kind {
        QuestionKind::Question => "waits for you, as long as you like",
        QuestionKind::Permission => "asks for permission, and waits for it",
    }
}
