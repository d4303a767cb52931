//! An app that says what it is told to say, so that every state can be looked at.

use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use threadline_app::api::{
    AppEvent, Begin, CancelRunParams, Known, QuestionsElsewhere, ThreadName,
};
use threadline_contract::{
    AppThreadKey, Code, Fault, Principal, Question, QuestionId, RuntimeId, method::AnswerParams,
    thread::SyncedFile,
};
use threadline_web::{EngineDoor, Events, Local, Pending};

/// Answers by method (and thread), and remembers what it was asked.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    answers: Arc<Mutex<HashMap<String, Result<Value, Fault>>>>,
    events: Arc<Mutex<Vec<AppEvent>>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    knows: Arc<Mutex<Known>>,
    noted: Arc<Mutex<Vec<QuestionId>>>,
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

    /// Knows a thread of this key by this name.
    pub(crate) fn knows(&self, thread: &str, name: &str) {
        let name = ThreadName {
            name: name.to_owned(),
            title: name.to_owned(),
        };
        let thread = AppThreadKey::new(thread).unwrap();
        self.knows.lock().unwrap().names.insert(thread, name);
    }

    /// Has turns that wait for a place of this runtime.
    pub(crate) fn waits(&self, runtime: RuntimeId, turns: u32) {
        self.knows.lock().unwrap().waiting.insert(runtime, turns);
    }

    /// The questions that it heard were answered.
    pub(crate) fn noted(&self) -> Vec<QuestionId> {
        self.noted.lock().unwrap().clone()
    }

    fn note(&self, what: &str, params: Value) {
        self.asked.lock().unwrap().push((what.to_owned(), params));
    }

    /// Tells these events to everybody who listens.
    pub(crate) fn tells(&self, events: Vec<AppEvent>) {
        *self.events.lock().unwrap() = events;
    }

    /// What it was asked, without what only looks.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        let looks = [
            "app.home",
            "app.show",
            "app.list",
            "app.runtimes",
            "xworkmate.questions.list",
        ];
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

    fn known(&self, threads: &[AppThreadKey]) -> Known {
        let mut known = self.knows.lock().unwrap().clone();
        known.names.retain(|thread, _| threads.contains(thread));
        known
    }

    fn cancel_own_run<'a>(&'a self, run: &'a CancelRunParams) -> Pending<'a, Result<(), Fault>> {
        self.note("cancel_own_run", serde_json::to_value(run).unwrap());
        Box::pin(async { Ok(()) })
    }

    fn note_answer(&self, question: &Question) {
        let mut noted = self.noted.lock().unwrap();
        noted.push(question.question_id.clone());
    }

    fn questions_elsewhere(&self) -> Pending<'_, QuestionsElsewhere> {
        let answers = self.answers.lock().unwrap();
        let found = match answers.get("questions_elsewhere").cloned() {
            None => QuestionsElsewhere::default(),
            Some(Ok(questions)) => QuestionsElsewhere {
                questions: serde_json::from_value(questions).unwrap(),
                unreachable: vec![],
            },
            Some(Err(fault)) => QuestionsElsewhere {
                questions: vec![],
                unreachable: vec![fault.message],
            },
        };
        Box::pin(async move { found })
    }

    fn answer_elsewhere(&self, params: AnswerParams) -> Pending<'_, Result<Question, Fault>> {
        self.note("answer_elsewhere", serde_json::to_value(params).unwrap());
        let answers = self.answers.lock().unwrap();
        let unknown = Fault::new(Code::QuestionNotFound, Code::QuestionNotFound.advice());
        let answer = answers.get("answer_elsewhere").cloned();
        let answer = answer.unwrap_or(Err(unknown));
        Box::pin(async move { answer.map(|q| serde_json::from_value(q).unwrap()) })
    }

    fn changes(&self) -> Events {
        use futures_util::StreamExt as _;
        let events = self.events.lock().unwrap().clone();
        Box::pin(futures_util::stream::iter(events).chain(futures_util::stream::pending()))
    }
}

/// The engine beside the app, which says what it is told by the bridge's own methods.
impl EngineDoor for Scripted {
    fn call<'a>(
        &'a self,
        by: &'a Principal,
        method: &'a str,
        params: Value,
    ) -> Pending<'a, Result<Value, Fault>> {
        let answers = self.answers.lock().unwrap();
        let own = answers.get(&format!("{method} of {}", by.account)).cloned();
        let answer = own.or_else(|| answers.get(method).cloned());
        self.asked.lock().unwrap().push((method.to_owned(), params));
        let unknown = Fault::new(Code::QuestionNotFound, Code::QuestionNotFound.advice());
        Box::pin(async move { answer.unwrap_or(Err(unknown)) })
    }
}
