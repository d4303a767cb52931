use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(text: impl AsRef<[u8]>) -> Value {
    serde_json::from_str(&mend(text.as_ref())).unwrap()
}

#[test]
fn what_is_no_text_is_replaced() {
    assert_eq!(
        read(r#"{"a":"party \ud83d","\ude00":"\ud83d\ude00 \ud83dx \uD83D\u0041"}"#),
        json!({"a": "party \u{fffd}", "\u{fffd}": "😀 \u{fffd}x \u{fffd}A"})
    );
    assert_eq!(
        read(b"{\"a\":\"bad \xff\xfe text\"}"),
        json!({"a": "bad \u{fffd}\u{fffd} text"})
    );
    assert_eq!(read("[\"a\tb\u{1}\"]"), json!(["a\tb\u{1}"]));
    assert_eq!(
        read(r#"["\x \u12 C:\dir \\\" \/"]"#),
        json!([r#"\x \u12 C:\dir \" /"#])
    );
}

#[test]
fn what_is_no_number_is_null() {
    assert_eq!(
        read("[1e999, -1e999 ,NaN,Infinity,-Infinity, 1.5, -0, \"NaN 1e999\"]"),
        json!([null, null, null, null, null, 1.5, -0.0, "NaN 1e999"])
    );
}

#[test]
fn what_is_too_deep_is_null() {
    let deep = format!(
        r#"{{"a":{}"]"{},"b":[{{"c":1}}]}}"#,
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let read = read(deep);
    assert_eq!(read["b"], json!([{"c": 1}]));
    let mut inner = &read["a"];
    while inner.is_array() {
        inner = &inner[0];
    }
    assert_eq!(inner, &Value::Null);
}

#[test]
fn what_is_broken_stays_broken() {
    for text in [
        "Listening on stdio",
        "{\"a\":1",
        "{\"a\":\"",
        "{} {}",
        "{,}",
    ] {
        assert!(
            serde_json::from_str::<Value>(&mend(text.as_bytes())).is_err(),
            "{text}"
        );
    }
}

#[test]
fn the_names_at_the_top_are_found() {
    let text = r#"{"jsonrpc": "2.0", "params":{"id":7,"x":"\"id\":8"} , "id" : "a\"b" , "method":"m", "cut":["#;
    assert_eq!(top(text, "id"), Some(r#""a\"b""#));
    assert_eq!(top(text, "method"), Some("\"m\""));
    assert_eq!(top(text, "x"), None);
    assert_eq!(top(r#"["id",{"id":1}]"#, "id"), None);
    assert_eq!(top(r#"{"id":12.0}"#, "id"), Some("12.0"));
}

proptest! {
    #[test]
    fn good_json_means_the_same_afterwards(text in "[\\PC\\n\"\\\\]{0,40}", number in any::<f64>()) {
        let value = json!({"t": text, "n": number, text.as_str(): [[{"x": null}], true, -3]});
        let text = value.to_string();
        let meant: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read(text), meant);
    }

    #[test]
    fn nothing_makes_it_break(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (mend(&bytes), top(&mend(&bytes), "id"));
    }
}
