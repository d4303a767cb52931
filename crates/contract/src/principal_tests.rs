use serde_json::json;

use super::*;

fn principal(account: &str, scopes: &str) -> Principal {
    Principal {
        account: AccountId::new(account).unwrap(),
        who: Who::Token(TokenId::new("tok-1").unwrap()),
        label: "laptop".into(),
        scopes: scopes.parse().unwrap(),
    }
}

#[test]
fn scopes_are_read_back_as_they_were_written() {
    for bits in 0..16 {
        let scopes = Scopes(bits);
        assert_eq!(scopes.to_string().parse(), Ok(scopes));
        let json = serde_json::to_value(scopes).unwrap();
        assert_eq!(serde_json::from_value::<Scopes>(json).unwrap(), scopes);
    }
    assert_eq!(Scopes::FULL.to_string(), "read write admin");
    assert_eq!(Scopes::NONE.to_string(), "");
    assert_eq!(
        "read root".parse::<Scopes>(),
        Err(UnknownScope("root".into()))
    );
}

#[test]
fn an_actor_says_who_it_is_and_what_it_is_called() {
    let all = [
        (
            Who::Person(PersonId::new("ann").unwrap()),
            json!({"kind": "person", "id": "ann", "label": "x"}),
        ),
        (
            Who::Agent(AgentId::new("jarvis").unwrap()),
            json!({"kind": "agent", "id": "jarvis", "label": "x"}),
        ),
        (
            Who::Token(TokenId::new("tok-1").unwrap()),
            json!({"kind": "token", "id": "tok-1", "label": "x"}),
        ),
        (Who::Server, json!({"kind": "server", "label": "x"})),
    ];
    for (who, written) in all {
        let actor = Actor {
            who,
            label: "x".into(),
        };
        assert_eq!(serde_json::to_value(&actor).unwrap(), written);
        assert_eq!(serde_json::from_value::<Actor>(written).unwrap(), actor);
    }
}

#[test]
fn only_an_admin_of_the_machines_own_account_is_its_operator() {
    let is = |account, scopes| principal(account, scopes).is_operator();
    assert!(is("local", "read write admin"));
    assert!(is("local", "admin"));
    assert!(!is("local", "read write agent"));
    assert!(!is("other", "read write admin"));
}

#[test]
fn a_scope_that_is_missing_is_named() {
    let reader = principal("local", "read");
    assert_eq!(reader.check(Scope::Read), Ok(()));
    let fault = reader.check(Scope::Write).unwrap_err();
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (
            Code::ScopeMissing,
            "This needs the scope `write`, and `laptop` has: read. Use a token that may do it."
        )
    );
    let nobody = principal("local", "").check(Scope::Agent).unwrap_err();
    assert!(nobody.message.contains("has: nothing"), "{nobody:?}");
}
