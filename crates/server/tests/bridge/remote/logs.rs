//! What is logged about runs: whose they are, and no secret.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use pretty_assertions::assert_eq;
use tracing::level_filters::LevelFilter;

use super::*;
use crate::support::{MODEL_KEY, OTHER};

/// Everything that was logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn every_line_about_a_run_names_it_and_its_session_and_none_holds_a_secret() {
    let lines = Lines::default();
    let to = lines.clone();
    tracing_subscriber::fmt()
        .json()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || to.clone())
        .init();
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.panics.store(1, Ordering::SeqCst);
    let bridge = world(folder.path(), &gateway).await;
    let mut runs = vec![];
    // One whose driver panics, whose gateway goes away, whose answer does not arrive, and which ends.
    let started = bridge.rpc("session.start", turn("draft:1")).await;
    runs.push(started["result"]["runId"].as_str().unwrap().to_owned());
    bridge.at_stage("draft:1", "working").await;
    bridge
        .rpc("session.cancel", json!({"sessionId": "draft:1"}))
        .await;
    gateway.up.send_replace(false);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    gateway.up.send_replace(true);
    gateway.failures.store(2, Ordering::SeqCst);
    gateway.end.send_replace(Some(ended(EndStatus::Failed)));
    bridge.ended("draft:1").await;
    // One of the builtin agent, whose model wants a key, and a caller with a wrong token.
    let (_, result) = bridge
        .run(&crate::support::turn("draft:2", "[[write a.txt = b]]"))
        .await;
    runs.push(result["runId"].as_str().unwrap().to_owned());
    bridge.rpc_as(OTHER, "acp.capabilities", json!({})).await;
    let wrong = "a-token-that-nobody-has";
    let refused = bridge.http.get(format!("{}/api/ping", bridge.url));
    refused.bearer_auth(wrong).send().await.unwrap();
    bridge.stop().await;

    let text = lines.text();
    for secret in [TOKEN, OTHER, MODEL_KEY, wrong] {
        assert!(!text.contains(secret), "{secret} was logged");
    }
    let mut about = 0;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let ours = line["target"].as_str().unwrap().starts_with("threadline");
        let Some(run) = runs
            .iter()
            .find(|run| line.to_string().contains(run.as_str()))
        else {
            continue;
        };
        if !ours {
            continue;
        }
        about += 1;
        let spans = line["spans"].as_array().cloned().unwrap_or_default();
        let named = spans.iter().chain([&line["fields"]]).any(|said| {
            said["run.id"] == json!(run)
                && said["session"]
                    .as_str()
                    .is_some_and(|s| s.contains("draft:"))
        });
        assert!(named, "{line}");
    }
    assert!(about >= 5, "only {about} lines are about runs:\n{text}");
    assert_eq!(runs.len(), 2);
}
