//! Everything that is sent fits the schema that the gateway's makers publish.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::QuestionId;
use threadline_e2e::peers::Peer;
use threadline_runtimes::{End, EndStatus, Files as _, Logged, Turns as _};

use super::script::{Do, Scripted, hello, plan, prepared, run_ref};

/// The definition of each method's parameters.
const PARAMS: [(&str, &str); 12] = [
    ("connect", "ConnectParams"),
    ("agent", "AgentParams"),
    ("agent.wait", "AgentWaitParams"),
    ("chat.history", "ChatHistoryParams"),
    ("chat.abort", "ChatAbortParams"),
    ("tasks.list", "TasksListParams"),
    ("sessions.files.list", "SessionsFilesListParams"),
    ("config.get", "ConfigGetParams"),
    ("question.list", "QuestionListParams"),
    ("question.get", "QuestionGetParams"),
    ("question.resolve", "QuestionResolveParams"),
    ("approval.resolve", "ApprovalResolveParams"),
];

#[tokio::test]
async fn what_is_sent_fits_the_published_schema() {
    let Some(peer) = Peer::find("protocol") else {
        return;
    };
    let file = peer.package("@openclaw/gateway-protocol/protocol.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let gateway = Scripted::start(|method, params, gateway| match method {
        "connect" => {
            let mut hello = hello(gateway);
            hello["features"]["methods"] = json!([
                "xworkmate.session.prepare",
                "tasks.list",
                "sessions.files.list",
                "question.list"
            ]);
            hello["auth"]["scopes"] = json!(["operator.questions"]);
            Do::Ok(hello)
        }
        "xworkmate.session.prepare" => Do::Ok(prepared(params["runId"].as_str().unwrap())),
        "agent" => Do::Ok(json!({"runId": params["idempotencyKey"], "status": "accepted"})),
        "agent.wait" if params["timeoutMs"] != 0 => Do::Ok(json!({"status": "ok"})),
        "xworkmate.artifacts.list" => {
            Do::Ok(json!({"artifactScope": "tasks/agent-main-draft-1/turn-1"}))
        }
        // It is at work, so that what waits for answers is asked.
        "chat.history" => Do::Ok(json!({"inFlightRun": {"runId": "turn-1"}})),
        "question.get" => Do::Ok(json!({"question": {"id": "q", "status": "pending",
            "questions": [{"questionId": "color", "question": "Which?"}]}})),
        _ => Do::Ok(json!({})),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "attached").unwrap();
    let mut plan = plan("turn-1", "do it");
    plan.attachments = vec![threadline_runtimes::Attachment {
        name: "note.txt".into(),
        path: file,
        sha256: threadline_contract::Sha256::from_hex(&"0".repeat(64)).unwrap(),
    }];
    let places = runtime.prepare(&plan).await.unwrap();
    runtime.start(&plan, &places).await.unwrap();
    runtime.ask_registry(&run_ref("turn-1")).await.unwrap();
    runtime.cancel(&run_ref("turn-1")).await.unwrap();
    for question in ["openclaw-ask:q:color", "openclaw-exec:e"] {
        let question = QuestionId::new(question).unwrap();
        let run = run_ref("turn-1");
        runtime.answer(&run, &question, Some("x")).await.unwrap();
    }
    // Told in part before, so that it is looked up.
    let mut signals = runtime
        .follow(&run_ref("turn-1"), Logged::up_to(1))
        .await
        .unwrap();
    while signals.recv().await.is_some() {}
    let ended = End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text: None,
        usage: None,
        wrote: vec![],
    };
    runtime.collect(&plan, &ended).await.unwrap();

    let mut sent = gateway.look(|g| g.requests.clone());
    sent.extend(
        gateway
            .look(|g| g.connects.clone())
            .into_iter()
            .map(|(_, c)| ("connect".to_owned(), c)),
    );
    let mut seen = BTreeSet::new();
    for (method, params) in sent.iter().filter(|(m, _)| !m.starts_with("xworkmate.")) {
        let known = PARAMS.iter().find(|(name, _)| name == method);
        let (name, definition) = known.unwrap_or_else(|| panic!("{method} is not in the list"));
        let wrong = misfits(&schema, &schema["definitions"][definition], params, method);
        assert_eq!(wrong, [""; 0], "{method}: {params:#}");
        seen.insert(*name);
    }
    let all: BTreeSet<&str> = PARAMS.iter().map(|(name, _)| *name).collect();
    assert_eq!(seen, all);
}

/// What does not fit, by the parts of JSON Schema that the file uses for requests.
fn misfits(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.trim_start_matches('#');
        return misfits(root, root.pointer(pointer).unwrap(), value, at);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = any.iter().any(|s| misfits(root, s, value, at).is_empty());
        return if fits {
            vec![]
        } else {
            vec![format!("{at} fits none")]
        };
    }
    let mut out = vec![];
    if schema.get("const").is_some_and(|c| c != value) {
        out.push(format!("{at} is not the constant"));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|e| !e.contains(value))
    {
        out.push(format!("{at} is not one of the words"));
    }
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    };
    if !fits {
        out.push(format!("{at} is not a {}", schema["type"]));
    }
    if let Some(fields) = value.as_object() {
        for required in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(required.as_str().unwrap()) {
                out.push(format!("{at} lacks {required}"));
            }
        }
        for (name, field) in fields {
            match schema["properties"].get(name) {
                Some(of) => out.extend(misfits(root, of, field, &format!("{at}.{name}"))),
                None if schema["additionalProperties"] == json!(false) => {
                    out.push(format!("{at} may not have {name}"));
                }
                None => {}
            }
        }
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        out.extend(misfits(root, &schema["items"], item, &format!("{at}[{i}]")));
    }
    out
}
