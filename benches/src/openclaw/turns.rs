//! A turn through Threadline beside the same turn sent to the gateway, in turns, so that whatever else
//! the machine does meets both.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use threadline_e2e::{gateway::Client, world::World};

use super::{Bench, median, millis};

const WARM_UP: usize = 5;
const PAIRS: usize = 50;
const PROMPT: &str = "[[say done]]";

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<()> {
    let (url, token) = (bench.gateway.url(), bench.gateway.token());
    let mut client = Client::connect(&url, token).await;
    let (mut direct, mut ours) = (vec![], vec![]);
    for n in 0..WARM_UP + PAIRS {
        let begun = Instant::now();
        let end = client
            .turn("agent:main:direct", &format!("direct-{n}"), PROMPT)
            .await;
        direct.push(begun.elapsed());
        ensure!(end["status"] == json!("ok"), "the gateway failed: {end:#}");
        ours.push(through(&bench.world, n).await?);
    }
    // What comes first is slow for reasons of the gateway's own.
    let (direct, ours) = (&mut direct[WARM_UP..], &mut ours[WARM_UP..]);
    let (direct, ours) = (median(direct), median(ours));
    let most = direct.mul_f64(1.05) + Duration::from_millis(25);
    println!(
        "turn, directly:      {:>6.0} ms, median of {PAIRS}",
        millis(direct)
    );
    println!(
        "turn, by Threadline: {:>6.0} ms, ratio {:.2}, {:.0} ms more  (goal: at most {:.0} ms = 1.05 × + 25 ms)",
        millis(ours),
        ours.as_secs_f64() / direct.as_secs_f64(),
        millis(ours.saturating_sub(direct)),
        millis(most)
    );
    Ok(())
}

/// One turn, until its result is here.
async fn through(world: &World, n: usize) -> anyhow::Result<Duration> {
    let method = if n == 0 {
        "session.start"
    } else {
        "session.message"
    };
    let params = turn("draft:turns", PROMPT);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let begun = Instant::now();
    let answer = world
        .http
        .post(format!("{}/acp/rpc", world.url))
        .bearer_auth(&world.token)
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(body)
        .send()
        .await?;
    let text = answer.text().await?;
    let took = begun.elapsed();
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let last = data.rfind(|data| data.starts_with('{'));
    let last: Value = serde_json::from_str(last.context("an answer")?)?;
    let status = &last["result"]["status"];
    ensure!(*status == json!("completed"), "the turn failed: {last:#}");
    Ok(took)
}

pub(super) fn turn(thread: &str, prompt: &str) -> Value {
    json!({
        "sessionId": thread, "threadId": thread, "prompt": prompt,
        "routing": {"explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw"},
        "metadata": {"xworkmateTaskArtifactContract": {
            "schemaVersion": 1, "appThreadKey": thread, "expectedArtifactDirs": [],
        }},
    })
}
