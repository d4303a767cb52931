//! A gateway that does what a test says.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use threadline_contract::{AppThreadKey, RunId, SessionKey};
use threadline_runtimes::{
    LaneSize, Logged, RunRef, Signal, TurnPlan, Turns as _,
    openclaw::{OpenClaw, OpenClawConfig},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

/// What the script does with a request.
pub(crate) enum Do {
    /// Answers well.
    Ok(Value),
    /// Answers with an error.
    No(Value),
    /// Sends these frames, in which `$id` is the request's.
    Frames(Vec<Value>),
    /// Sends these frames and drops the connection.
    LastFrames(Vec<Value>),
    /// Says nothing.
    Nothing,
    /// Drops the connection.
    Drop,
    /// Hangs: hears and says nothing more, and the connection stays.
    Hang,
}

type Script = Box<dyn FnMut(&str, &Value, &mut Gateway) -> Do + Send>;

/// What the script remembers, and what it was asked.
pub(crate) struct Gateway {
    pub(crate) boot: String,
    pub(crate) tick_ms: u64,
    pub(crate) uptime_ms: u64,
    pub(crate) device_token: Option<String>,
    /// `Origin` headers of the connections.
    pub(crate) origins: Vec<Option<String>>,
    /// `connect` of each connection, and when it came.
    pub(crate) connects: Vec<(Instant, Value)>,
    /// Everything else.
    pub(crate) requests: Vec<(String, Value)>,
    pub(crate) counters: HashMap<String, u32>,
    /// Answers requests for files by HTTP, of which it gets the head.
    pub(crate) http: Option<fn(&str) -> Vec<u8>>,
    /// What was asked for by HTTP.
    pub(crate) heads: Vec<String>,
}

impl Gateway {
    /// How often this was asked, this time included.
    pub(crate) fn times(&mut self, method: &str) -> u32 {
        let n = self.counters.entry(method.to_owned()).or_default();
        *n += 1;
        *n
    }
    pub(crate) fn asked(&self, method: &str) -> Vec<Value> {
        let of = self.requests.iter().filter(|(m, _)| m == method);
        of.map(|(_, params)| params.clone()).collect()
    }
}

/// A scripted gateway on a port of its own.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) url: String,
    pub(crate) state: Arc<Mutex<Gateway>>,
    script: Arc<Mutex<Script>>,
}

impl Scripted {
    pub(crate) async fn start(
        script: impl FnMut(&str, &Value, &mut Gateway) -> Do + Send + 'static,
    ) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scripted = Self {
            url: format!("ws://{}", listener.local_addr().unwrap()),
            state: Arc::new(Mutex::new(Gateway {
                boot: "boot-1".into(),
                tick_ms: 30_000,
                uptime_ms: 3_600_000,
                device_token: None,
                origins: vec![],
                connects: vec![],
                requests: vec![],
                counters: HashMap::new(),
                http: None,
                heads: vec![],
            })),
            script: Arc::new(Mutex::new(Box::new(script))),
        };
        let serving = scripted.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        scripted
    }

    async fn hand_over(self, mut stream: TcpStream) {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let http = self.look(|g| {
            g.heads.push(head.clone());
            g.http
        });
        let answer = http.map_or(vec![], |http| http(&head));
        // Whoever has read enough may be gone.
        let _ = stream.write_all(&answer).await;
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Gateway) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    pub(crate) fn runtime(&self, folder: &std::path::Path, token: Option<&str>) -> OpenClaw {
        OpenClaw::new(self.config(folder, token)).unwrap()
    }

    pub(crate) fn config(&self, folder: &std::path::Path, token: Option<&str>) -> OpenClawConfig {
        OpenClawConfig {
            url: self.url.clone(),
            token: token.map(str::to_owned),
            ca: None,
            admin: false,
            agent: None,
            folder: folder.to_owned(),
            lane: LaneSize {
                max_active: 5,
                max_queued: 20,
            },
            version: "0.0.1".into(),
        }
    }

    async fn serve(self, stream: TcpStream) {
        if is_download(&stream).await {
            return self.hand_over(stream).await;
        }
        let state = Arc::clone(&self.state);
        #[expect(clippy::result_large_err, reason = "the library's own signature")]
        let headers =
            move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
                let origin = request.headers().get("origin");
                let origin = origin.map(|o| o.to_str().unwrap().to_owned());
                state.lock().unwrap().origins.push(origin);
                Ok(response)
            };
        let mut socket = accept_hdr_async(stream, headers).await.unwrap();
        let challenge = json!({"type": "event", "event": "connect.challenge",
            "payload": {"nonce": "nonce-1", "ts": 1_700_000_000_000_i64}});
        say(&mut socket, &challenge).await;
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else {
                continue;
            };
            let request: Value = serde_json::from_str(&text).unwrap();
            let (id, method) = (request["id"].clone(), request["method"].as_str().unwrap());
            let done = {
                let mut state = self.state.lock().unwrap();
                let params = request["params"].clone();
                match method {
                    "connect" => state.connects.push((Instant::now(), params.clone())),
                    _ => state.requests.push((method.to_owned(), params.clone())),
                }
                let mut script = self.script.lock().unwrap();
                script(method, &params, &mut state)
            };
            let drops = matches!(done, Do::LastFrames(_));
            let frames = match done {
                Do::Ok(payload) => {
                    vec![json!({"type": "res", "id": id, "ok": true, "payload": payload})]
                }
                Do::No(error) => {
                    vec![json!({"type": "res", "id": id, "ok": false, "error": error})]
                }
                Do::Frames(frames) | Do::LastFrames(frames) => frames,
                Do::Nothing => vec![],
                Do::Drop => return,
                Do::Hang => return std::future::pending().await,
            };
            for frame in frames {
                let text = frame.to_string().replace("\"$id\"", &id.to_string());
                if socket.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
            if drops {
                return;
            }
            if method == "connect" {
                if self.look(|g| g.counters.contains_key("refuse")) {
                    let _ = socket.close(None).await;
                    return;
                }
                // Frames that a client must bear.
                let _ = socket.send(Message::text("not json")).await;
                let unknown =
                    json!({"type": "event", "event": "unheard.of", "payload": [1], "seq": 1});
                say(&mut socket, &unknown).await;
            }
        }
    }
}

