//! Contents of files, in the answer that lists them.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::{
    host::{Host, SCOPE, each, omitted, texts, turn},
    put, sha,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn paths(result: &Value) -> Vec<&str> {
    each(&result["artifacts"], "relativePath")
}

#[test]
fn p72_a_large_file_is_listed_without_its_content() {
    let host = Host::prepared();
    put(&host.scope(), "large.bin", vec![7; 512 * 1024 + 1]);
    put(&host.scope(), "limit.bin", vec![7; 512 * 1024]);
    let result = host.export(turn(json!({}))).unwrap();
    let item = |name: &str| {
        let items = result["artifacts"].as_array().unwrap();
        items
            .iter()
            .find(|item| item["relativePath"] == name)
            .unwrap()
            .clone()
    };
    let large = item("large.bin");
    assert_eq!((large.get("content"), large.get("encoding")), (None, None));
    assert_eq!(large["notInlined"], "over_max_inline_bytes");
    assert_eq!(large["sizeBytes"], 512 * 1024 + 1);
    assert!(
        large["artifactRef"]
            .as_str()
            .unwrap()
            .contains("::large.bin::")
    );
    assert_eq!(item("limit.bin").get("notInlined"), None);
    assert_eq!(
        texts(&result["warnings"]),
        [
            "`large.bin`: listed without content, because it is larger than `maxInlineBytes`. Read it by its reference."
        ]
    );
    let some = host.export(turn(json!({"maxInlineBytes": 10}))).unwrap();
    assert_eq!(each(&some["artifacts"], "notInlined").len(), 2);
    assert!(texts(&some["warnings"])[0].contains(" and 1 more: listed without content"));
}

#[test]
fn an_answer_does_not_grow_without_bound() {
    let host = Host::prepared();
    for i in 0..5 {
        put(
            &host.scope(),
            &format!("f{i}.bin"),
            vec![i; 4 * 1024 * 1024 - 2 * 1024],
        );
    }
    let result = host
        .export(turn(json!({"maxInlineBytes": 1_000_000_000})))
        .unwrap();
    let with_content = |item: &&Value| item.get("content").is_some();
    let items = result["artifacts"].as_array().unwrap();
    assert_eq!(items.iter().filter(with_content).count(), 4);
    let left: Vec<&Value> = items.iter().filter(|item| !with_content(item)).collect();
    assert_eq!(
        (left.len(), &left[0]["notInlined"]),
        (1, &json!("answer_full"))
    );
    let frame = serde_json::to_string(&result).unwrap().len();
    assert!(frame < 25 * 1024 * 1024, "{frame}");
}

#[test]
fn p73_an_empty_file_has_empty_content() {
    let host = Host::prepared();
    put(&host.scope(), "empty.txt", "");
    for params in [turn(json!({})), turn(json!({"maxInlineBytes": 0}))] {
        let result = host.export(params).unwrap();
        let item = &result["artifacts"][0];
        assert_eq!(
            (&item["sizeBytes"], &item["content"]),
            (&json!(0), &json!(""))
        );
        assert_eq!(
            item["sha256"],
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}

#[test]
fn p74_hostile_names_come_back_byte_for_byte() {
    let host = Host::prepared();
    let names = [
        "new\nline \"quoted\".txt",
        "a::b/c::d",
        "\u{1f600}.png",
        "x%2F..%2Fy",
        "%3A%25;t=5",
        " lead and trail ",
        "-rf",
        "<script>.html",
    ];
    for name in names {
        put(&host.scope(), name, name);
    }
    let result = host.export(turn(json!({}))).unwrap();
    assert_eq!(paths(&result).len(), names.len());
    for item in result["artifacts"].as_array().unwrap() {
        let name = item["relativePath"].as_str().unwrap();
        for params in [
            json!({"artifactRef": item["artifactRef"]}),
            json!({"artifactRef": item["artifactRef"], "relativePath": name}),
            json!({"artifactScope": SCOPE, "relativePath": name}),
        ] {
            let read = host.read(turn(params)).unwrap();
            let got = &read["artifacts"][0];
            assert_eq!(
                STANDARD.decode(got["content"].as_str().unwrap()).unwrap(),
                name.as_bytes()
            );
            assert_eq!(
                (&got["relativePath"], &read["eof"]),
                (&json!(name), &json!(true))
            );
        }
        assert_eq!(item["sha256"], json!(sha(name.as_bytes())));
    }
}

/// P76 in the middle of an answer: a file that is gone, or another, when its content is read.
#[test]
fn p76_what_changes_under_the_reader_is_reported_not_delivered() {
    let host = Host::prepared();
    put(&host.scope(), "still.txt", "still");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut i = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                put(&host.scope(), "moves.txt", format!("{i:08}"));
                if i.is_multiple_of(3) {
                    fs::remove_file(host.scope().join("moves.txt")).unwrap();
                }
                i += 1;
            }
        });
        for _ in 0..300 {
            let result = host.export(turn(json!({}))).unwrap();
            assert!(paths(&result).contains(&"still.txt"));
            for item in result["artifacts"].as_array().unwrap() {
                let bytes = STANDARD.decode(item["content"].as_str().unwrap()).unwrap();
                assert_eq!(json!(sha(&bytes)), item["sha256"]);
                assert_eq!(json!(bytes.len()), item["sizeBytes"]);
            }
            for (path, reason) in omitted(&result) {
                assert_eq!(path, "moves.txt");
                assert!(
                    ["vanished", "changed_while_reading"].contains(&reason),
                    "{reason}"
                );
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
