//! A gateway that stops while turns are under way, as a real one does when it is asked to: it answers no
//! questions, tells its runs' events to the end, and gives back what it has not begun.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Code;
use threadline_runtimes::{EndStatus, Registry, Signal, Turns as _};

use super::{
    once::{begin, completed, taken_up, usual},
    script::{Do, Gateway, Scripted, end, plan, run_ref, until},
};

fn turned_away() -> Do {
    Do::No(
        json!({"code": "UNAVAILABLE", "message": "unavailable during gateway restart",
        "retryable": true, "retryAfterMs": 1000,
        "details": {"reason": "gateway-restarting", "phase": "accepting"}}),
    )
}

fn restart(gateway: &mut Gateway, boot: &str) -> Do {
    gateway.boot = boot.into();
    gateway.uptime_ms = 10_000;
    Do::Drop
}

/// It turns a new turn away twice, then it is gone and back.
#[tokio::test]
async fn a_new_turn_waits_until_the_gateway_is_back() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent" => match gateway.times("agent") {
            1 | 2 => turned_away(),
            3 => restart(gateway, "boot-2"),
            _ => usual(method, params, gateway),
        },
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    // The third breaks in the middle, so that the registry must be asked.
    assert_eq!(
        begin(&runtime, "turn-1").await,
        Err(Code::ProviderUnavailable)
    );
    until(|| gateway.look(|g| g.connects.len()) == 2).await;
    assert_eq!(
        runtime.ask_registry(&run_ref("turn-1")).await,
        Ok(Registry::NoRecord)
    );
    assert_eq!(begin(&runtime, "turn-1").await, Ok(()));
    assert_eq!(gateway.look(|g| g.asked("agent").len()), 4);
}

/// It ends in the drain: no question is answered, but the event is heard, and it never comes back.
#[tokio::test]
async fn a_run_that_ends_while_the_gateway_stops_has_ended() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent.wait" => {
            let told = |event: &str, mut payload: Value| {
                payload["runId"] = json!("turn-1");
                payload["sessionKey"] = json!("agent:main:draft:1");
                json!({"type": "event", "event": event, "payload": payload})
            };
            let refused = json!({"type": "res", "id": "$id", "ok": false, "error": {
                "code": "UNAVAILABLE", "message": "no", "retryable": true,
                "details": {"reason": "gateway-restarting"}}});
            Do::Frames(vec![
                told("agent", json!({"stream": "lifecycle", "data": {"phase": "start"}})),
                refused,
                told("chat", json!({"state": "final", "message": {"content": [{"type": "text", "text": "drained"}]}})),
            ])
        }
        "chat.history" | "tasks.list" => turned_away(),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let signals = end(&runtime, "turn-1").await;
    assert_eq!(signals.last(), Some(&Signal::End(completed("drained"))));
}

/// What the gateway accepted and then did not begin is sent anew, under a name that it does not know.
async fn gives_back() -> Scripted {
    Scripted::start(|method, params, gateway| match (method, gateway.boot.as_str()) {
        ("agent.wait", "boot-1") => {
            let given_up = json!({"type": "res", "id": "$id", "ok": true, "payload": {
                "runId": "turn-1", "status": "error", "endedAt": 1, "error": "Gateway is draining"}});
            Do::Frames(vec![given_up])
        }
        ("chat.history", "boot-1") => restart(gateway, "boot-2"),
        ("agent.wait", _) if params["timeoutMs"] != 0 => Do::Ok(
            json!({"status": "ok", "endedAt": 4, "terminalReply": {"text": "after all"}}),
        ),
        ("tasks.list", "boot-2") => Do::Ok(json!({"tasks": [
            {"runId": "turn-1", "status": "failed", "error": "Gateway is draining"}]})),
        ("chat.history", _) if gateway.asked("agent").len() < 2 => Do::Ok(json!({
            "messages": [], "pendingInputs": {"items": [{"state": "interrupted", "runId": "turn-1"}]}})),
        ("chat.history", _) => Do::Ok(json!({"messages": [], "inFlightRun": {"runId": "turn-1.again-1"}})),
        _ => usual(method, params, gateway),
    })
    .await
}

