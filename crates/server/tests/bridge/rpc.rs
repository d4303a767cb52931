//! Requests that are refused, each with its code and a sentence.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{OTHER, TOKEN, World, turn, with};

async fn raw(world: &World, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let answer = world
        .http
        .post(format!("{}/acp/rpc", world.url))
        .bearer_auth(TOKEN)
        .body(body)
        .send()
        .await
        .unwrap();
    (
        answer.status().as_u16(),
        answer.json().await.unwrap_or(Value::Null),
    )
}

#[tokio::test]
async fn envelopes_that_are_not_requests() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let error = |v: &Value| {
        (
            v["error"]["code"].clone(),
            v["error"]["data"]["code"].clone(),
            v["id"].clone(),
        )
    };

    let (status, body) = raw(&world, "notjson").await; // B04
    assert_eq!(
        (status, error(&body)),
        (400, (json!(-32700), json!("INVALID_JSON"), Value::Null))
    );
    let (status, body) = raw(
        &world,
        r#"[{"jsonrpc":"2.0","id":1,"method":"acp.capabilities"}]"#,
    )
    .await; // B14
    assert_eq!(
        (status, error(&body)),
        (400, (json!(-32600), json!("INVALID_ENVELOPE"), Value::Null))
    );
    let (status, body) = raw(
        &world,
        r#"{"jsonrpc":"2.0","id":0,"method":"acp.capabilities"}"#,
    )
    .await; // B14
    assert_eq!(
        (status, &body["id"], &body["result"]["singleAgent"]),
        (200, &json!(0), &json!(true))
    );
    let (status, body) = raw(&world, r#"{"jsonrpc":"2.0","method":"acp.capabilities"}"#).await; // B14
    assert_eq!((status, body), (204, Value::Null));
    let (status, body) = raw(&world, r#"{"jsonrpc":"2.0","id":"x","method":"no.such"}"#).await;
    assert_eq!(
        (status, error(&body)),
        (200, (json!(-32601), json!("METHOD_NOT_FOUND"), json!("x")))
    );
    let bad = r#"{"jsonrpc":"2.0","id":"y","method":"acp.capabilities","params":"x"}"#;
    let (status, body) = raw(&world, bad).await;
    assert_eq!(
        (status, error(&body)),
        (400, (json!(-32602), json!("INVALID_REQUEST"), json!("y")))
    );
    let (status, body) = raw(&world, vec![b' '; 41 << 20]).await; // B15
    assert_eq!(
        (status, error(&body)),
        (413, (json!(-32600), json!("BODY_TOO_LARGE"), Value::Null))
    );

    let got = world
        .http
        .get(format!("{}/acp/rpc", world.url))
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap(); // B03
    assert_eq!(
        (
            got.status().as_u16(),
            got.headers()["allow"].to_str().unwrap()
        ),
        (405, "POST")
    );
    assert_eq!(
        got.json::<Value>().await.unwrap()["error"]["code"],
        json!(-32600)
    );
    for path in ["/gateway/openclaw", "/acp-server/codex"] {
        let gone = world
            .http
            .post(format!("{}{path}", world.url))
            .bearer_auth(TOKEN)
            .send()
            .await
            .unwrap(); // B12
        assert_eq!(gone.status(), 410);
        assert_eq!(
            gone.json::<Value>().await.unwrap()["error"]["data"]["code"],
            json!("PROVIDER_DIRECT_PATH_DISABLED")
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn turns_that_cannot_be_taken() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let good = turn("draft:1", "[[say hi]]");
    let contract = |change: Value| {
        with(
            good.clone(),
            json!({"metadata": {"xworkmateTaskArtifactContract": change}}),
        )
    };
    let cases = [
        (
            with(good.clone(), json!({"routing": null})),
            "ROUTING_REQUIRED",
        ), // B07
        (
            with(
                good.clone(),
                json!({"routing": {"explicitExecutionTarget": "moon"}}),
            ),
            "ROUTING_FAILED",
        ),
        (
            with(good.clone(), json!({"prompt": "   "})),
            "OPENCLAW_TASK_PROMPT_REQUIRED",
        ),
        (with(good.clone(), json!({"prompt": 7})), "INVALID_REQUEST"),
        (
            with(good.clone(), json!({"sessionId": ""})),
            "INVALID_REQUEST",
        ),
        (
            with(good.clone(), json!({"sessionId": "x".repeat(481)})),
            "INVALID_REQUEST",
        ),
        (
            with(good.clone(), json!({"threadId": "draft:2"})),
            "INVALID_REQUEST",
        ),
        (
            with(good.clone(), json!({"requestId": "x".repeat(129)})),
            "INVALID_REQUEST",
        ),
        (
            with(good.clone(), json!({"openclawSessionKey": "agent:main:x"})),
            "INVALID_REQUEST",
        ),
        (
            with(good.clone(), json!({"metadata": null})),
            "INVALID_REQUEST",
        ),
        (contract(json!({"schemaVersion": 2})), "INVALID_REQUEST"),
        (
            contract(json!({"expectedArtifactDirs": ["../x"]})),
            "INVALID_REQUEST",
        ),
        (
            contract(json!({"deliverables": [{"glob": "[oops"}]})),
            "INVALID_REQUEST",
        ),
        (
            contract(json!({"deliverables": [{"glob": "a", "minimum": 3}]})),
            "INVALID_REQUEST",
        ),
        (
            with(good.clone(), json!({"workingDirectory": "/etc"})),
            "WORKDIR_NOT_ALLOWED",
        ),
        (
            with(good.clone(), json!({"workingDirectory": "relative"})),
            "WORKDIR_NOT_ALLOWED",
        ),
        (
            with(
                good.clone(),
                json!({"inlineAttachments": [{"name": "a", "content": "!"}]}),
            ),
            "ATTACHMENT_INVALID",
        ),
    ];
    for (params, code) in cases {
        assert_eq!(
            world.code("session.start", params.clone()).await,
            json!(code),
            "{params}"
        );
    }
    // Nothing half-made stays behind.
    assert_eq!(
        world
            .code("xworkmate.tasks.get", json!({"appThreadKey": "draft:1"}))
            .await,
        json!("mapping_not_found")
    );
    assert!(
        !folder
            .path()
            .join("tasks")
            .join("builtin-main-draft-1")
            .exists()
    );
    // A message never makes a session.
    assert_eq!(
        world.code("session.message", good.clone()).await,
        json!("SESSION_CONTINUATION_UNAVAILABLE")
    );
    // A runtime that is not there is a result, not an error.
    let unknown = world
        .rpc(
            "session.start",
            with(good, json!({"routing": {"explicitProviderId": "codex"}})),
        )
        .await;
    assert_eq!(
        unknown["result"],
        json!({"success": false, "status": "unavailable", "resolvedExecutionTarget": "agent", "resolvedProviderId": "codex",
               "runtime": "acp:codex", "unavailableCode": "PROVIDER_NOT_FOUND", "unavailableMessage": "No runtime is called acp:codex here."})
    );
    world.stop().await;
}

#[tokio::test]
async fn keys_that_would_share_a_folder_are_told_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    world.run(&turn("draft:a/b", "[[say one]]")).await;
    world.run(&turn("draft:é", "[[say one]]")).await;
    for twin in ["draft:a:b", "draft:e\u{301}"] {
        let refused = world.rpc("session.start", turn(twin, "[[say two]]")).await;
        assert_eq!(
            refused["error"]["data"]["code"],
            json!("CONFLICT"),
            "{refused}"
        );
        let said = refused["error"]["message"].as_str().unwrap();
        assert!(said.contains("is the folder of another thread"), "{said}");
        assert!(said.contains("Use another thread key"), "{said}");
        // Nothing was made for it.
        assert_eq!(
            world
                .code("xworkmate.tasks.get", json!({"appThreadKey": twin}))
                .await,
            json!("mapping_not_found")
        );
    }
    let (_, again) = world.run(&turn("draft:a/b", "[[say three]]")).await;
    assert_eq!(again["text"], json!("three"));
    world.stop().await;
}

#[tokio::test]
async fn what_a_turn_would_bring_can_be_checked_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let auto = json!({"routing": {"routingMode": "auto"}});
    let resolve = "xworkmate.routing.resolve";
    let good = json!({"workingDirectory": folder.path().to_str().unwrap(), "deliverables": [{"glob": "*.md"}]});
    let answer = world.rpc(resolve, with(auto.clone(), good)).await;
    assert_eq!(answer["result"]["runtime"], json!("builtin"), "{answer}");
    for (change, code) in [
        (json!({"deliverables": [{"glob": "a["}]}), "INVALID_REQUEST"),
        (json!({"workingDirectory": "/etc"}), "WORKDIR_NOT_ALLOWED"),
        (json!({"workingDirectory": "here"}), "WORKDIR_NOT_ALLOWED"),
    ] {
        assert_eq!(
            world.code(resolve, with(auto.clone(), change)).await,
            json!(code)
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn lookups_that_find_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (_, result) = world.run(&turn("draft:1", "[[say hi]]")).await;
    let get = "xworkmate.tasks.get";
    let cases = [
        (json!({}), "invalid_lookup"),
        (
            json!({"runId": result["runId"], "artifactScope": result["artifactScope"]}),
            "invalid_lookup",
        ),
        (json!({"appThreadKey": "draft:none"}), "mapping_not_found"),
        (
            json!({"openclawSessionKey": "agent:main:none"}),
            "mapping_not_found",
        ),
        (
            json!({"appThreadKey": "draft:1", "runId": "turn-none"}),
            "no_native_task_record", // B34
        ),
        (
            json!({"appThreadKey": "draft:1", "cursor": "x"}),
            "INVALID_REQUEST",
        ),
        (
            json!({"appThreadKey": "draft:1", "artifactScope": "tasks/a/b"}),
            "INVALID_REQUEST",
        ),
        (json!({"appThreadKey": ["draft:1"]}), "INVALID_REQUEST"),
    ];
    for (params, code) in cases {
        assert_eq!(
            world.code(get, params.clone()).await,
            json!(code),
            "{params}"
        );
    }
    let cancelled = world
        .rpc(
            "xworkmate.tasks.cancel",
            json!({"appThreadKey": "draft:1", "runId": "turn-none"}),
        )
        .await; // B43
    assert_eq!(
        (
            &cancelled["result"]["accepted"],
            &cancelled["result"]["code"]
        ),
        (&json!(false), &json!("TASK_SCOPE_NOT_OWNED_OR_RECOVERED"))
    );
    assert_eq!(
        world
            .code(
                "xworkmate.questions.answer",
                json!({"questionId": "q-1", "text": "x"})
            )
            .await,
        json!("QUESTION_NOT_FOUND")
    );
    // Another account's thread answers exactly like one that does not exist.
    for params in [
        json!({"appThreadKey": "draft:1"}),
        json!({"appThreadKey": "draft:none"}),
    ] {
        let other = world.rpc_as(OTHER, get, params.clone()).await;
        assert_eq!(
            other["error"]["data"]["code"],
            json!("mapping_not_found"),
            "{params}"
        );
    }
    world.stop().await;
}
