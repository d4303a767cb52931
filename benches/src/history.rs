//! Memory does not grow with history: the same server over a thousand and a million stored events, and
//! over a thousand and a hundred thousand runs.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use threadline_contract::{
    AccountId, Actor, AppThreadKey, Millis, RunId, RunStatus, RuntimeId, SessionKey,
};
use threadline_e2e::world::World;
use threadline_store::{
    Method, NewEvent, NewRun, Phase, RunEnd, Store, StoreConfig, StreamId, Takeover,
};

use crate::process::{mb, pss};

/// Runs that are written at once.
const AT_ONCE: usize = 64;
const RUNS_OF_A_THREAD: usize = 10;

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    events(program).await?;
    runs(program).await
}

async fn events(program: &Path) -> anyhow::Result<()> {
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
        let size = pss(world.pid())?;
        println!("{total:>9} events:    {:>6.1} MB PSS", mb(size));
        sizes.push(size as f64);
    }
    print_ratio(&sizes);
    Ok(())
}

/// With so many runs of so many threads: started, looked through, and used for one more.
async fn runs(program: &Path) -> anyhow::Result<()> {
    let mut world = World::of(program.to_owned()).running().await;
    let (mut sizes, mut have) = (vec![], 0);
    for total in [1_000, 100_000] {
        world.kill();
        let store = open(&world).await?;
        while have < total {
            let made = (have..(have + AT_ONCE).min(total)).map(|n| ended_run(&store, n));
            let made: Vec<_> = futures_util::future::try_join_all(made).await?;
            have += made.len();
        }
        store.close().await?;
        world.start().await;
        let mut cursor = Value::Null;
        for _ in 0..5 {
            let page = json!({"which": "all", "limit": 200, "cursor": cursor});
            let page = world.rpc("xworkmate.operator.runs", page).await;
            cursor = page["result"]["nextCursor"].clone();
        }
        let thread = format!("draft:{total}");
        world
            .rpc("session.start", World::turn(&thread, "one more"))
            .await;
        world.ended(&thread).await;
        let size = pss(world.pid())?;
        println!("{total:>9} runs:      {:>6.1} MB PSS", mb(size));
        sizes.push(size as f64);
    }
    print_ratio(&sizes);
    Ok(())
}

/// A run that was admitted and has ended.
async fn ended_run(store: &Store, n: usize) -> anyhow::Result<()> {
    let thread = AppThreadKey::new(format!("old:{}", n / RUNS_OF_A_THREAD))?;
    let run = RunId::fresh();
    let new = NewRun {
        id: run.clone(),
        account: AccountId::local(),
        session_key: SessionKey::for_runtime("builtin", "main", &thread),
        owner: thread.into(),
        runtime: RuntimeId::Builtin,
        method: Method::Start,
        turn: json!({"prompt": "make a report"}).to_string(),
        request: None,
        begun_by: Actor::server(),
        lease: None,
        at: Millis::now(),
    };
    store.admit(new, vec![]).await?;
    let lease = store.claim_runs(
        std::slice::from_ref(&run),
        "bench",
        Millis::now(),
        60_000,
        Takeover::Always,
    );
    let lease = lease.await?.pop().context("nobody else has it")?;
    let end = RunEnd {
        status: RunStatus::Completed,
        code: None,
        message: None,
        text: Some("A report was made. ".repeat(20)),
        usage: None,
        missing: None,
        ended_at: Millis::now(),
        phase: Some(Phase::Closed),
    };
    store.end_run(&lease, end, vec![]).await?;
    Ok(())
}

fn print_ratio(sizes: &[f64]) {
    println!(
        "ratio:               {:>6.2}     (goal: flat)",
        sizes[1] / sizes[0]
    );
}

async fn open(world: &World) -> anyhow::Result<Store> {
    let file = world.data().join("threadline.db");
    let config = StoreConfig::new(format!("sqlite:{}", file.display()));
    Ok(Store::open(config).await?)
}

async fn fill(world: &World, total: i64) -> anyhow::Result<()> {
    let store = open(world).await?;
    let stream = StreamId::of(&AccountId::local(), &AppThreadKey::new("draft:1")?.into());
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
