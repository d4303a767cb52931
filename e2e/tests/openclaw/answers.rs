//! Long answers of a real gateway, which tells most of them only in part.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::scripted_model::long_text;

use super::bench::{Bench, completed};

/// Around what `agent.wait` tells, above what a transcript shows, and above what the last event carries.
const SIZES: [usize; 6] = [4095, 4096, 4097, 6000, 60_000, 1_048_576];

/// What somebody who reads along has before them in the end.
async fn read(bench: &Bench, thread: &str) -> String {
    let mut text = String::new();
    for event in bench.world.events(thread).await {
        let update = &event["update"];
        assert_eq!(update["truncated"], Value::Null, "{update:#}");
        match update["event"].as_str() {
            Some("delta") => text.push_str(update["text"].as_str().unwrap()),
            Some("delta.reset") => {
                let keep = update["keep"].as_u64().unwrap() as usize;
                text = text.chars().take(keep).collect();
            }
            _ => {}
        }
    }
    text
}

async fn is_whole(bench: &Bench, thread: &str, size: usize) {
    let ended = bench.ended(thread).await;
    let text = long_text(size);
    assert!(ended == completed(&text, &[]), "the result of {size}");
    assert!(read(bench, thread).await == text, "the deltas of {size}");
    assert_eq!(bench.status(thread).await["message"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_comes_whole_and_once_also_when_the_bridge_is_dead_at_its_end() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    for size in SIZES {
        let thread = format!("draft:long-{size}");
        bench.send(&thread, &format!("[[long {size}]]")).await;
        is_whole(&bench, &thread, size).await;
    }
    // As many at once as the lane takes; the smallest is told whole by everybody.
    let late = &SIZES[1..];
    for size in late {
        let prompt = format!("[[sleep 4000]] [[long {size}]]");
        bench.send(&format!("draft:late-{size}"), &prompt).await;
        bench.model_hears(&prompt).await;
    }
    bench.world.kill();
    let begun = std::time::Instant::now();
    while bench.model.seen.open() > 0 {
        assert!(begun.elapsed() < super::bench::TURN);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.world.start().await;
    for size in late {
        is_whole(&bench, &format!("draft:late-{size}"), *size).await;
    }
}
