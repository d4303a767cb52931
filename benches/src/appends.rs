//! Durable appends from many writers, beside what the disk can sync at all.

use std::{
    fs::File,
    io::Write as _,
    time::{Duration, Instant},
};

use threadline_contract::{AccountId, AppThreadKey, Millis, RunId};
use threadline_store::{NewEvent, Store, StoreConfig, StreamId};

const WRITERS: usize = 64;
const TIME: Duration = Duration::from_secs(5);

pub(crate) async fn measure() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let syncs = syncs_per_second(folder.path())?;
    let store = Store::open(StoreConfig::new(format!(
        "sqlite:{}",
        folder.path().join("t.db").display()
    )))
    .await?;
    let account = AccountId::local();
    store.ensure_account(&account, Millis::now()).await?;
    let begun = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let (store, account) = (store.clone(), account.clone());
            tokio::spawn(async move {
                let stream =
                    StreamId::of(&account, &AppThreadKey::new(format!("draft:{n}"))?.into());
                let event = NewEvent {
                    run: Some(RunId::fresh()),
                    frame: Some(1),
                    kind: "delta".into(),
                    body: format!("{{\"text\":\"{}\"}}", "x".repeat(180)).into(),
                    at: Millis::now(),
                };
                let mut count = 0_u64;
                while begun.elapsed() < TIME {
                    store.append(&stream, None, vec![event.clone()]).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut total = 0;
    for writer in writers {
        total += writer.await??;
    }
    let rate = total as f64 / begun.elapsed().as_secs_f64();
    println!(
        "durable appends:     {rate:>6.0} /s  (goal: at least 20000; {WRITERS} writers, 200-byte events, SQLite synchronous=FULL)"
    );
    let limit = syncs * WRITERS as f64;
    println!(
        "disk, limit:         {limit:>6.0} /s, were each of {syncs:.0} syncs/s (4 KiB appended) shared by all writers; ratio {:.2}",
        rate / limit
    );
    store.close().await?;
    Ok(())
}

fn syncs_per_second(folder: &std::path::Path) -> anyhow::Result<f64> {
    let mut file = File::create(folder.join("syncs"))?;
    let (begun, mut count) = (Instant::now(), 0_u32);
    while begun.elapsed() < Duration::from_secs(1) {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}
