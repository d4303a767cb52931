//! A large file through the gateway and the bridge, hashed by whoever receives it; beside the same file
//! straight from the gateway, and what all this takes of memory.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use threadline_e2e::gateway::Client;

use super::Bench;
use crate::{
    process::{forget_peak, mb, peak_of, pss},
    turns::{LARGE, write_large},
};

const ROUNDS: usize = 3;

pub(super) async fn measure(bench: &Bench) -> anyhow::Result<()> {
    let (mut ours, mut direct): (f64, f64) = (0.0, 0.0);
    let mut grown = [0_u64; 3];
    for round in 0..ROUNDS {
        // Another file each time: the bridge keeps what it has handed on.
        let thread = format!("draft:large-{round}");
        let run = bench
            .run(&thread, |scope| write_large(scope, round as u8))
            .await?;
        direct = direct.max(straight(bench, &thread, &run).await?);
        let pids = [bench.gateway.pid(), bench.sidecar()?, bench.world.pid()];
        let before = memory(pids, |pid| {
            forget_peak(pid)?;
            pss(pid)
        })?;
        let item = &run["artifacts"]["items"][0];
        let url = item["url"].as_str().context("a link")?;
        let url = format!("{}{url}", bench.world.url);
        ours = ours.max(fetch(bench, &url, &bench.world.token, item["sha256"].as_str()).await?);
        let after = memory(pids, peak_of)?;
        for n in 0..3 {
            grown[n] = grown[n].max(after[n].saturating_sub(before[n]));
        }
    }
    let [gateway, sidecar, bridge] = grown.map(mb);
    println!(
        "1 GiB from gateway:  {direct:>6.0} MB/s straight from the plugin, verified, best of {ROUNDS}"
    );
    println!(
        "1 GiB by Threadline: {ours:>6.0} MB/s verified, best of {ROUNDS}; ratio {:.2}  (goal: at least 100)",
        ours / direct
    );
    println!(
        "  memory grew by     {gateway:>6.0} MB in the gateway, {sidecar:.0} in the sidecar, {bridge:.0} in the bridge, at most  (goal: constant)"
    );
    Ok(())
}

fn memory(pids: [u32; 3], of: impl Fn(u32) -> anyhow::Result<u64>) -> anyhow::Result<[u64; 3]> {
    Ok([of(pids[0])?, of(pids[1])?, of(pids[2])?])
}

/// The same bytes by the plugin's route alone.
async fn straight(bench: &Bench, thread: &str, run: &Value) -> anyhow::Result<f64> {
    let (url, token) = (bench.gateway.url(), bench.gateway.token());
    let mut client = Client::connect(&url, token).await;
    let task = json!({"appThreadKey": thread, "runId": run["runId"], "includeContent": false});
    let task = client.call("xworkmate.tasks.get", task).await;
    let file = &task["artifacts"][0];
    let (session, run) = (&task["openclawSessionKey"], &task["runId"]);
    let read = json!({
        "openclawSessionKey": session, "runId": run, "artifactRef": file["artifactRef"],
        "maxInlineBytes": 0,
    });
    let read = client.call("xworkmate.artifacts.read", read).await;
    let path = read["downloadPath"].as_str().context("a route")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().replace(':', "%3A");
    let url = format!(
        "{}{path}?openclawSessionKey={}&runId={}",
        bench.gateway.http(),
        text(session),
        text(run)
    );
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let reference = file["artifactRef"].as_str().context("a reference")?;
    let bearer = URL_SAFE_NO_PAD.encode(reference);
    fetch(bench, &url, &bearer, file["sha256"].as_str()).await
}

/// Megabytes in a second.
async fn fetch(
    bench: &Bench,
    url: &str,
    bearer: &str,
    sha256: Option<&str>,
) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let asked = bench.world.http.get(url).bearer_auth(bearer).send().await?;
    let mut answer = asked.error_for_status()?;
    let mut hasher = Sha256::new();
    let mut size = 0;
    while let Some(bytes) = answer.chunk().await? {
        hasher.update(&bytes);
        size += bytes.len() as u64;
    }
    let took = begun.elapsed().as_secs_f64();
    let digest = threadline_contract::Sha256(hasher.finalize().into()).to_hex();
    ensure!(
        size == LARGE && sha256 == Some(&digest),
        "the bytes are others"
    );
    Ok(size as f64 / took / 1e6)
}
