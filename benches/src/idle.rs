//! How soon the server is ready, and what it takes when nothing happens.

use std::{
    path::Path,
    time::{Duration, Instant},
};

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
    Ok(())
}
