//! Many requests at once, clients that do not read, and all ways to end.

use std::{
    collections::BTreeSet,
    io::Write as _,
    thread,
    time::{Duration, Instant},
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_sidecar::{Ended, Limits};

use crate::wire::{Client, Host, LIST, PREPARE, READ, a_while, code, put, request, run, turn};

fn limits(concurrent: usize, waiting: usize) -> Limits {
    Limits {
        concurrent,
        waiting,
        ..Limits::default()
    }
}

fn ids(answers: &[Value]) -> BTreeSet<u64> {
    let ids: BTreeSet<u64> = answers.iter().map(|a| a["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), answers.len(), "one was answered twice");
    ids
}

#[test]
fn a_short_request_does_not_wait_for_a_long_one() {
    let host = Host::new();
    let mut client = host.client();
    let held = host.hold_claims();
    client.send(1, PREPARE, &turn(json!({})));
    for id in 2..20 {
        client.send(id, LIST, &turn(json!({})));
        assert_eq!(client.receive()["id"], id);
    }
    drop(held);
    assert_eq!(client.receive()["id"], 1);
}

/// Sends lines from a thread of its own: it will have to wait.
fn send_all(client: &mut Client, lines: Vec<String>) -> thread::JoinHandle<()> {
    let mut to = client.to.take().unwrap();
    thread::spawn(move || {
        for line in lines {
            writeln!(to, "{line}").unwrap();
        }
    })
}

#[test]
fn no_more_is_read_than_can_be_worked_on() {
    let host = Host::new();
    let mut client = host.client_with(limits(2, 3));
    let held = host.hold_claims();
    // Larger than any buffer, so that what was taken tells what was read.
    let padding = "x".repeat(500_000);
    let line = |id: u64| {
        request(
            id,
            PREPARE,
            &run(&format!("r{id}"), json!({"pad": padding})),
        )
    };
    let lines: Vec<String> = (10..50).map(line).collect();
    let size = lines[0].len() as u64 + 1;
    let sending = send_all(&mut client, lines);
    a_while();
    // Two are worked on, three wait, one has nowhere to go.
    let (least, most) = (6 * size, 6 * size + 64 * 1024);
    let taken = client.taken();
    assert!((least..=most).contains(&taken), "{taken} of {}", 40 * size);
    drop(held);
    let answers: Vec<Value> = (0..40).map(|_| client.receive()).collect();
    sending.join().unwrap();
    assert_eq!(ids(&answers), (10..50).collect());
    assert!(answers.iter().all(|a| a["result"].is_object()));
}

#[test]
fn a_client_that_does_not_read_stops_the_reading() {
    let host = Host::new();
    let mut client = host.client_with(limits(2, 3));
    client.prepare();
    put(&host.scope(), "a.bin", vec![7; 1_000_000]);
    let list = client.ok(LIST, turn(json!({})));
    let read = turn(
        json!({"artifactRef": list["artifacts"][0]["artifactRef"], "pad": "x".repeat(100_000)}),
    );
    let lines: Vec<String> = (100..160).map(|id| request(id, READ, &read)).collect();
    let (before, size) = (client.taken(), lines[0].len() as u64 + 1);
    let sending = send_all(&mut client, lines);
    a_while();
    let taken = client.taken() - before;
    assert!(taken <= 6 * size + 64 * 1024, "{taken} of {}", 60 * size);
    let answers: Vec<Value> = (0..60).map(|_| client.receive()).collect();
    sending.join().unwrap();
    assert_eq!(ids(&answers), (100..160).collect());
    for answer in answers {
        assert_eq!(answer["result"]["length"], 1_000_000);
    }
}

/// Asks for the preparation of so many runs, under their numbers.
fn prepare_runs(client: &mut Client, count: u64) {
    for id in 1..=count {
        client.send(id, PREPARE, &run(&format!("r{id}"), json!({})));
    }
}

#[test]
fn what_waits_can_be_taken_back() {
    let host = Host::new();
    let mut client = host.client_with(limits(1, 8));
    let held = host.hold_claims();
    prepare_runs(&mut client, 3);
    a_while();
    for id in [
        json!(2),
        json!(2),
        json!(1),
        json!(99),
        json!({}),
        Value::Null,
    ] {
        let cancel = json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}});
        client.send_line(&cancel.to_string());
    }
    let answer = client.receive();
    assert_eq!(
        (&answer["id"], code(&answer)),
        (&json!(2), "REQUEST_CANCELLED".to_owned())
    );
    assert_eq!(answer["error"]["code"], -32800);
    drop(held);
    let (answers, _) = client.finish();
    assert_eq!(ids(&answers), BTreeSet::from([1, 3]));
    let scope = |run: &str| host.workspace().join("tasks/agent-main-draft-1").join(run);
    assert_eq!(
        ["r1", "r2", "r3"].map(|run| scope(run).is_dir()),
        [true, false, true]
    );
}

#[test]
fn what_was_read_before_the_end_of_the_input_is_answered() {
    let host = Host::new();
    let mut client = host.client_with(limits(2, 16));
    let held = host.hold_claims();
    prepare_runs(&mut client, 12);
    let ending = thread::spawn(move || client.finish());
    a_while();
    assert!(!ending.is_finished());
    drop(held);
    let (answers, ended) = ending.join().unwrap();
    assert!(matches!(ended, Ended::EndOfInput), "{ended:?}");
    assert_eq!(ids(&answers), (1..=12).collect());
}

#[test]
fn a_stop_finishes_what_has_begun_and_refuses_the_rest() {
    let host = Host::new();
    let mut client = host.client_with(limits(1, 8));
    let held = host.hold_claims();
    prepare_runs(&mut client, 3);
    a_while();
    client.sidecar.stop();
    drop(held);
    let mut answers: Vec<Value> = (0..3).map(|_| client.receive()).collect();
    assert!(matches!(client.sidecar.wait(), Ended::Stopped));
    answers.sort_by_key(|a| a["id"].as_u64());
    assert!(answers[0]["result"].is_object(), "{}", answers[0]);
    assert_eq!(
        [code(&answers[1]), code(&answers[2])],
        ["SHUTTING_DOWN", "SHUTTING_DOWN"]
    );
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let host = Host::new();
    let mut client = host.client_with(Limits {
        patience: Duration::from_millis(100),
        ..Limits::default()
    });
    let held = host.hold_claims();
    client.send(1, PREPARE, &turn(json!({})));
    a_while();
    let begun = Instant::now();
    client.sidecar.stop();
    assert!(matches!(client.sidecar.wait(), Ended::CutOff));
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(held);
    // It can be asked for again.
    host.client().prepare();
}

#[test]
fn without_a_reader_it_ends() {
    let host = Host::new();
    let client = host.client();
    let Client {
        sidecar, to, from, ..
    } = client;
    let mut to = to.unwrap();
    drop(from);
    writeln!(to, "{}", request(1, PREPARE, &turn(json!({})))).unwrap();
    // The input is still open.
    assert!(matches!(sidecar.wait(), Ended::Stopped));
    // What was asked for was done all the same.
    assert!(host.scope().is_dir());
}

#[test]
fn nothing_said_is_nothing_answered() {
    let host = Host::new();
    let (answers, ended) = host.client().finish();
    assert!(answers.is_empty() && matches!(ended, Ended::EndOfInput));
}
