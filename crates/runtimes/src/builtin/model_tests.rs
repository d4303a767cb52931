use pretty_assertions::assert_eq;

use super::*;

fn model(url: &str, key: Option<&str>) -> Result<Model, Fault> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let config = ModelConfig {
        url: url.into(),
        key: key.map(str::to_owned),
        model: "m".into(),
    };
    Model::new(&config, Limits::default())
}

fn refused(status: u16, body: &str) -> Trouble {
    Trouble::Refused {
        status: StatusCode::from_u16(status).unwrap(),
        body: body.into(),
        pause: None,
    }
}

#[test]
fn the_address_is_taken_as_given_and_slashes_are_forgiven() {
    for (url, endpoint, host) in [
        ("http://h/v1", "http://h/v1/chat/completions", "h"),
        (" http://h:1/v1// ", "http://h:1/v1/chat/completions", "h:1"),
        ("https://h", "https://h/chat/completions", "h"),
        (
            "https://h/v1/chat/completions",
            "https://h/v1/chat/completions",
            "h",
        ),
        (
            "https://u:p@h/v1?api-version=2",
            "https://u:p@h/v1/chat/completions?api-version=2",
            "h",
        ),
    ] {
        let model = model(url, None).unwrap();
        assert_eq!((model.endpoint.as_str(), model.host()), (endpoint, host));
    }
    for bad in ["", "not a url", "ftp://h", "unix:/x"] {
        assert_eq!(
            model(bad, None).err().map(|f| f.code),
            Some(Code::ConfigInvalid),
            "{bad}"
        );
    }
    assert_eq!(
        model("http://h", Some("a\nb")).err().map(|f| f.code),
        Some(Code::ConfigInvalid)
    );
}

#[test]
fn what_is_shown_is_short_and_holds_no_key() {
    let model = model("http://h", Some("sk-1234")).unwrap();
    assert_eq!(
        model.clean("bad key sk-1234\n\n<b>\u{7}x"),
        "bad key (key) <b>x"
    );
    assert_eq!(model.clean(&"é".repeat(1000)).chars().count(), BODY_SHOWN);
    assert_eq!(
        format!(
            "{:?}",
            ModelConfig {
                url: "u".into(),
                key: Some("sk-1234".into()),
                model: "m".into()
            }
        ),
        "ModelConfig { url: \"u\", key: Some(\"(set)\"), model: \"m\" }"
    );
}

#[test]
fn every_trouble_has_its_code_and_only_some_may_pass() {
    let model = model("http://h", None).unwrap();
    let cases = [
        (
            Trouble::Unreachable("refused".into()),
            Code::ModelUnreachable,
            true,
        ),
        (
            Trouble::Silent(Duration::from_secs(2)),
            Code::ModelUnreachable,
            false,
        ),
        (Trouble::Broken("cut".into()), Code::ModelFailed, true),
        (refused(400, "no"), Code::ModelFailed, false),
        (refused(401, "no"), Code::ModelFailed, false),
        (refused(429, "slow down"), Code::ModelFailed, true),
        (refused(503, ""), Code::ModelFailed, true),
        (
            refused(400, "gemma does not support tools"),
            Code::ModelRefusesTools,
            false,
        ),
        (
            refused(404, "No endpoints found that support tool use"),
            Code::ModelRefusesTools,
            false,
        ),
        (
            refused(400, "tools[0] is malformed"),
            Code::ModelFailed,
            false,
        ),
        (Trouble::Said("boom".into()), Code::ModelFailed, false),
        (Trouble::NotUnderstood("x".into()), Code::ModelFailed, false),
        (Trouble::TooLong, Code::ModelFailed, false),
    ];
    for (trouble, code, passes) in cases {
        assert_eq!(
            (trouble.fault(&model).code, trouble.may_pass()),
            (code, passes),
            "{trouble:?}"
        );
    }
    assert_eq!(
        refused(401, "bad key").fault(&model).message,
        "The model m at h answered 401 Unauthorized: bad key. Check THREADLINE_MODEL_KEY."
    );
}

#[test]
fn the_sentence_in_an_error_body_is_found() {
    for (body, want) in [
        (r#"{"error":{"message":"a"}}"#, "a"),
        (r#"{"error":"b"}"#, "b"),
        (r#"{"message":"c"}"#, "c"),
        ("<html>d", "<html>d"),
        (r#"{"other":1}"#, r#"{"other":1}"#),
    ] {
        assert_eq!(message_of(body), want);
    }
}
