//! An app that says what it is told to say, so that every state can be looked at.

use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use threadline_app::api::{AppEvent, Begin};
use threadline_contract::{Code, Fault, thread::SyncedFile};
use threadline_web::{Events, Local, Pending};

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
        let answer = match params["text"].as_str() {
            // A search finds what is said for its words, and nothing otherwise.
            Some(text) => answers
                .get(&format!("{method}?{text}"))
                .cloned()
                .or_else(|| Some(Ok(json!({"threads": []})))),
            None => answers
                .get(&format!("{method} {thread}"))
                .or_else(|| answers.get(method))
                .cloned(),
        };
        self.asked.lock().unwrap().push((method.to_owned(), params));
        let unknown = || {
            Err(Fault::new(
                Code::ThreadNotFound,
                Code::ThreadNotFound.advice(),
            ))
        };
        Box::pin(async move { answer.unwrap_or_else(unknown) })
    }

    fn events<'a>(&'a self, thread: &'a str, begin: Begin) -> Pending<'a, Result<Events, Fault>> {
        let begin = match begin {
            Begin::After(after) => json!(after),
            Begin::Last(count) => json!({"last": count}),
        };
        self.asked
            .lock()
            .unwrap()
            .push(("events".into(), json!([thread, begin])));
        Box::pin(async move { Ok(self.changes()) })
    }

    fn file<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> Pending<'a, Result<(File, SyncedFile), Fault>> {
        let gone = Fault::new(Code::ArtifactNotFound, Code::ArtifactNotFound.advice());
        Box::pin(async move { Err(gone) })
    }

    fn changes(&self) -> Events {
        use futures_util::StreamExt as _;
        let events = self.events.lock().unwrap().clone();
        Box::pin(futures_util::stream::iter(events).chain(futures_util::stream::pending()))
    }
}
