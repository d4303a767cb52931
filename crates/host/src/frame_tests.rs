use pretty_assertions::assert_eq;

use super::*;

fn kind(text: &str) -> Kind {
    Frame::parse(text.as_bytes()).unwrap().kind()
}

#[test]
fn tells_requests_answers_and_notifications_apart() {
    let number = |n: &str| Id::Number(n.into());
    let text = |t: &str| Id::Text(t.into());
    assert_eq!(
        kind(r#"{"id":1,"method":"a"}"#),
        Kind::Request {
            id: number("1"),
            method: "a".into()
        }
    );
    assert_eq!(
        kind(r#"{"id":"1","method":"a","params":{"id":7}}"#),
        Kind::Request {
            id: text("1"),
            method: "a".into()
        }
    );
    assert_eq!(
        kind(r#"{"id":"\u0031","result":null}"#),
        Kind::Response { id: text("1") }
    );
    assert_eq!(
        kind(r#"{"id":-0.5e3,"error":{}}"#),
        Kind::Response {
            id: number("-0.5e3")
        }
    );
    assert_eq!(
        kind(r#"{"method":"m\u0061"}"#),
        Kind::Notification {
            method: "ma".into()
        }
    );
    assert_eq!(
        kind(r#"{"id":null,"method":"a"}"#),
        Kind::Notification { method: "a".into() }
    );
    assert_eq!(kind(r#"{"id":null,"error":{}}"#), Kind::Other);
    assert_eq!(kind(r#"{"id":[1],"result":1}"#), Kind::Other);
}

#[test]
fn keeps_the_text_of_its_author() {
    let odd = r#"{"z":1,"a":1.00,"method":"x","big":123456789012345678901234567890}"#;
    assert_eq!(Frame::parse(odd.as_bytes()).unwrap().text(), odd);
    let broken = "  {\"method\":\r\n\"a\\n\"}  ";
    assert_eq!(
        Frame::parse(broken.as_bytes()).unwrap().text(),
        "{\"method\":  \"a\\n\"}"
    );
}

#[test]
fn refuses_what_is_not_one_message() {
    let of = |text: &[u8]| Frame::parse(text).unwrap_err();
    assert_eq!(of(b"\xff{}"), NotAFrame::NotUtf8);
    assert_eq!(of(b"Listening on stdio"), NotAFrame::NotJson);
    assert_eq!(of(b"{\"a\":1"), NotAFrame::NotJson);
    assert_eq!(of(b"{} {}"), NotAFrame::NotJson);
    assert_eq!(of(b"[{\"method\":\"a\"}]"), NotAFrame::NotRpc);
    assert_eq!(of(b"3"), NotAFrame::NotRpc);
    assert_eq!(of(br#"{"method":3}"#), NotAFrame::NotRpc);
    assert_eq!(of(br#"{"id":1,"id":2}"#), NotAFrame::NotRpc);
}

#[test]
fn takes_any_depth() {
    let deep = format!(
        "{{\"method\":\"a\",\"params\":{}{}}}",
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    assert_eq!(kind(&deep), Kind::Notification { method: "a".into() });
}

#[test]
fn mends_what_no_reader_would_take() {
    let of = |text: &[u8]| Frame::parse(text).unwrap().text().to_owned();
    assert_eq!(
        of(b"{\"id\":1,\"result\":\"\xff\"}"),
        "{\"id\":1,\"result\":\"\u{fffd}\"}"
    );
    assert_eq!(
        of(b"{\"id\":1,\"result\":NaN}"),
        "{\"id\":1,\"result\":null}"
    );
}

#[test]
fn tells_what_a_broken_line_was_meant_to_be() {
    let request = Kind::Request {
        id: Id::Text("a".into()),
        method: "m".into(),
    };
    assert_eq!(
        meant(br#" {"id":"a","method":"m","params":{"x""#),
        Some(request)
    );
    let response = Kind::Response {
        id: Id::Number("12".into()),
    };
    assert_eq!(meant(br#"{"result":{"id":1,},"id":12,}"#), Some(response));
    assert_eq!(meant(br#"{"params":["#), Some(Kind::Other));
    assert_eq!(meant(b"[INFO] {\"id\":1}"), None);
}

#[test]
fn an_id_means_a_number_however_it_is_written() {
    let number = |id: &str| Id::of(id).unwrap().number();
    assert_eq!(
        [
            "12", "12.0", "120", "\"12\"", "1.5", "\"1.0\"", "\"a\"", "-1"
        ]
        .map(number),
        [
            Some(12),
            Some(12),
            Some(120),
            Some(12),
            None,
            None,
            None,
            None
        ]
    );
}

#[test]
fn a_batch_is_taken_apart_and_other_lists_are_none() {
    let of = |text: &str| batch(text.as_bytes());
    let both = r#"{"id":1,"result":{"a":[1]}}"#;
    assert_eq!(
        of(&format!(" [{both}, 2 ,{both}]")),
        Some(vec![both.into(), "2".into(), both.into()])
    );
    // Mended where it must be, as any other line.
    let half = r#"[{"id":1,"result":"\ud83d"}]"#;
    assert_eq!(of(half).map(|all| all.len()), Some(1));
    for other in ["[]", "[1,2]", "[INFO] {}", r#"{"a":[{}]}"#, "[{}"] {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_message() {
    let frame = Frame::parse("\u{feff}{\"id\":1,\"result\":{}}".as_bytes()).unwrap();
    assert_eq!(frame.text(), r#"{"id":1,"result":{}}"#);
    let kind = Kind::Response {
        id: Id::Number("1".into()),
    };
    assert_eq!(meant("\u{feff}{\"id\":1,,}".as_bytes()), Some(kind));
}
