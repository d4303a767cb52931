//! Whom servers believe, and for how long they wait for one.

use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use threadline_contract::{Principal, Scopes, TokenId, Who};
use threadline_engine::{Handed, Node};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// What a stranger at a server's address was sent, first lines and bodies.
type Sent = Arc<Mutex<Vec<String>>>;

/// Listens where a server is taken to be, and answers with this, or never.
async fn stranger(answer: Option<&'static str>) -> (String, Sent) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sent = Sent::default();
    let noted = sent.clone();
    tokio::spawn(async move {
        let mut open = vec![];
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 1 << 16];
            let read = socket.read(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let first = text.lines().next().unwrap_or_default().to_owned();
            noted.lock().unwrap().push(first);
            match answer {
                Some(answer) => {
                    let _ = socket.write_all(answer.as_bytes()).await;
                }
                None => open.push(socket),
            }
        }
    });
    (url, sent)
}

async fn with_a_stranger(answer: Option<&'static str>) -> (World, Value, String, Sent, String) {
    let Nodes {
        a,
        b,
        folders: _folders,
        database,
    } = Nodes::new().await;
    let (_, result) = a.run(&turn("draft:1", FIRST)).await;
    a.stop().await;
    let (url, sent) = stranger(answer).await;
    postgres::run_on(
        &database,
        &format!("update nodes set url = '{url}' where node = 'a'"),
    );
    (b, result, url, sent, database)
}

const BELIEVE_ME: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nthreadline-node: a\r\ncontent-length: 70\r\nconnection: close\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"status\":\"completed\",\"text\":\"forged\"}}";

#[tokio::test]
async fn a_stranger_at_a_servers_address_is_sent_no_request_and_not_believed() {
    let (b, result, url, sent, _) = with_a_stranger(Some(BELIEVE_ME)).await;
    let refused = b.rpc("session.message", turn("draft:1", FOLLOW_UP)).await;
    assert_eq!(
        refused["error"],
        json!({
            "code": -32002,
            "message": format!("Thread `draft:1` is on the server a at {url}, which cannot be reached from this one. Start it again, or check its `server.advertise`."),
            "data": {"code": "SESSION_CONTINUATION_UNAVAILABLE", "node": "a", "nodeUrl": url},
        })
    );
    let told = b.ended("draft:1").await;
    assert_eq!(
        (&told["runId"], &told["text"]),
        (&result["runId"], &result["text"])
    );
    let link = told["artifacts"]["items"][0]["url"].as_str().unwrap();
    let file = b.http.get(format!("{}{link}", b.url)).bearer_auth(TOKEN);
    assert_eq!(file.send().await.unwrap().status(), 503);
    let asked = sent.lock().unwrap().clone();
    assert_eq!(asked, ["GET /acp/node HTTP/1.1"; 3]);
    b.stop().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_waited_for_once() {
    let (b, result, _, sent, database) = with_a_stranger(None).await;
    for _ in 0..5 {
        let told = b.ended("draft:1").await;
        assert_eq!(
            (&told["runId"], &told["text"]),
            (&result["runId"], &result["text"])
        );
    }
    assert_eq!(sent.lock().unwrap().len(), 1);
    // Where only its own word will do, it is waited for longer, and once too.
    for _ in 0..3 {
        let code = b.code("session.message", turn("draft:1", FOLLOW_UP)).await;
        assert_eq!(code, json!("SESSION_CONTINUATION_UNAVAILABLE"));
    }
    assert_eq!(sent.lock().unwrap().len(), 2);
    // It has noted that it is there: it is asked again.
    postgres::run_on(
        &database,
        "update nodes set seen_at = seen_at + 1 where node = 'a'",
    );
    b.code("session.message", turn("draft:1", FOLLOW_UP)).await;
    assert_eq!(sent.lock().unwrap().len(), 3);
    b.stop().await;
}

#[tokio::test]
async fn a_pass_is_good_for_one_request_to_one_server() {
    let nodes = Nodes::new().await;
    let (a, b) = (&nodes.a, &nodes.b);
    let tokens = b.engine.store().tokens(&AccountId::local()).await.unwrap();
    let caller = Principal {
        account: AccountId::local(),
        who: Who::Token(tokens[0].id.clone()),
        label: String::new(),
        scopes: Scopes::FULL,
    };
    let revoked = Principal {
        who: Who::Token(TokenId::new("tok-of-nobody").unwrap()),
        ..caller.clone()
    };
    let to = |name: &str| Node {
        name: name.into(),
        url: None,
        seen_at: None,
    };
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "acp.capabilities"}).to_string();
    let other_body = body.replace("1,", "2,");
    let fits = Handed::new("POST", "/acp/rpc", body.as_bytes());
    let pass = |to: Node, caller: Option<&Principal>, handed: Handed<'_>| {
        b.engine.pass_to(&to, caller, handed).unwrap().text
    };
    let sealed = [
        pass(to("a"), Some(&caller), fits),
        pass(to("b"), Some(&caller), fits),
        pass(to("a"), Some(&revoked), fits),
        pass(to("a"), None, fits),
        pass(
            to("a"),
            Some(&caller),
            Handed::new("POST", "/acp/rpc?x", body.as_bytes()),
        ),
        pass(
            to("a"),
            Some(&caller),
            Handed::new("GET", "/acp/rpc", body.as_bytes()),
        ),
        pass(
            to("a"),
            Some(&caller),
            Handed::new("POST", "/acp/rpc", other_body.as_bytes()),
        ),
        String::new(),
        "k.9999999999.7b7d.00".to_owned(),
    ];
    let mut let_in = vec![];
    for pass in sealed {
        let asked = a
            .http
            .post(format!("{}/acp/rpc", a.url))
            .header("authorization", format!("Threadline-Node {pass}"))
            .body(body.clone());
        let_in.push(asked.send().await.unwrap().status().as_u16());
    }
    assert_eq!(let_in, [200, 401, 401, 401, 401, 401, 401, 401, 401]);
    nodes.stop().await;
}