#[tokio::test]
async fn a_turn_that_was_given_back_is_sent_anew_once() {
    let gateway = gives_back().await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let signals = end(&runtime, "turn-1").await;
    assert_eq!(signals.last(), Some(&Signal::End(completed("after all"))));
    let sent = gateway.look(|g| g.asked("agent"));
    let names: Vec<_> = sent.iter().map(|s| s["idempotencyKey"].clone()).collect();
    assert_eq!(names, ["turn-1", "turn-1.again-1"]);
    assert_eq!(sent[0]["message"], sent[1]["message"]);
}

#[tokio::test]
async fn a_turn_that_was_given_back_is_not_sent_anew_when_it_was_asked_to_stop() {
    let gateway = gives_back().await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    runtime.cancel(&run_ref("turn-1")).await.unwrap();
    let signals = end(&runtime, "turn-1").await;
    let Some(Signal::End(ended)) = signals.last() else {
        panic!("{signals:?}");
    };
    assert_eq!(ended.status, EndStatus::Cancelled);
    assert_eq!(gateway.look(|g| g.asked("agent").len()), 1);
}

/// Nothing was sent, so nobody has to be asked.
#[tokio::test]
async fn a_turn_that_waits_for_the_gateway_is_stopped_at_once() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent" => turned_away(),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let plan = plan("turn-1", "do it");
    let places = runtime.prepare(&plan).await.unwrap();
    gateway.look(|g| g.times("refuse"));
    let run = run_ref("turn-1");
    let stop = async {
        until(|| gateway.look(|g| !g.asked("agent").is_empty())).await;
        runtime.cancel(&run).await
    };
    let begun = Instant::now();
    let (started, stopped) = tokio::join!(runtime.start(&plan, &places), stop);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(stopped, Ok(()));
    assert_eq!(started.unwrap_err().code, Code::RequestCancelled);
}

/// The gateway is away when the stop is asked for. It comes back with the run under another name.
#[tokio::test]
async fn a_stop_is_remembered_while_the_gateway_is_away() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent.wait" if gateway.boot == "boot-1" => restart(gateway, "boot-2"),
        // It is not up before it was asked to stop.
        "connect" if gateway.boot == "boot-2" && !gateway.counters.contains_key("asked") => {
            Do::No(json!({"code": "UNAVAILABLE", "retryable": true, "retryAfterMs": 50}))
        }
        "agent.wait" => match gateway.asked("chat.abort").is_empty() {
            true => Do::Ok(json!({"status": "timeout"})),
            false => Do::Ok(json!({"status": "error", "stopReason": "rpc"})),
        },
        "chat.history" => taken_up(),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let stop = async {
        until(|| gateway.look(|g| g.boot == "boot-2")).await;
        runtime.cancel(&run_ref("turn-1")).await.unwrap();
        gateway.look(|g| g.times("asked"));
    };
    let (signals, ()) = tokio::join!(end(&runtime, "turn-1"), stop);
    let Some(Signal::End(ended)) = signals.last() else {
        panic!("{signals:?}");
    };
    assert_eq!(ended.status, EndStatus::Cancelled);
    let stopped = gateway.look(|g| g.asked("chat.abort"));
    assert_eq!(
        stopped.last(),
        Some(&json!({"sessionKey": "agent:main:draft:1", "runId": "resumed"}))
    );
}

/// It says that it stops before anybody asks, and then nothing any more.
#[tokio::test]
async fn a_gateway_that_says_that_it_stops_gets_no_new_turn() {
    let gateway = Scripted::start(|method, params, gateway| {
        let first = gateway.connects.len() == 1;
        match method {
            "connect" => {
                gateway.tick_ms = if first { 400 } else { 30_000 };
                usual(method, params, gateway)
            }
            "config.get" if first => Do::Frames(vec![
                json!({"type": "res", "id": "$id", "ok": true, "payload": {}}),
                json!({"type": "event", "event": "shutdown", "payload": {"reason": "gateway stopping"}}),
            ]),
            _ => {
                if first {
                    gateway.times("too early");
                }
                usual(method, params, gateway)
            }
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    until(|| gateway.look(|g| !g.asked("config.get").is_empty())).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(begin(&runtime, "turn-1").await, Ok(()));
    assert_eq!(gateway.look(|g| g.counters.get("too early").copied()), None);
}
