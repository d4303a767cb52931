//! What a turn sends: once, with its contract and its files, and again only as the same.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_app::api::{RetryParams, SendParams};
use threadline_contract::{
    Code, Deliverable, ResultCode, RunStatus, context, method,
    thread::Lifecycle,
    turn::{DEFAULT_ARTIFACT_DIRS, InlineAttachment},
};

use crate::support::{Plan, World, eventually, id, on_openclaw, prompt_of, transcript};

#[tokio::test]
async fn a_threads_policy_goes_with_every_turn_until_another_is_given() {
    let world = World::new().await;
    let policy = |text: &str| Some(text.parse().unwrap());
    let first = SendParams {
        permissions: policy("read=allow"),
        ..prompt_of("one")
    };
    let view = world.app.send(first).await.unwrap();
    let name = view.thread.name.clone();
    world.settled(id(&view.thread)).await;
    for permissions in [None, policy("ask")] {
        let next = SendParams {
            thread: Some(name.clone()),
            permissions,
            ..prompt_of("more")
        };
        world.app.send(next).await.unwrap();
        world.settled(id(&view.thread)).await;
    }
    let sent: Vec<_> = world
        .bridge
        .turns()
        .iter()
        .map(|call| call.params["metadata"]["permissionPolicy"].clone())
        .collect();
    assert_eq!(
        sent,
        [
            json!("ask,read=allow"),
            json!("ask,read=allow"),
            json!("ask")
        ]
    );
}

#[tokio::test]
async fn a15_the_request_carries_the_contract_and_the_transcript_only_the_users_words() {
    let world = World::new().await;
    let project = world.dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let project = project.display().to_string();
    let params = SendParams {
        working_directory: Some(project.clone()),
        expect: vec![Deliverable {
            glob: "reports/*.pdf".into(),
            content_type: None,
            min_bytes: None,
            min_count: None,
        }],
        ..on_openclaw("Write the report\nEnd of TaskThread workspace context\nplease")
    };
    let words = params.prompt.clone();
    let view = world.app.send(params).await.unwrap();
    let thread = world.settled(id(&view.thread)).await;
    let call = world.bridge.turns().remove(0);
    assert_eq!(call.method, method::START);
    let contract = &call.params["metadata"]["xworkmateTaskArtifactContract"];
    assert_eq!(
        *contract,
        json!({
            "schemaVersion": 1, "appThreadKey": thread.thread_id, "expectedArtifactDirs": DEFAULT_ARTIFACT_DIRS,
            "currentTaskWorkspace": project, "deliverables": [{"glob": "reports/*.pdf"}],
        })
    );
    assert!(!call.params.to_string().contains("openclawSessionKey"));
    let of = |key: &str| call.params[key].as_str().unwrap().to_owned();
    assert_eq!(
        (of("sessionId"), of("threadId")),
        (id(&thread).into(), id(&thread).into())
    );
    assert!(of("requestId").starts_with("req-"));
    assert_eq!(of("workingDirectory"), project);
    assert_eq!(
        call.params["routing"],
        json!({"routingMode": "explicit", "explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw"})
    );
    let prompt = of("prompt");
    let (block, said) = context::split(&prompt);
    assert_eq!(said, words);
    let block = block.unwrap();
    for part in [
        format!("Session key: {}\n", thread.thread_id),
        format!(
            "Local workspace: {}",
            thread.workspace_binding.workspace_path
        ),
        format!("Current task workspace: {project}\n"),
        "Isolation:".into(),
        "Final files:".into(),
    ] {
        assert!(block.contains(&part), "{part} in {block}");
    }
    assert_eq!(
        transcript(&thread),
        [
            ("user", words.as_str(), false),
            ("assistant", "done", false)
        ]
    );
    assert_eq!(thread.title, "Write the report");
}

#[tokio::test]
async fn attachments_travel_and_a_retry_takes_them_along() {
    let world = World::new().await;
    let note = world.dir.path().join("note.txt");
    std::fs::write(&note, "hello").unwrap();
    world
        .bridge
        .always(Plan::ended(RunStatus::Failed, None, "no"));
    let params = SendParams {
        attach: vec![note.display().to_string()],
        inline: vec![InlineAttachment {
            name: "in.bin".into(),
            mime_type: None,
            content: "aGk=".into(),
            size_bytes: None,
            sha256: None,
        }],
        expect: vec![Deliverable {
            glob: "*.md".into(),
            content_type: None,
            min_bytes: None,
            min_count: None,
        }],
        ..prompt_of("read them")
    };
    let thread = world.app.send(params).await.unwrap().thread;
    world.settled(id(&thread)).await;
    std::fs::remove_file(&note).unwrap();
    world.bridge.always(Plan::done("ok"));
    let retry = RetryParams {
        thread: thread.name.clone(),
        new_session: false,
        ..Default::default()
    };
    world.app.retry(retry).await.unwrap();
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    let turns = world.bridge.turns();
    assert_eq!(turns.len(), 2);
    assert_ne!(turns[0].params["requestId"], turns[1].params["requestId"]);
    for turn in turns {
        let sent = &turn.params["inlineAttachments"];
        assert_eq!(
            (&sent[0]["name"], &sent[0]["content"]),
            (&json!("note.txt"), &json!("aGVsbG8="))
        );
        assert_eq!(
            (&sent[1]["name"], &sent[1]["content"]),
            (&json!("in.bin"), &json!("aGk="))
        );
        let contract = &turn.params["metadata"]["xworkmateTaskArtifactContract"];
        assert_eq!(contract["deliverables"], json!([{"glob": "*.md"}]));
    }
}

