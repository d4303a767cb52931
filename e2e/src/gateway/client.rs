//! A gateway asked directly, with nothing of ours in between: to know what it says itself, and how long
//! that takes.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

/// How long the gateway may take to answer; a dead model alone takes a minute and a half.
const SILENCE: Duration = Duration::from_secs(200);

/// One connection, one request after the other.
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    sent: u64,
}

impl Client {
    /// Connects with the gateway's token, to read and write.
    pub async fn connect(url: &str, token: &str) -> Self {
        Self::with_scopes(url, token, &["operator.read", "operator.write"]).await
    }

    /// Connects as somebody who may do everything.
    pub async fn connect_as_admin(url: &str, token: &str) -> Self {
        let all = [
            "operator.read",
            "operator.write",
            "operator.admin",
            "operator.pairing",
        ];
        Self::with_scopes(url, token, &all).await
    }

    async fn with_scopes(url: &str, token: &str, scopes: &[&str]) -> Self {
        let (socket, _) = connect_async(url).await.expect("the gateway listens");
        let mut client = Self { socket, sent: 0 };
        let params = json!({
            "minProtocol": 4, "maxProtocol": 4, "role": "operator",
            "scopes": scopes, "caps": [], "auth": {"token": token},
            "client": {"id": "gateway-client", "version": "0", "platform": "linux", "mode": "backend"},
        });
        client.call("connect", params).await;
        client
    }

    /// The payload of the answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        self.answer(method).await
    }

    /// Runs a turn and gives its end: `agent` answers first that it is accepted, and again at the end.
    pub async fn turn(&mut self, session: &str, run: &str, message: &str) -> Value {
        let params = json!({
            "sessionKey": session, "message": message, "idempotencyKey": run, "deliver": false,
        });
        self.send("agent", params).await;
        loop {
            let answer = self.answer("agent").await;
            if answer["status"] != json!("accepted") {
                return answer;
            }
        }
    }

    async fn send(&mut self, method: &str, params: Value) {
        self.sent += 1;
        let id = self.sent.to_string();
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        let sent = self.socket.send(Message::text(frame.to_string())).await;
        sent.expect("the gateway reads");
    }

    async fn answer(&mut self, method: &str) -> Value {
        let id = json!(self.sent.to_string());
        loop {
            let message = tokio::time::timeout(SILENCE, self.socket.next()).await;
            let message = message.unwrap_or_else(|_| panic!("{method} was not answered"));
            let Some(Ok(message)) = message else {
                panic!("the gateway closed the connection in {method}: {message:?}");
            };
            let Message::Text(text) = message else {
                continue;
            };
            let mut frame: Value = serde_json::from_str(&text).expect("a frame in JSON");
            if frame["id"] == id {
                assert_eq!(frame["ok"], json!(true), "{method}: {frame:#}");
                return frame["payload"].take();
            }
        }
    }
}
