//! The scripted bridge on its socket.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Json,
    body::Body,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, Question, QuestionState, RunId, RunStatus, UpdateKind,
    method, rpc, turn::TurnParams,
};

use super::{Call, Shared, state::Inner};
use crate::support::Content;

fn last_event_id(headers: &HeaderMap) -> Option<i64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

pub(super) async fn rpc_handler(
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
            let found = inner.runs.get_mut(&run).unwrap();
            found.cancel_requested = true;
            if found.plan.end.is_none() && !found.plan.deaf {
                found.plan.end = Some((RunStatus::Cancelled, None));
                inner.end(&run);
                shared.ring();
            }
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
        method::OPERATOR_RUNS => {
            let line = |run: &RunId| {
                let standing =
                    json!({"why": "w", "since": 1, "evidence": "e", "seenAt": 2, "next": "n"});
                json!({
                    "runId": run, "threadId": inner.runs[run].thread, "runtime": "builtin", "sessionKey": "s",
                    "status": "running", "stage": "working", "createdAt": 1, "standing": standing,
                })
            };
            let runs: Vec<Value> = inner.order.iter().rev().map(line).collect();
            json!({"runs": runs, "nextCursor": "7"})
        }
        method::OPERATOR_STATUS => json!({
            "version": "test", "at": 1, "open": {"queued": 1, "running": 2, "collecting": 0}, "questions": 0,
            "hosts": [],
            "runtimes": [{
                "runtime": "openclaw", "providerId": "openclaw", "label": "OpenClaw", "targets": ["gateway"],
                "maxActive": 5, "maxQueued": 20, "available": true, "status": "ready", "active": 2, "queued": 1,
                "probedAt": 1,
                "standing": {"why": "w", "since": 1, "evidence": "e", "seenAt": 2, "next": "n"},
            }],
        }),
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
    if asked.attachments.iter().any(|file| file.name == "a.zip") {
        return Err(Fault::new(Code::AttachmentInvalid, "`a.zip` is no text."));
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

pub(super) async fn events_handler(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let thread = AppThreadKey::new(&query["threadId"]).unwrap();
    if query.get("last").is_some_and(|last| last == "0") {
        let inner = shared.inner();
        let head = inner.logs.get(&thread).and_then(|log| log.last());
        let next = head.map_or(0, |(id, _)| *id);
        return axum::Json(json!({"events": [], "next": next})).into_response();
    }
    let feed = Feed {
        shared: shared.clone(),
        thread,
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

pub(super) async fn download_handler(
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
