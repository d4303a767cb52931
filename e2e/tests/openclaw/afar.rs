//! A gateway on another host: behind TLS, and with a bridge that it does not know.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::{tls, world::World};

use super::bench::{Bench, TURN, completed, outcome, turn, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_on_another_host_is_let_in_once_somebody_approved_it() {
    let config = json!({"gateway": {"trustedProxies": ["127.0.0.1"]}});
    let Some(bench) = Bench::start(config).await else {
        return;
    };
    let door = tls::terminate(bench.gateway.address(), [203, 0, 113, 5].into()).await;
    let (url, ca) = (format!("wss://{door}"), tls::authority());
    let variables = [
        ("THREADLINE_OPENCLAW_URL", url.as_str()),
        ("THREADLINE_OPENCLAW_CA", ca.to_str().unwrap()),
    ];
    let mut afar = world(&bench.gateway, &variables).await;
    let told = status(&afar).await;
    let (_, request) = told
        .split_once("openclaw devices approve ")
        .unwrap_or_else(|| panic!("{told}\n{}", afar.log()));
    let request = request.split('`').next().unwrap();
    // It does not knock again by itself.
    let refused = afar
        .rpc("session.start", turn("draft:afar", "[[say too early]]"))
        .await;
    assert!(
        refused.to_string().contains("devices approve"),
        "{refused:#}"
    );

    let mut approve = bench.gateway.command(["devices", "approve", request]);
    let approved = tokio::task::spawn_blocking(move || approve.output()).await;
    let approved = approved.unwrap().unwrap();
    assert!(approved.status.success(), "{approved:?}");
    for (thread, words) in [("draft:afar-1", "let in"), ("draft:afar-2", "and again")] {
        let sent = sent(&afar, turn(thread, &format!("[[say {words}]]"))).await;
        assert!(
            sent["result"]["runId"].is_string(),
            "{sent:#}\n{}",
            afar.log()
        );
        let ended = afar.ended_within(thread, TURN).await;
        assert_eq!(outcome(&ended), completed(words, &[]));
        // It is known from now on.
        afar.kill();
        afar.start().await;
    }
    // The one on the gateway's own host needed nobody.
    assert_eq!(
        bench.run("draft:near", "[[say near]]").await,
        completed("near", &[])
    );
}

/// What the bridge says about its gateway, once it knows.
async fn status(world: &World) -> String {
    let begun = Instant::now();
    loop {
        let told = world.rpc("acp.capabilities", json!({})).await;
        let probes = told["result"]["providerProbeSummary"].as_array().cloned();
        let openclaw = |p: &Value| p["providerId"] == json!("openclaw");
        let probe = probes.unwrap_or_default().into_iter().find(openclaw);
        let text = probe.map_or(String::new(), |p| p.to_string());
        if text.contains("approve") || begun.elapsed() > Duration::from_secs(30) {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Sends a turn, and again as the refusal says: the gateway is not asked more than every few seconds.
async fn sent(world: &World, turn: Value) -> Value {
    let begun = Instant::now();
    loop {
        let sent = world.rpc("session.start", turn.clone()).await;
        if sent["result"]["runId"].is_string() || begun.elapsed() > Duration::from_secs(10) {
            return sent;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
