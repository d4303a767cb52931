//! How many durable appends a second: `cargo run --release -p threadline-store --example append_rate -- [writers] [seconds] [url]`.
//!
//! Each writer appends one event of about 300 bytes and waits until it is on the disk.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use threadline_contract::{AccountId, AppThreadKey, Millis};
use threadline_store::{NewEvent, Store, StoreConfig, StoreError, StreamId};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let writers: usize = args.next().map_or(Ok(64), |a| a.parse())?;
    let seconds: u64 = args.next().map_or(Ok(5), |a| a.parse())?;
    let folder = tempfile::tempdir()?;
    let here = format!("sqlite:{}", folder.path().join("threadline.db").display());
    let store = Store::open(StoreConfig::new(args.next().unwrap_or(here))).await?;

    let stop = Arc::new(AtomicBool::new(false));
    let body: Arc<str> = format!("{{\"text\":\"{}\"}}", "x".repeat(290)).into();
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for w in 0..writers {
        let thread = AppThreadKey::new(format!("draft:{}", w % 16))?;
        let stream = StreamId::of(&AccountId::local(), &thread.into());
        let (store, stop, body) = (store.clone(), Arc::clone(&stop), Arc::clone(&body));
        tasks.push(tokio::spawn(async move {
            let (mut count, mut slowest) = (0u64, Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let event = NewEvent {
                    run: None,
                    frame: None,
                    kind: "delta".into(),
                    body: Arc::clone(&body),
                    at: Millis::now(),
                };
                let asked = Instant::now();
                store.append(&stream, None, vec![event]).await?;
                slowest = slowest.max(asked.elapsed());
                count += 1;
            }
            Ok::<_, StoreError>((count, slowest))
        }));
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.store(true, Ordering::Relaxed);
    let (mut count, mut slowest) = (0, Duration::ZERO);
    for task in tasks {
        let (appended, slow) = task.await??;
        count += appended;
        slowest = slowest.max(slow);
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{:?}: {writers} writers, {count} durable appends, {rate:.0}/s, slowest {slowest:?}",
        store.dialect()
    );
    store.close().await?;
    Ok(())
}
