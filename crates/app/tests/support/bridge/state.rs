//! What the scripted bridge knows: runs, logs, questions.

use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::Ordering,
};

use serde_json::{Value, json};
use threadline_contract::{
    AppThreadKey, ArtifactScope, Code, Fault, Millis, Progress, Question, RequestId, RunId,
    RunStatus, RuntimeId, SessionKey, SessionUpdate, UpdateKind, canonical, turn::Turn,
};

use super::{Call, Shared};
use crate::support::Plan;

pub(super) struct FakeRun {
    pub(super) thread: AppThreadKey,
    pub(super) request: RequestId,
    pub(super) digest: threadline_contract::Sha256,
    pub(super) plan: Plan,
    pub(super) runtime: RuntimeId,
    pub(super) ended: bool,
    pub(super) result: bool,
    pub(super) cancel_requested: bool,
    pub(super) progress: Option<Progress>,
    pub(super) created: Millis,
}

pub(super) type PlanFor = dyn Fn(&Turn) -> Plan + Send;

#[derive(Default)]
pub(super) struct Inner {
    pub(super) runs: HashMap<RunId, FakeRun>,
    pub(super) order: Vec<RunId>,
    pub(super) logs: HashMap<AppThreadKey, Vec<(i64, SessionUpdate)>>,
    pub(super) questions: Vec<Question>,
    pub(super) calls: Vec<Call>,
    pub(super) ranges: Vec<(String, Option<String>)>,
    pub(super) plan: Option<Box<PlanFor>>,
    pub(super) refuse: VecDeque<Fault>,
    pub(super) statuses: VecDeque<u16>,
    /// Raw text that is sent as one event of the next stream, before its own.
    pub(super) noise: VecDeque<String>,
}

impl Inner {
    pub(super) fn log(
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

    pub(super) fn end(&mut self, run: &RunId) {
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

    pub(super) fn accept(
        &mut self,
        turn: &Turn,
        params: &Value,
        method_name: &str,
    ) -> Result<RunId, Fault> {
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

    pub(super) fn snapshot(&mut self, id: &RunId, shared: &Shared, params: &Value) -> Value {
        let run = self.runs.get_mut(id).unwrap();
        // The end is told at once; what became of the files, with the result.
        let terminal = run.ended;
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
            "artifactDirectory": format!("/srv/{}", scope_of(run, id)), "source": "registry", "observedAt": Millis::now(),
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
        if !run.result {
            out["artifactsPending"] = json!(true);
            return out;
        }
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
        if let Some(receipt) = run.plan.receipt {
            out["artifacts"]["receipt"] = json!(receipt);
        }
        if run.plan.removed {
            out["artifacts"]["removed"] = json!({"at": 1_700_000_000_000_i64, "why": "age"});
        }
        if from + page < all.len() {
            out["artifacts"]["nextCursor"] = json!((from + page).to_string());
        }
        out
    }
}

pub(super) fn session_of(run: &FakeRun) -> SessionKey {
    match run.runtime {
        RuntimeId::OpenClaw => SessionKey::for_openclaw(&run.thread, "main", 1),
        _ => SessionKey::for_runtime(run.runtime.provider(), "main", &run.thread),
    }
}

pub(super) fn scope_of(run: &FakeRun, id: &RunId) -> ArtifactScope {
    ArtifactScope::of(&session_of(run), id).unwrap()
}
