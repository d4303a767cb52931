//! What turns come to when the gateway or the bridge dies in the middle.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::bench::{Bench, Outcome, completed};

/// SIGKILL after the model was reached: the gateway takes the turn up under another name, and its end
/// is this run's end. A turn that was asked to stop while the gateway was away is stopped then.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_the_gateway_takes_up_again_is_the_same_run() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    assert_eq!(
        bench.run("draft:warm", "[[say warm]]").await,
        completed("warm", &[])
    );
    bench
        .send("draft:stopped", "[[sleep 60000]] [[say never said]]")
        .await;
    bench.model_hears("never said").await;
    bench
        .send("draft:killed", "[[sleep 6000]] [[say survived]]")
        .await;
    bench.model_hears("survived").await;
    bench.gateway.kill();
    bench.stop("draft:stopped").await;
    for thread in ["draft:killed", "draft:stopped"] {
        assert_eq!(bench.status(thread).await["status"], json!("running"));
    }
    bench.gateway.resume().await;
    let ready = Instant::now();
    assert_eq!(
        bench.ended("draft:killed").await,
        completed("survived", &[])
    );
    println!(
        "taken up and ended {:?} after the gateway was ready",
        ready.elapsed()
    );
    assert_eq!(bench.ended("draft:stopped").await, Outcome::of("cancelled"));
    assert_eq!(bench.model.seen.open(), 0);
    // The session goes on as if nothing had been.
    assert_eq!(
        bench.run("draft:killed", "[[say and on]]").await,
        completed("and on", &[])
    );

    bench
        .send("draft:both", "[[sleep 6000]] [[say both survived]]")
        .await;
    bench.model_hears("both survived").await;
    bench.gateway.kill();
    bench.world.kill();
    bench.gateway.resume().await;
    bench.world.start().await;
    assert_eq!(
        bench.ended("draft:both").await,
        completed("both survived", &[])
    );
}

/// In the middle of an answer: what the gateway had not written down is taken back and said anew, so
/// that the updates add up to the text.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_a_killed_gateway_begins_again_is_told_once() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    let count = |to: u32| -> String {
        let numbers: Vec<String> = (1..=to).map(|n| n.to_string()).collect();
        numbers.join(" ")
    };
    let cases = [
        ("draft:one", "[[rate 10]] [[count 90]]", count(90)),
        (
            "draft:two",
            "[[say First part.]] [[also shell echo x]] [[rate 10]] [[count 91]]",
            format!("First part.\n\n{}", count(91)),
        ),
    ];
    for (thread, prompt, _) in &cases {
        bench.send(thread, prompt).await;
    }
    for (thread, ..) in &cases {
        bench.has_said(thread, 40).await;
    }
    bench.gateway.kill();
    bench.gateway.resume().await;
    for (thread, _, text) in &cases {
        assert_eq!(bench.ended(thread).await, completed(text, &[]));
        assert_eq!(&bench.said(thread).await, text);
    }
}

/// SIGKILL before the model was reached: whatever the gateway makes of the turn, it is told, and the
/// turn is worked on once at most.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_dies_before_the_model_is_never_worked_on_twice() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    // The first run after a start takes seconds to reach the model.
    let run = bench.send("draft:early", "[[say early bird]]").await;
    assert_eq!(bench.heard("early bird"), 0);
    bench.gateway.kill();
    bench.gateway.resume().await;
    let ended = bench.ended("draft:early").await;
    let lost = Outcome {
        status: "failed".into(),
        code: Some("RUN_LOST".into()),
        text: None,
        files: vec![],
    };
    let taken_up = completed("early bird", &[]);
    match bench.heard("early bird") {
        0 => assert_eq!(ended, lost),
        1 => assert_eq!(ended, taken_up),
        more => panic!("the turn was worked on {more} times: {ended:?}"),
    }
    println!("a turn that died before the model: {ended:?}");
    // Asked again by the same name, it is the same run, and nothing happens.
    assert_eq!(bench.status("draft:early").await["runId"], json!(run));
}

/// The bridge dies while the gateway works, and is back: before the end, and after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_dies_finds_its_runs_again() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    bench.run("draft:warm", "[[say warm]]").await;
    bench
        .send("draft:long", "[[sleep 5000]] [[say the long one]]")
        .await;
    bench
        .send("draft:short", "[[sleep 1000]] [[say the short one]]")
        .await;
    bench.model_hears("the short one").await;
    bench.model_hears("the long one").await;
    bench.world.kill();
    tokio::time::sleep(Duration::from_secs(3)).await;
    bench.world.start().await;
    let (long, short) = tokio::join!(bench.ended("draft:long"), bench.ended("draft:short"));
    assert_eq!(long, completed("the long one", &[]));
    assert_eq!(short, completed("the short one", &[]));
    assert_eq!(
        (bench.heard("the long one"), bench.heard("the short one")),
        (1, 1)
    );
    // And the gateway, after the end: what was recorded stays.
    bench.gateway.kill();
    assert_eq!(
        bench.ended("draft:long").await,
        completed("the long one", &[])
    );
}
