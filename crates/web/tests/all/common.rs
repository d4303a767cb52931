//! An app that says what it is told to say, so that every state can be looked at.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use threadline_app::api::AppEvent;
use threadline_contract::{Code, Fault};
use threadline_web::{Events, Local, Mint, Pending};

/// Answers by method (and thread), and remembers what it was asked.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    answers: Arc<Mutex<HashMap<String, Result<Value, Fault>>>>,
    events: Arc<Mutex<Vec<AppEvent>>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Scripted {
    /// Answers a method with a result.
    pub(crate) fn says(&self, method: &str, result: Value) -> &Self {
        self.answers
            .lock()
            .unwrap()
            .insert(method.into(), Ok(result));
        self
    }

    /// Answers a method with a fault.
    pub(crate) fn refuses(&self, method: &str, fault: Fault) -> &Self {
        self.answers
            .lock()
            .unwrap()
            .insert(method.into(), Err(fault));
        self
    }

    /// Tells these events to everybody who listens.
    pub(crate) fn tells(&self, events: Vec<AppEvent>) {
        *self.events.lock().unwrap() = events;
    }

    /// What it was asked, without what only looks.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        let looks = ["app.home", "app.show", "app.list", "app.runtimes"];
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(method, _)| !looks.contains(&method.as_str()))
            .cloned()
            .collect()
    }
}

impl Local for Scripted {
    fn dispatch<'a>(&'a self, method: &'a str, params: Value) -> Pending<'a, Result<Value, Fault>> {
        let answers = self.answers.lock().unwrap();
        let thread = params["thread"].as_str().unwrap_or_default();
        let answer = answers
            .get(&format!("{method} {thread}"))
            .or_else(|| answers.get(method))
            .cloned();
        self.asked.lock().unwrap().push((method.to_owned(), params));
        let unknown = || {
            Err(Fault::new(
                Code::ThreadNotFound,
                Code::ThreadNotFound.advice(),
            ))
        };
        Box::pin(async move { answer.unwrap_or_else(unknown) })
    }

    fn events<'a>(&'a self, thread: &'a str, after: i64) -> Pending<'a, Result<Events, Fault>> {
        self.asked
            .lock()
            .unwrap()
            .push(("events".into(), json!([thread, after])));
        Box::pin(async move { Ok(self.changes()) })
    }

    fn changes(&self) -> Events {
        use futures_util::StreamExt as _;
        let events = self.events.lock().unwrap().clone();
        Box::pin(futures_util::stream::iter(events).chain(futures_util::stream::pending()))
    }
}

/// A mint whose tokens are numbered.
pub(crate) fn mint() -> Mint {
    let made = Arc::new(Mutex::new(0));
    Arc::new(move || {
        let made = made.clone();
        Box::pin(async move {
            let mut made = made.lock().unwrap();
            *made += 1;
            Ok(format!("token-{made}"))
        })
    })
}

/// A thread's record with nothing in it but what is given.
pub(crate) fn thread(name: &str, workspace: &Path, context: Value, lifecycle: Value) -> Value {
    json!({"thread": {
        "schemaVersion": 20_260_411, "threadId": format!("draft:{name}"), "name": name, "title": title(name),
        "workspaceBinding": {"workspaceKind": "localFs", "workspacePath": workspace},
        "executionBinding": {"executionMode": "agent", "runtime": "builtin", "endpointId": "local"},
        "contextState": context, "lifecycleState": lifecycle, "createdAtMs": 1_780_000_000_000_i64, "updatedAtMs": 1_780_000_000_000_i64,
    }})
}

/// `river-report` → `River report`.
pub(crate) fn title(name: &str) -> String {
    let text = name.replace('-', " ");
    let mut chars = text.chars();
    chars
        .next()
        .map(|c| c.to_uppercase().to_string() + chars.as_str())
        .unwrap_or_default()
}

/// A context with these files, written into the folder.
pub(crate) fn files(folder: &Path, files: &[(&str, &str, &str)]) -> Value {
    for (path, _, content) in files {
        let place: PathBuf = folder.join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, content).unwrap();
    }
    let synced = files.iter().map(|(path, kind, content)| json!({"path": path, "size": content.len(), "sha256": "ab".repeat(32), "contentType": kind}));
    json!({
        "messages": [], "lastArtifactSyncStatus": "synced", "lastArtifactSyncAtMs": 1_780_000_000_000_i64,
        "lastTaskArtifactRelativePaths": files.iter().map(|f| f.0).collect::<Vec<_>>(), "lastArtifacts": synced.collect::<Vec<_>>(),
    })
}
