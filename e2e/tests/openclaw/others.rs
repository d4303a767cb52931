//! What others do at a real gateway while the bridge has runs and sessions there.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::gateway::Client;

use super::bench::{Bench, TURN, completed};

const STOPPED: &str = "Somebody stopped the run at the OpenClaw gateway.";
const GONE: &str = "The agent does not know what was said before.";
const REFUSED: &str = "does not take this token";

/// The notes of a run that speak of this. A slow machine brings others.
async fn notes(bench: &Bench, thread: &str, run: &str, about: &str) -> Vec<String> {
    let events = bench.world.events(thread).await;
    let of_run = events
        .iter()
        .map(|event| &event["update"])
        .filter(|update| update["event"] == json!("task.note") && update["runId"] == json!(run));
    of_run
        .map(|update| update["message"].as_str().unwrap().to_owned())
        .filter(|note| note.contains(about))
        .collect()
}

async fn session(bench: &Bench, thread: &str) -> String {
    let key = bench.status(thread).await["openclawSessionKey"].clone();
    key.as_str().unwrap().to_owned()
}

/// How a run ended: status, code, and the sentence.
async fn how_it_ended(bench: &Bench, thread: &str) -> [Value; 3] {
    bench.ended(thread).await;
    let snapshot = bench.status(thread).await;
    ["status", "code", "message"].map(|name| snapshot[name].clone())
}

