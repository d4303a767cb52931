use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn read(text: &str) -> Result<String, String> {
    text.parse::<PermissionPolicy>()
        .map(|policy| policy.to_string())
        .map_err(|e| e.to_string())
}

#[test]
fn a_policy_has_one_spelling() {
    for (text, spelled) in [
        ("ask", "ask"),
        ("allow", "allow"),
        (" allow , delete = ask ", "allow,delete=ask"),
        ("execute=reject,read=allow", "ask,read=allow,execute=reject"),
        ("default=reject,search=allow", "reject,search=allow"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(spelled), "{text}");
        assert_eq!(read(spelled).as_deref(), Ok(spelled));
    }
    for (text, why) in [
        ("", "`` is no rule; use ask, allow or reject"),
        ("always", "`always` is no rule; use ask, allow or reject"),
        ("read=yes", "`yes` is no rule; use ask, allow or reject"),
        ("ask,allow", "`default` has two rules"),
        ("read=ask,read=allow", "`read` has two rules"),
        (
            "write=allow",
            "`write` is no kind of tool call; there are read, edit, delete, move, search, execute, think, fetch, other",
        ),
    ] {
        assert_eq!(read(text), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn it_comes_as_a_text_or_as_an_object_and_goes_as_a_text() {
    for (json, spelled) in [
        (json!("allow,execute=ask"), "allow,execute=ask"),
        (
            json!({"default": "ask", "read": "allow", "execute": "reject"}),
            "ask,read=allow,execute=reject",
        ),
        (json!({}), "ask"),
    ] {
        let policy: PermissionPolicy = serde_json::from_value(json).unwrap();
        assert_eq!(serde_json::to_value(&policy).unwrap(), json!(spelled));
    }
    for bad in [json!(1), json!({"read": 1}), json!({"write": "allow"})] {
        assert!(serde_json::from_value::<PermissionPolicy>(bad).is_err());
    }
}

#[test]
fn the_rule_of_a_kind_comes_before_the_rule_for_all() {
    let policy: PermissionPolicy = "allow,execute=reject,delete=ask".parse().unwrap();
    assert_eq!(policy.rule(ToolKind::Read), (Rule::Allow, "allow".into()));
    assert_eq!(
        policy.rule(ToolKind::Execute),
        (Rule::Reject, "execute=reject".into())
    );
    assert_eq!(
        policy.rule(ToolKind::Delete),
        (Rule::Ask, "delete=ask".into())
    );
    assert!(!policy.is_ask());
    assert!("ask,read=ask".parse::<PermissionPolicy>().unwrap().is_ask());
    assert_eq!(ToolKind::of("switch_mode"), ToolKind::Other);
}
