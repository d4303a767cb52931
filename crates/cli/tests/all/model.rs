//! A model that says what its script says: a real endpoint on a real socket.

use std::{net::SocketAddr, sync::Mutex};

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// One answer of the model, given what it was sent.
pub(crate) type Line = fn(&Value) -> Value;

/// Answers each request with the next line of its script; the last one is repeated.
pub(crate) struct Model {
    pub(crate) url: String,
    _stop: DropGuard,
}

struct Script {
    lines: Vec<Line>,
    next: Mutex<usize>,
}

impl Model {
    pub(crate) fn start(lines: Vec<Line>) -> Self {
        let stop = CancellationToken::new();
        let (send, receive) = std::sync::mpsc::channel::<SocketAddr>();
        let stopped = stop.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let script = std::sync::Arc::new(Script {
                    lines,
                    next: Mutex::new(0),
                });
                let router = Router::new()
                    .route("/v1/chat/completions", post(answer))
                    .with_state(script);
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                let served = axum::serve(listener, router);
                stopped.run_until_cancelled(served.into_future()).await;
            });
        });
        let address = receive.recv().unwrap();
        Self {
            url: format!("http://{address}/v1"),
            _stop: stop.drop_guard(),
        }
    }
}

async fn answer(
    State(script): State<std::sync::Arc<Script>>,
    Json(request): Json<Value>,
) -> Response {
    let line = {
        let mut next = script.next.lock().unwrap();
        let line = script.lines[(*next).min(script.lines.len() - 1)];
        *next += 1;
        line
    };
    let piece =
        json!({"choices": [{"index": 0, "delta": line(&request), "finish_reason": "stop"}]});
    let body = format!("data: {piece}\n\ndata: [DONE]\n\n");
    ([("content-type", "text/event-stream")], body).into_response()
}

/// Words.
pub(crate) fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// A tool call.
pub(crate) fn calls(tool: &str, arguments: &Value) -> Value {
    json!({"role": "assistant", "tool_calls": [{
        "index": 0, "id": format!("call-{tool}"), "type": "function",
        "function": {"name": tool, "arguments": arguments.to_string()},
    }]})
}

/// What the last tool answered.
pub(crate) fn last_answer(request: &Value) -> String {
    let last = request["messages"].as_array().unwrap().last().unwrap();
    last["content"].as_str().unwrap_or_default().to_owned()
}
