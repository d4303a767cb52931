//! An agent that does what its prompt says, over the Agent Client Protocol: the scripted model's directives
//! (see [`crate::scripted_model`]), carried out by itself.
//!
//! `say`, `count` and `large` become message chunks, one a word. `write` asks for leave and writes, `shell`
//! runs a command without asking; both are tool calls. `sleep`, `slow`, `rate` and `hang` take their time,
//! `fail` answers the turn with an error, and `drop` ends the process in the middle of it.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, Write as _},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::scripted_model::{Modifier, Talk, Turn, Who};

/// Serves standard input until it ends.
pub fn run() {
    let agent = Arc::new(Agent::default());
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(frame) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let id = frame.get("id").cloned();
        let params = frame.get("params").cloned().unwrap_or_default();
        match (frame["method"].as_str(), id) {
            (Some("session/prompt"), Some(id)) => {
                let agent = Arc::clone(&agent);
                std::thread::spawn(move || agent.prompt(&id, &params));
            }
            (Some(method), Some(id)) => {
                let answer = agent.answer(method, &params);
                agent.send(json!({"jsonrpc": "2.0", "id": id, "result": answer}));
            }
            (Some("session/cancel"), None) => agent.session(&params).cancel(),
            (None, Some(id)) => agent.answered(&id, frame),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Agent {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Questions that wait for their answers.
    asked: Mutex<HashMap<String, mpsc::Sender<Value>>>,
    count: AtomicU64,
}

#[derive(Default)]
struct Session {
    id: String,
    folder: PathBuf,
    cancelled: AtomicBool,
    talk: Mutex<Talk>,
}

impl Session {
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    /// Waits until then; `false`: it was cancelled.
    fn wait(&self, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.cancelled.load(Ordering::SeqCst) {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// How a turn can end before its last word.
enum Stop {
    Cancelled,
    Failed(String),
}

impl Agent {
    fn answer(&self, method: &str, params: &Value) -> Value {
        match method {
            "initialize" => json!({
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": true},
                "agentInfo": {"name": "scripted-agent", "version": "1.0.0"},
                "authMethods": [],
            }),
            "session/new" => {
                let number = self.count.fetch_add(1, Ordering::SeqCst);
                let id = format!("s{}-{number}", std::process::id());
                self.open(&id, params);
                json!({"sessionId": id})
            }
            "session/load" => {
                self.open(params["sessionId"].as_str().unwrap_or_default(), params);
                json!({})
            }
            _ => json!({}),
        }
    }

    fn open(&self, id: &str, params: &Value) {
        let session = Session {
            id: id.to_owned(),
            folder: params["cwd"].as_str().unwrap_or_default().into(),
            ..Session::default()
        };
        lock(&self.sessions).insert(id.to_owned(), Arc::new(session));
    }

    fn session(&self, params: &Value) -> Arc<Session> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        lock(&self.sessions).get(id).cloned().unwrap_or_default()
    }

    fn prompt(&self, id: &Value, params: &Value) {
        let session = self.session(params);
        session.cancelled.store(false, Ordering::SeqCst);
        let text: Vec<&str> = params["prompt"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|part| part["text"].as_str())
            .collect();
        lock(&session.talk).push(Who::User, text.join("\n"));
        let usage = json!({"inputTokens": 4, "outputTokens": 2, "totalTokens": 6});
        let end = match self.turn(&session) {
            Ok(()) => json!({"result": {"stopReason": "end_turn", "usage": usage}}),
            Err(Stop::Cancelled) => json!({"result": {"stopReason": "cancelled"}}),
            Err(Stop::Failed(why)) => json!({"error": {"code": -32603, "message": why}}),
        };
        let mut frame = json!({"jsonrpc": "2.0", "id": id});
        if let (Some(frame), Some(end)) = (frame.as_object_mut(), end.as_object()) {
            frame.extend(end.clone());
        }
        self.send(frame);
    }

    fn turn(&self, session: &Session) -> Result<(), Stop> {
        loop {
            let turn = Turn::of(&lock(&session.talk));
            let pause = begin(session, &turn)?;
            let mut due = Instant::now();
            for word in turn.words() {
                due += pause;
                if !session.wait(due) {
                    return Err(Stop::Cancelled);
                }
                self.update(
                    session,
                    json!({
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": word},
                    }),
                );
            }
            lock(&session.talk).push_said(turn.text.clone());
            for (index, (tool, arguments)) in turn.calls.iter().enumerate() {
                let arguments = serde_json::from_str(arguments).unwrap_or_default();
                let result = self.call(session, &turn.call_id(index), tool, &arguments)?;
                lock(&session.talk).push(Who::Tool, result);
            }
            if turn.calls.is_empty() {
                return Ok(());
            }
        }
    }

    fn call(
        &self,
        session: &Session,
        id: &str,
        tool: &str,
        arguments: &Value,
    ) -> Result<String, Stop> {
        let write = tool == "write_file";
        let named = arguments["path"].as_str().unwrap_or_default();
        let path = session.folder.join(named);
        let mut call = json!({
            "toolCallId": id, "title": format!("{tool} {named}"), "rawInput": arguments, "status": "pending",
            "kind": if write { "edit" } else { "execute" },
        });
        if write && let Some(call) = call.as_object_mut() {
            call.insert("locations".into(), json!([{"path": path}]));
        }
        let mut begun = call.clone();
        if let Some(begun) = begun.as_object_mut() {
            begun.insert("sessionUpdate".into(), "tool_call".into());
        }
        self.update(session, begun);
        let done = if !write {
            Ok(shell(&session.folder, arguments))
        } else if self.may(session, &call)? {
            Ok(write_file(&path, arguments))
        } else {
            Err("The person said no.".to_owned())
        };
        let status = if done.is_ok() { "completed" } else { "failed" };
        let text = done.unwrap_or_else(|no| no);
        self.update(
            session,
            json!({
                "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
                "content": [{"type": "content", "content": {"type": "text", "text": text}}],
            }),
        );
        Ok(text)
    }

    /// Asks for leave and waits for the answer.
    fn may(&self, session: &Session, call: &Value) -> Result<bool, Stop> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        // A string, as some agents have it.
        let id = json!(format!("ask-{number}"));
        let (told, answer) = mpsc::channel();
        lock(&self.asked).insert(id.to_string(), told);
        self.send(json!({
            "jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": {"sessionId": session.id, "toolCall": call, "options": [
                {"optionId": "ever", "name": "Always", "kind": "allow_always"},
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ]},
        }));
        let answer = answer.recv().unwrap_or_default();
        let outcome = &answer["result"]["outcome"];
        match outcome["outcome"].as_str() {
            Some("selected") => Ok(outcome["optionId"] != json!("no")),
            _ => Err(Stop::Cancelled),
        }
    }

    fn answered(&self, id: &Value, frame: Value) {
        if let Some(waiting) = lock(&self.asked).remove(&id.to_string()) {
            // Whoever asked is there until it is answered.
            let _ = waiting.send(frame);
        }
    }

    fn update(&self, session: &Session, update: Value) {
        self.send(json!({
            "jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": session.id, "update": update},
        }));
    }

    fn send(&self, frame: Value) {
        let mut out = std::io::stdout().lock();
        // Nobody left to read: the process ends with its input.
        let _ = writeln!(out, "{frame}").and_then(|()| out.flush());
    }
}

/// What comes before the first word; gives the pause between two of them.
fn begin(session: &Session, turn: &Turn) -> Result<Duration, Stop> {
    let mut pause = Duration::ZERO;
    for modifier in &turn.modifiers {
        let wait = match modifier {
            Modifier::Slow(ms) => {
                pause = Duration::from_millis(*ms);
                continue;
            }
            Modifier::Rate(count) => {
                pause = Duration::from_secs(1) / (*count).max(1);
                continue;
            }
            Modifier::Sleep(ms) => Duration::from_millis(*ms),
            Modifier::Hang => Duration::from_secs(24 * 60 * 60),
            Modifier::Fail(status, _) => return Err(Stop::Failed(format!("model: {status}"))),
            Modifier::Drop(_) => std::process::abort(),
            _ => continue,
        };
        if !session.wait(Instant::now() + wait) {
            return Err(Stop::Cancelled);
        }
    }
    Ok(pause)
}

fn write_file(path: &Path, arguments: &Value) -> String {
    let content = arguments["content"].as_str().unwrap_or_default();
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, content));
    match written {
        Ok(()) => format!("Wrote {} bytes.", content.len()),
        Err(e) => e.to_string(),
    }
}

fn shell(folder: &Path, arguments: &Value) -> String {
    let command = arguments["command"].as_str().unwrap_or_default();
    let done = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .output();
    done.map_or_else(
        |e| e.to_string(),
        |done| String::from_utf8_lossy(&done.stdout).into_owned(),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
