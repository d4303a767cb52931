use threadline_contract::{AccountId, Scopes, TokenId, Who};

use super::*;

fn with(scopes: impl IntoIterator<Item = Scope>) -> Principal {
    Principal {
        account: AccountId::local(),
        who: Who::Token(TokenId::new("tok-1").unwrap()),
        label: "test".into(),
        scopes: Scopes::from_iter(scopes),
    }
}

/// Which scopes alone let a call through.
fn lets_in(check: impl Fn(&Principal) -> Result<(), Fault>) -> Vec<&'static str> {
    let alone = Scope::ALL
        .into_iter()
        .filter(|scope| check(&with([*scope])).is_ok());
    alone.map(Scope::as_str).collect()
}

const ANY: [&str; 4] = ["read", "write", "admin", "agent"];

#[test]
fn every_method_needs_its_scope() {
    let expected = [
        ("acp.capabilities", "read"),
        ("session.start", "write"),
        ("session.message", "write"),
        ("session.cancel", "write"),
        ("session.close", "write"),
        ("session.delete", "write"),
        ("xworkmate.routing.resolve", "read"),
        ("xworkmate.provider.probe", "read"),
        ("xworkmate.tasks.get", "read"),
        ("xworkmate.tasks.cancel", "write"),
        ("xworkmate.questions.list", "read"),
        ("xworkmate.questions.answer", "write"),
        ("xworkmate.permissions.list", "read"),
        ("xworkmate.permissions.respond", "write"),
        ("xworkmate.artifacts.gc", "admin"),
        ("xworkmate.operator.status", "read"),
        ("xworkmate.operator.runs", "read"),
        ("xworkmate.operator.sessions", "read"),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, method::ALL);
    for (name, scope) in expected {
        assert_eq!(lets_in(|p| check_method(p, name)), [scope], "{name}");
        assert!(check_method(&with([]), name).is_err(), "{name}");
        let full = Principal {
            scopes: Scopes::FULL,
            ..with([])
        };
        assert_eq!(check_method(&full, name), Ok(()), "{name}");
    }
    assert_eq!(lets_in(|p| check_method(p, "no.such.method")), ANY);
}

#[test]
fn every_route_needs_its_scope() {
    let expected: [(Method, &str, &[&str]); 30] = [
        (Method::POST, "/acp/rpc", &ANY),
        (Method::GET, "/acp", &ANY),
        (Method::GET, "/acp/events", &["read"]),
        (Method::GET, "/acp/events/whole", &["read"]),
        (Method::GET, "/acp/node", &ANY),
        (Method::GET, "/artifacts/openclaw/download", &["read"]),
        (Method::HEAD, "/artifacts/openclaw/download", &["read"]),
        (Method::GET, "/health", &ANY),
        (Method::GET, "/api/ping", &["read"]),
        (Method::POST, "/gateway/openclaw", &["write"]),
        (Method::POST, "/app/rpc", &ANY),
        (Method::GET, "/app/events", &["read"]),
        (Method::POST, "/app/entry", &["admin"]),
        (Method::GET, "/app/files/draft:1/a.txt", &["read"]),
        (Method::GET, "/", &["read"]),
        (Method::GET, "/threads", &["read"]),
        (Method::GET, "/threads/river", &["read"]),
        (Method::GET, "/threads/river/files/a.txt", &["read"]),
        (Method::GET, "/new", &["read"]),
        (Method::GET, "/operator", &["read"]),
        (Method::GET, "/operator/runs", &["read"]),
        (Method::GET, "/operator/sessions", &["read"]),
        (Method::POST, "/do", &ANY),
        (Method::GET, "/enter", &ANY),
        (Method::GET, "/sign-in", &ANY),
        (Method::POST, "/sign-in", &ANY),
        (Method::POST, "/sign-out", &ANY),
        (Method::GET, "/assets/1/page.css", &ANY),
        (Method::GET, "/what/nobody/wrote/yet", &["read"]),
        (Method::DELETE, "/what/nobody/wrote/yet", &["write"]),
    ];
    for (method, path, scopes) in expected {
        let found = lets_in(|p| check_route(p, &method, path));
        assert_eq!(found, scopes, "{method} {path}");
    }
}
