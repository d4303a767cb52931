//! Getting in, staying in, and coming back.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use pretty_assertions::assert_eq;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::json;
use threadline_contract::{AccountId, AppThreadKey, Code, Fault, NewKey};
use threadline_e2e::tls;
use threadline_runtimes::{
    Frame, Logged, RuntimeInfo as _, Sessions as _, Signal, Turns as _, Update,
    openclaw::{OpenClaw, OpenClawConfig},
};

use super::{
    once::{begin, completed, usual},
    script::{Do, Scripted, hello, plan, prepared, run_ref, until},
};

#[tokio::test]
async fn d18_it_says_who_it_is_wants_no_more_than_it_needs_and_proves_it() {
    let gateway = Scripted::start(|method, _, gateway| match method {
        "connect" => Do::Ok(hello(gateway)),
        _ => Do::Ok(json!({})),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("the-token"));
    let found = runtime.probe().await;
    assert!(found.available, "{}", found.status);
    assert_eq!(
        (found.status.as_str(), found.place.as_deref()),
        ("OpenClaw 2026.9.6", Some(gateway.url.as_str()))
    );
    let (origins, mut said) = gateway.look(|g| (g.origins.clone(), g.connects[0].1.clone()));
    assert_eq!(origins, [None]);
    let device = said["device"].take();
    assert_eq!(
        said,
        json!({
            "minProtocol": 4, "maxProtocol": 4, "role": "operator",
            "client": {"id": "gateway-client", "mode": "backend", "displayName": "Threadline",
                       "version": "0.0.1", "platform": std::env::consts::OS},
            "scopes": ["operator.read", "operator.write", "operator.questions"],
            "caps": ["tool-events"],
            "auth": {"token": "the-token"},
            "device": null,
            "userAgent": "threadline/0.0.1",
        })
    );
    let public = BASE64
        .decode(device["publicKey"].as_str().unwrap())
        .unwrap();
    let id = hex::encode(ring::digest::digest(&ring::digest::SHA256, &public));
    assert_eq!(device["id"], json!(id));
    let signed = format!(
        "v3|{}|gateway-client|backend|operator|operator.read,operator.write,operator.questions|1700000000000|the-token|nonce-1|{}|",
        device["id"].as_str().unwrap(),
        std::env::consts::OS,
    );
    let signature = BASE64
        .decode(device["signature"].as_str().unwrap())
        .unwrap();
    UnparsedPublicKey::new(&ED25519, &public)
        .verify(signed.as_bytes(), &signature)
        .unwrap();
    runtime.stop().await;
}

#[tokio::test]
async fn d19_a_wrong_token_is_not_shown_again_at_once_unless_somebody_wants_something() {
    let gateway = Scripted::start(|method, _, gateway| {
        assert_eq!(method, "connect");
        gateway.times("refuse");
        Do::No(json!({"code": "INVALID_REQUEST", "message": "unauthorized",
                      "details": {"code": "AUTH_TOKEN_MISMATCH"}}))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("wrong"));
    let found = runtime.probe().await;
    assert!(!found.available);
    assert!(
        found.status.contains("gateway.auth.token"),
        "{}",
        found.status
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    runtime.probe().await;
    assert_eq!(gateway.look(|g| g.connects.len()), 1);
    let refused = runtime.prepare(&plan("turn-1", "x")).await.unwrap_err();
    assert_eq!(refused.code, Code::ProviderUnavailable);
    assert!(
        refused.message.contains("gateway.auth.token"),
        "{}",
        refused.message
    );
    assert_eq!(gateway.look(|g| g.connects.len()), 2);
}

#[tokio::test]
async fn the_token_that_the_gateway_gave_this_machine_outlives_the_operators() {
    let gateway = Scripted::start(|method, params, gateway| {
        if method != "connect" {
            return Do::Ok(json!({}));
        }
        gateway.device_token = Some("for-this-machine".into());
        match (
            params["auth"]["token"].as_str(),
            params["auth"]["deviceToken"].as_str(),
        ) {
            (Some("good"), _) | (_, Some("for-this-machine")) => Do::Ok(hello(gateway)),
            _ => Do::No(json!({"code": "INVALID_REQUEST", "message": "no",
                "details": {"code": "AUTH_TOKEN_MISMATCH", "canRetryWithDeviceToken": true}})),
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    for token in [Some("good"), Some("old"), None] {
        let runtime = gateway.runtime(folder.path(), token);
        assert!(runtime.probe().await.available, "{token:?}");
        runtime.stop().await;
    }
    let ids: Vec<_> = gateway.look(|g| {
        let connects = g.connects.iter();
        connects.map(|(_, c)| c["device"]["id"].clone()).collect()
    });
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| *id == ids[0]), "one machine: {ids:?}");
}

#[tokio::test]
async fn a_gateway_that_is_starting_is_tried_again_and_one_that_went_away_is_back_within_a_second()
{
    let gateway = Scripted::start(|method, _, gateway| match method {
        "connect" if gateway.times("connect") <= 2 => Do::No(json!({
            "code": "UNAVAILABLE", "message": "starting", "retryable": true, "retryAfterMs": 50,
            "details": {"reason": "startup-sidecars"},
        })),
        "connect" => Do::Ok(hello(gateway)),
        // The first question of the third and fourth connection breaks it.
        "config.get" if gateway.times("config.get") <= 2 => Do::Drop,
        _ => Do::Ok(json!({})),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    until(|| gateway.look(|g| g.connects.len()) >= 5).await;
    let at: Vec<_> = gateway.look(|g| g.connects.iter().map(|(at, _)| *at).collect());
    for pair in at[2..].windows(2) {
        let apart = pair[1].duration_since(pair[0]);
        assert!(apart <= Duration::from_millis(1300), "{apart:?}");
    }
    until(|| gateway.look(|g| g.asked("config.get").len()) == 3).await;
    assert_eq!(runtime.connections_lost(), 2);
    drop(runtime);
}

#[tokio::test]
async fn a_silent_gateway_counts_as_gone() {
    let gateway = Scripted::start(|method, _, gateway| {
        gateway.tick_ms = 150;
        match method {
            "connect" => Do::Ok(hello(gateway)),
            _ => Do::Ok(json!({})),
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    until(|| gateway.look(|g| g.connects.len()) >= 3).await;
    drop(runtime);
}

/// It does not even answer a sign of life. How a run stands is then told from the record at once, and
/// the connection is given up long before the gateway's own ticks would be missed.
#[tokio::test]
async fn a_gateway_that_hangs_is_found_out() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "agent.wait" if gateway.connects.len() == 1 => Do::Hang,
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let run = run_ref("turn-1");
    let unheard = Fault::new(
        Code::ProviderUnavailable,
        "The OpenClaw gateway does not answer at present.",
    );
    // Asked while nobody knows yet, and once more.
    for _ in 0..2 {
        assert_eq!(runtime.ask_registry(&run).await, Err(unheard.clone()));
        assert_eq!(gateway.look(|g| g.connects.len()), 1);
    }
    until(|| gateway.look(|g| g.connects.len()) == 2).await;
}

#[tokio::test]
async fn the_lane_is_what_both_sides_allow() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "connect" => Do::Ok(hello(gateway)),
        "config.get" => Do::Ok(json!({"config": {"agents": {"defaults": {"maxConcurrent": 3}}}})),
        "xworkmate.session.prepare" => Do::Ok(prepared(params["runId"].as_str().unwrap())),
        _ => Do::Ok(json!({})),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    until(|| runtime.lane().max_active == 3).await;
    assert_eq!(runtime.lane().max_queued, 20);
}

/// The gateway goes away with a run in its hands, refuses the token when it is back, and takes it again.
#[tokio::test]
async fn a_token_that_is_taken_again_is_tried_by_itself_and_the_run_goes_on() {
    let gateway = Scripted::start(|method, params, gateway| match method {
        "connect" if gateway.connects.len() == 2 => {
            gateway.times("refuse");
            Do::No(json!({"code": "INVALID_REQUEST", "message": "unauthorized",
                "details": {"code": "AUTH_TOKEN_MISMATCH"}}))
        }
        "connect" => {
            gateway.counters.remove("refuse");
            usual(method, params, gateway)
        }
        "agent.wait" if gateway.connects.len() == 1 => Do::Drop,
        "agent.wait" => Do::Ok(json!({"status": "ok", "terminalReply": {"text": "after all"}})),
        _ => usual(method, params, gateway),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, "turn-1").await.unwrap();
    let up_since = runtime.stands_since();
    let mut signals = runtime
        .follow(&run_ref("turn-1"), Logged::up_to(0))
        .await
        .unwrap();
    let told = signals.recv().await;
    let why = "The OpenClaw gateway does not take this token. Set THREADLINE_OPENCLAW_TOKEN to the value of `gateway.auth.token` in openclaw.json, and try again. The run goes on at the gateway, which is tried again by itself; what came of it is told then.";
    assert_eq!(
        told,
        Some(Signal::Frame(Frame {
            no: 1,
            update: Update::Note(why.into()),
        }))
    );
    assert!(runtime.stands_since() > up_since);
    // The record tells how it stands meanwhile.
    let asked = runtime.ask_registry(&run_ref("turn-1")).await.unwrap_err();
    assert_eq!(asked.code, Code::ProviderUnavailable);
    let mut last = None;
    while let Some(signal) = signals.recv().await {
        last = Some(signal);
    }
    assert_eq!(last, Some(Signal::End(completed("after all"))));
    assert_eq!(gateway.look(|g| g.connects.len()), 3);
}

/// Behind `wss://` only those are believed who are known, or who were named.
#[tokio::test]
async fn a_gateway_behind_tls_is_believed_when_its_authority_is_named() {
    let gateway = Scripted::start(|method, _, gateway| match method {
        "connect" => Do::Ok(hello(gateway)),
        _ => Do::Ok(json!({})),
    })
    .await;
    let behind = gateway.url.strip_prefix("ws://").unwrap().parse().unwrap();
    let door = tls::terminate(behind, [127, 0, 0, 1].into()).await;
    let folder = tempfile::tempdir().unwrap();
    let config = |ca: Option<std::path::PathBuf>| OpenClawConfig {
        url: format!("wss://{door}"),
        ca,
        ..gateway.config(folder.path(), Some("t"))
    };
    let known = OpenClaw::new(config(Some(tls::authority()))).unwrap();
    let found = known.probe().await;
    assert!(found.available, "{}", found.status);
    known.stop().await;

    let stranger = OpenClaw::new(config(None)).unwrap();
    let found = stranger.probe().await;
    assert!(!found.available);
    assert!(found.status.contains("certificate"), "{}", found.status);
    assert_eq!(gateway.look(|g| g.connects.len()), 1);

    let none = folder.path().join("none.pem");
    std::fs::write(&none, "nothing").unwrap();
    for wrong in [none, folder.path().join("missing.pem")] {
        let refused = OpenClaw::new(config(Some(wrong))).err().unwrap();
        assert_eq!(refused.code, Code::ConfigInvalid);
        assert!(refused.message.contains("openclaw.ca"), "{refused}");
    }
}

/// A machine that waits to be approved knocks now and then.
#[tokio::test]
async fn a_machine_that_was_approved_is_let_in_by_itself() {
    let gateway = Scripted::start(|method, _, gateway| match method {
        "connect" if gateway.times("connect") == 1 => {
            Do::No(json!({"code": "NOT_PAIRED", "message": "pairing required",
                "details": {"code": "PAIRING_REQUIRED", "requestId": "r-1"}}))
        }
        "connect" => Do::Ok(hello(gateway)),
        _ => Do::Ok(json!({})),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let found = runtime.probe().await;
    assert!(
        found.status.contains("openclaw devices approve r-1"),
        "{}",
        found.status
    );
    until(|| gateway.look(|g| g.connects.len()) == 2).await;
    until(|| gateway.look(|g| !g.asked("config.get").is_empty())).await;
    let found = runtime.probe().await;
    assert!(found.available, "{}", found.status);
}

/// The agent of a new thread: whom the key or the turn or the settings name, else whom the gateway
/// names, also when it is away.
#[tokio::test]
async fn a_new_thread_works_with_the_gateways_default_agent() {
    let gateway = Scripted::start(|method, _, gateway| match method {
        "connect" => {
            let mut hello = hello(gateway);
            hello["snapshot"]["sessionDefaults"] = json!({"defaultAgentId": "writer"});
            Do::Ok(hello)
        }
        "config.get" => Do::Frames(vec![json!({
            "type": "event", "event": "health", "seq": 2, "payload": {"ok": true, "defaultAgentId": "editor"},
        })]),
        _ => Do::Ok(json!({})),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let key = |runtime: &OpenClaw, thread: &str, agent: Option<&str>| {
        let new = NewKey {
            account: &AccountId::local(),
            owner: &AppThreadKey::new(thread).unwrap().into(),
            version: 1,
            agent,
            twin: 1,
        };
        runtime.new_session_key(&new).to_string()
    };
    let runtime = gateway.runtime(folder.path(), Some("t"));
    assert_eq!(key(&runtime, "draft:1", None), "agent:main:draft:1");
    assert!(runtime.probe().await.available);
    // It changes its mind while it runs.
    until(|| key(&runtime, "draft:1", None) == "agent:editor:draft:1").await;
    assert_eq!(
        key(&runtime, "draft:1", Some("other")),
        "agent:other:draft:1"
    );
    assert_eq!(
        key(&runtime, "agent:Third:x", Some("other")),
        "agent:third:x"
    );
    runtime.stop().await;

    // Nobody is there, so what was said last holds.
    let away = |agent: Option<&str>| {
        let config = gateway.config(folder.path(), Some("t"));
        let agent = agent.map(str::to_owned);
        OpenClaw::new(OpenClawConfig { agent, ..config }).unwrap()
    };
    assert_eq!(key(&away(None), "draft:1", None), "agent:editor:draft:1");
    let set = away(Some("Night Shift"));
    assert_eq!(key(&set, "draft:1", None), "agent:night-shift:draft:1");
    assert_eq!(key(&set, "draft:1", Some("other")), "agent:other:draft:1");
}
