//! What a run delivers, for the record, however much it is.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{io, os::unix::fs::symlink};

use common::{World, put, settle};
use pretty_assertions::assert_eq;
use threadline_artifacts::{Delivery, Workspace};
use threadline_contract::{Artifact, EmptyReason, Receipt};

fn files(delivery: &Delivery) -> Vec<Artifact> {
    let files: io::Result<Vec<Artifact>> = delivery.files.iter().collect();
    files.unwrap()
}

/// The same as a page with everything, in the order of paths; and the receipt is the one that it has.
#[test]
fn a_delivery_is_everything_and_its_receipt_says_so() {
    let w = World::new();
    for n in 0..5_000 {
        put(
            &w.scope(),
            &format!("{:02}/{n:04}.txt", n % 50),
            format!("{n}"),
        );
    }
    put(&w.scope(), "Twin.md", "a");
    put(&w.scope(), "twin.md", "b");
    put(&w.scope(), "bad\u{1b}name", "x");
    put(&w.scope(), "artifact-ignore.md", "```\n*.log\n```\n");
    put(&w.scope(), "left.log", "x");
    put(&w.scope(), "node_modules/x.js", "x");
    symlink("left.log", w.scope().join("link")).unwrap();
    settle();
    // The first time, when nothing is known of the files yet.
    let first = w.ws.deliver(&w.session, &w.run).unwrap();
    let page = w.ws.manifest(&w.session, &w.run).unwrap();
    let mut all = page.artifacts;
    all.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(files(&first), all);
    for ws in [w.ws.clone(), Workspace::open(w.root()).unwrap()] {
        let delivery = ws.deliver(&w.session, &w.run).unwrap();
        assert_eq!(files(&delivery), all);
        assert_eq!(
            (&delivery.omitted, &delivery.warnings, delivery.empty_reason),
            (&page.omitted, &page.warnings, None)
        );
        let receipt = w.ws.receipt(&w.session, &w.run).unwrap().unwrap();
        assert_eq!(receipt.files(), all);
        assert_eq!(delivery.receipt, Some(receipt.digest()));
    }
    // Listed once, nothing is read again.
    let ws = Workspace::open(w.root()).unwrap();
    ws.deliver(&w.session, &w.run).unwrap();
    assert_eq!(ws.content_bytes_read(), 0);
}

#[test]
fn a_run_without_files_delivers_none_and_that_is_noted() {
    let w = World::new();
    let delivery = w.ws.deliver(&w.session, &w.run).unwrap();
    let scope = w.ws.manifest(&w.session, &w.run).unwrap().scope;
    let none = Receipt::new(w.session.clone(), w.run, scope, vec![]).unwrap();
    assert_eq!(
        delivery,
        Delivery {
            empty_reason: Some(EmptyReason::ScopeEmpty),
            receipt: Some(none.digest()),
            ..Delivery::default()
        }
    );
}
