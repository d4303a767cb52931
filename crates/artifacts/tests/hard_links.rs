//! A second name of a file outside gives nothing away.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::fs;

use common::{
    World, copied,
    host::{Host, each, moment, omitted, turn},
    omit, paths, put,
};
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_artifacts::{Error, ScopeStyle, WorkFolder};
use threadline_contract::{ArtifactPath, OmitReason};

#[test]
fn in_the_scope_it_is_neither_listed_nor_read() {
    let w = World::new();
    put(w.temp.path(), "secret.txt", "secret");
    put(&w.scope(), "mine.txt", "mine");
    fs::hard_link(w.temp.path().join("secret.txt"), w.scope().join("x.txt")).unwrap();
    let export = w.export();
    assert_eq!(paths(&export), ["mine.txt"]);
    assert_eq!(export.omitted.named, [omit("x.txt", OmitReason::HardLink)]);
    let refused = w.ws.read(&w.identity("x.txt", b"secret")).unwrap_err();
    assert!(matches!(refused, Error::NotAFile { .. }), "{refused}");
    let path = ArtifactPath::new("x.txt").unwrap();
    let read = w.ws.read_path(ScopeStyle::Own, &w.session, &w.run, &path);
    assert!(matches!(read, Err(Error::NotAFile { .. })));

    // Two names inside do not stand for the one outside.
    fs::hard_link(w.scope().join("x.txt"), w.scope().join("y.txt")).unwrap();
    let want = ["x.txt", "y.txt"].map(|path| omit(path, OmitReason::HardLink));
    assert_eq!(w.export().omitted.named, want);
    // Without the one outside, they are files.
    fs::remove_file(w.temp.path().join("secret.txt")).unwrap();
    assert_eq!(paths(&w.export()).len(), 3);
}

#[test]
fn in_the_work_folder_it_is_not_collected() {
    let w = World::new();
    put(w.temp.path(), "secret.txt", "secret");
    w.list();
    fs::hard_link(w.temp.path().join("secret.txt"), w.work().join("x.txt")).unwrap();
    put(&w.work(), "build/a.bin", "built");
    fs::hard_link(w.work().join("build/a.bin"), w.work().join("a.bin")).unwrap();
    // An old time is nothing to hide behind.
    put(&w.work(), "old.txt", "old");
    common::age(&w.work(), "old.txt", 100_000);
    let collected = w.collect(&["x.txt"]);
    assert_eq!(copied(&collected), ["a.bin", "build/a.bin", "old.txt"]);
    assert_eq!(
        collected.omitted.named,
        [omit("x.txt", OmitReason::HardLink)]
    );
}

#[test]
fn a_users_folder_counts_its_own_names_but_not_other_sessions() {
    let w = World::new();
    // The user's folder lies above the workspace, so another session's file lies beneath it.
    let user = WorkFolder::User(w.temp.path().to_owned());
    put(&w.root(), "tasks/other/work/secret.txt", "secret");
    w.ws.list_before(&w.session, &w.run, &user).unwrap();
    put(w.temp.path(), "cache/b.txt", "b");
    fs::hard_link(
        w.temp.path().join("cache/b.txt"),
        w.temp.path().join("b.txt"),
    )
    .unwrap();
    fs::hard_link(
        w.root().join("tasks/other/work/secret.txt"),
        w.temp.path().join("x.txt"),
    )
    .unwrap();
    let collected = w.collect_from(&user, &["b.txt", "x.txt"], &[]).unwrap();
    assert_eq!(copied(&collected), ["b.txt"]);
    assert_eq!(
        collected.omitted.named,
        [omit("x.txt", OmitReason::HardLink)]
    );
}

#[test]
fn in_an_output_folder_it_is_not_taken() {
    let host = Host::prepared();
    moment();
    put(host.temp.path(), "secret.txt", "secret");
    fs::hard_link(
        host.temp.path().join("secret.txt"),
        host.media().join("x.txt"),
    )
    .unwrap();
    put(&host.media(), "a.png", "a");
    fs::hard_link(host.media().join("a.png"), host.tmp().join("b.png")).unwrap();
    let result = host.collect(turn(json!({}))).unwrap();
    assert_eq!(omitted(&result), [("media/x.txt", "hard_link")]);
    let listed = host.list(turn(json!({}))).unwrap();
    assert_eq!(each(&listed["artifacts"], "relativePath").len(), 2);

    // Nor another session's file by way of a folder of the workspace.
    put(&host.ws(), "tasks/other/work/secret.txt", "secret");
    fs::create_dir_all(host.ws().join("reports")).unwrap();
    fs::hard_link(
        host.ws().join("tasks/other/work/secret.txt"),
        host.ws().join("reports/x.md"),
    )
    .unwrap();
    let expected = json!({"expectedArtifactDirs": ["reports"], "writtenFiles": ["reports/x.md"]});
    let result = host.export(turn(expected)).unwrap();
    assert_eq!(omitted(&result), [("reports/x.md", "hard_link")]);
}
