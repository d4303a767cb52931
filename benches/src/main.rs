//! Figures, with the machine's own limit beside each where there is one.
//!
//! `./dev bench` runs all of them; `./dev bench NAME…` runs some. They start the optimised program
//! as a user would and measure it from outside, on loopback only, bounded in count and time.

mod agents;
mod appends;
mod artifacts;
mod capabilities;
mod downloads;
mod history;
mod idle;
mod openclaw;
mod process;
mod sidecar;
mod subscribers;
mod turns;

use std::path::PathBuf;

use anyhow::{Context as _, bail};

const NAMES: [&str; 10] = [
    "idle",
    "capabilities",
    "subscribers",
    "appends",
    "history",
    "artifacts",
    "sidecar",
    "downloads",
    "agents",
    "openclaw",
];

fn main() -> anyhow::Result<()> {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.first().map(String::as_str) == Some("bare-http") {
        return runtime()?.block_on(capabilities::bare_http());
    }
    if let [child, what, place] = wanted.as_slice()
        && child == "artifacts-child"
    {
        return artifacts::child(what, place);
    }
    if let Some(unknown) = wanted.iter().find(|w| !NAMES.contains(&w.as_str())) {
        bail!(
            "there is no benchmark `{unknown}`; there are: {}",
            NAMES.join(", ")
        );
    }
    if wanted.is_empty() {
        wanted = NAMES.map(str::to_owned).to_vec();
    }
    process::raise_descriptor_limit()?;
    process::describe_machine()?;
    let runtime = runtime()?;
    for name in wanted {
        println!("\n## {name}");
        match name.as_str() {
            "idle" => runtime.block_on(idle::measure(&program()?))?,
            "capabilities" => runtime.block_on(capabilities::measure(&program()?))?,
            "subscribers" => runtime.block_on(subscribers::measure(&program()?))?,
            "appends" => runtime.block_on(appends::measure())?,
            "history" => runtime.block_on(history::measure(&program()?))?,
            "artifacts" => artifacts::measure()?,
            "sidecar" => sidecar::measure(&program()?)?,
            "downloads" => runtime.block_on(downloads::measure(&program()?))?,
            "agents" => runtime.block_on(agents::measure(&program()?))?,
            "openclaw" => runtime.block_on(openclaw::measure(&program()?))?,
            other => bail!("`{other}` is listed and not there"),
        }
    }
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?)
}

/// The program that was built beside this one.
fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("threadline");
    path.exists()
        .then_some(path)
        .context("the program is not built: use `./dev bench`")
}
