//! A process can die at any instruction: whatever it was told is on the disk, still is.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use pretty_assertions::assert_eq;
use threadline_contract::Owner;
use threadline_store::{Store, StoreConfig, StreamId};

use crate::world::{World, account, event, on_both, thread_named};

on_both![what_was_acknowledged_survives_a_kill];

/// Set for the process that will be killed: the address of its database.
const CHILD: &str = "THREADLINE_TEST_CRASH_URL";
const WRITERS: usize = 8;

fn thread_of(writer: usize) -> Owner {
    thread_named(&format!("draft:{}", writer % 3))
}

fn stream_of(writer: usize) -> StreamId {
    StreamId::of(&account(), &thread_of(writer))
}

/// Not a test by itself: what the child process does until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn writes_until_killed() {
    let Ok(url) = std::env::var(CHILD) else {
        return;
    };
    let store = Store::open(StoreConfig::new(url)).await.unwrap();
    let writers = (0..WRITERS).map(|w| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0.. {
                let body = format!("{w}/{n}");
                let appended = store
                    .append(&stream_of(w), None, vec![event(&body)])
                    .await
                    .unwrap();
                // One write, so that lines of several writers do not mix.
                let line = format!("ack {w} {} {body}\n", appended.first);
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    futures_util::future::join_all(writers).await;
}

async fn what_was_acknowledged_survives_a_kill(world: World) {
    world.store.close().await.unwrap();
    let mut acknowledged: Vec<(usize, i64, String)> = vec![];
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::writes_until_killed", "--nocapture"])
            .env(CHILD, &world.config.url)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        while heard < 300 {
            let line = lines.next().expect("the child lives").unwrap();
            heard += usize::from(read(&line, &mut acknowledged));
        }
        child.kill().unwrap();
        // What was said between our decision and its death counts as well.
        for line in lines {
            read(&line.unwrap(), &mut acknowledged);
        }
        child.wait().unwrap();
    }
    let store = world.second().await;
    let mut logs = vec![];
    for n in 0..3 {
        let log = store
            .events_after(&stream_of(n), 0, 1_000_000)
            .await
            .unwrap();
        for (at, e) in log.iter().enumerate() {
            assert_eq!(e.seq, at as i64 + 1);
        }
        logs.push(log);
    }
    assert!(acknowledged.len() >= 900);
    for (writer, seq, body) in acknowledged {
        let stored = &logs[writer % 3][seq as usize - 1];
        assert_eq!(*stored.body, *format!("\"{body}\""));
    }
    store.close().await.unwrap();
}

/// Reads `ack <writer> <number> <body>`; the test harness says other things as well, and a kill may
/// cut a line.
fn read(line: &str, acknowledged: &mut Vec<(usize, i64, String)>) -> bool {
    let Some((_, rest)) = line.split_once("ack ") else {
        return false;
    };
    let mut words = rest.split(' ');
    let (Some(writer), Some(seq), Some(body)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    acknowledged.push((
        writer.parse().unwrap(),
        seq.parse().unwrap(),
        body.to_owned(),
    ));
    true
}