fn stopped(more: &str) -> [Value; 3] {
    let message = format!("{STOPPED}{more}");
    [
        json!("cancelled"),
        json!("STOPPED_AT_GATEWAY"),
        json!(message),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_somebody_else_stops_was_stopped_at_the_gateway() {
    let Some(bench) = Bench::start(json!({})).await else {
        return;
    };
    bench.run("draft:warm", "[[say warm]]").await;
    let mut other = Client::connect_as_admin(&bench.gateway.url(), bench.gateway.token()).await;
    for (number, how) in [
        "chat.abort",
        "sessions.abort",
        "tasks.cancel",
        "sessions.delete",
        "sessions.reset",
    ]
    .into_iter()
    .enumerate()
    {
        let thread = format!("draft:{how}");
        let prompt = format!("[[slow 300]] [[count {}]]", 200 + number);
        let run = bench.send(&thread, &prompt).await;
        bench.model_hears(&prompt).await;
        let key = session(&bench, &thread).await;
        let reason = json!("The boss said so.");
        let more = stop_at_gateway(&mut other, how, &key, &run, reason).await;
        assert_eq!(how_it_ended(&bench, &thread).await, stopped(&more), "{how}");
    }
}

/// Stops a run in one of the ways that a gateway has, and says what the sentence about it adds.
async fn stop_at_gateway(
    other: &mut Client,
    how: &str,
    key: &str,
    run: &str,
    reason: Value,
) -> String {
    let (params, more) = match how {
        "chat.abort" => (json!({"sessionKey": key, "runId": run}), String::new()),
        "sessions.abort" => (json!({"key": key}), String::new()),
        "tasks.cancel" => {
            let tasks = other.call("tasks.list", json!({"sessionKey": key})).await;
            let mut params = json!({"taskId": tasks["tasks"][0]["taskId"]});
            let more = match reason.as_str() {
                Some(given) => format!(" The reason given: {given}"),
                None => String::new(),
            };
            if !reason.is_null() {
                params["reason"] = reason;
            }
            (params, more)
        }
        "sessions.delete" => (
            json!({"key": key}),
            " Its session was deleted there.".to_owned(),
        ),
        _ => (
            json!({"key": key}),
            " Its conversation was reset there.".to_owned(),
        ),
    };
    other.call(how, params).await;
    more
}

/// The gateway keeps less of a stopped run than it told, or tells it twice.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_said_stays_when_it_is_stopped_while_the_bridge_is_away() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    bench.run("draft:warm", "[[say warm]]").await;
    let mut other = Client::connect_as_admin(&bench.gateway.url(), bench.gateway.token()).await;
    let mut open = vec![];
    for how in [
        "chat.abort",
        "sessions.abort",
        "tasks.cancel",
        "sessions.delete",
        "sessions.reset",
    ] {
        let thread = format!("draft:{how}");
        let prompt = "[[say Part one, finished.]] [[also shell echo x]] [[rate 10]] [[count 900]]";
        let run = bench.send(&thread, prompt).await;
        let said = bench.has_said(&thread, 60).await;
        let key = session(&bench, &thread).await;
        open.push((how, thread, run, key, said));
    }
    bench.world.kill();
    let mut ended = vec![];
    for (how, thread, run, key, said) in open {
        // Where nobody gives a reason, the gateway's own words are none.
        let more = stop_at_gateway(&mut other, how, &key, &run, Value::Null).await;
        ended.push((how, thread, said, more));
    }
    bench.world.start().await;
    for (how, thread, before, more) in ended {
        assert_eq!(how_it_ended(&bench, &thread).await, stopped(&more), "{how}");
        let said = bench.said(&thread).await;
        assert_eq!(bench.status(&thread).await["text"], json!(said), "{how}");
        assert!(
            said.starts_with(&before),
            "{how}: {before:?}, then {said:?}"
        );
        assert_eq!(said.matches("Part one").count(), 1, "{how}: {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_says_that_its_conversation_is_gone() {
    let Some(bench) = Bench::start(json!({})).await else {
        return;
    };
    let mut other = Client::connect_as_admin(&bench.gateway.url(), bench.gateway.token()).await;
    for (how, says) in [
        ("sessions.reset", "was reset at the OpenClaw gateway"),
        ("sessions.delete", "was deleted at the OpenClaw gateway"),
    ] {
        let thread = format!("draft:{how}");
        let first = bench.send(&thread, "[[say first]]").await;
        assert_eq!(bench.ended(&thread).await, completed("first", &[]));
        let second = bench.send(&thread, "[[say second]]").await;
        assert_eq!(bench.ended(&thread).await, completed("second", &[]));
        let key = session(&bench, &thread).await;
        other.call(how, json!({"key": key})).await;
        let third = bench.send(&thread, "[[say third]]").await;
        assert_eq!(bench.ended(&thread).await, completed("third", &[]));
        let fourth = bench.send(&thread, "[[say fourth]]").await;
        assert_eq!(bench.ended(&thread).await, completed("fourth", &[]));
        for run in [&first, &second, &fourth] {
            assert_eq!(
                notes(&bench, &thread, run, GONE).await,
                Vec::<String>::new()
            );
        }
        let told = notes(&bench, &thread, &third, GONE).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(says), "{told:?}");
    }
}

/// The gateway comes back with another token while a run is open, and gets the right one again.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_wrong_for_a_while_costs_an_open_run_nothing() {
    let Some(mut bench) = Bench::start(json!({})).await else {
        return;
    };
    let thread = "draft:refused";
    bench.run("draft:warm", "[[say warm]]").await;
    let run = bench.send(thread, "[[sleep 8000]] [[say after all]]").await;
    bench.model_hears("after all").await;
    // The gateway also knows the machine by a token of its own, which must not help.
    let token = bench.gateway.token().to_owned();
    let mut other = Client::connect_as_admin(&bench.gateway.url(), &token).await;
    let paired = other.call("device.pair.list", json!({})).await;
    for device in paired["paired"].as_array().unwrap() {
        let id = json!({"deviceId": device["deviceId"]});
        other.call("device.pair.remove", id).await;
    }
    bench.gateway.kill();
    bench.gateway.take_token("another");
    bench.gateway.resume().await;
    let begun = Instant::now();
    let told = loop {
        let told = notes(&bench, thread, &run, REFUSED).await;
        if !told.is_empty() {
            break told;
        }
        assert!(begun.elapsed() < TURN, "{}", bench.world.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(told.len(), 1, "{told:?}");
    let asked = Instant::now();
    let stands = bench.status(thread).await;
    println!("asked while refused: {:?}", asked.elapsed());
    let of = |name: &str| stands[name].clone();
    assert_eq!(
        [of("status"), of("source"), of("transportDegradedCode")],
        [
            json!("running"),
            json!("stored"),
            json!("PROVIDER_UNAVAILABLE")
        ]
    );
    let status = bench
        .world
        .rpc("xworkmate.operator.status", json!({}))
        .await;
    let runtimes = status["result"]["runtimes"].as_array().unwrap();
    let openclaw = runtimes
        .iter()
        .find(|line| line["runtime"] == json!("openclaw"));
    assert_eq!(openclaw.unwrap()["available"], json!(false), "{status:#}");
    bench.gateway.take_token(&token);
    let mended = Instant::now();
    assert_eq!(bench.ended(thread).await, completed("after all", &[]));
    println!(
        "ended {:?} after the token was right again",
        mended.elapsed()
    );
}
