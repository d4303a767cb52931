//! An agent driven directly over its standard input and output, with nothing of ours in between: to know
//! what an agent itself does, and how long it takes.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

/// How long an agent may be silent while builds use the machine.
const SILENCE: Duration = Duration::from_secs(60);

/// A running agent with one session. It is killed when this is dropped.
pub struct Direct {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    session: String,
    sent: u64,
}

/// What came of a turn.
#[derive(Debug, Default)]
pub struct Turn {
    /// The answer to `session/prompt`: a result or an error.
    pub answer: Value,
    /// All text of the agent.
    pub text: String,
    /// Every `session/update`.
    pub updates: Vec<Value>,
    /// Every question about a permission.
    pub asked: Vec<Value>,
}

impl Direct {
    /// Starts it and opens a session in a folder.
    pub async fn start(command: Command, folder: &Path) -> Self {
        let mut command = tokio::process::Command::from(command);
        let mut process = command
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the agent starts");
        let output = process.stdout.take().expect("its output");
        let mut this = Self {
            input: process.stdin.take().expect("its input"),
            output: BufReader::new(output).lines(),
            _process: process,
            session: String::new(),
            sent: 0,
        };
        let able =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let hello = json!({"protocolVersion": 1, "clientCapabilities": able});
        this.call("initialize", hello, "").await;
        let made = this
            .call("session/new", json!({"cwd": folder, "mcpServers": []}), "")
            .await;
        let session = made.answer.pointer("/result/sessionId");
        let session = session.and_then(Value::as_str);
        this.session = session
            .unwrap_or_else(|| panic!("no session: {made:?}"))
            .to_owned();
        this
    }

    /// One turn; permissions are answered with the first option of this kind.
    pub async fn turn(&mut self, prompt: &str, kind: &str) -> Turn {
        let prompt = json!([{"type": "text", "text": prompt}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        self.call("session/prompt", params, kind).await
    }

    async fn call(&mut self, method: &str, params: Value, kind: &str) -> Turn {
        self.sent += 1;
        let id = self.sent;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        let mut turn = Turn::default();
        loop {
            let line = tokio::time::timeout(SILENCE, self.output.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("silent after {method}: {turn:?}"));
            let line = line.expect("its output can be read");
            let line = line.unwrap_or_else(|| panic!("it ended in {method}: {turn:?}"));
            let frame: Value = serde_json::from_str(&line).expect("a frame in JSON");
            let asks = frame.get("id").cloned();
            match (frame["method"].as_str(), asks) {
                (None, Some(of)) if of == json!(id) => {
                    turn.answer = frame;
                    return turn;
                }
                (Some("session/request_permission"), Some(of)) => {
                    let options = frame["params"]["options"].as_array();
                    let options = options.expect("options");
                    let option = options.iter().find(|o| o["kind"] == json!(kind));
                    let option = option.expect("an option of this kind")["optionId"].clone();
                    turn.asked.push(frame["params"].clone());
                    let outcome = json!({"outcome": "selected", "optionId": option});
                    self.send(json!({"jsonrpc": "2.0", "id": of, "result": {"outcome": outcome}}))
                        .await;
                }
                (Some(_), Some(of)) => {
                    let error = json!({"code": -32601, "message": "no such method"});
                    self.send(json!({"jsonrpc": "2.0", "id": of, "error": error}))
                        .await;
                }
                (Some("session/update"), None) => {
                    let update = frame["params"]["update"].clone();
                    if update["sessionUpdate"] == json!("agent_message_chunk") {
                        turn.text
                            .push_str(update["content"]["text"].as_str().unwrap_or_default());
                    }
                    turn.updates.push(update);
                }
                _ => {}
            }
        }
    }

    async fn send(&mut self, frame: Value) {
        let line = format!("{frame}\n");
        let written = self.input.write_all(line.as_bytes()).await;
        written.expect("it reads its input");
    }
}
