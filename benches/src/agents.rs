//! Real agents with a scripted model: a turn through Threadline beside the same turn of the agent
//! driven directly, and what a host of an agent takes. `./dev setup` installs the agents.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use threadline_e2e::{agents::Agent, direct::Direct, procs, scripted_model::Model, world::World};

use crate::{
    process::{mb, pss},
    turns::{Pairs, WARM_UP, through},
};

const PAIRS: usize = 30;
const PROMPT: &str = "[[say done]]";

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    for agent in Agent::ALL {
        one(program, agent).await?;
    }
    Ok(())
}

async fn one(program: &Path, agent: Agent) -> anyhow::Result<()> {
    let model = Model::start().await;
    let mut world = World::of(program.to_owned());
    if !agent.enter(&mut world, &model.url) {
        return Ok(());
    }
    let alone = tempfile::tempdir()?;
    let (home, bin) = (alone.path().join("home"), alone.path().join("bin"));
    let path = agent.settle(&home, &bin, &model.url).context("installed")?;
    let mut command = Command::new(path);
    command.args(agent.command().iter().skip(1));
    // What the world's agent has, and no more: an agent can be slower for want of a variable.
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(agent.variables(&model.url));
    let work = alone.path().join("work");
    std::fs::create_dir_all(&work)?;
    let mut direct = Direct::start(command, &work).await;
    let world = world.running().await;

    let params = World::turn_on(agent.name(), "draft:turns", PROMPT);
    let mut pairs = Pairs::default();
    for n in 0..WARM_UP + PAIRS {
        let begun = Instant::now();
        let turn = direct.turn(PROMPT, "allow_once").await;
        pairs.direct.push(begun.elapsed());
        ensure!(turn.answer.get("result").is_some(), "{turn:#?}");
        let method = ["session.message", "session.start"][usize::from(n == 0)];
        pairs.ours.push(through(&world, method, &params).await?);
    }
    pairs.print(
        &format!("{} turn:", agent.name()),
        Duration::from_millis(20),
    );
    let data = world.data();
    let data = data.to_str().context("a folder in UTF-8")?;
    let host = procs::named(&["agent-host", data]);
    let host = host.first().copied().context("no host runs")?;
    println!(
        "  its host:          {:>6.2} MB PSS  (goal: under 6)",
        mb(pss(host)?)
    );
    Ok(())
}
