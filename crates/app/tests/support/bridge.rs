//! The scripted bridge: the real protocol over real sockets.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::{Value, json};
use threadline_contract::{
    AppThreadKey, ArtifactScope, Code, Fault, Millis, Progress, Question, QuestionId, QuestionKind,
    QuestionOption, QuestionState, RequestId, RunId, RunStatus, RuntimeId, SessionKey,
    SessionUpdate, Stage, UpdateKind, canonical, method, rpc,
    turn::{Turn, TurnParams},
};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use super::{Content, Download, Plan};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) last_event_id: Option<i64>,
}

struct FakeRun {
    thread: AppThreadKey,
    request: RequestId,
    digest: threadline_contract::Sha256,
    plan: Plan,
    runtime: RuntimeId,
    ended: bool,
    result: bool,
    cancel_requested: bool,
    progress: Option<Progress>,
    created: Millis,
}

type PlanFor = dyn Fn(&Turn) -> Plan + Send;

#[derive(Default)]
struct Inner {
    runs: HashMap<RunId, FakeRun>,
    order: Vec<RunId>,
    logs: HashMap<AppThreadKey, Vec<(i64, SessionUpdate)>>,
    questions: Vec<Question>,
    calls: Vec<Call>,
    ranges: Vec<(String, Option<String>)>,
    plan: Option<Box<PlanFor>>,
    refuse: VecDeque<Fault>,
    statuses: VecDeque<u16>,
    /// Raw text that is sent as one event of the next stream, before its own.
    noise: VecDeque<String>,
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
            state: QuestionState::Open,
            asked_at: Millis::now(),
            closed_at: None,
            answer: None,
            closed_by: None,
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

impl Inner {
    fn log(
        &mut self,
        run: &RunId,
        kind: UpdateKind,
        event: &str,
        fill: impl FnOnce(&mut SessionUpdate),
    ) {
        let thread = self.runs[run].thread.clone();
        let mut update = SessionUpdate::new(&thread, run, kind, event, Millis::now());
        fill(&mut update);
        let log = self.logs.entry(thread).or_default();
        log.push((log.len() as i64 + 1, update));
    }

    fn end(&mut self, run: &RunId) {
        let found = self.runs.get_mut(run).unwrap();
        let Some((status, code)) = found.plan.end else {
            return;
        };
        found.ended = true;
        found.result = !found.plan.hold_result;
        found.progress = None;
        let thread = found.thread.clone();
        self.questions.retain(|q| q.thread_id != thread);
        self.log(run, UpdateKind::Status, "task.ended", |u| {
            u.status = Some(status);
            u.code = code;
        });
    }

    fn accept(&mut self, turn: &Turn, params: &Value, method_name: &str) -> Result<RunId, Fault> {
        let request = turn.request.clone().unwrap_or_else(RequestId::fresh);
        let digest = canonical::digest(&json!({"m": method_name, "p": params}));
        let known = self.order.iter().find(|r| {
            let run = &self.runs[*r];
            run.thread == turn.thread && run.request == request
        });
        if let Some(run) = known {
            if self.runs[run].digest != digest {
                return Err(Fault::new(Code::IdempotencyConflict, "another body"));
            }
            return Ok(run.clone());
        }
        let plan = self
            .plan
            .as_ref()
            .map_or_else(|| Plan::done("done"), |plan| plan(turn));
        let runtime = match turn.routing.wanted()? {
            threadline_contract::routing::Wanted::Runtime(runtime) => runtime,
            _ => RuntimeId::Builtin,
        };
        let run = RunId::fresh();
        self.runs.insert(
            run.clone(),
            FakeRun {
                thread: turn.thread.clone(),
                request,
                digest,
                plan: plan.clone(),
                runtime,
                ended: false,
                result: false,
                cancel_requested: false,
                progress: None,
                created: Millis::now(),
            },
        );
        self.order.push(run.clone());
        let scope = scope_of(&self.runs[&run], &run);
        self.log(&run, UpdateKind::Status, "started", |u| {
            u.status = Some(RunStatus::Running);
            u.artifact_scope = Some(scope);
        });
        for delta in &plan.deltas {
            self.log(&run, UpdateKind::Delta, "delta", |u| {
                u.text = Some(delta.clone())
            });
        }
        self.end(&run);
        Ok(run)
    }

