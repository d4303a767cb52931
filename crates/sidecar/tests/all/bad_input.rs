//! Lines that are no requests: each is answered, none ends the service.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_sidecar::{Ended, Limits};

use crate::wire::{Client, Host, LIST, PREPARE, code, turn};

/// The id and the code that a line is answered with.
fn answer(client: &mut Client, line: &[u8]) -> (Value, String) {
    client.send_bytes(line);
    client.send_bytes(b"\n");
    let answer = client.receive();
    assert_eq!(answer["jsonrpc"], "2.0");
    assert!(
        answer["error"]["message"].as_str().unwrap().ends_with('.'),
        "{answer}"
    );
    (answer["id"].clone(), code(&answer))
}

#[test]
fn every_bad_line_is_answered_with_its_code() {
    let host = Host::new();
    let mut client = host.client();
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let cases: &[(&[u8], Value, &str)] = &[
        (b"{", Value::Null, "INVALID_JSON"),
        (b"nonsense", Value::Null, "INVALID_JSON"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", Value::Null, "INVALID_JSON"),
        (b"\xef\xbb\xbf{}", Value::Null, "INVALID_JSON"),
        (b"{\"id\":1} {\"id\":2}", Value::Null, "INVALID_JSON"),
        (b"\x00\x01\x02", Value::Null, "INVALID_JSON"),
        (&deep, Value::Null, "INVALID_JSON"),
        (b"7", Value::Null, "INVALID_ENVELOPE"),
        (b"null", Value::Null, "INVALID_ENVELOPE"),
        (b"\"initialize\"", Value::Null, "INVALID_ENVELOPE"),
        (b"[]", Value::Null, "INVALID_ENVELOPE"),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"initialize"}]"#,
            Value::Null,
            "INVALID_ENVELOPE",
        ),
        (b"{}", Value::Null, "INVALID_ENVELOPE"),
        (br#"{"id":1,"method":"initialize"}"#, json!(1), "INVALID_ENVELOPE"),
        (br#"{"jsonrpc":"1.0","id":1,"method":"initialize"}"#, json!(1), "INVALID_ENVELOPE"),
        (br#"{"jsonrpc":"2.0","id":"x"}"#, json!("x"), "INVALID_ENVELOPE"),
        (br#"{"jsonrpc":"2.0","id":2,"method":7}"#, json!(2), "INVALID_ENVELOPE"),
        (br#"{"jsonrpc":"2.0","id":null,"method":"initialize"}"#, Value::Null, "INVALID_ENVELOPE"),
        (br#"{"jsonrpc":"2.0","id":{},"method":"initialize"}"#, Value::Null, "INVALID_ENVELOPE"),
        (
            br#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":[1]}"#,
            json!(3),
            "INVALID_REQUEST",
        ),
        (br#"{"jsonrpc":"2.0","id":4,"method":"nothing"}"#, json!(4), "METHOD_NOT_FOUND"),
        (br#"{"jsonrpc":"2.0","id":5,"method":"$/nothing"}"#, json!(5), "METHOD_NOT_FOUND"),
        (
            br#"{"jsonrpc":"2.0","id":6,"method":"xworkmate.tasks.get"}"#,
            json!(6),
            "METHOD_NOT_FOUND",
        ),
        // Parameters that are missing, or are no texts, count as absent and are named.
        (
            br#"{"jsonrpc":"2.0","id":7,"method":"xworkmate.artifacts.list"}"#,
            json!(7),
            "INVALID_REQUEST",
        ),
        (
            br#"{"jsonrpc":"2.0","id":8,"method":"xworkmate.artifacts.list","params":{"openclawSessionKey":["a"],"runId":{}}}"#,
            json!(8),
            "INVALID_REQUEST",
        ),
        (
            br#"{"jsonrpc":"2.0","id":9,"method":"xworkmate.artifacts.list","params":{"sessionKey":"thread-main","runId":"turn-1"}}"#,
            json!(9),
            "INVALID_REQUEST",
        ),
        (
            br#"{"jsonrpc":"2.0","id":10,"method":"xworkmate.artifacts.list","params":{"openclawSessionKey":"k","runId":"  "}}"#,
            json!(10),
            "INVALID_REQUEST",
        ),
        (
            br#"{"jsonrpc":"2.0","id":11,"method":"xworkmate.artifacts.list","params":{"openclawSessionKey":"k","runId":"r","maxFiles":1e300}}"#,
            json!(11),
            "INVALID_REQUEST",
        ),
    ];
    for (line, id, want) in cases {
        let text = String::from_utf8_lossy(line);
        let short: String = text.chars().take(100).collect();
        assert_eq!(
            answer(&mut client, line),
            (id.clone(), (*want).to_owned()),
            "{short}"
        );
    }
    client.prepare();
    let (rest, ended) = client.finish();
    assert!(rest.is_empty() && matches!(ended, Ended::EndOfInput));
}

#[test]
fn a_line_that_is_too_long_is_skipped_and_answered_under_its_id() {
    let host = Host::new();
    let mut client = host.client_with(Limits {
        line_bytes: 1_000,
        ..Limits::default()
    });
    let padding = "x".repeat(5_000_000);
    let long = |head: &str| format!("{{{head}\"params\":{{\"pad\":\"{padding}\"}}}}").into_bytes();
    let too_large = |id: Value| (id, "BODY_TOO_LARGE".to_owned());
    assert_eq!(
        answer(
            &mut client,
            &long(r#""jsonrpc":"2.0","id":"big","method":"x","#)
        ),
        too_large(json!("big"))
    );
    assert_eq!(answer(&mut client, &long("")), too_large(Value::Null));
    assert_eq!(
        answer(&mut client, padding.as_bytes()),
        too_large(Value::Null)
    );
    // One that just fits is read.
    let fits = |more: usize| {
        let frame = r#"{"jsonrpc":"2.0","id":1,"method":"nothing","params":{"p":""}}"#;
        frame.replace(
            r#""p":"""#,
            &format!("\"p\":\"{}\"", "y".repeat(1_000 + more - frame.len())),
        )
    };
    assert_eq!(
        answer(&mut client, fits(0).as_bytes()).1,
        "METHOD_NOT_FOUND"
    );
    assert_eq!(answer(&mut client, fits(1).as_bytes()).1, "BODY_TOO_LARGE");
    assert_eq!(
        client.ok("initialize", json!({}))["limits"]["lineBytes"],
        1_000
    );
}

#[test]
fn empty_lines_and_ends_of_lines_do_not_matter() {
    let host = Host::new();
    let mut client = host.client();
    client.send_bytes(b"\n  \t\r\n\r\n");
    let params = turn(json!({}));
    let line = crate::wire::request(1, PREPARE, &params);
    client.send_bytes(format!(" {line} \r\n").as_bytes());
    assert_eq!(client.receive()["id"], 1);
    // The last line has none.
    client.send_bytes(crate::wire::request(2, LIST, &params).as_bytes());
    let (answers, ended) = client.finish();
    assert!(matches!(ended, Ended::EndOfInput));
    assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!(2)));
}

#[test]
fn a_line_that_ends_in_the_middle_is_no_request() {
    let host = Host::new();
    let mut client = host.client();
    let line = crate::wire::request(1, PREPARE, &turn(json!({})));
    client.send_bytes(&line.as_bytes()[..line.len() - 1]);
    let (answers, _) = client.finish();
    assert_eq!(
        answers.iter().map(code).collect::<Vec<_>>(),
        ["INVALID_JSON"]
    );
    assert!(!host.scope().exists());
}

#[test]
fn a_workspace_that_is_no_path_is_the_callers_mistake() {
    let host = Host::new();
    let mut client = host.client();
    let long = "x".repeat(5_000);
    for (n, folder) in ["/a\0b", &long, "/no\u{1b}[31m/such\nfolder"]
        .iter()
        .enumerate()
    {
        let line = json!({
            "jsonrpc": "2.0", "id": n, "method": PREPARE,
            "params": turn(json!({"workspaceDir": folder})),
        });
        client.send_bytes(line.to_string().as_bytes());
        client.send_bytes(b"\n");
        let answer = client.receive();
        assert_eq!(code(&answer), "INVALID_REQUEST", "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.len() < 500 && !message.contains(char::is_control),
            "{message:?}"
        );
    }
}
