//! A turn is executed once, whatever breaks, and ends as the gateway says.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Code;
use threadline_runtimes::{End, EndStatus, Frame, Logged, Registry, Signal, Turns as _, Update};

use super::script::{Do, Gateway, Scripted, end, hello, plan, prepared, run_ref, until};

/// What a gateway does that nothing else was said about.
pub(crate) fn usual(method: &str, params: &Value, gateway: &mut Gateway) -> Do {
    match method {
        "connect" => Do::Ok(hello(gateway)),
        "xworkmate.session.prepare" => Do::Ok(prepared(params["runId"].as_str().unwrap())),
        "agent" => Do::Ok(json!({"runId": params["idempotencyKey"], "status": "accepted"})),
        "agent.wait" => Do::Ok(json!({"runId": params["runId"], "status": "timeout"})),
        "chat.history" => Do::Ok(json!({"messages": []})),
        "tasks.list" => Do::Ok(json!({"tasks": []})),
        _ => Do::Ok(json!({})),
    }
}

pub(crate) async fn begin(
    runtime: &threadline_runtimes::openclaw::OpenClaw,
    run: &str,
) -> Result<(), Code> {
    let plan = plan(run, "do it");
    let places = runtime.prepare(&plan).await.map_err(|f| f.code)?;
    runtime.start(&plan, &places).await.map_err(|f| f.code)
}

/// The transcript of a session whose turn the gateway takes up again after a restart, under another id.
pub(crate) fn taken_up() -> Do {
    Do::Ok(json!({
        "messages": [{"role": "user", "idempotencyKey": "turn-1:user"}, took_up("resumed")],
        "inFlightRun": {"runId": "resumed"},
    }))
}

/// The message with which the gateway takes a turn up, under this name.
fn took_up(name: &str) -> Value {
    json!({"role": "user", "idempotencyKey": format!("{name}:user"),
           "provenance": {"sourceTool": "main_session_restart_recovery"}})
}

/// Sends a turn to a gateway that dies with it: its answer comes, and it was sent once.
async fn survives(gateway: &Scripted) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let signals = end(&runtime, "turn-1").await;
    assert_eq!(signals.last(), Some(&Signal::End(completed("survived"))));
    assert_eq!(gateway.look(|g| g.asked("agent").len()), 1);
}

pub(crate) fn completed(text: &str) -> End {
    End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text: Some(text.into()),
        usage: None,
        wrote: vec![],
    }
}

#[tokio::test]
async fn answers_out_of_order_and_twice_go_to_whom_they_belong() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        // The second answer of the same request comes when the run ends.
        "agent" => Do::Frames(vec![
            json!({"type": "res", "id": "tl-999", "ok": true, "payload": {"runId": "nobody's"}}),
            json!({"type": "res", "id": "$id", "ok": true, "payload": {"runId": "turn-1", "status": "accepted"}}),
            json!({"type": "res", "id": "$id", "ok": true, "payload": {"runId": "turn-1", "status": "ok"}}),
        ]),
        "agent.wait" => Do::Frames(vec![
            json!({"type": "event", "event": "agent", "seq": 2, "payload": {"runId": "turn-1", "sessionKey": "agent:main:draft:1",
                "stream": "assistant", "data": {"itemId": "i", "text": "hal"}}}),
            json!({"type": "event", "event": "agent", "seq": 3, "payload": {"runId": "other", "sessionKey": "agent:main:x",
                "stream": "assistant", "data": {"itemId": "i", "text": "not ours"}}}),
            json!({"type": "res", "id": "$id", "ok": true, "payload": {"runId": "turn-1", "status": "ok", "endedAt": 9,
                "terminalReply": {"disposition": "visible", "text": "half and whole"}}}),
        ]),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let signals = end(&runtime, "turn-1").await;
    let text: String = signals
        .iter()
        .filter_map(|s| match s {
            Signal::Frame(Frame {
                update: Update::Text(text),
                ..
            }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "half and whole");
    assert_eq!(
        signals.last(),
        Some(&Signal::End(completed("half and whole")))
    );
    // It stays so, also after our restart and without the gateway.
    let again = gateway.runtime(folder.path(), Some("t"));
    assert_eq!(
        again.ask_registry(&run_ref("turn-1")).await,
        Ok(Registry::Ended(completed("half and whole")))
    );
}

/// The connection breaks after the turn was sent. The same start of the gateway may be asked again: it
/// knows the id.
#[tokio::test]
async fn the_same_start_of_the_gateway_is_sent_the_same_id() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent" if gateway.times("agent") == 1 => Do::Drop,
        "agent" => Do::Ok(json!({"runId": params["idempotencyKey"], "status": "in_flight"})),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    assert_eq!(
        begin(&runtime, "turn-1").await,
        Err(Code::ProviderUnavailable)
    );
    assert_eq!(begin(&runtime, "turn-1").await, Ok(()));
    let sent = gateway.look(|g| g.asked("agent"));
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
    assert_eq!(sent[0]["idempotencyKey"], json!("turn-1"));
}

