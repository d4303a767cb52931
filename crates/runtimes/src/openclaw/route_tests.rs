use pretty_assertions::assert_eq;

use super::*;

#[test]
fn files_come_from_the_gateways_own_host() {
    let of = |gateway, path| address(gateway, path).map(|url| url.to_string());
    for (gateway, path, url) in [
        (
            "ws://127.0.0.1:18789",
            "/p/a",
            Some("http://127.0.0.1:18789/p/a"),
        ),
        (
            "wss://claw.example/",
            "/p/a",
            Some("https://claw.example/p/a"),
        ),
        (
            "wss://x.example/claw/?t=1#f",
            "/p/a",
            Some("https://x.example/claw/p/a"),
        ),
        ("ws://[::1]:1", "/p", Some("http://[::1]:1/p")),
        // Whatever a plugin says, no other host is asked.
        (
            "ws://h:1",
            "//evil.example/a",
            Some("http://h:1//evil.example/a"),
        ),
        ("ws://h:1", "@evil.example/a", None),
        ("ws://h:1", "https://evil.example/a", None),
        ("ws://h:1", "/a?x=1", None),
    ] {
        assert_eq!(of(gateway, path).as_deref(), url, "{gateway} {path}");
    }
}
