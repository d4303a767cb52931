//! Turns through Threadline: each beside the same turn without it, so that whatever else the machine
//! does meets both; and turns that deliver.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use threadline_contract::sse::{CONTENT_TYPE, DONE, Events, MAX_EVENT_BYTES};
use threadline_e2e::world::World;

/// What comes first is slow for reasons of the agents' own.
pub(crate) const WARM_UP: usize = 5;

/// Times of turns, directly and through Threadline.
#[derive(Default)]
pub(crate) struct Pairs {
    pub(crate) direct: Vec<Duration>,
    pub(crate) ours: Vec<Duration>,
}

impl Pairs {
    /// Prints both medians after the warm-up, and whether ours is at most 1.05 times the other and
    /// this much more.
    pub(crate) fn print(mut self, name: &str, more: Duration) {
        let (direct, ours) = (&mut self.direct[WARM_UP..], &mut self.ours[WARM_UP..]);
        let pairs = ours.len();
        let (direct, ours) = (median(direct), median(ours));
        let most = direct.mul_f64(1.05) + more;
        println!(
            "{name:<21}{:>6.0} ms, ratio {:.2}, {:.0} ms more than the {:.0} ms without, median of {pairs}  (goal: at most {:.0} ms = 1.05 × + {} ms)",
            millis(ours),
            ours.as_secs_f64() / direct.as_secs_f64(),
            millis(ours.saturating_sub(direct)),
            millis(direct),
            millis(most),
            more.as_millis(),
        );
    }
}

/// One turn, until its result is here.
pub(crate) async fn through(
    world: &World,
    method: &str,
    params: &Value,
) -> anyhow::Result<Duration> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let begun = Instant::now();
    let answer = world
        .http
        .post(format!("{}/acp/rpc", world.url))
        .bearer_auth(&world.token)
        .header("content-type", "application/json")
        .header("accept", CONTENT_TYPE)
        .body(body)
        .send()
        .await?;
    let mut events = Events::new(answer.bytes_stream(), MAX_EVENT_BYTES);
    let mut last = None;
    while let Some(frame) = events.next().await? {
        last = Some(frame.data).filter(|data| data != DONE).or(last);
    }
    let took = begun.elapsed();
    let last: Value = serde_json::from_str(&last.context("an answer")?)?;
    let status = &last["result"]["status"];
    ensure!(*status == json!("completed"), "the turn failed: {last:#}");
    Ok(took)
}

/// Sorts, and gives the middle.
pub(crate) fn median(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A turn that takes a while, for which files are put into its folder meanwhile. The run's snapshot.
pub(crate) async fn delivering(
    world: &World,
    turn: Value,
    fill: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<Value> {
    let thread = turn["threadId"].as_str().context("a thread")?.to_owned();
    world.rpc("session.start", turn).await;
    let params = json!({"appThreadKey": thread});
    let begun = Instant::now();
    let scope = loop {
        let run = world.rpc("xworkmate.tasks.get", params.clone()).await;
        if let Some(scope) = run["result"]["artifactDirectory"].as_str()
            && Path::new(scope).is_dir()
        {
            break scope.to_owned();
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(20),
            "no folder: {run:#}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    fill(Path::new(&scope))?;
    let ended = world.ended_within(&thread, Duration::from_secs(120));
    let run = ended.await;
    ensure!(
        run["status"] == json!("completed"),
        "the run failed: {run:#}"
    );
    Ok(run)
}

/// The size of a large file.
pub(crate) const LARGE: u64 = 1 << 30;

/// Puts a large file into a folder; another one for each seed.
pub(crate) fn write_large(folder: &Path, seed: u8) -> anyhow::Result<()> {
    let block: Vec<u8> = (0..1 << 20_u32)
        .map(|n: u32| (n * 7 % 251) as u8 ^ seed)
        .collect();
    let mut file = File::create(folder.join("large.bin"))?;
    for _ in 0..LARGE / block.len() as u64 {
        file.write_all(&block)?;
    }
    Ok(())
}
