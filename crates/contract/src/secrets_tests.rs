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
    ] {
        assert_eq!(without_secrets(text), text);
    }
}
