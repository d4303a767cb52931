//! Ten thousand people watch one thread: what each costs, and how soon the last one hears.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use threadline_e2e::world::World;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};

use crate::process::pss;

const SUBSCRIBERS: usize = 10_000;

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    let world = World::of(program.to_owned()).running().await;
    world
        .rpc("session.start", World::turn("draft:1", "first"))
        .await;
    world.ended("draft:1").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let address = world.url.trim_start_matches("http://").to_owned();
    let before = pss(world.pid())?;

    let ready = Arc::new(AtomicUsize::new(0));
    let heard = watch::Sender::new(0_usize);
    let last = world
        .http
        .get(format!("{}/acp/events?threadId=draft:1", world.url))
        .bearer_auth(&world.token)
        .send()
        .await?;
    let last: serde_json::Value = serde_json::from_slice(&last.bytes().await?)?;
    let request = Arc::new(format!(
        "GET /acp/events?threadId=draft:1&after={} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\naccept: text/event-stream\r\n\r\n",
        last["next"], world.token
    ));
    let mut tasks = Vec::with_capacity(SUBSCRIBERS);
    for n in 0..SUBSCRIBERS {
        let (address, request) = (address.clone(), request.clone());
        let (counted, heard) = (ready.clone(), heard.clone());
        tasks.push(tokio::spawn(async move {
            subscribe(&address, &request, &counted, &heard).await
        }));
        // The listen queue of the kernel is short.
        if n % 100 == 99 {
            while ready.load(Ordering::Relaxed) + 200 < n && n < SUBSCRIBERS {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
    let begun = Instant::now();
    while ready.load(Ordering::Relaxed) < SUBSCRIBERS {
        ensure!(
            begun.elapsed() < Duration::from_secs(60),
            "only {} of {SUBSCRIBERS} subscribers got through",
            ready.load(Ordering::Relaxed)
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = (pss(world.pid())?.saturating_sub(before)) as f64 / SUBSCRIBERS as f64 / 1024.0;

    // A follow-up turn: its first event is what they all wait for.
    let mut rounds = vec![];
    for n in 1..=5_usize {
        let begun = Instant::now();
        world
            .rpc("session.message", World::turn("draft:1", "again"))
            .await;
        let mut all = heard.subscribe();
        all.wait_for(|count| *count >= n * SUBSCRIBERS).await?;
        rounds.push(begun.elapsed());
        world.ended("draft:1").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        heard.send_replace(n * SUBSCRIBERS);
    }
    rounds.sort();
    println!(
        "memory of each:      {each:>6.1} KiB  (goal: at most 12; {SUBSCRIBERS} subscribers on one stream)"
    );
    println!(
        "event to the last:   {:>6.0} ms  (goal: within 250; from sending the request, median of 5)",
        rounds[2].as_secs_f64() * 1e3
    );
    for task in &tasks {
        task.abort();
    }
    Ok(())
}

/// Counts the first event of each burst that reaches it.
async fn subscribe(
    address: &str,
    request: &str,
    ready: &AtomicUsize,
    heard: &watch::Sender<usize>,
) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(request.as_bytes()).await?;
    let mut buffer = [0; 2048];
    let _ = socket.read(&mut buffer).await?;
    ready.fetch_add(1, Ordering::Relaxed);
    let mut quiet_since = Instant::now();
    loop {
        let count = socket.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        if quiet_since.elapsed() > Duration::from_millis(400) {
            heard.send_modify(|n| *n += 1);
        }
        quiet_since = Instant::now();
    }
}
