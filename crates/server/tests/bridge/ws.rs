//! The same methods over a WebSocket.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{AccountId, Millis, RunId, SessionUpdate, UpdateKind};
use threadline_server::Limits;
use threadline_store::{NewEvent, StreamId};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        self, Message, client::IntoClientRequest as _, protocol::frame::coding::CloseCode,
    },
};

use crate::support::{OTHER, Options, TOKEN, World, turn, with};

/// A client.
pub(crate) struct Socket(pub(crate) WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub(crate) async fn open(world: &World, token: &str) -> Self {
        let bearer = format!("Bearer {token}");
        Self::with(world, &[("authorization", &bearer)])
            .await
            .unwrap()
    }

    /// The status and the code with which the server refuses, or a socket.
    pub(crate) async fn with(
        world: &World,
        headers: &[(&str, &str)],
    ) -> Result<Self, (u16, Value)> {
        let url = format!("{}/acp", world.url.replace("http://", "ws://"));
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name: tungstenite::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        match connect_async(request).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::Error::Http(answer)) => {
                let body = answer.body().as_deref().unwrap_or_default();
                let body: Value = serde_json::from_slice(body).unwrap_or_default();
                Err((
                    answer.status().as_u16(),
                    body["error"]["data"]["code"].clone(),
                ))
            }
            Err(other) => panic!("{other}"),
        }
    }

    pub(crate) async fn say(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        self.say(
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        )
        .await;
    }

    /// The next message; a close frame as its code.
    pub(crate) async fn hear(&mut self) -> Result<Value, Option<CloseCode>> {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.0.next());
            match next.await.unwrap() {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|f| f.code)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// Everything up to the answer to this request, which is the last.
    pub(crate) async fn until(&mut self, id: impl Into<Value>) -> Vec<Value> {
        let (id, mut heard) = (id.into(), vec![]);
        loop {
            heard.push(self.hear().await.unwrap());
            if heard.last().unwrap()["id"] == id {
                return heard;
            }
        }
    }
}

#[tokio::test]
async fn a_turn_is_pushed_and_ends_with_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut socket = Socket::open(&world, TOKEN).await;
    socket
        .ask(
            "a",
            "session.start",
            turn("draft:1", "[[write a.txt = hello]] [[say done]]"),
        )
        .await;
    let mut heard = socket.until("a").await;
    let result = heard.pop().unwrap()["result"].clone();
    assert_eq!(
        (&result["status"], &result["artifacts"]["items"][0]["path"]),
        (&json!("completed"), &json!("a.txt"))
    );
    let accepted = heard.remove(0);
    assert_eq!(
        (
            &accepted["method"],
            &accepted["params"]["runId"],
            &accepted["params"]["path"]
        ),
        (
            &json!("xworkmate.bridge.accepted"),
            &result["runId"],
            &json!("/acp")
        )
    );
    // The very updates of the log, each with its number.
    let log = world
        .http
        .get(format!("{}/acp/events?threadId=draft:1", world.url))
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    let log: Value = log.json().await.unwrap();
    let logged: Vec<Value> = log["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let params = with(e["update"].clone(), json!({"eventId": e["id"]}));
            json!({"jsonrpc": "2.0", "method": "session.update", "params": params})
        })
        .collect();
    assert_eq!(heard, logged);

    // The same request on another connection: the rest, and the same result with fresh links.
    let again = with(
        turn("draft:2", "[[say one two three]]"),
        json!({"requestId": "r-1"}),
    );
    socket.ask(1, "session.start", again.clone()).await;
    let first = socket.until(1).await;
    drop(socket);
    let mut socket = Socket::open(&world, TOKEN).await;
    socket
        .ask(
            2,
            "session.start",
            with(again.clone(), json!({"lastEventId": 2})),
        )
        .await;
    let rest = socket.until(2).await;
    let numbers = |heard: &[Value]| -> Vec<i64> {
        heard
            .iter()
            .filter_map(|m| m["params"]["eventId"].as_i64())
            .collect()
    };
    assert_eq!(numbers(&rest), numbers(&first)[2..]);
    assert_eq!(
        rest.last().unwrap()["result"]["runId"],
        first.last().unwrap()["result"]["runId"]
    );
    // Over HTTP it is the same request too.
    let handle = world.rpc("session.start", again.clone()).await;
    assert_eq!(
        handle["result"]["runId"],
        rest.last().unwrap()["result"]["runId"]
    );
    socket
        .ask(3, "session.start", with(again, json!({"lastEventId": -1})))
        .await;
    assert_eq!(
        socket.hear().await.unwrap()["error"]["data"]["code"],
        json!("INVALID_REQUEST")
    );
    world.stop().await;
}

