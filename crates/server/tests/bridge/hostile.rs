//! Clients that mean harm, over HTTP and WebSocket: each loses its own connection, and everybody else is
//! answered as before. What an honest client hears meanwhile is asked after every attack.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::{
    MaybeTlsStream,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};

use crate::{
    support::{Options, TOKEN, World},
    ws::{Socket, impatient},
};

/// An honest client is answered, and soon.
async fn still_answers(world: &World) {
    let begun = Instant::now();
    let answer = world.rpc("acp.capabilities", json!({})).await;
    assert_eq!(answer["result"]["singleAgent"], json!(true));
    let mut socket = Socket::open(world, TOKEN).await;
    socket.ask(1, "acp.capabilities", json!({})).await;
    assert_eq!(socket.until(1).await.len(), 1);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

async fn connect(world: &World) -> TcpStream {
    TcpStream::connect(world.url.strip_prefix("http://").unwrap())
        .await
        .unwrap()
}

/// Everything until the server closes.
async fn rest(socket: &mut TcpStream) -> String {
    let mut all = vec![];
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut all));
    let _ = read.await.expect("the server closes it");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn heads_that_never_end() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(folder.path(), impatient()).await;
    let mut slow = vec![];
    for n in 0..100 {
        let mut socket = connect(&world).await;
        let path = if n % 2 == 0 { "acp/rpc" } else { "acp" };
        let head = format!("POST /{path} HTTP/1.1\r\nhost: localhost\r\nx-a: ");
        socket.write_all(head.as_bytes()).await.unwrap();
        slow.push(socket);
    }
    still_answers(&world).await;
    // A byte now and then does not help.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        for socket in &mut slow {
            let _ = socket.write_all(b"a").await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for socket in &mut slow {
        rest(socket).await;
    }
    // One that is simply too large.
    let mut socket = connect(&world).await;
    let head = format!(
        "POST /acp/rpc HTTP/1.1\r\nhost: localhost\r\nx-a: {}",
        "a".repeat(64 << 10)
    );
    let _ = socket.write_all(head.as_bytes()).await;
    let answer = rest(&mut socket).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    still_answers(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn floods_of_nonsense_and_wrong_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    for n in 0..200_u32 {
        let mut socket = connect(&world).await;
        let _ = socket.write_all(&n.to_be_bytes().repeat(64)).await;
    }
    let (http, url) = (world.http.clone(), format!("{}/acp/rpc", world.url));
    let wrong = (0..400).map(|n| {
        let request = http.post(&url).bearer_auth(format!("wrong-{n}")).body("{}");
        async move { request.send().await.unwrap().status().as_u16() }
    });
    let answers = futures_util::future::join_all(wrong).await;
    assert_eq!(answers, vec![401; 400]);
    for n in 0..50 {
        let bearer = format!("Bearer wrong-{n}");
        assert_eq!(
            Socket::with(&world, &[("authorization", &bearer)])
                .await
                .err(),
            Some((401, json!("UNAUTHORIZED")))
        );
    }
    let bearer = format!("Bearer {TOKEN}");
    for (name, value, code) in [
        ("origin", "https://evil.example", "ORIGIN_NOT_ALLOWED"),
        ("origin", "null", "ORIGIN_NOT_ALLOWED"),
        (
            "origin",
            "http://127.0.0.1.evil.example",
            "ORIGIN_NOT_ALLOWED",
        ),
        ("host", "evil.example", "HOST_NOT_ALLOWED"),
        ("host", "127.0.0.1.evil.example:8787", "HOST_NOT_ALLOWED"),
    ] {
        let headers = [("authorization", bearer.as_str()), (name, value)];
        assert_eq!(
            Socket::with(&world, &headers).await.err(),
            Some((403, json!(code))),
            "{value}"
        );
        let answer = http
            .post(&url)
            .bearer_auth(TOKEN)
            .header(name, value)
            .body("{}");
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 403, "{value}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["error"]["data"]["code"], json!(code));
        assert!(!body.to_string().contains(TOKEN));
    }
    still_answers(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn sockets_that_flood_or_break_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(folder.path(), impatient()).await;
    let raw = async |bytes: &[u8]| {
        let mut socket = Socket::open(&world, TOKEN).await;
        let MaybeTlsStream::Plain(tcp) = socket.0.get_mut() else {
            panic!("not plain")
        };
        tcp.write_all(bytes).await.unwrap();
        loop {
            if let Err(why) = socket.hear().await {
                return why;
            }
        }
    };
    // Not masked; a reserved opcode; a control frame that is too long; text that is not UTF-8.
    assert_eq!(
        raw(&[0x81, 0x02, b'{', b'}']).await,
        Some(CloseCode::Protocol)
    );
    assert_eq!(
        raw(&[0x83, 0x80, 0, 0, 0, 0]).await,
        Some(CloseCode::Protocol)
    );
    let long = [&[0x89, 0xfe, 0x01, 0x00][..], &[0; 4 + 256]].concat();
    assert_eq!(raw(&long).await, Some(CloseCode::Protocol));
    assert_eq!(
        raw(&[0x81, 0x81, 0, 0, 0, 0, 0xff]).await,
        Some(CloseCode::Invalid)
    );

    // Pieces of a message that never ends, kept alive with pongs.
    let mut endless = Socket::open(&world, TOKEN).await;
    let MaybeTlsStream::Plain(tcp) = endless.0.get_mut() else {
        panic!("not plain")
    };
    tcp.write_all(&[0x01, 0x81, 0, 0, 0, 0, b'{'])
        .await
        .unwrap();
    let mut sent = 0;
    while sent < 100
        && tcp
            .write_all(&[0x8a, 0x80, 0, 0, 0, 0, 0x00, 0x81, 0, 0, 0, 0, b' '])
            .await
            .is_ok()
    {
        sent += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(sent < 100, "it was let go on");

    // Far more at once than one connection may have open: the rest is refused, with its id.
    let mut flood = Socket::open(&world, TOKEN).await;
    flood
        .ask(
            "slow",
            "session.start",
            crate::support::turn("draft:1", "[[sleep 3000]] [[say x]]"),
        )
        .await;
    for n in 0..2000 {
        flood.ask(n, "acp.capabilities", json!({})).await;
        if n % 16 == 0 {
            flood.say("nonsense").await;
        }
    }
    let (mut answered, mut nonsense) = (0, 0);
    while answered < 2000 {
        let message = flood.hear().await.unwrap();
        match (&message["id"], &message["error"]["data"]["code"]) {
            (Value::Number(_), Value::Null) => answered += 1,
            (Value::Number(_), code) => {
                assert_eq!(code, &json!("RATE_LIMITED"));
                answered += 1;
            }
            (Value::Null, code) if code.is_string() => nonsense += 1,
            _ => {}
        }
    }
    assert_eq!(nonsense, 125);
    // One that sends and never reads.
    let mut deaf = Socket::open(&world, TOKEN).await;
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "acp.capabilities"}).to_string();
    let begun = Instant::now();
    let flooding = async {
        use futures_util::SinkExt as _;
        while deaf.0.send(Message::text(request.clone())).await.is_ok() {}
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), flooding).await;
    assert!(ended.is_ok(), "it may go on for ever");
    assert!(begun.elapsed() < Duration::from_secs(20));
    still_answers(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn one_token_may_ask_only_so_often() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        rate_per_second: 5,
        ..Options::default()
    };
    let world = World::with(folder.path(), options).await;
    let ask = async |token: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "acp.capabilities"});
        let request = world.http.post(format!("{}/acp/rpc", world.url));
        request.bearer_auth(token).json(&body).send().await.unwrap()
    };
    let mut refused = None;
    for _ in 0..40 {
        let answer = ask(TOKEN).await;
        if answer.status() != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a limit");
    assert_eq!(
        (
            refused.status().as_u16(),
            refused.headers()["retry-after"].to_str().unwrap()
        ),
        (429, "1")
    );
    let error = refused.json::<Value>().await.unwrap()["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]),
        (
            &json!(-32005),
            &json!({"code": "RATE_LIMITED", "retryAfter": 1})
        )
    );
    // Another token is another's; and a second later there is room again.
    assert_eq!(ask(crate::support::OTHER).await.status(), 200);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let mut socket = Socket::open(&world, TOKEN).await;
    for n in 0..40 {
        socket.ask(n, "acp.capabilities", json!({})).await;
    }
    let mut limited = 0;
    for _ in 0..40 {
        let answer = socket.hear().await.unwrap();
        limited += i32::from(answer["error"]["data"]["code"] == json!("RATE_LIMITED"));
    }
    assert!((20..40).contains(&limited), "{limited}");
    world.stop().await;
}

