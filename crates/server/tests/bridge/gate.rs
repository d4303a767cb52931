//! Who may call.

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{TOKEN, World};

#[tokio::test]
async fn tokens_origins_hosts_and_cookies() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let port = world.url.rsplit(':').next().unwrap().to_owned();
    let ask = async |headers: &[(&str, String)]| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "acp.capabilities"});
        let mut request = world
            .http
            .post(format!("{}/acp/rpc", world.url))
            .json(&body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = request.send().await.unwrap();
        let code = if answer.status().is_success() {
            "ok".into()
        } else {
            answer.json::<serde_json::Value>().await.unwrap()["error"]["data"]["code"].to_string()
        };
        code.trim_matches('"').to_owned()
    };
    let bearer = ("authorization", format!("Bearer {TOKEN}"));
    let cookie = ("cookie", format!("a=b; threadline_{port}={TOKEN}"));
    // B02
    assert_eq!(ask(&[("authorization", TOKEN.into())]).await, "ok");
    assert_eq!(
        ask(&[("authorization", format!("bearer {TOKEN}"))]).await,
        "ok"
    );
    assert_eq!(ask(std::slice::from_ref(&bearer)).await, "ok");
    for wrong in [
        format!("Basic {TOKEN}"),
        "Bearer nonsense".into(),
        String::new(),
    ] {
        assert_eq!(ask(&[("authorization", wrong)]).await, "UNAUTHORIZED");
    }
    assert_eq!(ask(&[]).await, "UNAUTHORIZED");
    // B06
    let origin = |o: &str| ("origin", o.to_owned());
    assert_eq!(
        ask(&[bearer.clone(), origin("https://evil.example")]).await,
        "ORIGIN_NOT_ALLOWED"
    );
    assert_eq!(
        ask(&[bearer.clone(), origin("http://localhost.evil.example:80")]).await,
        "ORIGIN_NOT_ALLOWED"
    );
    assert_eq!(
        ask(&[bearer.clone(), origin("http://localhost:5173")]).await,
        "ok"
    );
    // DNS rebinding
    assert_eq!(
        ask(&[bearer.clone(), ("host", format!("evil.example:{port}"))]).await,
        "HOST_NOT_ALLOWED"
    );
    assert_eq!(
        ask(&[bearer.clone(), ("host", format!("localhost:{port}"))]).await,
        "ok"
    );
    for strange in ["[[[localhost]]", "[localhost]", "[127.0.0.1", "127.0.0.1]"] {
        assert_eq!(
            ask(&[bearer.clone(), ("host", format!("{strange}:{port}"))]).await,
            "HOST_NOT_ALLOWED",
            "{strange}"
        );
    }
    // A cookie counts only for our own page.
    let site = |s: &str| ("sec-fetch-site", s.to_owned());
    assert_eq!(ask(std::slice::from_ref(&cookie)).await, "UNAUTHORIZED");
    assert_eq!(
        ask(&[cookie.clone(), site("same-site")]).await,
        "UNAUTHORIZED"
    );
    assert_eq!(
        ask(&[
            cookie.clone(),
            site("none"),
            ("sec-fetch-mode", "navigate".into())
        ])
        .await,
        "UNAUTHORIZED"
    );
    assert_eq!(ask(&[cookie.clone(), site("same-origin")]).await, "ok");
    assert_eq!(ask(&[cookie.clone(), origin(&world.url)]).await, "ok");
    assert_eq!(
        ask(&[cookie.clone(), origin("http://localhost:5173")]).await,
        "UNAUTHORIZED"
    );
    assert_eq!(
        ask(&[cookie, origin("http://localhost:5173"), site("same-origin")]).await,
        "UNAUTHORIZED"
    );
    // Open to everybody, and says no more than that.
    let health = world
        .http
        .get(format!("{}/health", world.url))
        .send()
        .await
        .unwrap();
    assert_eq!(
        health.json::<serde_json::Value>().await.unwrap(),
        json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")})
    );
    let preflight = world
        .http
        .request(reqwest::Method::OPTIONS, format!("{}/acp/rpc", world.url))
        .header("origin", "http://localhost:5173")
        .send()
        .await
        .unwrap();
    assert_eq!(
        (
            preflight.status().as_u16(),
            preflight.headers()["access-control-allow-origin"]
                .to_str()
                .unwrap()
        ),
        (204, "http://localhost:5173")
    );
    world.stop().await;
}

/// The first line and the head of a request, as a client of its own might write them.
#[tokio::test]
async fn heads_that_mean_two_things_or_too_much_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let address = world.url.trim_start_matches("http://").to_owned();
    let head = |target: &str, more: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n{more}\r\n"
        )
    };
    let whole = "content-length: 2\r\n";
    let cases = [
        (
            head("http://evil.example/acp/rpc", whole),
            "403",
            "HOST_NOT_ALLOWED",
        ),
        (
            head("/acp/rpc", &format!("host: evil.example\r\n{whole}")),
            "403",
            "HOST_NOT_ALLOWED",
        ),
        (
            head(&format!("http://{address}/acp/rpc"), whole),
            "400",
            "INVALID_ENVELOPE",
        ),
        (
            head("/acp/rpc", "content-length: 99999999999999\r\n"),
            "413",
            "BODY_TOO_LARGE",
        ),
    ];
    for (head, status, code) in cases {
        let mut socket = tokio::net::TcpStream::connect(&address).await.unwrap();
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(b"[]").await.unwrap();
        let mut answer = vec![0; 4096];
        let got = socket.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..got]).into_owned();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{head}: {answer}"
        );
        assert!(answer.contains(code), "{head}: {answer}");
    }
    world.stop().await;
}
