use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn params(change: impl FnOnce(&mut Value)) -> Result<Turn, Fault> {
    let mut value = json!({
        "sessionId": "draft:1", "threadId": "draft:1", "prompt": "write", "routing": {"explicitProviderId": "builtin"},
        "metadata": {"xworkmateTaskArtifactContract": {"schemaVersion": 1, "appThreadKey": "draft:1", "expectedArtifactDirs": ["reports", "reports/"]}}
    });
    change(&mut value);
    serde_json::from_value::<TurnParams>(value).unwrap().check()
}

#[test]
fn a_turn_is_read_whole() {
    let turn = params(|v| {
        v["requestId"] = json!("r-1");
        v["agentId"] = json!("Writer");
    })
    .unwrap();
    assert_eq!(
        turn,
        Turn {
            thread: AppThreadKey::new("draft:1").unwrap(),
            request: Some(RequestId::new("r-1").unwrap()),
            prompt: "write".into(),
            working_directory: None,
            routing: Routing {
                explicit_provider_id: Some("builtin".into()),
                ..Routing::default()
            },
            agent: Some("writer".into()),
            attachments: vec![],
            expected_dirs: vec!["reports/".into()],
            deliverables: vec![],
            permission_policy: None,
            load_class: LoadClass::LongTask,
        }
    );
}

#[test]
fn metadata_says_how_long_and_what_may_be_done() {
    let said = |more: Value| {
        let turn = params(|v| {
            for (name, value) in more.as_object().unwrap() {
                v["metadata"][name] = value.clone();
            }
        })
        .unwrap();
        let policy = turn.permission_policy.map(|policy| policy.to_string());
        (policy, turn.load_class)
    };
    let full = Some("allow".to_owned());
    assert_eq!(
        said(json!({"permissionLevel": "fullAccess", "taskLoadClass": "short_task"})),
        (full, LoadClass::ShortTask)
    );
    let both = json!({"permissionLevel": "fullAccess", "permissionPolicy": {"read": "allow"}, "taskLoadClass": "complex_chain_task"});
    assert_eq!(
        said(both),
        (Some("ask,read=allow".into()), LoadClass::ComplexChainTask)
    );
    let asks = (Some("ask".to_owned()), LoadClass::LongTask);
    assert_eq!(said(json!({"permissionLevel": "defaultAccess"})), asks);
}

#[test]
fn the_prompt_may_come_under_older_names() {
    let turn = params(|v| {
        v["prompt"] = json!("  ");
        v["messages"] = json!([{"role": "user", "content": "old"}, {"role": "user", "content": "new"}, {"role": "assistant", "content": "x"}]);
    });
    assert_eq!(turn.unwrap().prompt, "new");
    assert_eq!(
        params(|v| v["prompt"] = json!("")).unwrap_err().code,
        Code::PromptRequired
    );
}

#[test]
fn what_is_wrong_is_named() {
    let code = |r: Result<Turn, Fault>| r.unwrap_err().code;
    assert_eq!(
        code(params(|v| v["routing"] = Value::Null)),
        Code::RoutingRequired
    ); // B07
    assert_eq!(
        code(params(|v| v["openclawSessionKey"] = json!("agent:main:x"))),
        Code::InvalidRequest
    );
    assert_eq!(
        code(params(|v| v["metadata"] = json!({}))),
        Code::InvalidRequest
    );
    assert_eq!(
        code(params(|v| v["threadId"] = json!("draft:2"))),
        Code::InvalidRequest
    );
    let contract = "xworkmateTaskArtifactContract";
    assert_eq!(
        code(params(
            |v| v["metadata"][contract]["schemaVersion"] = json!(2)
        )),
        Code::InvalidRequest
    );
    assert_eq!(
        code(params(
            |v| v["metadata"][contract]["sessionKey"] = json!("x")
        )),
        Code::InvalidRequest
    );
    for dir in ["../outside", "/etc", "C:\\x", "a/./b"] {
        assert_eq!(
            code(params(
                |v| v["metadata"][contract]["expectedArtifactDirs"] = json!([dir])
            )),
            Code::InvalidRequest
        ); // P28, P29
    }
}

#[test]
fn older_required_extensions_become_deliverables() {
    let turn = params(|v| {
        v["metadata"]["xworkmateTaskArtifactContract"]["requiredArtifactExtensions"] =
            json!([".PDF"])
    });
    assert_eq!(
        turn.unwrap().deliverables,
        vec![Deliverable {
            glob: "**/*.pdf".into(),
            content_type: None,
            min_bytes: None,
            min_count: None
        }]
    );
}

#[test]
fn b21_only_the_folders_of_the_contract_count() {
    let turn = params(|v| {
        v["expectedArtifactDirs"] = json!(["root/"]);
        v["metadata"]["expectedArtifactDirs"] = json!(["metadata/"]);
    });
    assert_eq!(turn.unwrap().expected_dirs, ["reports/"]);
}

#[test]
fn the_aliases_of_existing_apps_count_where_routing_names_nothing() {
    use crate::{RuntimeId, routing::Wanted};
    let wanted = |routing: Value, more: Value| {
        let turn = params(|v| {
            v["routing"] = routing;
            for (name, value) in more.as_object().unwrap() {
                v[name] = value.clone();
            }
        });
        turn.unwrap().routing.wanted().map_err(|f| f.code)
    };
    let codex = Ok(Wanted::Runtime(RuntimeId::Acp("codex".into())));
    assert_eq!(
        wanted(
            json!({}),
            json!({"executionTarget": "agent", "provider": "codex"})
        ),
        codex
    );
    assert_eq!(
        wanted(
            json!({"routingMode": "explicit"}),
            json!({"requestedExecutionTarget": "singleAgent", "provider": "codex"})
        ),
        codex
    );
    assert_eq!(
        wanted(
            json!({"explicitProviderId": "codex"}),
            json!({"executionTarget": "gateway", "provider": "gemini"})
        ),
        codex
    );
    // An agent may be spelled as its runtime is.
    for routing in [
        json!({"explicitProviderId": "acp:codex"}),
        json!({"explicitExecutionTarget": "agent", "explicitProviderId": "acp:codex"}),
    ] {
        assert_eq!(wanted(routing, json!({})), codex);
    }
    assert_eq!(
        wanted(
            json!({"routingMode": "auto"}),
            json!({"executionTarget": "agent"})
        ),
        Ok(Wanted::Auto)
    );
    assert_eq!(
        wanted(json!({}), json!({"executionTarget": "agent"})),
        Ok(Wanted::AnyAgent)
    );
    assert_eq!(
        wanted(json!({}), json!({"executionTarget": "gateway"})),
        Err(Code::RoutingFailed)
    );
}
