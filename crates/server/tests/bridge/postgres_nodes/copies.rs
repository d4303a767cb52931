//! Two servers with one name: only one of them is there.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{Code, Fault};

use super::{FIRST, FOLLOW_UP, Nodes, options};
use crate::support::{World, turn};

#[tokio::test]
async fn a_copy_of_a_servers_data_folder_is_refused_while_it_is_there() {
    let Nodes {
        a,
        b,
        folders,
        database,
    } = Nodes::new().await;
    a.run(&turn("draft:1", FIRST)).await;
    let copy = tempfile::tempdir().unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(folders[0].path().join("."))
        .arg(copy.path())
        .status();
    assert!(copied.unwrap().success());
    a.run_method("session.message", &turn("draft:1", FOLLOW_UP))
        .await;
    let refused = World::try_with(copy.path(), options("a", &database, true)).await;
    let data = copy.path().join("data");
    assert_eq!(
        refused.err(),
        Some(Fault::new(
            Code::NodeNameInUse,
            format!(
                "A server named a is on this database already at {}. If {} is a copy of its data folder, delete the file `node` in the copy, so that it becomes a server of its own. If that server is gone, start this one again in a minute.",
                a.url,
                data.display()
            )
        ))
    );

    // It ended, so the name is free; what the copy does not have cannot go on there.
    a.stop().await;
    let a = World::with(copy.path(), options("a", &database, true)).await;
    let code = b.code("session.message", turn("draft:1", FOLLOW_UP)).await;
    assert_eq!(code, json!("SESSION_CONTINUATION_UNAVAILABLE"));
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_server_that_was_killed_is_back_at_once_and_one_that_was_replaced_stops() {
    let Nodes {
        a,
        b,
        folders,
        database,
    } = Nodes::new().await;
    // As after a kill: nobody gave the name back.
    let again = World::with(folders[0].path(), options("a", &database, true)).await;
    let replaced = tokio::time::timeout(Duration::from_secs(60), a.engine.replaced());
    assert_eq!(replaced.await.unwrap().code, Code::NodeNameInUse);
    assert_eq!(a.engine.active(), 0);
    again.run(&turn("draft:1", FIRST)).await;
    again.stop().await;
    a.stop().await;
    b.stop().await;
}
