use pretty_assertions::assert_eq;

use super::*;

fn bridge(url: &str) -> Bridge {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = Endpoint {
        url: url.into(),
        token: None,
    };
    Bridge::new(&endpoint, Timings::default()).unwrap()
}

#[test]
fn links_lead_to_the_bridge_or_nowhere() {
    let bridge = bridge("https://b.example/prefix/");
    let good = [
        (
            "/artifacts/openclaw/download?ref=a%3A%3Ab&t=1",
            "https://b.example/prefix/artifacts/openclaw/download?ref=a%3A%3Ab&t=1",
        ),
        ("https://b.example/x?t=1", "https://b.example/x?t=1"),
    ];
    for (link, want) in good {
        assert_eq!(bridge.link(link).unwrap().as_str(), want);
    }
    for bad in [
        "//evil.example/x",
        "https://evil.example/x",
        "http://b.example/x",
        "https://b.example:444/x",
        "https://u@b.example/x",
        "/\\evil.example/x",
        "x",
        "",
        "file:///etc/passwd",
    ] {
        assert_eq!(
            bridge.link(bad).unwrap_err().code,
            Code::BadBridgeAnswer,
            "{bad}"
        );
    }
}

#[test]
fn addresses_are_plain() {
    for bad in [
        "",
        "b.example",
        "ftp://b",
        "http://u:p@b",
        "http://b/?x",
        "http://b/#x",
    ] {
        assert!(base_url(bad).is_err(), "{bad}");
    }
    assert_eq!(
        bridge("http://127.0.0.1:1").at("/acp/rpc").as_str(),
        "http://127.0.0.1:1/acp/rpc"
    );
    assert_eq!(
        bridge("http://b/x/").at("/acp/rpc").as_str(),
        "http://b/x/acp/rpc"
    );
}