#[tokio::test]
async fn many_requests_share_a_connection_and_codes_are_those_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut socket = Socket::open(&world, TOKEN).await;
    let slow = turn("draft:slow", "[[sleep 600000]] [[say late]]");
    socket.ask(0, "session.start", slow).await;
    for n in 1..=50 {
        socket.ask(n, "acp.capabilities", json!({})).await;
    }
    let mut answered = vec![];
    while answered.len() < 50 {
        let message = socket.hear().await.unwrap();
        if let Some(n) = message["id"].as_i64() {
            assert_eq!(message["result"]["singleAgent"], json!(true));
            answered.push(n);
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, (1..=50).collect::<Vec<_>>());

    // Envelopes and codes as over HTTP.
    let mut answer = async |text: &str| {
        socket.say(text).await;
        loop {
            let message = socket.hear().await.unwrap();
            if message.get("method").is_none() {
                return message;
            }
        }
    };
    for (text, id, rpc, code) in [
        ("notjson", Value::Null, -32700, "INVALID_JSON"),
        ("[]", Value::Null, -32600, "INVALID_ENVELOPE"),
        (
            r#"{"id":"x","method":"health"}"#,
            json!("x"),
            -32600,
            "INVALID_ENVELOPE",
        ),
        (
            r#"{"jsonrpc":"2.0","id":0,"method":"no.such"}"#,
            json!(0),
            -32601,
            "METHOD_NOT_FOUND",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"session.start","params":{"sessionId":"draft:9","prompt":"x"}}"#,
            json!(1),
            -32602,
            "ROUTING_REQUIRED",
        ),
        (
            r#"{"jsonrpc":"2.0","id":2,"method":"xworkmate.tasks.get","params":{"appThreadKey":"draft:none"}}"#,
            json!(2),
            -32004,
            "mapping_not_found",
        ),
    ] {
        let answer = answer(text).await;
        assert_eq!(
            (
                &answer["id"],
                &answer["error"]["code"],
                &answer["error"]["data"]["code"]
            ),
            (&id, &json!(rpc), &json!(code)),
            "{text}"
        );
    }
    // Without an id there is no answer: the next one is that of the next request.
    socket
        .say(r#"{"jsonrpc":"2.0","method":"acp.capabilities"}"#)
        .await;
    socket.say(r#"{"jsonrpc":"2.0","method":"no.such"}"#).await;
    socket.ask("next", "acp.capabilities", json!({})).await;
    let heard = socket.until("next").await;
    let answers = heard.iter().filter(|m| m.get("method").is_none());
    assert_eq!(answers.count(), 1);

    // Another account does not see the run.
    let mut other = Socket::open(&world, OTHER).await;
    other
        .ask(
            1,
            "xworkmate.tasks.get",
            json!({"appThreadKey": "draft:slow"}),
        )
        .await;
    assert_eq!(
        other.hear().await.unwrap()["error"]["data"]["code"],
        json!("mapping_not_found")
    );

    // The client leaves; the run goes on and can be cancelled from elsewhere.
    drop(socket);
    let running = world
        .rpc("xworkmate.tasks.get", json!({"appThreadKey": "draft:slow"}))
        .await;
    assert_eq!(running["result"]["status"], json!("running"));
    world.cancel("draft:slow").await;
    assert_eq!(
        world.ended("draft:slow").await["status"],
        json!("cancelled")
    );
    world.stop().await;
}

#[tokio::test]
async fn the_gate_is_that_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let port = world.url.rsplit(':').next().unwrap().to_owned();
    let bearer = format!("Bearer {TOKEN}");
    let cookie = format!("threadline_{port}={TOKEN}");
    let evil = format!("evil.example:{port}");
    let refused = async |headers: &[(&str, &str)]| Socket::with(&world, headers).await.err();
    assert_eq!(refused(&[]).await, Some((401, json!("UNAUTHORIZED"))));
    assert_eq!(
        refused(&[("authorization", "Bearer wrong")]).await,
        Some((401, json!("UNAUTHORIZED")))
    );
    assert_eq!(
        refused(&[
            ("authorization", &bearer),
            ("origin", "https://evil.example")
        ])
        .await,
        Some((403, json!("ORIGIN_NOT_ALLOWED")))
    );
    assert_eq!(
        refused(&[("authorization", &bearer), ("host", &evil)]).await,
        Some((403, json!("HOST_NOT_ALLOWED")))
    );
    // A page that an agent serves on another port has the cookie, and may not use it.
    for origin in ["http://localhost:5173", "http://127.0.0.1:1"] {
        assert!(
            refused(&[("cookie", &cookie), ("origin", origin)])
                .await
                .is_some()
        );
    }
    assert_eq!(
        refused(&[("cookie", &cookie)]).await,
        Some((401, json!("UNAUTHORIZED")))
    );
    assert_eq!(
        refused(&[("cookie", &cookie), ("origin", &world.url)]).await,
        None
    );
    assert_eq!(
        refused(&[
            ("authorization", &bearer),
            ("origin", "http://localhost:5173")
        ])
        .await,
        None
    );

    // Not a WebSocket.
    for request in [
        world.http.get(format!("{}/acp", world.url)),
        world.http.post(format!("{}/acp", world.url)).body("{}"),
        world
            .http
            .get(format!("{}/acp", world.url))
            .header("upgrade", "websocket")
            .header("connection", "upgrade")
            .header("sec-websocket-version", "8")
            .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ] {
        let answer = request.bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(answer.status(), 426);
        assert_eq!(answer.headers()["upgrade"], "websocket");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["error"]["data"]["code"], json!("UPGRADE_REQUIRED"));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_revoked_token_ends_its_connections() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut socket = Socket::open(&world, OTHER).await;
    socket.ask(1, "acp.capabilities", json!({})).await;
    assert_eq!(socket.until(1).await.len(), 1);
    let other = AccountId::new("other").unwrap();
    let store = world.engine.store();
    let token = store.tokens(&other).await.unwrap().remove(0);
    store
        .revoke_token(&other, &token.id, Millis::now())
        .await
        .unwrap();
    // It is known for five seconds more.
    tokio::time::sleep(Duration::from_millis(5100)).await;
    socket.ask(2, "acp.capabilities", json!({})).await;
    assert_eq!(
        socket.hear().await.unwrap()["error"]["data"]["code"],
        json!("UNAUTHORIZED")
    );
    assert_eq!(socket.hear().await, Err(Some(CloseCode::Policy)));
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_request_or_too_large_ends_it_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut socket = Socket::open(&world, TOKEN).await;
    socket.0.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(socket.hear().await, Err(Some(CloseCode::Unsupported)));

    // A head that promises more than may come is enough.
    let mut socket = Socket::open(&world, TOKEN).await;
    let mut raw = vec![0x81, 0xff];
    raw.extend(u64::to_be_bytes(1 << 40));
    raw.extend([0; 4]);
    let MaybeTlsStream::Plain(tcp) = socket.0.get_mut() else {
        panic!("not plain")
    };
    tokio::io::AsyncWriteExt::write_all(tcp, &raw)
        .await
        .unwrap();
    assert_eq!(
        socket.hear().await.unwrap()["error"]["data"]["code"],
        json!("BODY_TOO_LARGE")
    );
    assert_eq!(socket.hear().await, Err(Some(CloseCode::Size)));

    // Four megabytes are no reason, in one piece or in many.
    let mut socket = Socket::open(&world, TOKEN).await;
    let padding = "x".repeat(4 << 20);
    socket
        .ask(1, "acp.capabilities", json!({"padding": padding}))
        .await;
    assert_eq!(
        socket.until(1).await.last().unwrap()["result"]["singleAgent"],
        json!(true)
    );
    world.stop().await;
}

