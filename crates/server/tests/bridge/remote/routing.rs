//! Where turns go: by what they say, by the thread, by the operator's policy.

use pretty_assertions::assert_eq;
use threadline_contract::RuntimeId;

use super::*;

/// A turn with this routing, and this beside it.
fn routed(thread: &str, routing: Value, more: Value) -> Value {
    let mut turn = turn(thread);
    turn["routing"] = routing;
    with(turn, more)
}

async fn bridge_with(folder: &std::path::Path, gateway: &Arc<Gateway>, auto: &str) -> World {
    let options = Options {
        also: Some(Arc::new(Remote(gateway.clone()))),
        auto: auto.parse::<RuntimeId>().unwrap(),
        ..Options::default()
    };
    World::with(folder, options).await
}

#[tokio::test]
async fn a_turn_goes_where_it_says_also_in_other_apps_words() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let bridge = bridge_with(folder.path(), &gateway, "builtin").await;
    let say = json!({"prompt": "[[say hi]]"});
    for (n, routing, more, runtime) in [
        (
            1,
            json!({"explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw"}),
            json!({}),
            "openclaw",
        ),
        (
            2,
            json!({"executionTarget": "gateway", "gatewayProvider": "openclaw"}),
            json!({}),
            "openclaw",
        ),
        (
            3,
            json!({"gatewayProviderId": "openclaw"}),
            json!({}),
            "openclaw",
        ),
        (
            4,
            json!({"explicitExecutionTarget": "single-agent", "explicitProviderId": "builtin"}),
            json!({}),
            "builtin",
        ),
        (
            5,
            json!({"routingMode": "explicit"}),
            json!({"executionTarget": "agent", "provider": "builtin"}),
            "builtin",
        ),
        (
            6,
            json!({}),
            json!({"requestedExecutionTarget": "singleAgent"}),
            "builtin",
        ),
        (7, json!({"routingMode": "auto"}), json!({}), "builtin"),
    ] {
        let thread = format!("draft:{n}");
        let params = routed(&thread, routing.clone(), with(say.clone(), more));
        let run = bridge.rpc("session.start", params).await["result"].clone();
        assert_eq!(run["runtime"], json!(runtime), "{routing}");
        bridge.ended(&thread).await;
    }
    bridge.stop().await;
}

#[tokio::test]
async fn auto_follows_the_thread_then_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let bridge = bridge_with(folder.path(), &gateway, "openclaw").await;
    let auto = json!({"routingMode": "auto"});
    let go = async |thread: &str, routing: &Value, method: &str| {
        let params = routed(thread, routing.clone(), json!({"prompt": "[[say hi]]"}));
        let run = bridge.rpc(method, params).await["result"].clone();
        bridge.ended(thread).await;
        run["runtime"].clone()
    };
    let builtin = json!({"explicitProviderId": "builtin"});
    assert_eq!(
        go("draft:1", &auto, "session.start").await,
        json!("openclaw")
    );
    assert_eq!(
        go("draft:2", &builtin, "session.start").await,
        json!("builtin")
    );
    // A thread's runtime is fixed at its first turn.
    assert_eq!(
        go("draft:2", &auto, "session.message").await,
        json!("builtin")
    );
    // Whoever wants an agent is never sent to a gateway.
    let agent = json!({"explicitExecutionTarget": "agent"});
    assert_eq!(
        go("draft:3", &agent, "session.start").await,
        json!("builtin")
    );
    bridge.stop().await;
}

#[tokio::test]
async fn a_runtime_that_cannot_take_it_is_a_result_with_code_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.up.send_replace(false);
    let bridge = bridge_with(folder.path(), &gateway, "openclaw").await;
    let away = json!({
        "success": false, "status": "unavailable", "runtime": "openclaw",
        "resolvedExecutionTarget": "gateway", "resolvedGatewayProviderId": "openclaw",
        "unavailableCode": "PROVIDER_UNAVAILABLE", "unavailableMessage": "The gateway is away.",
    });
    let unknown = json!({
        "success": false, "status": "unavailable", "runtime": "acp:codex",
        "resolvedExecutionTarget": "agent", "resolvedProviderId": "codex",
        "unavailableCode": "PROVIDER_NOT_FOUND", "unavailableMessage": "No runtime is called acp:codex here.",
    });
    for (routing, result) in [
        (json!({"routingMode": "auto"}), &away),
        (json!({"gatewayProvider": "openclaw"}), &away),
        (json!({"explicitProviderId": "codex"}), &unknown),
    ] {
        let params = routed("draft:1", routing.clone(), json!({}));
        let answer = bridge.rpc("session.start", params).await;
        assert_eq!(answer["result"], *result, "{routing}");
        // It can be asked before anything is sent, and nothing was made by asking.
        let resolved = bridge
            .rpc("xworkmate.routing.resolve", json!({"routing": routing}))
            .await;
        assert_eq!(resolved["result"], *result, "{routing}");
    }
    assert_eq!(
        bridge
            .code("xworkmate.tasks.get", json!({"appThreadKey": "draft:1"}))
            .await,
        json!("mapping_not_found")
    );
    bridge.stop().await;
}

/// B10: whoever listened is gone; the run is not.
#[tokio::test]
async fn b10_a_run_goes_on_without_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    drop(bridge.stream(&turn("draft:1"), None).await);
    bridge.at_stage("draft:1", "working").await;
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    assert_eq!(bridge.ended("draft:1").await["status"], json!("completed"));
    bridge.stop().await;
}
