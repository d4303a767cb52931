//! A gateway that is not there yet, that hangs, or whose plugin is switched off for a while.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Code;
use threadline_runtimes::{
    Availability, End, EndStatus, Files as _, Readiness, RuntimeInfo as _, Turns as _,
    openclaw::{OpenClaw, OpenClawConfig},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{
    once::usual,
    script::{Do, Gateway, Scripted, hello, plan},
};

const NO_PLUGIN: &str = "The OpenClaw gateway has no Threadline plugin, so it cannot keep a run's files apart. `threadline openclaw install` puts it there.";

/// Longer than a first look, and never connected before: as for somebody who types a command while the
/// gateway starts.
#[tokio::test]
async fn a_turn_waits_for_a_gateway_that_starts_and_it_is_looked_for_closely() {
    let begun = Instant::now();
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "connect" if begun.elapsed() < Duration::from_secs(7) => Do::No(json!({
            "code": "UNAVAILABLE", "message": "gateway starting; retry shortly", "retryable": true,
            "details": {"reason": "startup-sidecars"},
        })),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let found = runtime.probe().await;
    assert!(!found.available, "{}", found.status);
    let why = runtime.waits_for().unwrap();
    assert!(
        why.contains("gateway starting; retry shortly") && why.contains("two minutes"),
        "{why}"
    );
    runtime.prepare(&plan("turn-1", "x")).await.unwrap();
    let at: Vec<_> = gateway.look(|g| g.connects.iter().map(|(at, _)| *at).collect());
    let last = &at[at.len() - 2..];
    let apart = last[1].duration_since(last[0]);
    assert!(apart <= Duration::from_millis(1300), "{apart:?}");
}

#[tokio::test]
async fn a_gateway_that_is_not_there_is_told_plainly_and_one_that_refuses_is_not_waited_for() {
    let gateway = Scripted::start(usual).await;
    let folder = tempfile::tempdir().unwrap();
    let at = |url: String| {
        let config = gateway.config(folder.path(), Some("t"));
        OpenClaw::new(OpenClawConfig { url, ..config }).unwrap()
    };
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let away = at(format!("ws://{address}"));
    let found = away.probe().await;
    let why = "The OpenClaw gateway does not answer: nothing listens at its address.";
    assert_eq!(
        found,
        Availability::new(Readiness::Unreachable, why, Some(format!("ws://{address}")))
    );
    assert_eq!(
        away.waits_for(),
        Some(format!(
            "{why} The turn waits for it, for two minutes at most."
        ))
    );

    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = proxy.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let body = r#"{"error":{"message":"Proxy client attribution is required. Configure gateway.trustedProxies"}}"#;
            let answer = format!(
                "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let refused = at(format!("ws://{address}"));
    let found = refused.probe().await;
    assert!(!found.available);
    assert!(
        found.status.contains(
            "Proxy client attribution is required. Configure gateway.trustedProxies (HTTP 403)"
        ),
        "{}",
        found.status
    );
    assert_eq!(refused.waits_for(), None);
    let fault = refused.prepare(&plan("turn-1", "x")).await.unwrap_err();
    assert_eq!(fault.code, Code::ProviderUnavailable);
    assert_eq!(fault.message, found.status);
}

/// Nothing has begun, so asking again is safe.
#[tokio::test]
async fn a_gateway_that_hangs_is_asked_again_to_prepare() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "xworkmate.session.prepare" if gateway.times(method) == 1 => Do::Nothing,
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    runtime.prepare(&plan("turn-1", "x")).await.unwrap();
    assert_eq!(
        gateway.look(|g| g.asked("xworkmate.session.prepare").len()),
        2
    );
}

/// A gateway that forbids what it does not know, and whose plugin is switched on and off.
fn switched(method: &str, params: &Value, gateway: &mut Gateway) -> Do {
    let off = gateway.counters.contains_key("off");
    match method {
        "connect" => {
            let mut hello = hello(gateway);
            if off {
                hello["features"]["methods"] = json!(["tasks.list"]);
            }
            Do::Ok(hello)
        }
        plugin if plugin.starts_with("xworkmate.") && off => Do::No(json!({
            "code": "FORBIDDEN", "message": "missing scope: operator.admin",
            "details": {"code": "MISSING_SCOPE"},
        })),
        "xworkmate.artifacts.list" => {
            Do::Ok(json!({"artifactScope": "tasks/agent-main-draft-1/turn-1", "artifacts": []}))
        }
        _ => usual(method, params, gateway),
    }
}

#[tokio::test]
async fn a_plugin_that_is_switched_off_is_missing_and_nobody_needs_more_rights() {
    let gateway = Scripted::start(switched).await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let plan = plan("turn-1", "x");
    let places = runtime.prepare(&plan).await.unwrap();
    runtime.start(&plan, &places).await.unwrap();

    gateway.look(|g| g.times("off"));
    let end = End {
        status: EndStatus::Completed,
        ..End::failed(Code::Internal, "")
    };
    let fault = runtime.collect(&plan, &end).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (Code::ProviderUnavailable, NO_PLUGIN)
    );
    let found = runtime.probe().await;
    assert_eq!((found.available, found.status.as_str()), (false, NO_PLUGIN));
    assert_eq!(runtime.waits_for(), None);
    let fault = runtime.prepare(&plan).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (Code::OpenClawPrepareFailed, NO_PLUGIN)
    );

    gateway.look(|g| g.counters.remove("off"));
    assert!(runtime.probe().await.available);
    runtime.collect(&plan, &end).await.unwrap();
    assert_eq!(runtime.connections_lost(), 0);
}
