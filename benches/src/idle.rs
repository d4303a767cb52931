//! How soon the server is ready, and what it takes when nothing happens.

use std::{
    fs,
    os::unix::net::UnixListener,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use threadline_e2e::world::World;

use crate::process::{mb, pss};

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    let mut world = World::of(program.to_owned());
    let mut starts = vec![];
    for _ in 0..6 {
        let begun = Instant::now();
        world.start().await;
        starts.push(begun.elapsed());
        if starts.len() < 6 {
            world.kill();
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (first, mut later) = (starts[0], starts[1..].to_vec());
    later.sort();
    println!(
        "first start ready:   {:>6.0} ms  (goal: under 1000)",
        first.as_secs_f64() * 1e3
    );
    println!(
        "second start ready:  {:>6.0} ms  (goal: under 150; median of 5, after kill -9)",
        later[2].as_secs_f64() * 1e3
    );
    println!(
        "idle memory (PSS):   {:>6.1} MB  (goal: under 30)",
        mb(pss(world.pid())?)
    );
    with_kept_sessions(program).await
}

const KEPT_SESSIONS: usize = 10_000;

/// A start that finds the folders of many sessions whose hosts were killed, each looked after before: the
/// dearest kind, because of a host that ended by itself nothing is read.
async fn with_kept_sessions(program: &Path) -> anyhow::Result<()> {
    let mut world = World::of(program.to_owned());
    let agent = program.with_file_name("scripted-agent");
    let settings = world.path().join("home/.config/threadline");
    fs::create_dir_all(&settings)?;
    let command = format!("[agents.scripted]\ncommand = [{agent:?}]\n");
    fs::write(settings.join("threadline.toml"), command)?;
    world.start().await;
    let turn = World::turn_on("scripted", "draft:kept", "[[say done]]");
    world.rpc("session.start", turn).await;
    world.ended("draft:kept").await;
    world.kill();

    let hosts = world.data().join("hosts");
    let host = fs::read_dir(&hosts)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|folder| folder.join("state.json").exists())
        .context("the agent has a host")?;
    let state: Value = serde_json::from_slice(&fs::read(host.join("state.json"))?)?;
    let pid = state["host"]["pid"]
        .as_i64()
        .and_then(|pid| Pid::from_raw(pid as i32));
    kill_process(pid.context("its process")?, Signal::KILL)?;
    // Looks after what it left.
    world.start().await;
    world.kill();
    for n in 0..KEPT_SESSIONS {
        let folder = hosts.join(format!("{n:016x}"));
        fs::create_dir_all(folder.join("frames"))?;
        for name in ["state.json", "lock"] {
            fs::copy(host.join(name), folder.join(name))?;
        }
        UnixListener::bind(folder.join("socket"))?;
    }
    let mut starts = vec![];
    for _ in 0..5 {
        let begun = Instant::now();
        world.start().await;
        starts.push(begun.elapsed());
        world.kill();
    }
    starts.sort();
    println!(
        "with 10,000 kept sessions: {:.0} ms  (goal: under 300; median of 5)",
        starts[2].as_secs_f64() * 1e3
    );
    Ok(())
}
