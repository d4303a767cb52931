//! What a thread lets its agents do without asking: one rule for all that they ask for, and rules for
//! kinds of tool calls. Goes with a message, and holds from that one on.

use maud::{Markup, html};
use threadline_contract::{PermissionPolicy, Rule, ToolKind};

/// What the names of the fields begin with; a kind of tool call or `default` follows.
pub(crate) const FIELD: &str = "permit.";

/// The fields, as the thread has them now.
pub(super) fn fields(policy: Option<&PermissionPolicy>) -> Markup {
    let general = policy.map(PermissionPolicy::otherwise);
    html! {
        fieldset.permit {
            legend { "When an agent asks for a permission" }
            (choice("default", "In general", general, policy.is_none().then_some("as set up")))
            details {
                summary { "By what it wants to do" }
                @for kind in ToolKind::ALL {
                    (choice(kind.as_str(), words(kind), policy.and_then(|p| p.of_kind(kind)), Some("as in general")))
                }
            }
        }
    }
}

/// One rule; `unset` are the words for having none.
fn choice(name: &str, words: &str, now: Option<Rule>, unset: Option<&str>) -> Markup {
    let rules = [
        (Rule::Ask, "ask me"),
        (Rule::Allow, "allow, each time"),
        (Rule::Reject, "refuse"),
    ];
    html! {
        label.rule {
            span { (words) }
            select name=(format!("{FIELD}{name}")) {
                @if let Some(unset) = unset { option value="" selected[now.is_none()] { (unset) } }
                @for (rule, words) in rules {
                    option value=(rule.as_str()) selected[now == Some(rule)] { (words) }
                }
            }
        }
    }
}

const fn words(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "Read files or data",
        ToolKind::Edit => "Change files",
        ToolKind::Delete => "Remove files",
        ToolKind::Move => "Move files",
        ToolKind::Search => "Search",
        ToolKind::Execute => "Run commands",
        ToolKind::Think => "Think",
        ToolKind::Fetch => "Fetch from elsewhere",
        ToolKind::Other => "Something else",
    }
}