#[tokio::test]
async fn metrics_are_served_on_a_socket_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let metrics = world.serve_metrics().await;
    world.rpc("acp.capabilities", json!({})).await;
    world.http.get(&world.url).send().await.unwrap();
    let mut socket = Socket::open(&world, TOKEN).await;
    socket.ask(1, "acp.capabilities", json!({})).await;
    socket.until(1).await;
    let text = world
        .http
        .get(format!("{metrics}/metrics"))
        .send()
        .await
        .unwrap();
    assert_eq!(text.headers()["content-type"], "text/plain; version=0.0.4");
    let text = text.text().await.unwrap();
    for line in [
        "threadline_http_answers_total{status=\"1xx\"} 1",
        "threadline_http_answers_total{status=\"2xx\"} 1",
        "threadline_http_answers_total{status=\"4xx\"} 1",
        "threadline_websockets_open 1",
        "threadline_websocket_messages_total 1",
        "threadline_runs_active{runtime=\"builtin\"} 0",
        "threadline_runs_queued{runtime=\"builtin\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    // There is nothing else, and the door itself has none of it.
    let other = world
        .http
        .get(format!("{metrics}/acp/rpc"))
        .send()
        .await
        .unwrap();
    assert_eq!(other.status(), 404);
    let door = world
        .http
        .get(format!("{}/metrics", world.url))
        .send()
        .await
        .unwrap();
    assert_eq!(door.status(), 401);
    world.stop().await;
}