/// Another start of the gateway would execute the turn again: it is sent there only without a trace.
#[tokio::test]
async fn another_start_of_the_gateway_is_asked_first() {
    for (rows, sent) in [
        (json!([]), 2),
        (
            json!([{"role": "user", "idempotencyKey": "turn-1:user"}]),
            1,
        ),
        (
            json!([{"role": "user", "idempotencyKey": "turn-1:user"},
                   {"role": "assistant", "content": [{"type": "text", "text": "done"}], "stopReason": "stop",
                    "__openclaw": {"runId": "turn-1", "id": "row"}}]),
            1,
        ),
    ] {
        let told = rows.clone();
        let gateway = Scripted::start(move |method, params, gateway| match method {
            "agent" if gateway.times("agent") == 1 => {
                gateway.boot = "boot-2".into();
                gateway.uptime_ms = 10_000;
                Do::Drop
            }
            "chat.history" => Do::Ok(json!({"messages": told})),
            _ => usual(method, params, gateway),
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let runtime = gateway.runtime(folder.path(), Some("t"));
        assert_eq!(
            begin(&runtime, "turn-1").await,
            Err(Code::ProviderUnavailable)
        );
        assert_eq!(begin(&runtime, "turn-1").await, Ok(()));
        assert_eq!(gateway.look(|g| g.asked("agent").len()), sent, "{rows}");
    }
}

/// Killed with the turn in its hands; the new start takes it up under another name.
#[tokio::test]
async fn a_turn_that_is_taken_up_under_another_name_is_followed() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent.wait" if gateway.boot == "boot-1" => {
            gateway.boot = "boot-2".into();
            gateway.uptime_ms = 3_000;
            Do::Drop
        }
        "agent.wait" if params["runId"] == "resumed" && params["timeoutMs"] != 0 => {
            Do::Ok(json!({"status": "ok", "endedAt": 4, "terminalReply": {"text": "survived"}}))
        }
        "chat.history" => taken_up(),
        _ => usual(method, params, gateway),
    })
    .await;
    survives(&gateway).await;
}

/// Killed again when it had just taken the turn up: what it says of the second name is as old as that
/// of the first.
#[tokio::test]
async fn a_turn_that_is_taken_up_twice_is_followed() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent.wait" if gateway.boot == "boot-1" => {
            gateway.boot = "boot-3".into();
            gateway.uptime_ms = 3_000;
            Do::Drop
        }
        "agent.wait" if params["runId"] == "again" && params["timeoutMs"] != 0 => {
            Do::Ok(json!({"status": "ok", "endedAt": 4, "terminalReply": {"text": "survived"}}))
        }
        "tasks.list" => {
            let over = |run: &str| json!({"runId": run, "status": "cancelled", "error": "Task execution process exited before restart."});
            Do::Ok(json!({"tasks": [over("turn-1"), over("resumed")]}))
        }
        "chat.history" => {
            let asked = json!({"role": "user", "idempotencyKey": "turn-1:user"});
            match gateway.times("chat.history") < 4 {
                true => Do::Ok(json!({"messages": [asked, took_up("resumed")]})),
                false => Do::Ok(json!({
                    "messages": [asked, took_up("resumed"), took_up("again")],
                    "inFlightRun": {"runId": "again"},
                })),
            }
        }
        _ => usual(method, params, gateway),
    })
    .await;
    survives(&gateway).await;
}

#[tokio::test]
async fn a_turn_that_the_gateway_refuses_never_began() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent" => Do::No(json!({"code": "INVALID_REQUEST", "message": "no such agent"})),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    assert_eq!(begin(&runtime, "turn-1").await, Err(Code::ExecutionFailed));
    assert_eq!(
        runtime.ask_registry(&run_ref("turn-1")).await,
        Ok(Registry::NoRecord)
    );
}

#[tokio::test]
async fn a_stop_names_the_run_and_its_end_is_the_gateways_word() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent.wait" => match gateway.counters.contains_key("chat.abort") {
            true => Do::Ok(json!({"status": "error", "error": "aborted", "stopReason": "rpc"})),
            false => Do::Nothing,
        },
        "chat.abort" => {
            gateway.times("chat.abort");
            Do::Frames(vec![
                json!({"type": "res", "id": "$id", "ok": true, "payload": {"ok": true, "aborted": true}}),
                json!({"type": "event", "event": "chat", "payload": {"runId": "turn-1",
                    "sessionKey": "agent:main:draft:1", "state": "aborted", "stopReason": "rpc"}}),
            ])
        }
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let run = run_ref("turn-1");
    let mut signals = runtime.follow(&run, Logged::up_to(0)).await.unwrap();
    until(|| gateway.look(|g| !g.asked("agent.wait").is_empty())).await;
    runtime.cancel(&run).await.unwrap();
    // The gateway never answers the first wait: its event is its word.
    let ended = loop {
        match signals.recv().await.unwrap() {
            Signal::End(end) => break end,
            Signal::Frame(_) => {}
        }
    };
    assert_eq!((ended.status, ended.text), (EndStatus::Cancelled, None));
    assert_eq!(
        gateway.look(|g| g.asked("chat.abort")),
        [json!({"sessionKey": "agent:main:draft:1", "runId": "turn-1"})]
    );
}

#[tokio::test]
async fn instructions_stand_above_the_message_and_not_in_it() {
    let gateway = Scripted::start(usual).await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    for (run, instructions) in [("turn-1", Some("Be brief.")), ("turn-2", None)] {
        let plan = threadline_runtimes::TurnPlan {
            instructions: instructions.map(str::to_owned),
            ..plan(run, "do it")
        };
        let places = runtime.prepare(&plan).await.unwrap();
        runtime.start(&plan, &places).await.unwrap();
    }
    let sent = |run: &str| json!({"message": "do it", "sessionKey": "agent:main:draft:1", "idempotencyKey": run, "deliver": false});
    let mut first = sent("turn-1");
    first["extraSystemPrompt"] = json!("Be brief.");
    assert_eq!(gateway.look(|g| g.asked("agent")), [first, sent("turn-2")]);
}
