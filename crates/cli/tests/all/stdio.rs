//! `threadline serve --stdio`, as a parent process uses it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::World;

#[test]
fn a_parent_process_asks_over_its_pipes_and_ends_it_by_closing_them() {
    let world = World::new();
    let mut command = world.command(&["serve", "--stdio", "--set", "server.listen=127.0.0.1:0"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |id: i64, method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(to, "{request}").unwrap();
        loop {
            let line = from.next().expect("an answer").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == json!(id) {
                return message["result"].clone();
            }
            assert!(message["method"].is_string(), "{message}");
        }
    };
    let capabilities = ask(1, "acp.capabilities", json!({}));
    assert_eq!(
        capabilities["providerProbeSummary"][0]["providerId"],
        json!("builtin")
    );
    let turn = json!({
        "sessionId": "draft:1", "prompt": "Write a short report",
        "routing": {"explicitProviderId": "builtin"},
        "metadata": {"xworkmateTaskArtifactContract": {"schemaVersion": 1, "appThreadKey": "draft:1"}},
    });
    let result = ask(2, "session.start", turn);
    assert_eq!(result["status"], json!("completed"), "{result}");
    assert!(result["artifacts"]["total"].as_u64() > Some(0));
    // Everybody else on this machine uses the same owner.
    world.run(&["threads"]).ended(0);
    drop(to);
    let ended = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{log}");
    assert!(log.contains("the input ended"), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
    assert!(!world.data().join("owner.json").exists());
}