    fn snapshot(&mut self, id: &RunId, shared: &Shared, params: &Value) -> Value {
        let run = self.runs.get_mut(id).unwrap();
        let terminal = run.result;
        let status = run
            .plan
            .end
            .filter(|_| terminal)
            .map_or(RunStatus::Running, |(s, _)| s);
        let code = run.plan.end.filter(|_| terminal).and_then(|(_, c)| c);
        let session = session_of(run);
        let mut out = json!({
            "success": status == RunStatus::Completed || status == RunStatus::Running,
            "status": status, "sessionId": run.thread, "threadId": run.thread, "appThreadKey": run.thread,
            "runId": id, "turnId": id, "sessionKey": session, "runtime": run.runtime,
            "mode": "agent-chat", "artifactScope": scope_of(run, id), "createdAt": run.created,
            "source": "registry", "observedAt": Millis::now(),
        });
        if run.runtime == RuntimeId::OpenClaw {
            out["openclawSessionKey"] = json!(session);
        }
        if run.cancel_requested {
            out["cancelRequested"] = json!(true);
        }
        if let Some(progress) = &run.progress {
            out["progress"] = json!(progress);
        }
        if !terminal {
            return out;
        }
        out["code"] = json!(code);
        out["text"] = json!(run.plan.text);
        out["message"] = json!(run.plan.message);
        if run.plan.pending > 0 {
            run.plan.pending -= 1;
            out["artifactsPending"] = json!(true);
            return out;
        }
        let page = shared.page.load(Ordering::SeqCst);
        let from: usize = params["cursor"]
            .as_str()
            .and_then(|c| c.parse().ok())
            .unwrap_or(0);
        let all = &run.plan.files;
        let items: Vec<Value> = all.iter().skip(from).take(page).map(|(path, content, how)| {
            let fresh = format!("/artifacts/openclaw/download?run={id}&path={}&n={}", threadline_contract::url::encoded(path), self.calls.len());
            json!({
                "path": path, "size": how.listed_size.unwrap_or(content.len()), "sha256": content.sha256(),
                "contentType": "text/plain", "url": how.link.clone().unwrap_or(fresh),
            })
        }).collect();
        let scope = run
            .plan
            .scope
            .clone()
            .map_or_else(|| json!(scope_of(run, id)), |s| json!(s));
        out["artifacts"] = json!({"scope": scope, "items": items, "total": all.len()});
        if from + page < all.len() {
            out["artifacts"]["nextCursor"] = json!((from + page).to_string());
        }
        out
    }
}

fn session_of(run: &FakeRun) -> SessionKey {
    match run.runtime {
        RuntimeId::OpenClaw => SessionKey::for_openclaw(&run.thread, 1),
        _ => SessionKey::for_runtime(run.runtime.provider(), "main", &run.thread),
    }
}

fn scope_of(run: &FakeRun, id: &RunId) -> ArtifactScope {
    ArtifactScope::of(&session_of(run), id).unwrap()
}

fn last_event_id(headers: &HeaderMap) -> Option<i64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

async fn rpc_handler(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if headers
        .get(header::AUTHORIZATION)
        .and_then(|v| v.to_str().ok())
        != Some("Bearer secret")
    {
        let fault = Fault::new(Code::Unauthorized, "Send the token.");
        return (StatusCode::UNAUTHORIZED, Json(rpc::failure(None, &fault))).into_response();
    }
    let request = rpc::Request::parse(&body).unwrap();
    let after = last_event_id(&headers);
    shared.inner().calls.push(Call {
        method: request.method.clone(),
        params: request.params.clone(),
        last_event_id: after,
    });
    let id = request.id.clone();
    if matches!(request.method.as_str(), method::START | method::MESSAGE) {
        return turn(&shared, request, after).await;
    }
    let answer = match plain(&shared, &request) {
        Ok(Some(value)) => rpc::success(id.as_ref(), &value),
        Ok(None) => return broken(),
        Err(fault) => rpc::failure(id.as_ref(), &fault),
    };
    Json(answer).into_response()
}

/// An answer that breaks off.
fn broken() -> Response {
    let body = stream::iter([
        Ok(Bytes::from_static(b"{\"json")),
        Err(std::io::Error::other("cut")),
    ]);
    Body::from_stream(body).into_response()
}

fn plain(shared: &Shared, request: &rpc::Request) -> Result<Option<Value>, Fault> {
    let mut inner = shared.inner();
    let params = &request.params;
    let find = |inner: &Inner| -> Result<RunId, Fault> {
        let thread = params["appThreadKey"].as_str().unwrap_or_default();
        let run = params["runId"].as_str();
        inner
            .order
            .iter()
            .rev()
            .find(|r| {
                inner.runs[*r].thread.as_str() == thread && run.is_none_or(|run| r.as_str() == run)
            })
            .cloned()
            .ok_or_else(|| {
                Fault::new(
                    Code::NoNativeRecord,
                    "The runtime has no record of this run.",
                )
            })
    };
    Ok(Some(match request.method.as_str() {
        method::TASKS_GET => {
            let left = shared.broken_polls.load(Ordering::SeqCst);
            if left > 0 {
                shared.broken_polls.store(left - 1, Ordering::SeqCst);
                return Ok(None);
            }
            let run = find(&inner)?;
            inner.snapshot(&run, shared, params)
        }
        method::TASKS_CANCEL => {
            let run = find(&inner)?;
            inner.runs.get_mut(&run).unwrap().cancel_requested = true;
            json!({"accepted": true, "runId": run, "cancelled": false})
        }
        method::CANCEL | method::CLOSE => json!({"accepted": true, "cancelled": false}),
        method::QUESTIONS_LIST => {
            let thread = params["threadId"].as_str();
            let wanted = |q: &&Question| thread.is_none_or(|t| q.thread_id.as_str() == t);
            let questions: Vec<&Question> = inner.questions.iter().filter(wanted).collect();
            json!({"questions": questions})
        }
        method::QUESTIONS_ANSWER => {
            let at = inner
                .questions
                .iter()
                .position(|q| q.question_id.as_str() == params["questionId"]);
            let Some(at) = at else {
                return Err(Fault::new(Code::QuestionNotFound, "no such question"));
            };
            let mut question = inner.questions.remove(at);
            question.state = QuestionState::Answered;
            question.closed_at = Some(Millis::now());
            question.answer = params["text"]
                .as_str()
                .map(|t| threadline_contract::Answer::Text(t.into()));
            let run = question.run_id.clone();
            let closed = question.clone();
            inner.runs.get_mut(&run).unwrap().progress = None;
            inner.log(&run, UpdateKind::Task, "task.question_closed", |u| {
                u.question = Some(closed)
            });
            shared.ring();
            json!(question)
        }
        method::ROUTING_RESOLVE => resolved(params)?,
        method::DELETE => {
            let gone = params["sessionId"].as_str().unwrap_or_default();
            inner.runs.retain(|_, run| run.thread.as_str() != gone);
            let Inner { runs, order, .. } = &mut *inner;
            order.retain(|run| runs.contains_key(run));
            inner.logs.retain(|thread, _| thread.as_str() != gone);
            json!({"threadId": gone, "deleted": true})
        }
        method::CAPABILITIES => json!({
            "singleAgent": true, "multiAgent": false, "availableExecutionTargets": ["agent", "gateway"],
            "providerCatalog": [{"providerId": "builtin", "label": "Built in", "targets": ["agent"], "maxActive": 4, "maxQueued": 100}],
            "gatewayProviders": [{"providerId": "openclaw", "label": "OpenClaw", "targets": ["gateway"], "maxActive": 5, "maxQueued": 20}],
            "providerProbeSummary": [{"providerId": "builtin", "available": true, "status": "ready"}],
            "methods": method::ALL, "version": "test",
        }),
        other => return Err(Fault::new(Code::MethodNotFound, other)),
    }))
}

/// Says where a turn would run, and refuses what the real bridge would refuse.
fn resolved(params: &Value) -> Result<Value, Fault> {
    let asked: method::ResolveParams = serde_json::from_value(params.clone()).unwrap();
    for deliverable in &asked.deliverables {
        deliverable.matcher()?;
    }
    if asked.working_directory.as_deref() == Some("/") {
        let why = "The working directory `/` lies beneath none of the allowed `work_roots`.";
        return Err(Fault::new(Code::WorkdirNotAllowed, why));
    }
    Ok(match asked.routing.explicit_provider_id.as_deref() {
        Some("codex") => json!({
            "success": false, "status": "unavailable", "runtime": "acp:codex",
            "unavailableCode": "PROVIDER_NOT_FOUND", "unavailableMessage": "No runtime is called acp:codex here.",
        }),
        _ => json!({"success": true, "status": "available", "runtime": "builtin"}),
    })
}

async fn turn(shared: &Arc<Shared>, request: rpc::Request, after: Option<i64>) -> Response {
    let id = request.id.clone();
    let status = shared.inner().statuses.pop_front();
    if let Some(status) = status {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    let accepted = {
        let mut inner = shared.inner();
        match inner.refuse.pop_front() {
            Some(fault) => Err(fault),
            None => serde_json::from_value::<TurnParams>(request.params.clone())
                .map_err(|e| Fault::invalid(e.to_string()))
                .and_then(TurnParams::check)
                .and_then(|turn| {
                    inner
                        .accept(&turn, &request.params, &request.method)
                        .map(|run| (run, turn))
                }),
        }
    };
    shared.ring();
    let (run, turn) = match accepted {
        Ok(accepted) => accepted,
        Err(fault) => return Json(rpc::failure(id.as_ref(), &fault)).into_response(),
    };
    if shared.handles.load(Ordering::SeqCst) {
        let snapshot = shared.inner().snapshot(&run, shared, &json!({}));
        return Json(rpc::success(id.as_ref(), &snapshot)).into_response();
    }
    shared.streams.fetch_add(1, Ordering::SeqCst);
    let notice = rpc::notification(
        method::ACCEPTED,
        &json!({"threadId": turn.thread, "sessionId": turn.thread, "runId": run}),
    );
    let mut first = vec![format!("data: {notice}\n\n")];
    first.extend(
        shared
            .inner()
            .noise
            .pop_front()
            .map(|n| format!("data: {n}\n\n")),
    );
    let feed = Feed {
        shared: shared.clone(),
        thread: turn.thread,
        run: Some(run),
        rpc: id,
        after: after.unwrap_or(0),
        left: shared.cut_after.load(Ordering::SeqCst),
        queue: first.into(),
        done: false,
    };
    feed.into_response()
}

async fn events_handler(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let feed = Feed {
        shared: shared.clone(),
        thread: AppThreadKey::new(&query["threadId"]).unwrap(),
        run: None,
        rpc: None,
        after: last_event_id(&headers).unwrap_or(0),
        left: shared.cut_after.load(Ordering::SeqCst),
        queue: VecDeque::new(),
        done: false,
    };
    feed.into_response()
}

struct Feed {
    shared: Arc<Shared>,
    thread: AppThreadKey,
    run: Option<RunId>,
    rpc: Option<rpc::Id>,
    after: i64,
    left: usize,
    queue: VecDeque<String>,
    done: bool,
}

impl Feed {
    fn into_response(self) -> Response {
        let frames = stream::unfold(self, |mut feed| async move {
            let frame = feed.next().await?;
            Some((frame, feed))
        });
        let headers = [(header::CONTENT_TYPE, "text/event-stream")];
        (headers, Body::from_stream(frames)).into_response()
    }

    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        let mut bell = self.shared.bell.subscribe();
        loop {
            if let Some(text) = self.queue.pop_front() {
                return Some(Ok(text.into()));
            }
            if self.done {
                return None;
            }
            if self.left == 0 {
                // What was said before the cut arrives.
                tokio::time::sleep(Duration::from_millis(5)).await;
                return Some(Err(std::io::Error::other("cut")));
            }
            self.fill();
            if self.queue.is_empty() {
                if self.shared.silent.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let _ = tokio::time::timeout(Duration::from_millis(500), bell.changed()).await;
                if self.queue.is_empty() && !self.shared.silent.load(Ordering::SeqCst) {
                    self.fill();
                    if self.queue.is_empty() {
                        let alive =
                            rpc::notification(method::KEEPALIVE, &json!({"intervalMs": 500}));
                        self.queue.push_back(format!("data: {alive}\n\n"));
                    }
                }
            }
        }
    }

    fn fill(&mut self) {
        let mut inner = self.shared.inner();
        let log = inner.logs.get(&self.thread).cloned().unwrap_or_default();
        let after = self.after;
        for (id, update) in log.into_iter().filter(|(id, _)| *id > after) {
            if self.left == 0 {
                return;
            }
            self.after = id;
            if self.run.as_ref().is_some_and(|run| *run != update.run_id) {
                continue;
            }
            self.left -= 1;
            let envelope = rpc::notification(method::UPDATE, &update);
            self.queue
                .push_back(format!("id: {id}\ndata: {envelope}\n\n"));
        }
        let Some(run) = &self.run else { return };
        if self.left > 0 && inner.runs[run].result {
            self.done = true;
            if !self.shared.no_result.load(Ordering::SeqCst) {
                let snapshot = inner.snapshot(run, &self.shared, &json!({}));
                let envelope = rpc::success(self.rpc.as_ref(), &snapshot);
                self.queue.push_back(format!("data: {envelope}\n\n"));
            }
            self.queue.push_back("data: [DONE]\n\n".into());
        }
    }
}

async fn download_handler(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let run = RunId::new(&query["run"]).unwrap();
    let path = query["path"].clone();
    let range = headers
        .get(header::RANGE)
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned);
    let (content, cut, whole, silent) = {
        let mut inner = shared.inner();
        inner.ranges.push((path.clone(), range.clone()));
        let files = &mut inner.runs.get_mut(&run).unwrap().plan.files;
        let (_, content, how) = files.iter_mut().find(|(p, ..)| *p == path).unwrap();
        if let Some(status) = how.statuses.pop_front().or(how.always) {
            return StatusCode::from_u16(status).unwrap().into_response();
        }
        let content = how.instead.clone().unwrap_or(content.clone());
        (content, how.cuts.pop_front(), how.whole_only, how.silent)
    };
    let len = content.len();
    let from = range.as_deref().filter(|_| !whole).and_then(|r| {
        r.strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse::<u64>()
            .ok()
    });
    if from.is_some_and(|f| f >= len) {
        return (
            StatusCode::RANGE_NOT_SATISFIABLE,
            [(header::CONTENT_RANGE, format!("bytes */{len}"))],
        )
            .into_response();
    }
    let start = from.unwrap_or(0);
    let end = cut.unwrap_or(len);
    let chunks = stream::unfold(start, move |at| {
        let content: Content = content.clone();
        async move {
            if silent {
                std::future::pending::<()>().await;
            }
            if at >= end {
                tokio::time::sleep(Duration::from_millis(5)).await;
                return (end < len).then(|| (Err(std::io::Error::other("cut")), u64::MAX));
            }
            let chunk = content.chunk(at, end);
            let next = at + chunk.len() as u64;
            Some((Ok::<Bytes, std::io::Error>(chunk), next))
        }
    })
    .scan(false, |over, item| {
        let go_on = !*over;
        *over = item.is_err();
        futures_util::future::ready(go_on.then_some(item))
    });
    let body = Body::from_stream(chunks);
    let mut response = match from {
        Some(from) => (
            StatusCode::PARTIAL_CONTENT,
            [(
                header::CONTENT_RANGE,
                format!("bytes {from}-{}/{len}", len - 1),
            )],
            body,
        )
            .into_response(),
        None => body.into_response(),
    };
    let length = (len - start).to_string().parse().unwrap();
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, length);
    response
}
