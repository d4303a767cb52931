//! Events, questions and offers as a bridge tells them, brought into the form of the contract: what is
//! absent or says something that this version does not know is left out or marked as unknown, so that it
//! spoils itself and nothing beside it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use threadline_contract::{
    Answer, ArtifactScope, Millis, Progress, Question, QuestionKind, QuestionOption, QuestionState,
    QueuePlace, RunStatus, Step, StepState, ToolKind, UpdateKind, Usage, method::Capabilities,
};

use super::snapshot::same;

/// How many turns a lane takes whose size nobody said.
const UNSAID_ACTIVE: u32 = 5;
const UNSAID_QUEUED: u32 = 20;

/// Brings an event of a thread's log into form.
pub(crate) fn normalize_update(value: &mut Value) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    same(map, &["threadId", "sessionId", "appThreadKey"]);
    same(map, &["sessionId", "threadId"]);
    same(map, &["runId", "turnId"]);
    same(map, &["turnId", "runId"]);
    keep_known::<RunStatus>(map, "status");
    keep_known::<Progress>(map, "progress");
    keep_known::<QueuePlace>(map, "queue");
    keep_known::<Usage>(map, "usage");
    keep_known::<ArtifactScope>(map, "artifactScope");
    keep_known::<String>(map, "text");
    keep_known::<String>(map, "message");
    keep_known::<String>(map, "wholeAt");
    keep_known::<u64>(map, "keep");
    keep_known::<bool>(map, "truncated");
    let status: Option<RunStatus> = read(map.get("status"));
    if !map.get("event").is_some_and(Value::is_string) {
        let event = match (map.get("type").and_then(Value::as_str), status) {
            (Some("delta"), _) => "delta",
            (_, Some(RunStatus::Running)) => "started",
            (_, Some(_)) => "completed",
            (_, None) => "task.note",
        };
        map.insert("event".into(), json!(event));
    }
    if read::<UpdateKind>(map.get("type")).is_none() {
        let kind = match (map["event"].as_str(), status) {
            (Some("delta" | "delta.reset"), _) => UpdateKind::Delta,
            (_, Some(_)) => UpdateKind::Status,
            (_, None) => UpdateKind::Task,
        };
        map.insert("type".into(), json!(kind));
    }
    if read::<Millis>(map.get("at")).is_none() {
        map.insert("at".into(), json!(Millis::now()));
    }
    if let Some(step) = map.get_mut("step") {
        match step_of(step) {
            Some(read) => *step = json!(read),
            None => _ = map.remove("step"),
        }
    }
    let closed = map["event"] == "task.question_closed";
    let ids = (map.get("threadId").cloned(), map.get("runId").cloned());
    if let Some(question) = map.get_mut("question") {
        let otherwise = match closed {
            true => QuestionState::Withdrawn,
            false => QuestionState::Open,
        };
        own(question, ids);
        match question_of(question, otherwise) {
            Some(read) => *question = json!(read),
            None => _ = map.remove("question"),
        }
    }
}

/// The questions of a list that can be read. Those are open, unless they say that they are not.
pub(crate) fn questions(value: &Value) -> Vec<Question> {
    let list = value.get("questions").and_then(Value::as_array);
    let list = list.into_iter().flatten();
    list.filter_map(|question| question_of(question, QuestionState::Open))
        .collect()
}

/// A question, as far as it can be answered: one without an id or words cannot.
pub(crate) fn question_of(value: &Value, state: QuestionState) -> Option<Question> {
    if let Ok(question) = serde_json::from_value(value.clone()) {
        return Some(question);
    }
    let mut map = value.as_object()?.clone();
    same(&mut map, &["questionId", "requestId"]);
    same(&mut map, &["threadId", "sessionId"]);
    same(&mut map, &["runId", "turnId"]);
    let field = |name: &str| map.get(name);
    let options = field("options").and_then(Value::as_array);
    let options: Vec<QuestionOption> = options
        .into_iter()
        .flatten()
        .filter_map(option_of)
        .collect();
    Some(Question {
        question_id: read(field("questionId"))?,
        thread_id: read(field("threadId"))?,
        run_id: read(field("runId"))?,
        kind: read(field("kind")).unwrap_or(QuestionKind::Question),
        text: read(field("text"))?,
        free_text: read(field("freeText")).unwrap_or(options.is_empty()),
        options,
        tool: field("tool").map(|tool| read(Some(tool)).unwrap_or(ToolKind::Other)),
        state: match (field("state"), read(field("state"))) {
            (_, Some(state)) => state,
            // It ended, in a way that is not known here.
            (Some(Value::String(_)), None) => QuestionState::Withdrawn,
            _ => state,
        },
        asked_at: read(field("askedAt")).unwrap_or_else(Millis::now),
        closed_at: read(field("closedAt")),
        answer: read::<Answer>(field("answer")),
        closed_by: read(field("closedBy")),
        closed_by_principal: read(field("closedByPrincipal")),
    })
}

