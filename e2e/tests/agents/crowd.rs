//! Twenty runs on everything at once (a scripted agent, the real ones, a real gateway), and the bridge is
//! killed in the middle of them.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::{
    agents::Agent,
    gateway::{Gateway, Options},
    scripted_model::Model,
    world::{self, World},
};

use crate::{bridge::in_order, scripted};

/// Six turns may run on the gateway at once, after it was just started.
const LIMIT: Duration = Duration::from_secs(150);

/// A run of the crowd: where, and which.
fn place(n: usize) -> &'static str {
    match n {
        0..4 => Agent::ALL[n].name(),
        4..10 => "openclaw",
        _ => "scripted",
    }
}

fn turn(n: usize) -> Value {
    let words = format!("[[sleep 6000]] [[say number {n} is done.]]");
    said(n, &words)
}

fn said(n: usize, words: &str) -> Value {
    let mut turn = World::turn_on(place(n), &format!("draft:{n}"), words);
    turn["requestId"] = json!(format!("request-{n}"));
    if place(n) == "openclaw" {
        turn["routing"] = json!({
            "explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw",
        });
    }
    turn
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_runs_on_agents_and_a_gateway_survive_the_bridge() {
    let model = Model::start().await;
    let options = Options::with_our_plugin(model.v1(), &world::binary(), &json!({}));
    let Some(gateway) = Gateway::start(&options).await else {
        return;
    };
    let mut world = scripted::world(10);
    for agent in Agent::ALL {
        if !agent.enter(&mut world, &model.url) {
            return;
        }
    }
    world.set("THREADLINE_OPENCLAW_URL", &gateway.url());
    world.set("THREADLINE_OPENCLAW_TOKEN", gateway.token());
    world.set("THREADLINE_OPENCLAW_MAX_ACTIVE", "8");
    world.start().await;
    // A gateway's first turn of all takes many seconds; it is not what is tested here.
    let mut first = said(4, "[[say warm]]");
    first["requestId"] = json!("warm");
    world.rpc("session.start", first).await;
    let warm = world.ended_within("draft:4", LIMIT).await;
    assert_eq!(warm["status"], json!("completed"), "{warm:#}");
    for n in 0..20 {
        let sent = world.rpc("session.start", turn(n)).await;
        assert!(sent["result"]["runId"].is_string(), "{sent:#}");
    }
    // Some are with the model, some only begin, when the bridge is gone.
    let begun = std::time::Instant::now();
    while model.seen.open() < 3 {
        assert!(begun.elapsed() < LIMIT, "{}", world.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.start().await;
    for n in 0..20 {
        let again = world.rpc("session.start", turn(n)).await;
        assert!(again["result"]["runId"].is_string(), "{again:#}");
    }
    for n in 0..20 {
        let thread = format!("draft:{n}");
        let ended = world.ended_within(&thread, LIMIT).await;
        let text = ended["text"].as_str().unwrap_or_default();
        assert_eq!(
            (
                ended["status"].as_str(),
                text.contains(&format!("number {n} is done."))
            ),
            (Some("completed"), true),
            "{} {ended:#}\n{}",
            place(n),
            world.log()
        );
        let events = world.events(&thread).await;
        in_order(&events);
        let count = |name: &str| {
            let named = events
                .iter()
                .filter(|e| e["update"]["event"] == json!(name));
            named.count()
        };
        let runs = if n == 4 { 2 } else { 1 };
        assert_eq!((count("task.ended"), count("completed")), (runs, runs));
        // The scripted agent needs no model.
        if place(n) != "scripted" {
            let prompts = model.seen.prompts();
            let own = format!("number {n} is done.");
            let ran = prompts.iter().filter(|prompt| prompt.contains(&own));
            assert_eq!(ran.count(), 1, "{} {n}: {prompts:#?}", place(n));
        }
    }
}
