//! What turns come to when the gateway is asked to stop (SIGTERM), as a restart does.
//!
//! A gateway that stops lets the runs end that have reached the model, and gives back the others.
//! Meanwhile it answers nothing and lets nobody in.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::json;

use super::bench::{Bench, Outcome, completed};

/// Before the model: the run is given back, and is worked on once after the restart. With a file, by
/// which the run that was sent anew is known to be the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_given_back_before_the_model_is_worked_on_once() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    // The first run after a start takes seconds to reach the model.
    let prompt = "[[write reports/early.md = early]] [[say early bird]]";
    let sent = bench.request("draft:early", prompt, Some("early")).await;
    bench.accepted("draft:early").await;
    assert_eq!(bench.heard("early bird"), 0);
    assert!(bench.gateway.stop().await, "{}", bench.gateway.log());
    let while_away = bench.status("draft:early").await["status"].clone();
    assert_eq!(while_away, json!("running"));
    bench.gateway.resume().await;
    assert_eq!(
        bench.ended("draft:early").await,
        completed("early bird", &["reports/early.md"])
    );
    // Sent again by the same name it is the same run, and nothing is done.
    let again = bench.request("draft:early", prompt, Some("early")).await;
    assert_eq!(again["result"]["runId"], sent["result"]["runId"]);
    // Once for each of the two actions.
    assert_eq!(bench.heard("early bird"), 2, "{}", bench.world.log());
    // The session goes on.
    assert_eq!(
        bench.run("draft:early", "[[say and on]]").await,
        completed("and on", &[])
    );
}

/// After the model: the run ends, and its end is known before the gateway is back. A turn that comes
/// meanwhile waits; one that is stopped while it waits is stopped at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_stops_lets_what_it_works_on_end() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    bench.run("draft:warm", "[[say warm]]").await;
    bench
        .send("draft:drained", "[[sleep 6000]] [[say drained]]")
        .await;
    bench.model_hears("drained").await;
    bench.gateway.signal(Signal::TERM);
    tokio::time::sleep(Duration::from_millis(500)).await;
    bench.send("draft:waits", "[[say waited]]").await;
    bench.send("draft:gives-up", "[[say never]]").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    bench.stop("draft:gives-up").await;
    let asked = Instant::now();
    let stopped = bench.ended("draft:gives-up").await;
    assert_eq!(stopped, Outcome::of("cancelled"));
    assert!(asked.elapsed() < Duration::from_secs(5), "{asked:?}");
    assert!(bench.gateway.gone().await, "{}", bench.gateway.log());
    // Its files cannot be listed yet.
    let drained = bench.status("draft:drained").await["status"].clone();
    assert_eq!(drained, json!("completed"));
    bench.gateway.resume().await;
    assert_eq!(
        bench.ended("draft:drained").await,
        completed("drained", &[])
    );
    assert_eq!(bench.ended("draft:waits").await, completed("waited", &[]));
    let heard = ["drained", "waited", "never"].map(|words| bench.heard(words));
    assert_eq!(heard, [1, 1, 0]);
}
