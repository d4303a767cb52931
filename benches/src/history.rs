//! Memory does not grow with history: the same server over a thousand and a million stored events.

use std::path::Path;

use threadline_contract::{AccountId, AppThreadKey, Millis};
use threadline_e2e::world::World;
use threadline_store::{NewEvent, Store, StoreConfig, StreamId};

use crate::process::{mb, rss};

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    let mut world = World::of(program.to_owned()).running().await;
    world
        .rpc("session.start", World::turn("draft:1", "first"))
        .await;
    world.ended("draft:1").await;
    let mut sizes = vec![];
    for total in [1_000, 1_000_000] {
        world.kill();
        fill(&world, total).await?;
        world.start().await;
        for after in [0, total / 2, total - 10] {
            world
                .http
                .get(format!(
                    "{}/acp/events?threadId=draft:1&after={after}",
                    world.url
                ))
                .bearer_auth(&world.token)
                .send()
                .await?
                .bytes()
                .await?;
        }
        world
            .rpc("session.message", World::turn("draft:1", "again"))
            .await;
        world.ended("draft:1").await;
        let size = rss(world.pid())?;
        println!("{total:>9} events:    {:>6.1} MB RSS", mb(size));
        sizes.push(size as f64);
    }
    println!(
        "ratio:               {:>6.2}     (goal: flat)",
        sizes[1] / sizes[0]
    );
    Ok(())
}

async fn fill(world: &World, total: i64) -> anyhow::Result<()> {
    let store = Store::open(StoreConfig::new(format!(
        "sqlite:{}",
        world.data().join("threadline.db").display()
    )))
    .await?;
    let stream = StreamId::thread(&AccountId::local(), &AppThreadKey::new("draft:1")?);
    let event = NewEvent {
        run: None,
        frame: None,
        kind: "task.note".into(),
        body: format!("{{\"message\":\"{}\"}}", "x".repeat(180)).into(),
        at: Millis::now(),
    };
    let mut have = store.last_seq(&stream).await?;
    while have < total {
        let count = (total - have).min(5_000) as usize;
        have = store
            .append(&stream, None, vec![event.clone(); count])
            .await?
            .last;
    }
    store.close().await?;
    Ok(())
}
