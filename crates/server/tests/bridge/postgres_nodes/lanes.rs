//! Whose runs take the places of a lane.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::postgres;
use threadline_runtimes::LaneSize;

use super::{Nodes, options};
use crate::{
    remote::gateway::{Gateway, Remote},
    support::{Options, World, turn},
};

const HANGS: &str = "[[hang]] [[say never]]";

/// Two servers with one place each at the builtin agent, which both send to a gateway that takes one turn.
async fn with_one_place_each() -> Nodes {
    let server = std::env::var("THREADLINE_TEST_POSTGRES")
        .expect("THREADLINE_TEST_POSTGRES names a PostgreSQL server");
    let database = postgres::fresh_database(&server);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut gateway = Gateway::new();
    gateway.is_noted_here = true;
    let gateway = Arc::new(gateway);
    let [a, b] = ["a", "b"].map(|node| Options {
        lane: LaneSize {
            max_active: 1,
            max_queued: 0,
        },
        also: Some(Arc::new(Remote(gateway.clone()))),
        ..options(node, &database, true)
    });
    Nodes {
        a: World::with(folders[0].path(), a).await,
        b: World::with(folders[1].path(), b).await,
        folders,
        database,
    }
}

async fn at_gateway(world: &World, thread: &str) {
    let accepted = world
        .rpc("session.start", crate::remote::turn(thread))
        .await;
    assert_eq!(
        accepted["result"]["status"],
        json!("running"),
        "{accepted:#}"
    );
}

/// What a server says of its runtimes: places that are taken, and turns that wait.
async fn loads(world: &World) -> Vec<(String, u32, u32)> {
    let mut loads = world.engine.loads().await.unwrap();
    loads.sort();
    loads
}

async fn queue(world: &World, thread: &str) -> Value {
    let task = world.rpc("xworkmate.tasks.get", json!({"appThreadKey": thread}));
    task.await["result"]["queue"].clone()
}

#[tokio::test]
async fn agents_of_one_server_take_no_place_at_another() {
    let nodes = with_one_place_each().await;
    nodes.a.rpc("session.start", turn("draft:1", HANGS)).await;
    nodes.a.at_stage("draft:1", "working").await;
    assert_eq!(
        nodes
            .a
            .code("session.start", turn("draft:2", "[[say no]]"))
            .await,
        json!("RUNTIME_BUSY")
    );
    let (_, result) = nodes.b.run(&turn("draft:3", "[[say ok]]")).await;
    assert_eq!(
        (&result["status"], &result["text"]),
        (&json!("completed"), &json!("ok")),
        "{result:#}"
    );
    let taken = |builtin| {
        vec![
            ("builtin".to_owned(), builtin, 0),
            ("openclaw".into(), 0, 0),
        ]
    };
    assert_eq!(
        [loads(&nodes.a).await, loads(&nodes.b).await],
        [taken(1), taken(0)]
    );
    nodes.stop().await;
}

#[tokio::test]
async fn a_run_of_a_server_that_is_away_takes_no_place_at_the_gateway() {
    let Nodes {
        a,
        b,
        folders: _folders,
        database,
    } = with_one_place_each().await;
    at_gateway(&a, "draft:1").await;
    a.at_stage("draft:1", "working").await;
    at_gateway(&b, "draft:2").await;
    // The gateway is shared: while the first server is there, its run has the place.
    b.at_stage("draft:2", "queued").await;
    assert_eq!(
        queue(&b, "draft:2").await,
        json!({"position": 1, "queued": 1})
    );
    a.stop().await;
    postgres::run_on(
        &database,
        "update nodes set seen_at = seen_at - 120000 where node = 'a'",
    );
    b.at_stage("draft:2", "working").await;
    // A turn of the same thread still waits for the one before it, which may go on at the gateway.
    at_gateway(&b, "draft:1").await;
    b.at_stage("draft:1", "queued").await;
    b.stop().await;
}
