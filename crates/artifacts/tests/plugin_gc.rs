//! Making room, as a caller of the gateway asks for it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use common::{
    host::{Host, K, call, moment, turn},
    put,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::plugin::GcParams;

fn gc(host: &Host, params: Value) -> Result<Value, (String, String)> {
    call(params, |p: GcParams| host.service.gc(&p))
}

#[test]
fn live_runs_and_young_scopes_stay() {
    let host = Host::prepared();
    put(&host.scope(), "f.md", "x");
    put(
        &host.ws(),
        "tasks/old_session/old_run/f.md",
        "left by the earlier plugin",
    );
    let why = |answer: &Value| answer["kept"][0]["why"].clone();
    // It began here, and nobody told its end.
    let first = gc(&host, json!({"maxBytes": 0, "dryRun": true})).unwrap();
    assert_eq!(
        (why(&first), &first["removed"], &first["dryRun"]),
        (json!("live"), &json!([]), &json!(true))
    );
    assert_eq!(first["unknown"], json!(["tasks/old_session/old_run"]));
    assert_eq!(first["workspaceSource"], "default");
    // It ended: young scopes stay all the same, and the gateway may know that it goes on.
    let until = moment();
    host.collect(turn(json!({"untilUnixMs": until}))).unwrap();
    let second = gc(&host, json!({"maxBytes": 0})).unwrap();
    assert_eq!(
        (why(&second), &second["removed"]),
        (json!("grace"), &json!([]))
    );
    let told = json!([{"openclawSessionKey": K}]);
    let third = gc(&host, json!({"maxBytes": 0, "liveRuns": told})).unwrap();
    assert_eq!(why(&third), "live");
    // References keep it too.
    host.list(turn(json!({}))).unwrap();
    let fourth = gc(&host, json!({"maxBytes": 0})).unwrap();
    assert_eq!(why(&fourth), "held");
    assert!(host.scope().join("f.md").exists());
    let (code, message) = gc(&host, json!({"maxAgeDays": -1})).unwrap_err();
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("INVALID_REQUEST", "`maxAgeDays` must not be below zero.")
    );
}
