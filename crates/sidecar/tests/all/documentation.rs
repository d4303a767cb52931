//! The examples of docs/sidecar.md are what happens. `UPDATE_DOCS=1` writes the answers anew.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::wire::{Host, put};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sidecar.md");

/// What differs from run to run is shown as something that does not.
fn settled(value: &mut Value, host: &str) {
    match value {
        Value::String(text) => *text = text.replace(host, "").replace("/home/", "/home/me/"),
        Value::Array(items) => items.iter_mut().for_each(|item| settled(item, host)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "artifactRef" | "ref" => *value = "REF".into(),
                    "nextCursor" => *value = "CURSOR".into(),
                    "expiresAt" => *value = 1_800_000_000.into(),
                    "version" => *value = "0.1.0".into(),
                    _ => settled(value, host),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn the_examples_are_true() {
    let host = Host::new();
    let mut client = host.client();
    let page = fs::read_to_string(PAGE).unwrap();
    let place = host.path().to_string_lossy().into_owned();
    let mut reference = String::new();
    let mut now = String::new();
    let mut asked = None;
    for line in page.lines() {
        match (line.split_once(' '), asked.take()) {
            (Some(("→", request)), None) => {
                client.send_line(&request.replace("\"REF\"", &reference));
                asked = Some(request);
                now.push_str(line);
            }
            (Some(("←", _)), Some(request)) => {
                if request.contains("\"shutdown\"") {
                    client.sidecar.wait();
                }
                let mut answer = client.receive();
                if let Some(text) = answer["result"]["artifacts"][0].get("artifactRef") {
                    reference = text.to_string();
                }
                settled(&mut answer, &place);
                // In the order of the wire.
                let (id, field) = (
                    &answer["id"],
                    if answer["error"].is_null() {
                        "result"
                    } else {
                        "error"
                    },
                );
                let said = &answer[field];
                now.push_str(&format!(
                    r#"← {{"jsonrpc":"2.0","id":{id},"{field}":{said}}}"#
                ));
                if request.contains("session.prepare") {
                    // The run works.
                    put(&host.scope(), "reports/final.md", "# Done\n");
                    put(&host.media(), "browser/shot.png", "not really a picture");
                }
            }
            (_, None) => now.push_str(line),
            (_, Some(_)) => panic!("{line}: an answer must follow a request"),
        }
        now.push('\n');
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, &now).unwrap();
        return;
    }
    assert_eq!(page, now, "UPDATE_DOCS=1 writes it anew");
}

#[test]
fn every_method_has_an_example() {
    let page = fs::read_to_string(PAGE).unwrap();
    let host = Host::new();
    let mut client = host.client();
    let known = client.ok("initialize", serde_json::json!({}));
    for method in known["methods"].as_array().unwrap() {
        let method = method.as_str().unwrap();
        let shown = page.contains(&format!("\"method\":\"{method}\""));
        assert!(shown && page.contains(&format!("`{method}`")), "{method}");
    }
}
