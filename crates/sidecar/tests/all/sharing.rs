//! Requests, and sidecars, that meet on the same folders.

use std::{collections::BTreeSet, fs, thread};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::wire::{COLLECT, EXPORT, GC, Host, LIST, PREPARE, READ, code, put, run, turn};

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().unwrap();
    items
        .iter()
        .map(|i| i.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn collecting_the_same_run_many_times_at_once_copies_each_file_once() {
    let host = Host::new();
    let mut client = host.client();
    client.prepare();
    for n in 0..60 {
        put(
            &host.media(),
            &format!("{}/{n}.txt", n % 7),
            format!("{n}").repeat(n * 20),
        );
    }
    for id in 1..=10 {
        client.send(id, COLLECT, &turn(json!({})));
    }
    let mut copied = Vec::new();
    for _ in 0..10 {
        let answer = client.receive();
        let result = &answer["result"];
        let own = texts(&result["copiedFiles"]);
        assert_eq!(
            own.len() as u64 + result["alreadyPresent"].as_u64().unwrap(),
            60,
            "{answer}"
        );
        assert_eq!(result["omitted"]["count"], 0, "{answer}");
        copied.extend(own);
    }
    let once: BTreeSet<&String> = copied.iter().collect();
    assert_eq!((once.len(), copied.len()), (60, 60));
    for n in 0..60 {
        let copy = host
            .scope()
            .join(format!("artifacts/media/{}/{n}.txt", n % 7));
        assert_eq!(
            fs::read_to_string(copy).unwrap(),
            format!("{n}").repeat(n * 20)
        );
    }
}

#[test]
fn everything_at_once_on_one_run_stays_right() {
    let host = Host::new();
    let mut client = host.client();
    client.prepare();
    for n in 0..30 {
        put(&host.media(), &format!("{n}.txt"), "m");
        put(&host.scope(), &format!("own/{n}.txt"), "o");
    }
    let methods = [PREPARE, COLLECT, EXPORT, LIST, GC];
    for id in 0..50_u64 {
        let method = methods[id as usize % methods.len()];
        client.send(id, method, &turn(json!({"maxAgeDays": 0})));
        if id >= 20 {
            let answer = client.receive();
            assert!(answer["result"].is_object(), "{answer}");
        }
    }
    for _ in 0..20 {
        let answer = client.receive();
        assert!(answer["result"].is_object(), "{answer}");
    }
    let list = client.ok(LIST, turn(json!({})));
    assert_eq!(list["manifest"]["totalCandidates"], 60);
}

#[test]
fn two_sidecars_on_one_workspace_agree() {
    let host = Host::new();
    let (mut one, mut other) = (host.client(), host.client());
    one.prepare();
    other.prepare();
    put(&host.scope(), "a.txt", "a");
    let list = one.ok(LIST, turn(json!({})));
    let by = turn(json!({"artifactRef": list["artifacts"][0]["artifactRef"]}));
    // The keys are the same, whoever made them.
    assert_eq!(other.ok(READ, by)["length"], 1);

    for n in 0..40 {
        put(&host.media(), &format!("{n}.txt"), format!("{n}"));
    }
    let collect = |client: &mut crate::wire::Client| {
        let result = client.ok(COLLECT, turn(json!({})));
        assert_eq!(result["omitted"]["count"], 0);
        texts(&result["copiedFiles"])
    };
    let copied: Vec<String> = thread::scope(|scope| {
        let first = scope.spawn(|| collect(&mut one));
        let mut all = collect(&mut other);
        all.extend(first.join().unwrap());
        all
    });
    let once: BTreeSet<&String> = copied.iter().collect();
    assert_eq!((once.len(), copied.len()), (40, 40));
}

#[test]
fn of_two_keys_for_one_folder_one_wins_everywhere() {
    for _ in 0..5 {
        let host = Host::new();
        let mut clients = [host.client(), host.client()];
        // Both keys become the same folder.
        let keys = ["a:b", "a/b"];
        for (n, client) in clients.iter_mut().enumerate() {
            for (id, key) in keys.iter().enumerate() {
                let params = run("r", json!({"openclawSessionKey": key}));
                client.send((n * 10 + id) as u64, PREPARE, &params);
            }
        }
        let mut winners = BTreeSet::new();
        for client in &mut clients {
            for _ in keys {
                let answer = client.receive();
                match answer.get("result") {
                    Some(result) => {
                        winners.insert(result["sessionKey"].as_str().unwrap().to_owned());
                    }
                    None => assert_eq!(code(&answer), "CONFLICT"),
                }
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
    }
}

#[test]
fn a_shared_file_goes_to_one_run_only() {
    let host = Host::new();
    let (mut one, mut other) = (host.client(), host.client());
    let of = |key: &str| json!({"openclawSessionKey": key, "overlapped": false});
    let (mine, theirs) = (run("r1", of("one")), run("r2", of("two")));
    one.ok(PREPARE, mine.clone());
    other.ok(PREPARE, theirs.clone());
    for n in 0..30 {
        put(&host.media(), &format!("{n}.txt"), format!("{n}"));
    }
    let (a, b) = thread::scope(|scope| {
        let a = scope.spawn(|| one.ok(COLLECT, mine));
        (other.ok(COLLECT, theirs), a.join().unwrap())
    });
    let (a, b) = (texts(&a["copiedFiles"]), texts(&b["copiedFiles"]));
    let all: BTreeSet<&String> = a.iter().chain(&b).collect();
    assert_eq!((all.len(), a.len() + b.len()), (30, 30));
}
