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
    app.says("app.home", json!({"questions": [], "failed": [failed], "working": [summary], "doneToday": [summary], "filesToday": 1, "problems": [problem]}));
    app.refuses("questions_elsewhere", Fault::invalid(HOSTILE));
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
    crate::operator::says(&app, HOSTILE);
    for path in [
        "/operator",
        "/operator/runs?which=failed",
        "/operator/sessions",
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

/// Turned by its direction mark, this reads `notes-exe.txt`.
const TURNED: &str = "notes-\u{202e}txt.exe \u{2066}\u{200f}\u{61c}\u{1b}[2J שלום";
const SHOWN: &str = "notes-\u{fffd}txt.exe \u{fffd}\u{fffd}\u{fffd}\u{fffd}[2J שלום";

#[tokio::test]
async fn no_text_can_read_as_another_one() {
    let (world, app) = World::scripted();
    let summary = json!({"threadId": "draft:1", "name": "x", "title": TURNED, "lifecycleStatus": "running", "updatedAtMs": 0, "lastRunAtMs": 0, "files": 1, "bytes": 1, "openQuestions": 1});
    let question = json!({"questionId": "q", "threadId": "draft:1", "runId": "r", "kind": "permission", "text": format!("Allow this? {TURNED}\n\n{TURNED}"), "options": [{"optionId": TURNED, "label": TURNED}], "freeText": false, "state": "open", "askedAt": 0, "threadName": "x", "threadTitle": TURNED});
    app.says("app.home", json!({"questions": [], "failed": [], "working": [summary], "doneToday": [], "filesToday": 0, "problems": []}));
    app.says("app.list", json!({"threads": [summary]}));
    let said = |role: &str, at: u64| json!({"role": role, "text": TURNED, "timestampMs": at});
    let context = json!({
        "messages": [said("user", 1), said("assistant", 2), said("user", 3)],
        "queuedTurns": [{"requestId": "r", "prompt": TURNED, "queuedAtMs": 3}],
        "lastTaskArtifactRelativePaths": [TURNED],
    });
    let mut view = thread("x", Path::new("/w"), context, json!({"status": "running"}));
    view["thread"]["title"] = json!(TURNED);
    view["questions"] = json!([question]);
    app.says("app.show", view);
    crate::operator::says(&app, TURNED);
    app.refuses("app.retry", Fault::invalid(TURNED));
    let refused = world.form("method=app.retry&thread=x&back=%2F").await;
    let mut pages = vec![("refused", refused.body)];
    for path in ["/", "/threads", "/threads/x", "/operator", "/operator/runs"] {
        pages.push((path, world.get(path).await.body));
    }
    for (path, page) in &pages {
        assert!(page.contains(SHOWN), "{path}\n{page}");
        let left: Vec<_> = page
            .matches(|c: char| TURNED.contains(c) && !SHOWN.contains(c))
            .collect();
        assert_eq!(left, Vec::<&str>::new(), "{path}\n{page}");
    }
    let page = &pages[3].1;
    for words in [
        // What is sent back is what was asked, and what the user goes on writing is what they wrote.
        "name=\"optionId\" value=\"notes-&#x202e;txt.exe &#x2066;&#x200f;&#x61c;&#x1b;[2J שלום\"",
        "data-edit>notes-&#x202e;txt.exe &#x2066;",
        &format!("<span class=\"what\">Allow this? {SHOWN}</span>"),
        &format!("<pre class=\"asked\" tabindex=\"0\">{SHOWN}</pre>"),
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[tokio::test]
async fn the_question_before_a_cancel_says_what_becomes_of_files() {
    let (world, app) = World::scripted();
    let running = json!({"status": "running"});
    let mut view = thread("x", Path::new("/w"), json!({}), running);
    app.says("app.show", view.clone());
    let page = world.get("/threads/x").await.body;
    let words =
        "data-about=\"It stops now and does not go on later. None of its files are brought here.\"";
    assert!(page.contains(words), "{page}");
    view["thread"]["workspaceBinding"]["workingDirectory"] = json!("/home/me/project");
    app.says("app.show", view);
    let page = world.get("/threads/x").await.body;
    let words =
        "None of its files are brought here. What it changed in your folder until then stays.\"";
    assert!(page.contains(words), "{page}");
}

#[tokio::test]
async fn the_page_of_an_unknown_thread_leads_to_the_list() {
    let (world, _) = World::scripted();
    let page = world.get("/threads/nowhere").await;
    assert_eq!(page.status, 404);
    assert!(
        page.body
            .contains("<a class=\"button\" href=\"/threads\">See all threads</a>")
            && !page.body.contains("threadline threads"),
        "{}",
        page.body
    );
}

#[tokio::test]
async fn searching_looks_through_all_pages() {
    let (world, app) = World::scripted();
    let summary = |name: &str| json!({"threadId": format!("draft:{name}"), "name": name, "title": name, "lifecycleStatus": "ready", "lastResultCode": "success", "updatedAtMs": 0, "files": 0, "bytes": 0});
    app.says(
        "app.list",
        json!({"threads": [summary("river-report"), summary("logo")]}),
    );
    let mut owing = summary("owing");
    owing["lastResultCode"] = json!("OPENCLAW_REQUIRED_ARTIFACT_MISSING");
    app.says("app.list", json!({"threads": [owing, summary("logo")]}));
    for words in ["failed", "not%20delivered"] {
        let found = world.get(&format!("/threads?q={words}")).await.body;
        assert!(found.contains("href=\"/threads/owing\"") && !found.contains("/threads/logo"));
    }
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
    // What was asked for counts, too; only the app knows it.
    app.says("app.list?mountain", json!({"threads": [summary("logo")]}));
    let found = world.get("/threads?q=mountain").await.body;
    assert!(
        found.contains("href=\"/threads/logo\"")
            && !found.contains("href=\"/threads/river-report\"")
    );
    app.says("app.list", json!({"threads": [], "problems": [{"file": "threads/x.json", "message": "It ends in the middle.", "atMs": 0}]}));
    let empty = world.get("/threads").await.body;
    assert!(empty.contains("No threads yet.") && empty.contains("It ends in the middle."));
}

fn summary(name: &str, status: &str, result: Option<&str>) -> serde_json::Value {
    json!({"threadId": format!("draft:{name}"), "name": name, "title": name, "lifecycleStatus": status, "lastResultCode": result, "updatedAtMs": 0, "files": 0, "bytes": 0})
}

#[tokio::test]
async fn home_counts_what_there_is_and_says_what_runs() {
    let (world, app) = World::scripted();
    let question = json!({"questionId": "q", "threadId": "draft:asks", "runId": "r", "kind": "question", "text": "Which?", "options": [], "freeText": true, "state": "open", "askedAt": 0, "threadName": "asks", "threadTitle": "asks"});
    let mut failed = summary("broke", "ready", Some("MODEL_FAILED"));
    failed["reason"] = json!("The model answered 401. Check `THREADLINE_MODEL_KEY`.");
    let asks = summary("asks", "running", None);
    let home = |working: serde_json::Value| {
        let totals =
            json!({"failed": 31, "working": working.as_array().unwrap().len(), "doneToday": 25});
        json!({"questions": [], "failed": [failed], "working": working, "doneToday": [summary("fine", "ready", Some("success"))], "filesToday": 3, "totals": totals})
    };
    app.says("xworkmate.questions.list", json!({"questions": [question]}));
    app.says("app.home", home(json!([asks])));
    let page = world.get("/").await.body;
    for words in [
        "32 things need you",
        "Nothing else is running.",
        "The model answered 401. Check <code>THREADLINE_MODEL_KEY</code>.",
        "href=\"/threads?q=failed\"><span>30 more</span>",
        "25 tasks, 3 files in their last results, each one checked",
        "href=\"/threads?q=done\"><span>24 more</span>",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    let mut away = summary("lonely", "running", None);
    away["away"] = json!(true);
    // Its question stands above already.
    assert!(!page.contains("Working now"), "{page}");
    for (working, words) in [
        (
            summary("busy", "running", None),
            "Everything else is running on its own.",
        ),
        (
            summary("later", "queued", None),
            "The work below waits for its turn.",
        ),
        (away, "The work below waits for its bridge."),
    ] {
        app.says("app.home", home(json!([asks, working])));
        let page = world.get("/").await.body;
        assert!(page.contains(words), "{words}\n{page}");
        assert!(
            page.contains("Working now <span class=\"muted small\">1</span>"),
            "{page}"
        );
    }
}

#[tokio::test]
async fn a_missing_model_is_said_where_work_begins() {
    let (world, app) = World::scripted();
    let runtime = |id: &str, status: &str| json!({"runtime": id, "label": id, "available": true, "status": status, "maxActive": 1, "maxQueued": 1});
    let demonstrates = runtime("builtin", threadline_contract::method::DEMONSTRATION);
    let words = "No model is configured: tasks run as a demonstration.";
    let choice = "Who does it";
    for (runtimes, said) in [
        (json!([demonstrates]), true),
        (json!([runtime("builtin", "model m at h")]), false),
        (json!([demonstrates, runtime("acp:codex", "ready")]), false),
        (json!([]), false),
    ] {
        app.says(
            "app.runtimes",
            json!({"version": "0", "runtimes": runtimes}),
        );
        for path in ["/", "/new"] {
            let page = world.get(path).await.body;
            assert_eq!(page.contains(words), said, "{path} {runtimes}");
            // Of one there is nothing to choose.
            let several = path == "/new" && runtimes.as_array().unwrap().len() > 1;
            assert_eq!(page.contains(choice), several, "{path} {runtimes}");
            assert_eq!(
                page.contains("<code>THREADLINE_MODEL_URL</code>"),
                said,
                "{path} {runtimes}"
            );
        }
    }
}

/// Also when its newest run has not said anything yet, and nobody here knows how long the log is.
#[tokio::test]
async fn a_thread_begins_with_its_newest_events() {
    let (world, app) = World::scripted();
    for heard in [100_000, 0] {
        let run = json!({"appThreadKey": "draft:x", "requestId": "r", "runId": "a", "startedAtMs": 0, "lastEventId": heard});
        let context = json!({"messages": [], "taskAssociation": run});
        let view = thread("x", Path::new("/w"), context, json!({"status": "running"}));
        app.says("app.show", view);
        let page = world.get("/threads/x").await.body;
        assert!(
            page.contains("data-events=\"/app/events?thread=x&amp;last=1000\""),
            "{page}"
        );
    }
}

#[tokio::test]
async fn a_bridge_that_cannot_be_heard_is_what_a_thread_waits_for() {
    let (world, app) = World::scripted();
    let context = json!({"messages": [{"role": "user", "text": "go", "timestampMs": 1}]});
    let mut view = thread("x", Path::new("/w"), context, json!({"status": "running"}));
    view["away"] = json!({"code": "ACP_HTTP_CONNECT_FAILED", "message": "It is off (Connection refused (os error 111)).", "sinceMs": 0, "givesUpAtMs": 0});
    app.says("app.show", view);
    let page = world.get("/threads/x").await.body;
    for words in [
        "waiting for its bridge</span>",
        "It is off (Connection refused).",
        "<a href=\"#side\">Files</a>",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    assert!(!page.contains("working</span>"), "{page}");
}

#[tokio::test]
async fn what_a_run_waits_for_is_told_in_place_of_that_it_works() {
    let (world, app) = World::scripted();
    let run = json!({"appThreadKey": "draft:x", "requestId": "r", "runId": "a", "startedAtMs": 0});
    let messages = json!([{"role": "user", "text": "go", "timestampMs": 1}]);
    let context = json!({"messages": messages, "taskAssociation": run});
    let mut view = thread("x", Path::new("/w"), context, json!({"status": "running"}));
    view["progress"] =
        json!({"stage": "working", "message": "The disk is full: it waits for room."});
    app.says("app.show", view);
    let page = world.get("/threads/x").await.body;
    let note = "<p class=\"note\">The disk is full: it waits for room.</p>";
    assert!(page.contains(note), "{page}");
    assert!(!page.contains("working</span>"), "{page}");
}

#[tokio::test]
async fn an_answer_with_a_warning_shows_it() {
    let (world, app) = World::scripted();
    let warning = json!({"code": "ANSWER_INCOMPLETE", "message": "A <part> may be missing."});
    let messages = json!([
        {"role": "user", "text": "go", "timestampMs": 1, "runId": "a", "state": "done"},
        {"role": "assistant", "text": "half", "timestampMs": 2, "runId": "a", "warnings": [warning]},
    ]);
    let context = json!({"messages": messages});
    let state = json!({"status": "ready", "lastResultCode": "success"});
    app.says("app.show", thread("x", Path::new("/w"), context, state));
    let page = world.get("/threads/x").await.body;
    let note = "<p class=\"note\"><b>Warning: </b>A &lt;part&gt; may be missing. <code>ANSWER_INCOMPLETE</code></p>";
    assert!(page.contains(note), "{page}");
}

#[tokio::test]
async fn files_of_earlier_runs_are_named_with_their_folder() {
    let (world, app) = World::scripted();
    let mut view = thread(
        "x",
        Path::new("/w"),
        json!({"messages": []}),
        json!({"status": "ready"}),
    );
    view["earlier"] = json!([{"runId": "run-1", "folder": "/w/.xworkmate/runs/run-1/files", "files": 3, "bytes": 1200, "paths": ["a/<b>.md", "c.csv"]}]);
    app.says("app.show", view);
    let page = world.get("/threads/x").await.body;
    for words in [
        "Files of earlier runs",
        "<summary>3 files · 1.2 kB</summary><ul><li>a/&lt;b&gt;.md</li><li>c.csv</li></ul>",
        "1 more",
        "They lie in <code>/w/.xworkmate/runs/run-1/files</code>",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[tokio::test]
async fn what_a_deletion_leaves_at_a_bridge_is_told() {
    let (world, app) = World::scripted();
    let form = "method=app.delete&thread=x&back=%2Fthreads";
    let gone = json!({"threadId": "draft:x", "name": "x"});
    app.says("app.delete", gone.clone());
    let done = world.form(form).await;
    assert_eq!(
        (done.status.as_u16(), done.header("location")),
        (303, "/threads?archived=1")
    );
    let mut kept = gone.clone();
    kept["keptFolder"] = json!("/w/x");
    kept["kept"] = json!([{"path": "notes.txt", "size": 4}]);
    kept["keptTotal"] = json!({"files": 2, "bytes": 9});
    app.says("app.delete", kept);
    let told = world.form(form).await.body;
    let words = "2 files that you made or edited stayed in <code>/w/x</code>:</p>\
         <ul class=\"small\"><li><code>notes.txt</code></li><li class=\"muted\">1 more</li></ul>";
    assert!(told.contains(words), "{told}");
    let mut later = gone;
    later["pending"] = json!("The bridge at <b> does not answer.");
    app.says("app.delete", later);
    let told = world.form(form).await;
    assert_eq!(told.status, 200);
    for words in [
        "The thread is deleted here",
        "The bridge at &lt;b&gt; does not answer.",
        "href=\"/threads?archived=1\"",
    ] {
        assert!(told.body.contains(words), "{words}\n{}", told.body);
    }
}

#[tokio::test]
async fn a_deletion_names_the_files_that_stay_and_keeps_them_unless_told() {
    let (world, app) = World::scripted();
    let archived = json!({"status": "archived"});
    app.says(
        "app.show",
        thread("x", Path::new("/w"), json!({}), archived),
    );
    let own = |n: usize| json!({"path": format!("mine-{n}.md"), "size": 1_500, "edited": n == 0});
    let mut preview = json!({
        "threadId": "draft:x", "name": "x", "folder": "/w/x", "delivered": {"files": 3, "bytes": 9},
        "yours": (0..10).map(own).collect::<Vec<_>>(), "yoursTotal": {"files": 250, "bytes": 9}, "yoursDigest": "d1",
    });
    app.says("app.delete.preview", preview.clone());
    let page = world.get("/threads/x").await.body;
    for words in [
        "<b>250 files that you made or edited stay:</b>",
        "<code>mine-0.md</code> <span class=\"muted\">1.5 kB, edited</span>",
        "<code>mine-7.md</code> <span class=\"muted\">1.5 kB</span>",
        "<li class=\"muted\">242 more</li>",
        "<input type=\"hidden\" name=\"yoursDigest\" value=\"d1\">",
        "<input type=\"checkbox\" name=\"withMyFiles\" value=\"1\">",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    preview["yours"] = json!([]);
    preview["yoursTotal"] = json!({"files": 0, "bytes": 0});
    app.says("app.delete.preview", preview.clone());
    let page = world.get("/threads/x").await.body;
    assert!(
        page.contains("nothing that you made or edited, and goes too."),
        "{page}"
    );
    assert!(!page.contains("withMyFiles"), "{page}");
    app.refuses("app.delete.preview", threadline_contract::Fault::internal());
    let page = world.get("/threads/x").await.body;
    assert!(
        page.contains("Files that you made or edited stay"),
        "{page}"
    );
}

#[tokio::test]
async fn what_a_thread_permits_is_shown_and_set_with_a_message() {
    let (world, app) = World::scripted();
    let ready = json!({"status": "ready"});
    let context = json!({"permissionPolicy": "ask,read=allow,execute=reject"});
    let shown = thread("rivers", Path::new("/w"), context, ready.clone());
    app.says("app.show", shown.clone());
    app.says("app.send", shown);
    let page = world.get("/threads/rivers").await.body;
    let rule = |kind: &str, words: &str, rest: &str| {
        format!(
            "<label class=\"rule\"><span>{words}</span><select name=\"permit.{kind}\">{rest}</select></label>"
        )
    };
    let unset = "<option value=\"\">as in general</option>";
    let rules = |chosen: &str| -> String {
        [
            ("ask", "ask me"),
            ("allow", "allow, each time"),
            ("reject", "refuse"),
        ]
        .map(|(rule, words)| {
            let is_it = if rule == chosen { " selected" } else { "" };
            format!("<option value=\"{rule}\"{is_it}>{words}</option>")
        })
        .concat()
    };
    for line in [
        rule("default", "In general", &rules("ask")),
        rule(
            "read",
            "Read files or data",
            &format!("{unset}{}", rules("allow")),
        ),
        rule(
            "execute",
            "Run commands",
            &format!("{unset}{}", rules("reject")),
        ),
    ] {
        assert!(page.contains(&line), "{line}\n{page}");
    }
    let form = "method=app.send&thread=rivers&prompt=On&permit.default=allow&permit.read=&permit.execute=ask";
    assert_eq!(world.form(form).await.status, 303);
    let (_, asked) = app.asked().pop().unwrap();
    assert_eq!(
        asked["permissions"],
        json!({"default": "allow", "execute": "ask"})
    );

    // A thread without rules of its own says so, and sending sets none.
    app.says(
        "app.show",
        thread("rivers", Path::new("/w"), json!({}), ready),
    );
    let page = world.get("/threads/rivers").await.body;
    let as_set_up = "<option value=\"\" selected>as set up</option>";
    assert!(page.contains(as_set_up), "{page}");
    world
        .form("method=app.send&thread=rivers&prompt=On&permit.default=&permit.read=")
        .await;
    let (_, asked) = app.asked().pop().unwrap();
    assert_eq!(asked["permissions"], json!(null));
}
