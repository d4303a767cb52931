//! Every end of a run has its words, its reason and what can be done.

use std::path::Path;

use serde_json::{Value, json};

use crate::world::{World, thread};

/// The page of a thread whose last run ended so.
async fn page(result: &str, sync: &str, told: Option<&str>) -> String {
    let (world, app) = World::scripted();
    let mut messages = vec![json!({"role": "user", "text": "go", "timestampMs": 1, "runId": "a"})];
    if let Some(told) = told {
        let error = json!({"role": "assistant", "text": told, "timestampMs": 2, "runId": "a", "error": true});
        messages.push(error);
    }
    let context: Value = json!({
        "messages": messages, "lastArtifactSyncStatus": sync, "lastArtifactSyncDetail": "WHY: it broke.",
        "taskAssociation": {"appThreadKey": "draft:x", "requestId": "r", "runId": "a", "startedAtMs": 0},
    });
    let state = json!({"status": "ready", "lastResultCode": result});
    app.says("app.show", thread("x", Path::new("/w"), context, state));
    world.get("/threads/x").await.body
}

/// Result, sync, the sentence in the transcript; what the page says, and what it must not.
type Case = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static [&'static str],
    &'static [&'static str],
);

#[tokio::test]
async fn every_end_says_what_happened_and_what_can_be_done() {
    let cases: [Case; 8] = [
        (
            "success",
            "synced",
            None,
            &["done", "0 of 0 verified"],
            &["How it ended"],
        ),
        (
            "success",
            "no-exported-artifacts",
            None,
            &["This run made no files."],
            &["How it ended"],
        ),
        (
            "success",
            "partial",
            None,
            &[
                "done, files missing",
                "Some files could not be brought. ",
                "WHY: it broke.",
                "Fetch again",
            ],
            &["How it ended"],
        ),
        (
            "aborted",
            "no-artifacts",
            None,
            &["Stopped", "No files: the run was stopped.", "Try again"],
            &["<code>aborted"],
        ),
        (
            "OPENCLAW_REQUIRED_ARTIFACT_MISSING",
            "failed",
            Some("It did not deliver: a.pdf."),
            &[
                "A promised file is missing",
                "It did not deliver: a.pdf.",
                "No files: the run did not succeed.",
            ],
            &["Fetch again", "The list names it"],
        ),
        (
            "ACP_HTTP_CONNECTION_CLOSED",
            "failed",
            Some("The connection broke."),
            &[
                "The result did not arrive",
                "The connection broke.",
                "Fetch the result",
                "Try again",
            ],
            &["Fetch again"],
        ),
        (
            "SESSION_CONTINUATION_UNAVAILABLE",
            "failed",
            None,
            &[
                "This conversation cannot go on",
                "Try again in a new conversation",
                "name=\"newSession\" value=\"1\"",
            ],
            &[],
        ),
        (
            "failed",
            "failed",
            None,
            &["It did not work", "gave no reason", "Try again"],
            &[],
        ),
    ];
    for (result, sync, told, has, has_not) in cases {
        let page = page(result, sync, told).await;
        for words in has {
            assert!(page.contains(words), "{result}: {words}\n{page}");
        }
        for words in has_not {
            assert!(!page.contains(words), "{result}: {words}\n{page}");
        }
    }
}
