//! kill -9 in the middle of collecting and of listing, then a repeat that comes out right.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{World, put, sha, tree};
use pretty_assertions::assert_eq;
use threadline_artifacts::{CollectOptions, Evidence, WorkFolder, Workspace};

const FILES: usize = 400;

fn content(n: usize) -> Vec<u8> {
    format!("{n} ").repeat(n * 7 % 5_000).into_bytes()
}

/// Runs as a process of its own, see below.
#[test]
fn child() {
    let Ok(place) = std::env::var("KILL_CHILD") else {
        return;
    };
    let ws = Workspace::open(place).unwrap();
    let (session, run) = (common::session("agent:main:draft:1"), common::run("turn-1"));
    println!("begin");
    if std::env::var("KILL_STEP").unwrap() == "collect" {
        let (evidence, options) = (Evidence::default(), CollectOptions::default());
        ws.collect(&session, &run, &WorkFolder::Session, &evidence, &options)
            .unwrap();
    } else {
        let export = ws.manifest(&session, &run).unwrap();
        ws.write_receipt(&session, &run, &export.artifacts.into())
            .unwrap();
    }
}

fn started(w: &World, step: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env("KILL_CHILD", w.root())
        .env("KILL_STEP", step)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("begin") {}
    child
}

fn end(mut child: Child, after: Duration) -> bool {
    std::thread::sleep(after);
    let early = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    early
}

#[test]
fn a_collection_that_was_killed_comes_out_right_when_repeated() {
    let mut interrupted = 0;
    for round in 0..8 {
        let w = World::new();
        w.list();
        for n in 0..FILES {
            put(&w.work(), &format!("{}/{n}.txt", n % 13), content(n));
        }
        let child = started(&w, "collect");
        interrupted += usize::from(end(child, Duration::from_millis(3 + round * 9)));
        // What is there already is whole.
        for (path, bytes) in tree(&w.scope()) {
            let n: usize = path
                .rsplit('/')
                .next()
                .unwrap()
                .trim_end_matches(".txt")
                .parse()
                .unwrap();
            assert!(bytes == content(n), "{path} is torn");
        }
        let collected = w.collect(&[]);
        assert_eq!(
            (
                collected.copied.len() as u64 + collected.already_present,
                collected.omitted.total()
            ),
            (FILES as u64, 0)
        );
        assert_eq!(tree(&w.scope()), tree(&w.work()));
        // Nothing half-made is left behind.
        let notes = w.scope().join(".xworkmate");
        let left: Vec<String> = std::fs::read_dir(notes)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("staging") || name.ends_with(".tmp"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    }
    assert!(
        interrupted > 2,
        "only {interrupted} rounds were interrupted"
    );
}

#[test]
fn a_listing_that_was_killed_comes_out_right_when_repeated() {
    let w = World::new();
    for n in 0..FILES {
        put(&w.scope(), &format!("{}/{n}.txt", n % 13), content(n));
    }
    common::settle();
    let right = w.ws.manifest(&w.session, &w.run).unwrap();
    assert!(
        right
            .artifacts
            .iter()
            .any(|a| a.sha256 == sha(&content(399)))
    );
    let mut interrupted = 0;
    for round in 0..20 {
        w.ws.forget_digests(&w.session, &w.run).unwrap();
        let child = started(&w, "list");
        interrupted += usize::from(end(child, Duration::from_millis(round * 2)));
        let again = Workspace::open(w.root()).unwrap();
        assert_eq!(again.manifest(&w.session, &w.run).unwrap(), right);
        // A receipt is there whole or not at all.
        if let Some(receipt) = again.receipt(&w.session, &w.run).unwrap() {
            assert_eq!(receipt.files().len(), FILES);
        }
    }
    let receipt =
        w.ws.write_receipt(&w.session, &w.run, &right.artifacts.into())
            .unwrap();
    let read = w.ws.receipt(&w.session, &w.run).unwrap();
    assert_eq!(read.map(|read| read.digest()), Some(receipt));
    assert!(
        interrupted > 2,
        "only {interrupted} rounds were interrupted"
    );
    let notes = w
        .root()
        .join("tasks/agent-main-draft-1/.xworkmate/runs/turn-1");
    let left = std::fs::read_dir(notes).unwrap().count();
    assert!(left <= 2 + 20, "{left} files");
}
