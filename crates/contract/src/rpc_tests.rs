use pretty_assertions::assert_eq;

use super::*;

#[test]
fn requests_are_read_or_refused_with_a_code() {
    let got = Request::parse(br#"{"jsonrpc":"2.0","id":0,"method":"x"}"#).unwrap();
    assert_eq!(
        got,
        Request {
            id: Some(Id::Number(0.into())),
            method: "x".into(),
            params: json!({})
        }
    );
    let one = || Some(Id::Number(1.into()));
    let cases = [
        ("notjson", Code::InvalidJson, None),
        ("[]", Code::InvalidEnvelope, None),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#,
            Code::InvalidEnvelope,
            None,
        ),
        (r#"{"id":1,"method":"x"}"#, Code::InvalidEnvelope, one()),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            Code::InvalidEnvelope,
            None,
        ),
        (
            r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"x"}"#,
            Code::InvalidEnvelope,
            None,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            Code::InvalidEnvelope,
            one(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#,
            Code::InvalidRequest,
            one(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"x","params":"x"}"#,
            Code::InvalidRequest,
            Some(Id::Text("a".into())),
        ),
    ];
    for (body, code, id) in cases {
        assert_eq!(
            Request::parse(body.as_bytes()).map_err(|m| (m.fault.code, m.id)),
            Err((code, id)),
            "{body}"
        );
    }
}

#[test]
fn answers_survive_the_round_trip() {
    let fault = Fault::new(Code::RuntimeBusy, "full").with("reason", "queue_full");
    assert_eq!(
        outcome(failure(Some(&Id::Text("a".into())), &fault)),
        Err(fault)
    );
    assert_eq!(
        outcome(success(None, &json!({"x": 1}))),
        Ok(json!({"x": 1}))
    );
    let foreign = json!({"error": {"code": -1, "message": "no", "data": {"code": "THEIRS"}}});
    assert_eq!(
        outcome(foreign),
        Err(Fault::new(Code::ExecutionFailed, "no (THEIRS)"))
    );
}

#[test]
fn wrong_parameters_are_named_with_their_place() {
    let said = |value| {
        params::<crate::turn::TurnParams>(value)
            .unwrap_err()
            .message
    };
    assert_eq!(
        said(json!({})),
        "The parameters are not right: missing field `sessionId`."
    );
    assert_eq!(
        said(json!({"sessionId": "a", "inlineAttachments": [{"name": 1, "content": ""}]})),
        "`inlineAttachments[0].name` is not right: invalid type: integer `1`, expected a string."
    );
}

#[test]
fn absent_parameters_may_be_written_as_null() {
    for params in [None, Some(Value::Null), Some(json!({}))] {
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"});
        if let Some(params) = params {
            body["params"] = params;
        }
        let request = Request::parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(request.params, json!({}));
    }
}