async fn is_download(stream: &TcpStream) -> bool {
    let mut begin = [0; 12];
    loop {
        match stream.peek(&mut begin).await {
            Ok(12) => return begin.starts_with(b"GET /plugins"),
            Ok(1..) => tokio::time::sleep(Duration::from_millis(1)).await,
            _ => return false,
        }
    }
}

async fn say(socket: &mut WebSocketStream<TcpStream>, frame: &Value) {
    let _ = socket.send(Message::text(frame.to_string())).await;
}

pub(crate) const METHODS: [&str; 6] = [
    "xworkmate.session.prepare",
    "xworkmate.artifacts.collect-and-snapshot",
    "xworkmate.artifacts.list",
    "xworkmate.artifacts.read",
    "tasks.list",
    "chat.message.get",
];

/// The greeting.
pub(crate) fn hello(gateway: &Gateway) -> Value {
    let mut auth = json!({"method": "token", "role": "operator", "scopes": ["operator.read", "operator.write"]});
    if let Some(token) = &gateway.device_token {
        auth["deviceToken"] = json!(token);
    }
    json!({
        "type": "hello-ok", "protocol": 4,
        "server": {"version": "2026.9.6", "bootId": gateway.boot, "connId": "c"},
        "features": {"methods": METHODS, "events": []},
        "snapshot": {"uptimeMs": gateway.uptime_ms},
        "auth": auth,
        "policy": {"maxPayload": 26_214_400, "tickIntervalMs": gateway.tick_ms},
    })
}

/// Of our own plugin alone.
pub(crate) const GATHER: &str = "xworkmate.artifacts.gather";

/// The greeting of a gateway with our own plugin.
pub(crate) fn hello_of_ours(gateway: &Gateway) -> Value {
    let mut hello = hello(gateway);
    let methods = hello["features"]["methods"].as_array_mut().unwrap();
    methods.extend([json!(GATHER), json!("sessions.files.list")]);
    hello
}

pub(crate) fn session() -> SessionKey {
    SessionKey::new("agent:main:draft:1").unwrap()
}

pub(crate) fn plan(run: &str, prompt: &str) -> TurnPlan {
    TurnPlan {
        owner: AppThreadKey::new("draft:1").unwrap().into(),
        session: session(),
        run: RunId::new(run).unwrap(),
        prompt: prompt.into(),
        instructions: None,
        tools: vec![],
        continues: false,
        working_directory: None,
        expected_dirs: vec![],
        deliverables: vec![],
        attachments: vec![],
    }
}

pub(crate) fn run_ref(run: &str) -> RunRef {
    plan(run, "").run_ref()
}

/// The plugin's answer to `prepare`.
pub(crate) fn prepared(run: &str) -> Value {
    json!({
        "runId": run, "sessionKey": session(), "openclawSessionKey": session(),
        "artifactScope": format!("tasks/agent-main-draft-1/{run}"),
        "artifactDirectory": format!("/w/tasks/agent-main-draft-1/{run}"),
    })
}

/// Follows a run to its end.
pub(crate) async fn end(runtime: &OpenClaw, run: &str) -> Vec<Signal> {
    let mut signals = runtime
        .follow(&run_ref(run), Logged::up_to(0))
        .await
        .unwrap();
    let mut all = vec![];
    let hear = async {
        while let Some(signal) = signals.recv().await {
            all.push(signal);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), hear)
        .await
        .unwrap();
    all
}

/// Waits until something is so.
pub(crate) async fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(15), "it never was so");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