/// What a bridge offers, as far as it says.
pub(crate) fn capabilities(value: &Value) -> Capabilities {
    let list = |name: &str| {
        let list = value.get(name).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let texts = |name: &str| list(name).iter().filter_map(|v| read(Some(v))).collect();
    let providers = |name: &str| {
        let providers = list(name).into_iter().filter_map(|mut provider| {
            let map = provider.as_object_mut()?;
            let id = map.get("providerId").filter(|id| id.is_string())?.clone();
            for (field, otherwise) in [
                ("label", id),
                ("targets", json!([])),
                ("maxActive", json!(UNSAID_ACTIVE)),
                ("maxQueued", json!(UNSAID_QUEUED)),
            ] {
                let alike = |said: &Value| {
                    (said.is_string() && otherwise.is_string())
                        || (said.is_array() && otherwise.is_array())
                        || (said.is_u64() && otherwise.is_u64())
                };
                if !map.get(field).is_some_and(alike) {
                    map.insert(field.into(), otherwise);
                }
            }
            serde_json::from_value(provider).ok()
        });
        providers.collect()
    };
    let probes = list("providerProbeSummary").into_iter();
    Capabilities {
        single_agent: read(value.get("singleAgent")).unwrap_or(true),
        multi_agent: read(value.get("multiAgent")).unwrap_or(false),
        available_execution_targets: texts("availableExecutionTargets"),
        provider_catalog: providers("providerCatalog"),
        gateway_providers: providers("gatewayProviders"),
        provider_probe_summary: probes
            .filter_map(|mut probe| {
                let map = probe.as_object_mut()?;
                if !map.get("status").is_some_and(Value::is_string) {
                    map.insert("status".into(), json!(""));
                }
                serde_json::from_value(probe).ok()
            })
            .collect(),
        methods: texts("methods"),
        version: read(value.get("version")).unwrap_or_else(|| "unknown".to_owned()),
    }
}

fn read<T: DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    serde_json::from_value(value?.clone()).ok()
}

fn keep_known<T: DeserializeOwned>(map: &mut Map<String, Value>, name: &str) {
    if map.contains_key(name) && read::<Option<T>>(map.get(name)).is_none() {
        map.remove(name);
    }
}

fn step_of(value: &Value) -> Option<Step> {
    let text = |name: &str| read::<String>(value.get(name));
    let id = text("stepId").or_else(|| text("id"))?;
    Some(Step {
        title: text("title")
            .or_else(|| text("tool"))
            .unwrap_or_else(|| id.clone()),
        step_id: id,
        tool: text("tool"),
        // One of which no end is known goes on.
        state: read(value.get("state")).unwrap_or(StepState::Running),
        detail: text("detail"),
        duration_ms: read(value.get("durationMs")),
    })
}

/// A question in an event belongs to the event's thread and run, where it does not say so itself.
fn own(question: &mut Value, (thread, run): (Option<Value>, Option<Value>)) {
    let Some(map) = question.as_object_mut() else {
        return;
    };
    for (name, value) in [("threadId", thread), ("runId", run)] {
        if let Some(value) = value.filter(|_| !map.contains_key(name)) {
            map.insert(name.into(), value);
        }
    }
}

fn option_of(value: &Value) -> Option<QuestionOption> {
    let text = |name: &str| read::<String>(value.get(name));
    let option_id = text("optionId").or_else(|| text("id"))?;
    Some(QuestionOption {
        label: text("label")
            .or_else(|| text("name"))
            .unwrap_or_else(|| option_id.clone()),
        option_id,
        kind: text("kind"),
    })
}