pub(crate) fn impatient() -> Options {
    Options {
        limits: Limits {
            head: Duration::from_millis(500),
            ping: Duration::from_millis(100),
            silence: Duration::from_millis(800),
            message: Duration::from_millis(800),
            unread: Duration::from_millis(800),
        },
        ..Options::default()
    }
}

#[tokio::test]
async fn who_answers_no_ping_or_takes_for_ever_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(folder.path(), impatient()).await;
    // A client that is there, and says nothing, stays.
    let mut idle = Socket::open(&world, TOKEN).await;
    let heard = tokio::time::timeout(Duration::from_secs(3), idle.0.next());
    assert!(matches!(heard.await, Ok(Some(Ok(Message::Ping(_))))));
    let quiet = async {
        let until = tokio::time::Instant::now() + Duration::from_secs(2);
        while let Ok(Some(message)) = tokio::time::timeout_at(until, idle.0.next()).await {
            assert!(matches!(message, Ok(Message::Ping(_))), "{message:?}");
        }
    };
    quiet.await;
    idle.ask(1, "acp.capabilities", json!({})).await;
    assert_eq!(idle.until(1).await.len(), 1);

    // One that is not read from, so that nothing answers the pings.
    let mut deaf = Socket::open(&world, TOKEN).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let MaybeTlsStream::Plain(tcp) = deaf.0.get_mut() else {
        panic!("not plain")
    };
    let mut all = vec![];
    tokio::time::timeout(
        Duration::from_secs(5),
        tokio::io::AsyncReadExt::read_to_end(tcp, &mut all),
    )
    .await
    .expect("the server closes it")
    .unwrap();

    // One that sends a byte now and then.
    let mut slow = Socket::open(&world, TOKEN).await;
    let MaybeTlsStream::Plain(tcp) = slow.0.get_mut() else {
        panic!("not plain")
    };
    let mut sent = 0;
    tokio::io::AsyncWriteExt::write_all(tcp, &[0x81, 0xfe, 0x40, 0x00, 0, 0, 0, 0])
        .await
        .unwrap();
    while sent < 100 && tokio::io::AsyncWriteExt::write_all(tcp, b"x").await.is_ok() {
        sent += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(sent < 100, "it was let go on");
    world.stop().await;
}

