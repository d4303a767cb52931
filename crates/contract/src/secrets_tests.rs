use pretty_assertions::assert_eq;

use super::*;

#[test]
fn what_looks_like_a_secret_is_hidden() {
    let cases = [
        ("401 api_key=sk-secret-value, retry", "401 api_key=…, retry"),
        ("bad key sk-abcdef1234567890abcdef.", "bad key sk-…."),
        ("nvapi-Ab_12345 and ghp_0123456789", "nvapi-… and ghp_…"),
        (
            "Authorization: Bearer eyJhbGci.Oi-J9~x+/=",
            "Authorization: Bearer …",
        ),
        ("token: bearer abcdefgh12", "token: bearer …"),
        (r#"{"apiKey": "abc", "x":1}"#, r#"{"apiKey": "…", "x":1}"#),
        (
            "OPENAI_API_KEY=abc&secret=d PASSWORD : e",
            "OPENAI_API_KEY=…&secret=… PASSWORD : …",
        ),
        ("access token = xyz", "access token = …"),
        (
            "GET https://ai.example/v1?alt=sse&key=AIzaSyA-123: 400",
            "GET https://ai.example/v1?alt=sse&key=… 400",
        ),
        (
            "https://ai.example/v1?key=abc&alt=sse",
            "https://ai.example/v1?key=…&alt=sse",
        ),
        ("AIzaSyA0123456789_abcdefghij refused", "AIza… refused"),
        ("AKIAIOSFODNN7EXAMPLE.", "AKIA…."),
        (
            "jwt eyJhbGciOiJI.eyJzdWIiOiIx.SflKxw-RJ_. Then",
            "jwt eyJ…. Then",
        ),
        (
            "postgres://me:p@ss:word@db.example:5432/x and http://u:p@h",
            "postgres://me:…@db.example:5432/x and http://u:…@h",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(without_secrets(text), want);
    }
}

#[test]
fn what_does_not_is_left_alone() {
    for text in [
        "",
        "task-force: the desk-secretary used 300 tokens, max_tokens=5",
        "sk-1 is short; the bearer of news; ask-somebody-else",
        "The secret is out, and the password was changed. 😀 é",
        "tokens: 12",
        "http://127.0.0.1:8080/a@b:c?monkey=1&keys=2",
        "https://me@host/x, git@host:y, AIzawa, AKIA, eyJust.a.test",
    ] {
        assert_eq!(without_secrets(text), text);
    }
}
