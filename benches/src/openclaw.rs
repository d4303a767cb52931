//! A real OpenClaw gateway with its plugin and a scripted model: turns and files through Threadline,
//! beside the same of the gateway itself. `./dev setup` installs the gateway.

mod download;
mod turns;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use threadline_e2e::{
    gateway::{Client, Gateway, Options},
    scripted_model::Model,
    world::World,
};

use crate::turns::{delivering, median, millis};

/// Files in a folder that is listed again and again.
const FILES: usize = 2_000;
const LISTINGS: usize = 200;
const RESTARTS: usize = 3;

/// A gateway and a bridge to it.
struct Bench {
    gateway: Gateway,
    world: World,
}

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    let model = Model::start().await;
    let options = Options::with_our_plugin(model.v1(), program, &json!({}));
    let Some(gateway) = Gateway::start(&options).await else {
        return Ok(());
    };
    let mut world = World::of(program.to_owned());
    world.set("THREADLINE_OPENCLAW_URL", &gateway.url());
    world.set("THREADLINE_OPENCLAW_TOKEN", gateway.token());
    let mut bench = Bench {
        gateway,
        world: world.running().await,
    };
    bench.connected().await?;
    turns::measure(&bench).await?;
    listings(&bench).await?;
    download::measure(&bench).await?;
    restarts(&mut bench).await
}

/// `tasks.get` on a folder that does not change, as whoever waits for a run asks it.
async fn listings(bench: &Bench) -> anyhow::Result<()> {
    let run = bench
        .run("draft:files", |scope| {
            for n in 0..FILES {
                std::fs::write(scope.join(format!("{n}.txt")), format!("file {n}"))?;
            }
            Ok(())
        })
        .await?;
    let (url, token) = (bench.gateway.url(), bench.gateway.token());
    let mut client = Client::connect(&url, token).await;
    let params = json!({
        "appThreadKey": "draft:files", "runId": run["runId"], "maxFiles": 200, "includeContent": false,
    });
    let mut took = vec![];
    for _ in 0..LISTINGS {
        let begun = Instant::now();
        let page = client.call("xworkmate.tasks.get", params.clone()).await;
        took.push(begun.elapsed());
        let files = page["artifacts"].as_array().map_or(0, Vec::len);
        ensure!(
            files == 200 && page["artifactCount"] == json!(FILES),
            "another page than was asked for: {files}"
        );
    }
    let (median, most) = (median(&mut took), took[LISTINGS * 95 / 100]);
    println!(
        "tasks.get, {FILES} files:{:>6.1} ms median, {:.1} ms at 95 %, asked over the gateway's socket  (goal: under 10 in the plugin)",
        millis(median),
        millis(most)
    );
    Ok(())
}

/// How soon the bridge is back after the gateway is.
async fn restarts(bench: &mut Bench) -> anyhow::Result<()> {
    let mut took = vec![];
    for _ in 0..RESTARTS {
        bench.gateway.kill();
        bench.gateway.resume().await;
        let ready = Instant::now();
        bench.connected().await?;
        took.push(millis(ready.elapsed()));
    }
    let worst = took.iter().copied().fold(0.0, f64::max);
    println!(
        "reconnect:           {worst:>6.0} ms after a restarted gateway is ready, worst of {RESTARTS}  (goal: within 1500)"
    );
    Ok(())
}

impl Bench {
    /// Waits until the bridge has greeted the gateway.
    async fn connected(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let told = self.world.rpc("acp.capabilities", json!({})).await;
            let probes = told["result"]["providerProbeSummary"].as_array();
            // A gateway that restarts is available too, but not ready: turns wait for it.
            let up =
                |p: &Value| p["providerId"] == json!("openclaw") && p["status"] == json!("ready");
            if probes.is_some_and(|probes| probes.iter().any(up)) {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < Duration::from_secs(60),
                "no gateway: {told:#}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A turn through the bridge, for which files are put into its folder while the model thinks. The
    /// run's snapshot.
    async fn run(
        &self,
        thread: &str,
        fill: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Value> {
        let turn = turns::turn(thread, "[[sleep 8000]] [[say done]]");
        delivering(&self.world, turn, fill).await
    }

    /// The sidecar's process.
    fn sidecar(&self) -> anyhow::Result<u32> {
        let state = self.gateway.folder().join("state");
        let state = state.to_str().context("a folder in UTF-8")?;
        let found = threadline_e2e::procs::named(&["openclaw-sidecar", state]);
        found.first().copied().context("no sidecar runs")
    }
}