#[tokio::test]
async fn a_slow_reader_loses_its_connection_and_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(folder.path(), impatient()).await;
    let params = with(
        turn("draft:1", "[[sleep 2500]] [[say done]]"),
        json!({"requestId": "r-1"}),
    );
    let mut socket = Socket::open(&world, TOKEN).await;
    socket.ask(1, "session.start", params.clone()).await;
    let run = socket.hear().await.unwrap()["params"]["runId"].clone();
    // From now on it reads nothing, and far more comes than buffers hold.
    let (thread, run) = (
        "draft:1".parse().unwrap(),
        RunId::new(run.as_str().unwrap()).unwrap(),
    );
    let mut update = SessionUpdate::new(&thread, &run, UpdateKind::Task, "task.note", Millis(1));
    update.message = Some("x".repeat(60_000));
    let event = NewEvent {
        run: Some(run.clone()),
        frame: None,
        kind: "task.note".into(),
        body: serde_json::to_string(&update).unwrap().as_str().into(),
        at: Millis(1),
    };
    let stream = StreamId::of(&"local".parse().unwrap(), &thread.into());
    for _ in 0..20 {
        let events = vec![event.clone(); 16];
        world
            .engine
            .store()
            .append(&stream, None, events)
            .await
            .unwrap();
    }
    assert_eq!(world.ended("draft:1").await["status"], json!("completed"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut seen = vec![];
    let cut = loop {
        match socket.hear().await {
            Ok(message) => seen.extend(message["params"]["eventId"].as_i64()),
            Err(why) => break why,
        }
    };
    assert!(matches!(cut, None | Some(CloseCode::Again)), "{cut:?}");
    assert!(seen.len() < 320, "it heard all {}", seen.len());
    // It comes back and hears the rest, once and in order.
    let mut socket = Socket::open(&world, TOKEN).await;
    let last = seen.last().copied().unwrap_or(0);
    socket
        .ask(
            2,
            "session.start",
            with(params, json!({"lastEventId": last})),
        )
        .await;
    let rest = socket.until(2).await;
    seen.extend(rest.iter().filter_map(|m| m["params"]["eventId"].as_i64()));
    assert!(seen.len() > 320);
    assert_eq!(seen, (1..=seen.len() as i64).collect::<Vec<_>>());
    assert_eq!(rest.last().unwrap()["result"]["runId"], json!(run));
    world.stop().await;
}

#[tokio::test]
async fn a_stopping_server_says_so_and_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let params = with(
        turn("draft:1", "[[sleep 1500]] [[say after all]]"),
        json!({"requestId": "r-1"}),
    );
    let mut socket = Socket::open(&world, TOKEN).await;
    socket.ask(1, "session.start", params.clone()).await;
    assert_eq!(
        socket.hear().await.unwrap()["method"],
        json!("xworkmate.bridge.accepted")
    );
    let (heard, ()) = tokio::join!(
        async {
            loop {
                if let Err(why) = socket.hear().await {
                    return why;
                }
            }
        },
        world.stop()
    );
    assert_eq!(heard, Some(CloseCode::Away));
    let world = World::open(folder.path()).await;
    let mut socket = Socket::open(&world, TOKEN).await;
    socket.ask(2, "session.start", params).await;
    assert_eq!(
        socket.until(2).await.last().unwrap()["result"]["text"],
        json!("after all")
    );
    world.stop().await;
}
