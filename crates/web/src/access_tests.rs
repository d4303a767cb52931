use threadline_contract::{AccountId, Scopes, TokenId, Who};

use super::*;

fn with(account: &str, scopes: impl IntoIterator<Item = Scope>) -> Principal {
    Principal {
        account: AccountId::new(account).unwrap(),
        who: Who::Token(TokenId::new("tok-1").unwrap()),
        label: "test".into(),
        scopes: Scopes::from_iter(scopes),
    }
}

/// Which scopes alone let somebody of an account call a method.
fn lets_in(account: &str, method: &str) -> Vec<&'static str> {
    let alone = Scope::ALL
        .into_iter()
        .filter(|scope| check(&with(account, [*scope]), method).is_ok());
    alone.map(Scope::as_str).collect()
}

#[test]
fn every_method_of_the_local_api_needs_its_scope() {
    let (read, write, admin) = (["read"], ["write"], ["admin"]);
    let expected = [
        ("app.send", write, false),
        ("app.retry", write, false),
        ("app.list", read, false),
        ("app.show", read, false),
        ("app.turn", read, false),
        ("app.cancel", write, false),
        ("app.queue.list", read, false),
        ("app.queue.drop", write, false),
        ("app.queue.edit", write, false),
        ("app.sync", write, false),
        ("app.archive", write, false),
        ("app.restore", write, false),
        ("app.delete", write, false),
        ("app.delete.preview", read, false),
        ("app.answer", write, true),
        ("app.questions", read, true),
        ("app.home", read, false),
        ("app.runtimes", read, false),
        ("app.artifacts.gc", admin, true),
        ("app.operator.status", read, true),
        ("app.operator.runs", read, true),
        ("app.operator.sessions", read, true),
        ("app.operator.cancel", write, true),
        ("app.problems", read, false),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, api::ALL);
    for (name, scope, for_others) in expected {
        assert_eq!(lets_in("local", name), scope, "{name}");
        let others: &[&str] = if for_others { &scope } else { &[] };
        assert_eq!(lets_in("other", name), others, "{name}");
    }
}

#[test]
fn to_another_account_the_apps_methods_are_not_there() {
    let other = with("other", Scope::ALL);
    for name in ["app.send", "app.list", "no.such.method"] {
        assert_eq!(check(&other, name).unwrap_err().code, Code::NotFound);
    }
}
