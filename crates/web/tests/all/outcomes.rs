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
                "Not every file is here. ",
                "WHY: it broke.",
                ">Sync</button>",
            ],
            &["How it ended"],
        ),
        (
            "aborted",
            "no-artifacts",
            None,
            &[
                "Cancelled",
                "No files were brought: the run was cancelled.",
                ">Retry<",
            ],
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
            &["class=\"trouble\"", "The list names it"],
        ),
        (
            "ACP_HTTP_CONNECTION_CLOSED",
            "failed",
            Some("The connection broke."),
            &[
                "The result did not arrive",
                "The connection broke.",
                "No files yet: the result did not arrive.",
                ">Sync</button>",
                ">Retry</button>",
            ],
            &["class=\"trouble\""],
        ),
        (
            "SESSION_CONTINUATION_UNAVAILABLE",
            "failed",
            None,
            &[
                "This conversation cannot go on",
                "Retry in a new session",
                "name=\"newSession\" value=\"1\"",
            ],
            &[],
        ),
        (
            "failed",
            "failed",
            None,
            &["It did not work", "gave no reason", ">Retry</button>"],
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

#[tokio::test]
async fn a_turn_that_never_ran_says_so() {
    let (world, app) = World::scripted();
    let told = "The folder must lie beneath one of `work_roots`.";
    let context = json!({
        "messages": [
            {"role": "user", "text": "go", "timestampMs": 1, "state": "failed"},
            {"role": "assistant", "text": told, "timestampMs": 2, "error": true},
        ],
        "lastArtifactSyncStatus": "failed", "lastArtifactSyncDetail": "WORKDIR_NOT_ALLOWED: x.",
        "taskAssociation": {"appThreadKey": "draft:x", "requestId": "r", "startedAtMs": 0},
    });
    let state = json!({"status": "ready", "lastResultCode": "WORKDIR_NOT_ALLOWED"});
    let mut view = thread("x", Path::new("/w"), context, state);
    view["thread"]["executionBinding"]
        .as_object_mut()
        .unwrap()
        .remove("runtime");
    app.says("app.show", view);
    let page = world.get("/threads/x").await.body;
    for words in [
        "own folder · no run began",
        "No files: the run did not begin.",
        "The folder must lie beneath one of <code>work_roots</code>.",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    for words in [
        "0 runs",
        "not started yet",
        "Begun",
        "Started",
        ">Sync</button>\n",
    ] {
        assert!(!page.contains(words), "{words}\n{page}");
    }
}

#[tokio::test]
async fn what_became_of_turns_and_questions_stays_visible() {
    let (world, app) = World::scripted();
    let question = |id: &str, state: &str, answer: Value| {
        json!({
            "questionId": id, "threadId": "draft:x", "runId": "a", "kind": "question", "text": format!("Which {id}?"),
            "options": [{"optionId": "1", "label": "The <first>"}], "freeText": true, "state": state, "askedAt": 0, "answer": answer,
        })
    };
    let context = json!({
        "messages": [
            {"role": "user", "text": "one", "timestampMs": 1, "runId": "a", "state": "cancelled"},
            {"role": "user", "text": "two", "timestampMs": 2, "state": "dropped"},
            {"role": "user", "text": "three", "timestampMs": 3, "runId": "b", "state": "running"},
            {"role": "user", "text": "four", "timestampMs": 4, "state": "queued"},
        ],
        "queuedTurns": [{"requestId": "r4", "prompt": "four", "queuedAtMs": 4}],
        "closedQuestions": [
            question("river", "answered", json!({"optionId": "1"})),
            question("lake", "answered", json!({"text": "My own"})),
            question("sea", "withdrawn", Value::Null),
        ],
        "taskAssociation": {"appThreadKey": "draft:x", "requestId": "r", "runId": "b", "startedAtMs": 0},
    });
    let view = thread("x", Path::new("/w"), context, json!({"status": "running"}));
    app.says("app.show", view);
    let page = world.get("/threads/x").await.body;
    for words in [
        "<p class=\"small muted aside-you\">Cancelled</p>",
        "<div class=\"you later\">two</div><p class=\"small muted aside-you\">Dropped · it was cancelled before its turn came</p>",
        "<div class=\"you\">three</div><div class=\"work\"",
        "Waiting · goes out when the turn before it has ended",
        "You answered</span> <b>The &lt;first&gt;</b>",
        "You answered</span> <b>My own</b>",
        "The run ended before you answered</span>",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}
