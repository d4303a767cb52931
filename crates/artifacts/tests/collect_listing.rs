//! What the work folder looked like before the turn.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, path::Path};

use common::{World, age, copied, put, run, settle, tree};
use pretty_assertions::assert_eq;
use threadline_artifacts::{Error, Listed, WorkFolder};

fn content(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn the_listing_is_taken_once() {
    let w = World::new();
    let take = || {
        w.ws.list_before(&w.session, &w.run, &WorkFolder::Session)
            .unwrap()
    };
    put(&w.work(), "before.md", "x");
    age(&w.work(), "before.md", 100);
    assert_eq!(take(), Listed::Taken);
    let first = content(&w.scope(), ".xworkmate/before.jsonl");
    put(&w.work(), "written-by-the-turn.md", "x");
    // The bridge was killed and starts the run again: the turn's file must stay the turn's.
    assert_eq!(take(), Listed::Kept);
    assert_eq!(content(&w.scope(), ".xworkmate/before.jsonl"), first);
    assert_eq!(copied(&w.collect(&[])), ["written-by-the-turn.md"]);
}

#[test]
fn the_listing_is_sorted_lines() {
    let w = World::new();
    for path in ["b", "a/z", "a.txt", "a-b/c", "\u{e9}"] {
        put(&w.work(), path, path);
        age(&w.work(), path, 100);
    }
    settle();
    w.list();
    let text = content(&w.scope(), ".xworkmate/before.jsonl");
    let listed: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|line| Some(line.get("path")?.as_str()?.to_owned()))
        .collect();
    assert_eq!(listed, ["a-b/c", "a.txt", "a/z", "b", "\u{e9}"]);
    assert!(
        text.starts_with(r#"{"v":1,"folder":"work","takenNs":"#),
        "{text}"
    );
    assert!(
        text.ends_with("{\"files\":5,\"complete\":true}\n"),
        "{text}"
    );
}

#[test]
fn without_a_whole_listing_nothing_is_taken() {
    let w = World::new();
    put(&w.work(), "f", "f");
    let refused = w
        .collect_from(&WorkFolder::Session, &["f"], &[])
        .unwrap_err();
    assert!(matches!(refused, Error::NotListed { .. }), "{refused}");
    w.list();
    let listing = w.scope().join(".xworkmate/before.jsonl");
    let whole = fs::read(&listing).unwrap();
    for length in 0..whole.len() {
        fs::write(&listing, &whole[..length]).unwrap();
        let refused = w
            .collect_from(&WorkFolder::Session, &["f"], &[])
            .unwrap_err();
        assert!(
            matches!(refused, Error::BadListing { .. }),
            "{length}: {refused}"
        );
    }
    let text = String::from_utf8(whole.clone()).unwrap();
    let without_f: String = text
        .lines()
        .filter(|l| !l.contains("path"))
        .map(|l| format!("{l}\n"))
        .collect();
    fs::write(&listing, without_f).unwrap();
    let refused = w
        .collect_from(&WorkFolder::Session, &["f"], &[])
        .unwrap_err();
    assert!(
        refused.to_string().ends_with("it has 0 of 1 files"),
        "{refused}"
    );
    fs::write(&listing, &whole).unwrap();
    let elsewhere = WorkFolder::User(w.work());
    let refused = w.collect_from(&elsewhere, &[], &[]).unwrap_err();
    assert!(
        matches!(refused, Error::BadListing { .. }),
        "a listing of another folder: {refused}"
    );
    assert_eq!(tree(&w.scope()), []);
    assert!(matches!(
        w.ws.list_before(&w.session, &run("never"), &WorkFolder::Session),
        Err(Error::NotPrepared { .. })
    ));
}