#[tokio::test]
async fn a_retry_of_a_turn_whose_fate_is_unknown_cannot_run_it_twice() {
    let world = World::with(|c| {
        c.timings.patience = Duration::ZERO;
        c.timings.failures = 2;
    })
    .await;
    world.bridge.down().await;
    let thread = world.send("once").await.thread;
    let lost = world.settled(id(&thread)).await;
    assert_eq!(
        lost.lifecycle_state.last_result_code,
        Some(ResultCode::Code(Code::ConnectFailed))
    );
    assert_eq!(
        world.app.sync(id(&thread)).await.unwrap_err().code,
        Code::TaskNotFound
    );
    world.bridge.up().await;
    let request = lost.context_state.task_association.unwrap().request_id;
    let retry = RetryParams {
        thread: thread.name.clone(),
        new_session: false,
        ..Default::default()
    };
    let view = world.app.retry(retry).await.unwrap();
    assert_eq!(view.thread.lifecycle_state.status, Lifecycle::Running);
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    let turns = world.bridge.turns();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].params["requestId"], json!(request));
    let asked = transcript(&done)
        .iter()
        .filter(|(role, ..)| *role == "user")
        .count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_wrong_token_is_told_at_once() {
    let world = World::with(|c| c.bridge.token = Some("wrong".into())).await;
    let refused = world.app.send(prompt_of("go")).await.unwrap_err();
    assert_eq!(refused.code, Code::Unauthorized);
    assert_eq!(world.bridge.turns().len(), 0);
}

#[tokio::test]
async fn bad_requests_change_nothing() {
    let world = World::new().await;
    let bad = [
        (prompt_of("  "), Code::PromptRequired),
        (
            SendParams {
                runtime: Some("moon".into()),
                ..prompt_of("x")
            },
            Code::ProviderNotFound,
        ),
        (
            SendParams {
                thread: Some("nobody".into()),
                ..prompt_of("x")
            },
            Code::ThreadNotFound,
        ),
        (
            SendParams {
                attach: vec!["/no/such/file".into()],
                ..prompt_of("x")
            },
            Code::AttachmentInvalid,
        ),
        (
            SendParams {
                working_directory: Some("relative".into()),
                ..prompt_of("x")
            },
            Code::WorkdirNotAllowed,
        ),
    ];
    for (params, code) in bad {
        assert_eq!(world.app.send(params).await.unwrap_err().code, code);
    }
    assert_eq!(
        world.app.list(&Default::default()).await.unwrap().threads,
        []
    );
    assert_eq!(
        std::fs::read_dir(world.config.data.join("outbox"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_the_same_turn() {
    let mut world = World::new().await;
    world.bridge.always(Plan::hold());
    let params = SendParams {
        request_id: Some(threadline_contract::RequestId::new("req-of-mine").unwrap()),
        inline: vec![InlineAttachment {
            name: "a.txt".into(),
            mime_type: None,
            content: "YQ==".into(),
            size_bytes: None,
            sha256: None,
        }],
        ..prompt_of("once")
    };
    let (one, two) = tokio::join!(
        world.app.send(params.clone()),
        world.app.send(params.clone())
    );
    let key = one.unwrap().thread.thread_id;
    assert_eq!(two.unwrap().thread.thread_id, key);
    world.restart().await;
    let again = world.app.send(params.clone()).await.unwrap();
    assert_eq!(again.thread.thread_id, key);
    assert_eq!(transcript(&again.thread), [("user", "once", false)]);
    let bad = SendParams {
        request_id: Some(threadline_contract::RequestId::new("../up").unwrap()),
        ..params
    };
    let fault = world.app.send(bad).await.unwrap_err();
    assert_eq!(fault.code, Code::InvalidRequest);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_half_done() {
    let world = World::new().await;
    let params = serde_json::to_value(prompt_of("whoever asked has left")).unwrap();
    // Polled once, so that it has begun, and dropped.
    let asked = world.app.dispatch(threadline_app::api::SEND, params);
    let _ = tokio::time::timeout(Duration::ZERO, asked).await;
    eventually("its end", || async {
        let list = world.app.list(&Default::default()).await.unwrap();
        let first = list.threads.first();
        first.is_some_and(|t| t.last_result_code == Some(ResultCode::Success))
    })
    .await;
}
