//! The scripted bridge: the real protocol over real sockets.

mod http;
mod state;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use axum::{
    Router,
    routing::{get, post},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::Value;
use threadline_contract::{
    AppThreadKey, Fault, Millis, Progress, Question, QuestionId, QuestionKind, QuestionOption,
    QuestionState, RunId, SessionUpdate, Stage, UpdateKind, method, turn::Turn,
};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use self::{
    http::{download_handler, events_handler, rpc_handler},
    state::Inner,
};
use super::{Download, Plan};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) last_event_id: Option<i64>,
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    bell: watch::Sender<u64>,
    addr: Mutex<Option<SocketAddr>>,
    /// A stream breaks after so many events.
    pub(crate) cut_after: AtomicUsize,
    /// Turns are answered with a running handle instead of a stream.
    pub(crate) handles: AtomicBool,
    /// Streams end without the result.
    pub(crate) no_result: AtomicBool,
    /// Streams stand still after their events.
    pub(crate) silent: AtomicBool,
    /// `tasks.get` breaks off so many times.
    pub(crate) broken_polls: AtomicUsize,
    /// Files of a page at most.
    pub(crate) page: AtomicUsize,
    /// Streams that were opened.
    pub(crate) streams: AtomicUsize,
}

pub(crate) struct FakeBridge {
    pub(crate) shared: Arc<Shared>,
    server: Mutex<Option<JoinHandle<()>>>,
}

impl FakeBridge {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            inner: Mutex::default(),
            bell: watch::Sender::new(0),
            addr: Mutex::default(),
            cut_after: AtomicUsize::new(usize::MAX),
            handles: AtomicBool::default(),
            no_result: AtomicBool::default(),
            silent: AtomicBool::default(),
            broken_polls: AtomicUsize::default(),
            page: AtomicUsize::new(200),
            streams: AtomicUsize::default(),
        });
        let bridge = Self {
            shared,
            server: Mutex::default(),
        };
        bridge.up().await;
        bridge
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.shared.addr.lock().unwrap().unwrap())
    }

    /// Listens (again, at the same address).
    pub(crate) async fn up(&self) {
        let wanted = self
            .shared
            .addr
            .lock()
            .unwrap()
            .unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        let listener = TcpListener::bind(wanted).await.unwrap();
        *self.shared.addr.lock().unwrap() = Some(listener.local_addr().unwrap());
        let router = Router::new()
            .route("/acp/rpc", post(rpc_handler))
            .route("/acp/events", get(events_handler))
            .route("/artifacts/openclaw/download", get(download_handler))
            .with_state(self.shared.clone());
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                connections.spawn(async move {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(socket), service)
                        .await;
                });
            }
        });
        *self.server.lock().unwrap() = Some(server);
    }

    /// Goes away with all its connections, as a killed process does. What it knows stays.
    pub(crate) async fn down(&self) {
        let server = self.server.lock().unwrap().take();
        if let Some(server) = server {
            server.abort();
            let _ = server.await;
        }
    }

    /// What every turn from here on does.
    pub(crate) fn plan(&self, plan: impl Fn(&Turn) -> Plan + Send + 'static) {
        self.inner().plan = Some(Box::new(plan));
    }

    pub(crate) fn always(&self, plan: Plan) {
        self.plan(move |_| plan.clone());
    }

    /// The next request is refused.
    pub(crate) fn refuse(&self, fault: Fault) {
        self.inner().refuse.push_back(fault);
    }

    /// The next turns get these HTTP answers.
    pub(crate) fn statuses(&self, statuses: impl IntoIterator<Item = u16>) {
        self.inner().statuses.extend(statuses);
    }

    pub(crate) fn noise(&self, raw: &str) {
        self.inner().noise.push_back(raw.to_owned());
    }

    pub(crate) fn calls(&self, method: &str) -> Vec<Call> {
        let calls = self.inner().calls.clone();
        calls.into_iter().filter(|c| c.method == method).collect()
    }

    /// The turns that were asked for, in order, re-sends included.
    pub(crate) fn turns(&self) -> Vec<Call> {
        let calls = self.inner().calls.clone();
        let turn = |c: &Call| matches!(c.method.as_str(), method::START | method::MESSAGE);
        calls.into_iter().filter(turn).collect()
    }

    /// The `Range` headers that came for a file.
    pub(crate) fn ranges(&self, path: &str) -> Vec<Option<String>> {
        let all = self.inner().ranges.clone();
        all.into_iter()
            .filter(|(p, _)| p == path)
            .map(|(_, r)| r)
            .collect()
    }

    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.inner().order.clone()
    }

    pub(crate) fn run_of(&self, thread: &AppThreadKey) -> Option<RunId> {
        let inner = self.inner();
        inner
            .order
            .iter()
            .rev()
            .find(|r| inner.runs[*r].thread == *thread)
            .cloned()
    }

    /// Ends a run that goes on.
    pub(crate) fn complete(&self, run: &RunId, plan: Plan) {
        let mut inner = self.inner();
        inner.runs.get_mut(run).unwrap().plan = plan;
        inner.end(run);
        drop(inner);
        self.shared.ring();
    }

    /// Gives the result that was held back.
    pub(crate) fn release(&self, run: &RunId) {
        self.inner().runs.get_mut(run).unwrap().result = true;
        self.shared.ring();
    }

    /// Adds an event to a run's log.
    pub(crate) fn emit(&self, run: &RunId, fill: impl FnOnce(&mut SessionUpdate)) {
        let mut inner = self.inner();
        inner.log(run, UpdateKind::Task, "task.note", fill);
        drop(inner);
        self.shared.ring();
    }

    pub(crate) fn ask(&self, run: &RunId, text: &str) -> QuestionId {
        let mut inner = self.inner();
        let question = Question {
            question_id: QuestionId::fresh(),
            thread_id: inner.runs[run].thread.clone(),
            run_id: run.clone(),
            kind: QuestionKind::Question,
            text: text.into(),
            options: vec![QuestionOption {
                option_id: "a".into(),
                label: "Yes".into(),
                kind: None,
            }],
            free_text: true,
            tool: None,
            state: QuestionState::Open,
            asked_at: Millis::now(),
            closed_at: None,
            answer: None,
            closed_by: None,
            closed_by_principal: None,
        };
        inner.questions.push(question.clone());
        inner.runs.get_mut(run).unwrap().progress = Some(Progress {
            stage: Stage::Waiting,
            message: None,
            elapsed_ms: None,
        });
        let id = question.question_id.clone();
        inner.log(run, UpdateKind::Task, "task.question_asked", |u| {
            u.question = Some(question)
        });
        drop(inner);
        self.shared.ring();
        id
    }

    /// What a file does when it is fetched next.
    pub(crate) fn download(&self, run: &RunId, path: &str, change: impl FnOnce(&mut Download)) {
        let mut inner = self.inner();
        let files = &mut inner.runs.get_mut(run).unwrap().plan.files;
        change(&mut files.iter_mut().find(|(p, ..)| p == path).unwrap().2);
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap()
    }
}

impl Drop for FakeBridge {
    fn drop(&mut self) {
        if let Some(server) = self.server.lock().unwrap().take() {
            server.abort();
        }
    }
}

impl Shared {
    fn ring(&self) {
        self.bell.send_modify(|n| *n += 1);
    }
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}
