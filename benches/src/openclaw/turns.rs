//! A turn through Threadline beside the same turn sent to the gateway.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};
use threadline_e2e::gateway::Client;

use super::Bench;
use crate::turns::{Pairs, WARM_UP, through};

const PAIRS: usize = 50;
const PROMPT: &str = "[[say done]]";

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<()> {
    let (url, token) = (bench.gateway.url(), bench.gateway.token());
    let mut client = Client::connect(&url, token).await;
    let params = turn("draft:turns", PROMPT);
    let mut pairs = Pairs::default();
    for n in 0..WARM_UP + PAIRS {
        let begun = Instant::now();
        let end = client
            .turn("agent:main:direct", &format!("direct-{n}"), PROMPT)
            .await;
        pairs.direct.push(begun.elapsed());
        ensure!(end["status"] == json!("ok"), "the gateway failed: {end:#}");
        let method = ["session.message", "session.start"][usize::from(n == 0)];
        let ours = through(&bench.world, method, &params).await?;
        pairs.ours.push(ours);
    }
    pairs.print("turn:", Duration::from_millis(25));
    Ok(())
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
