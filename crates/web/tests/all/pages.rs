//! What the pages show, and what they never do.

use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::Fault;

use crate::world::{World, thread};

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

#[tokio::test]
async fn what_others_wrote_is_only_ever_text() {
    let (world, app) = World::scripted();
    let summary = json!({"threadId": "draft:1", "name": HOSTILE, "title": HOSTILE, "lifecycleStatus": "running", "runtime": format!("acp:{HOSTILE}"), "updatedAtMs": 0, "lastRunAtMs": 0, "files": 1, "bytes": 1, "openQuestions": 1});
    let question = json!({"questionId": HOSTILE, "threadId": "draft:1", "runId": HOSTILE, "kind": "question", "text": HOSTILE, "options": [{"optionId": HOSTILE, "label": HOSTILE}], "freeText": true, "state": "open", "askedAt": 0, "threadName": HOSTILE, "threadTitle": HOSTILE});
    let problem = json!({"file": HOSTILE, "message": HOSTILE, "kept": HOSTILE, "atMs": 0});
    let mut failed = summary.clone();
    failed["lifecycleStatus"] = json!("ready");
    failed["lastResultCode"] = json!("AGENT_LOST");
    app.says("app.home", json!({"questions": [question], "failed": [failed], "working": [summary], "doneToday": [summary], "filesToday": 1, "unreachable": [HOSTILE], "problems": [problem]}));
    app.says(
        "app.list",
        json!({"threads": [summary], "next": HOSTILE, "problems": [problem]}),
    );
    app.says("app.runtimes", json!({"version": HOSTILE, "runtimes": [{"runtime": format!("acp:{HOSTILE}"), "label": HOSTILE, "available": false, "status": HOSTILE, "maxActive": 1, "maxQueued": 1}]}));
    let said = |role: &str, error: bool| json!({"role": role, "text": HOSTILE, "timestampMs": 1, "runId": HOSTILE, "error": error});
    let context = json!({
        "messages": [said("user", false), said("assistant", false), said("assistant", true)],
        "lastArtifactSyncStatus": "partial", "lastArtifactSyncDetail": HOSTILE,
        "lastTaskArtifactRelativePaths": [HOSTILE], "lastOmitted": [{"path": HOSTILE, "reason": "symlink"}],
        "taskAssociation": {"appThreadKey": "draft:1", "requestId": "r", "runId": HOSTILE, "sessionKey": HOSTILE, "startedAtMs": 0},
    });
    let mut view = thread(
        "rivers",
        Path::new(HOSTILE),
        context,
        json!({"status": "ready", "lastResultCode": "AGENT_LOST"}),
    );
    view["thread"]["title"] = json!(HOSTILE);
    view["thread"]["workspaceBinding"]["workingDirectory"] = json!(HOSTILE);
    view["questions"] = json!([question]);
    app.says("app.show", view);
    app.refuses("app.retry", Fault::invalid(HOSTILE));
    for path in [
        "/",
        "/threads",
        &format!("/threads?q={}&before=%3Cscript%3E", "%3Cscript%3E"),
        "/threads/rivers",
        "/new",
    ] {
        let page = world.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        // The page's own modules are the only scripts.
        assert_eq!(
            page.body.matches("<script").count(),
            1,
            "{path}: {}",
            page.body
        );
        assert!(page.body.contains("&lt;script&gt;"), "{path}");
        assert!(!page.body.contains("\"'&\""), "{path}");
    }
    let refused = world
        .form("method=app.retry&thread=x&back=%22%3E%3Cscript%3E")
        .await;
    assert_eq!(
        (
            refused.status.as_u16(),
            refused.body.matches("<script").count()
        ),
        (400, 1)
    );
    assert!(refused.body.contains("<a class=\"button\" href=\"/\">"));
}

#[tokio::test]
async fn searching_looks_through_all_pages() {
    let (world, app) = World::scripted();
    let summary = |name: &str| json!({"threadId": format!("draft:{name}"), "name": name, "title": name, "lifecycleStatus": "ready", "lastResultCode": "success", "updatedAtMs": 0, "files": 0, "bytes": 0});
    app.says(
        "app.list",
        json!({"threads": [summary("river-report"), summary("logo")]}),
    );
    let found = world.get("/threads?q=REPORT%20done").await.body;
    assert!(
        found.contains("href=\"/threads/river-report\"")
            && !found.contains("href=\"/threads/logo\"")
    );
    assert!(
        world
            .get("/threads?q=mountain")
            .await
            .body
            .contains("No thread has these words.")
    );
    app.says("app.list", json!({"threads": [], "problems": [{"file": "threads/x.json", "message": "It ends in the middle.", "atMs": 0}]}));
    let empty = world.get("/threads").await.body;
    assert!(empty.contains("No threads yet.") && empty.contains("It ends in the middle."));
}
