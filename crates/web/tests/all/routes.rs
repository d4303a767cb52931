//! Every route, held against the states and the callers that it must withstand.

use std::{path::Path, sync::Arc};

use crate::common::{Scripted, files, mint, thread};
use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
    middleware::from_fn,
};
use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_app::api::AppEvent;
use threadline_contract::{
    AccountId, AppThreadKey, Code, Fault, Millis, RunId, SessionUpdate, TokenId, UpdateKind,
};
use threadline_engine::Caller;
use threadline_web::{Serving, Web, friendly, router};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

struct World {
    app: Scripted,
    web: Web,
    stop: CancellationToken,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let app = Scripted::default();
        app.says(
            "app.home",
            json!({"questions": [], "failed": [], "working": [], "doneToday": [], "filesToday": 0}),
        );
        app.says("app.list", json!({"threads": []}));
        app.says("app.runtimes", json!({"version": "0", "runtimes": []}));
        let stop = CancellationToken::new();
        let web = Web::new(Arc::new(app.clone()), 8787, mint(), stop.clone());
        Self {
            app,
            web,
            stop,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The routes as a caller of this account sees them, the gate left out.
    fn routes(&self, account: Option<&str>) -> Router {
        let routes = router(self.web.clone(), Serving::Pages);
        let routes = match account {
            Some(account) => routes.layer(Extension(Caller {
                account: AccountId::new(account).unwrap(),
                token: TokenId::fresh(),
                label: "test".into(),
            })),
            None => routes,
        };
        routes.layer(from_fn(friendly))
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
        Answer::of(self.routes(Some("local")), request).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(browsing(path)).await
    }

    async fn rpc(&self, body: impl Into<Body>) -> Answer {
        self.ask(Request::post("/app/rpc").body(body.into()).unwrap())
            .await
    }

    async fn form(&self, body: &'static str) -> Answer {
        self.ask(
            Request::post("/do")
                .header("content-type", "application/x-www-form-urlencoded")
                .body(body.into())
                .unwrap(),
        )
        .await
    }

    /// A thread with these files.
    fn with_files(&self, given: &[(&str, &str, &str)]) -> &Path {
        let context = files(self.folder.path(), given);
        self.app.says(
            "app.show rivers",
            thread(
                "rivers",
                self.folder.path(),
                context,
                json!({"status": "ready", "lastResultCode": "success"}),
            ),
        );
        self.folder.path()
    }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    async fn of(routes: Router, request: Request<Body>) -> Self {
        let response = routes.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(|v| v.to_str().unwrap())
            .unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn browsing(path: &str) -> Request<Body> {
    Request::get(path)
        .header("accept", "text/html,*/*")
        .body(Body::empty())
        .unwrap()
}

#[tokio::test]
async fn every_page_is_sealed() {
    let world = World::new();
    world.with_files(&[("a.md", "text/markdown", "# a")]);
    for (path, status) in [
        ("/", 200),
        ("/threads", 200),
        ("/threads?q=x&archived=1", 200),
        ("/threads/rivers", 200),
        ("/threads/rivers/files/a.md", 200),
        ("/threads/rivers/files/b.md", 404),
        ("/threads/nobody", 404),
        ("/new", 200),
        ("/nothing/here", 404),
        ("/enter?key=wrong", 401),
    ] {
        let page = world.get(path).await;
        assert_eq!(page.status.as_u16(), status, "{path}");
        let policy = page.header("content-security-policy");
        for part in [
            "default-src 'self'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "object-src 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {part}");
        }
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(
            page.header("cross-origin-resource-policy"),
            "same-origin",
            "{path}"
        );
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        assert!(
            page.body.starts_with("<!DOCTYPE html>"),
            "{path}: {}",
            page.body
        );
        assert!(
            !page.body.contains("<style")
                && !page.body.contains(" style=")
                && !page.body.contains(" onclick"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn strangers_are_not_let_in() {
    let world = World::new();
    world.with_files(&[("a.md", "text/markdown", "# a")]);
    let requests = [
        ("GET", "/"),
        ("GET", "/threads"),
        ("GET", "/threads/rivers"),
        ("GET", "/threads/rivers/files/a.md"),
        ("GET", "/new"),
        ("POST", "/do"),
        ("POST", "/app/rpc"),
        ("POST", "/app/entry"),
        ("GET", "/app/events"),
        ("GET", "/app/events?thread=rivers"),
        ("GET", "/app/files/rivers/a.md"),
    ];
    for (method, path) in requests {
        let request = || {
            Request::builder()
                .method(method)
                .uri(path)
                .body(Body::empty())
                .unwrap()
        };
        let stranger = Answer::of(world.routes(None), request()).await;
        assert_eq!(
            (
                stranger.status.as_u16(),
                stranger.json()["error"]["data"]["code"].as_str()
            ),
            (401, Some("UNAUTHORIZED")),
            "{path}"
        );
        let other = Answer::of(world.routes(Some("other")), request()).await;
        let nothing = world
            .ask(Request::get("/nothing/here").body(Body::empty()).unwrap())
            .await;
        assert_eq!(
            (other.status, other.body),
            (nothing.status, nothing.body),
            "{path}"
        );
    }
    assert_eq!(world.app.asked(), []);
    let page = Answer::of(world.routes(None), browsing("/threads/rivers?x=1")).await;
    assert_eq!(page.status, 401);
    assert!(
        page.body
            .contains("Open the link that <code>threadline up</code> prints"),
        "{}",
        page.body
    );
    assert!(page.body.contains("href=\"/threads/rivers?x=1\""));
    assert!(
        page.header("content-security-policy")
            .contains("default-src 'self'")
    );
}

#[tokio::test]
async fn a_link_lets_one_browser_in_once() {
    let world = World::new();
    let path = world.web.new_entry_path();
    let ask = |request: Request<Body>| Answer::of(world.routes(None), request);
    // Those who only look ahead do not use it up.
    let head = ask(Request::head(&path).body(Body::empty()).unwrap()).await;
    let prefetch = ask(Request::get(&path)
        .header("sec-purpose", "prefetch;prerender")
        .body(Body::empty())
        .unwrap())
    .await;
    assert_eq!(
        (
            head.status.as_u16(),
            prefetch.status.as_u16(),
            head.header("set-cookie"),
            prefetch.header("set-cookie")
        ),
        (204, 204, "", "")
    );

    let entered = ask(Request::get(&path)
        .header("sec-fetch-site", "none")
        .body(Body::empty())
        .unwrap())
    .await;
    assert_eq!(
        (entered.status.as_u16(), entered.header("location")),
        (303, "/")
    );
    assert_eq!(
        entered.header("set-cookie"),
        "threadline_8787=token-1; Path=/; HttpOnly; SameSite=Strict; Max-Age=7776000"
    );

    let again = ask(browsing(&path)).await;
    assert_eq!(
        (again.status.as_u16(), again.header("set-cookie")),
        (401, "")
    );
    assert!(again.body.contains("This link was used already"));

    // From another site's page a strict cookie does not survive a redirect.
    let path = world.web.new_entry_path();
    let linked = ask(Request::get(&path)
        .header("sec-fetch-site", "cross-site")
        .body(Body::empty())
        .unwrap())
    .await;
    assert_eq!(
        (linked.status.as_u16(), linked.header("refresh")),
        (200, "0; url=/")
    );
    assert!(
        linked
            .header("set-cookie")
            .starts_with("threadline_8787=token-2;")
    );

    let printed = world
        .ask(Request::post("/app/entry").body(Body::empty()).unwrap())
        .await
        .json();
    let printed = printed["path"].as_str().unwrap();
    assert_eq!(ask(browsing(printed)).await.status, 303);
}

#[tokio::test]
async fn only_listed_files_are_served() {
    let world = World::new();
    let folder = world.with_files(&[
        ("reports/ü \"q\".md", "text/markdown", "# hello"),
        ("swapped.txt", "text/plain", "mine"),
        ("gone.txt", "text/plain", "x"),
    ]);
    std::fs::write(folder.join("unlisted.txt"), "secret").unwrap();
    std::fs::remove_file(folder.join("gone.txt")).unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "secret").unwrap();
    std::fs::remove_file(folder.join("swapped.txt")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.join("swapped.txt")).unwrap();

    let good = world
        .get("/app/files/rivers/reports/%C3%BC%20%22q%22.md")
        .await;
    assert_eq!((good.status.as_u16(), good.body.as_str()), (200, "# hello"));
    assert_eq!(good.header("content-length"), "7");
    assert_eq!(
        good.header("content-disposition"),
        "inline; filename=\"_ _q_.md\"; filename*=UTF-8''%C3%BC%20%22q%22.md"
    );

    for path in [
        "unlisted.txt",
        "swapped.txt",
        "gone.txt",
        "../unlisted.txt",
        "..%2funlisted.txt",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "reports",
        "reports/",
        "./swapped.txt",
        "reports//%C3%BC%20%22q%22.md",
        "x%00y",
        "%ff.md",
        ".xworkmate/owner.json",
    ] {
        for prefix in ["/app/files/rivers/", "/threads/rivers/files/"] {
            let answer = world.get(&format!("{prefix}{path}")).await;
            assert_eq!(answer.status.as_u16(), 404, "{prefix}{path}");
            assert!(
                !answer.body.contains("secret") && !answer.body.contains("root:"),
                "{prefix}{path}"
            );
        }
    }
    assert_eq!(world.get("/app/files/nobody/a.md").await.status, 404);
}

#[tokio::test]
async fn an_agents_file_cannot_run_as_our_page() {
    let world = World::new();
    let page = "<script>fetch('/app/rpc')</script>";
    world.with_files(&[
        ("page.html", "text/html", page),
        ("map.svg", "image/svg+xml", "<svg onload='x'/>"),
        ("code.js", "text/javascript", "alert(1)"),
        ("style.css", "text/css", "*{}"),
        ("odd.bin", "text/html\r\nX-Evil: 1", "x"),
        ("doc.pdf", "application/pdf", "%PDF-1.4"),
        ("worker.wasm", "application/wasm", "x"),
    ]);
    for (file, kind, how) in [
        ("page.html", "text/html; charset=utf-8", "inline"),
        ("map.svg", "image/svg+xml", "inline"),
        ("code.js", "text/plain; charset=utf-8", "inline"),
        ("style.css", "text/plain; charset=utf-8", "inline"),
        ("worker.wasm", "application/octet-stream", "attachment"),
        ("odd.bin", "text/plain; charset=utf-8", "inline"),
    ] {
        let answer = world.get(&format!("/app/files/rivers/{file}")).await;
        assert_eq!(
            (
                answer.header("content-type"),
                answer.header("x-content-type-options")
            ),
            (kind, "nosniff"),
            "{file}"
        );
        assert!(
            answer.header("content-disposition").starts_with(how),
            "{file}"
        );
        assert!(
            answer
                .header("content-security-policy")
                .starts_with("sandbox; default-src 'none';"),
            "{file}"
        );
        assert!(
            !answer
                .header("content-security-policy")
                .contains("script-src"),
            "{file}"
        );
        assert_eq!(answer.header("x-evil"), "");
        let saved = world
            .get(&format!("/app/files/rivers/{file}?download"))
            .await;
        assert_eq!(
            saved.header("content-type"),
            "application/octet-stream",
            "{file}"
        );
        assert!(
            saved
                .header("content-disposition")
                .starts_with("attachment"),
            "{file}"
        );
    }
    let pdf = world.get("/app/files/rivers/doc.pdf").await;
    assert_eq!(
        (
            pdf.header("content-type"),
            pdf.header("x-content-type-options")
        ),
        ("application/pdf", "nosniff")
    );
    assert!(
        pdf.header("content-security-policy")
            .starts_with("default-src 'none';")
    );

    let preview = world.get("/threads/rivers/files/page.html").await;
    assert!(
        preview
            .body
            .contains("<iframe class=\"shown\" sandbox=\"\" src=\"/app/files/rivers/page.html\""),
        "{}",
        preview.body
    );
    let preview = world.get("/threads/rivers/files/map.svg").await;
    assert!(
        preview
            .body
            .contains("<img class=\"shown\" src=\"/app/files/rivers/map.svg\"")
    );
}

#[tokio::test]
async fn previews_show_files_and_nothing_runs() {
    let world = World::new();
    let long = "x".repeat(300 << 10);
    world.with_files(&[
        (
            "a.md",
            "text/markdown",
            "# Hi\n\n<b onclick=x>bold</b> [x](javascript:alert(1))",
        ),
        ("t.csv", "text/csv", "a,b\n\"<i>\",2\n"),
        ("long.txt", "text/plain", &long),
        ("x.zip", "application/zip", "PK"),
    ]);
    let shown = async |file: &str| {
        world
            .get(&format!("/threads/rivers/files/{file}"))
            .await
            .body
    };
    let markdown = shown("a.md").await;
    assert!(
        markdown.contains(
            "<h3 class=\"first\">Hi</h3><p>&lt;b onclick=x&gt;bold&lt;/b&gt; <em>x</em></p>"
        ),
        "{markdown}"
    );
    assert!(
        shown("t.csv")
            .await
            .contains("<tr><td>&lt;i&gt;</td><td class=\"num\">2</td></tr>")
    );
    let long = shown("long.txt").await;
    assert!(long.len() < 280 << 10 && long.contains("Only the beginning is shown"));
    assert!(shown("x.zip").await.contains("cannot be shown here"));
}

#[tokio::test]
async fn what_others_wrote_is_only_ever_text() {
    let world = World::new();
    let summary = json!({"threadId": "draft:1", "name": HOSTILE, "title": HOSTILE, "lifecycleStatus": "running", "runtime": format!("acp:{HOSTILE}"), "updatedAtMs": 0, "lastRunAtMs": 0, "files": 1, "bytes": 1, "openQuestions": 1});
    let question = json!({"questionId": HOSTILE, "threadId": "draft:1", "runId": HOSTILE, "kind": "question", "text": HOSTILE, "options": [{"optionId": HOSTILE, "label": HOSTILE}], "freeText": true, "state": "open", "askedAt": 0, "threadName": HOSTILE, "threadTitle": HOSTILE});
    let problem = json!({"file": HOSTILE, "message": HOSTILE, "kept": HOSTILE, "atMs": 0});
    let mut failed = summary.clone();
    failed["lifecycleStatus"] = json!("ready");
    failed["lastResultCode"] = json!("AGENT_LOST");
    world.app.says("app.home", json!({"questions": [question], "failed": [failed], "working": [summary], "doneToday": [summary], "filesToday": 1, "unreachable": [HOSTILE], "problems": [problem]}));
    world.app.says(
        "app.list",
        json!({"threads": [summary], "next": HOSTILE, "problems": [problem]}),
    );
    world.app.says("app.runtimes", json!({"version": HOSTILE, "runtimes": [{"runtime": format!("acp:{HOSTILE}"), "label": HOSTILE, "available": false, "status": HOSTILE, "maxActive": 1, "maxQueued": 1}]}));
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
    world.app.says("app.show", view);
    world.app.refuses("app.retry", Fault::invalid(HOSTILE));
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
async fn the_local_api_speaks_json_rpc() {
    let world = World::new();
    world.app.says("app.cancel", json!({"ok": true}));
    world.app.refuses(
        "app.archive",
        Fault::new(Code::ThreadBusy, "It runs.").with("reason", "running"),
    );
    let ask = async |body: Value| world.rpc(body.to_string()).await;
    let good =
        ask(json!({"jsonrpc": "2.0", "id": 7, "method": "app.cancel", "params": {"thread": "a"}}))
            .await;
    assert_eq!(
        (good.status.as_u16(), good.json()),
        (
            200,
            json!({"jsonrpc": "2.0", "id": 7, "result": {"ok": true}})
        )
    );
    let bad = ask(json!({"jsonrpc": "2.0", "id": "x", "method": "app.archive"})).await;
    assert_eq!(
        (bad.status.as_u16(), bad.json()),
        (
            200,
            json!({"jsonrpc": "2.0", "id": "x", "error": {"code": -32002, "message": "It runs.", "data": {"code": "THREAD_BUSY", "reason": "running"}}})
        )
    );
    let quiet = ask(json!({"jsonrpc": "2.0", "method": "app.cancel"})).await;
    assert_eq!((quiet.status.as_u16(), quiet.body.as_str()), (204, ""));
    assert_eq!(
        world.app.asked(),
        [
            ("app.cancel".into(), json!({"thread": "a"})),
            ("app.archive".into(), json!({})),
            ("app.cancel".into(), json!({}))
        ]
    );

    for (body, status, code) in [
        ("{", 400, "INVALID_JSON"),
        ("[]", 400, "INVALID_ENVELOPE"),
        ("{\"jsonrpc\":\"1.0\"}", 400, "INVALID_ENVELOPE"),
    ] {
        let refused = world.rpc(body).await;
        assert_eq!(
            (
                refused.status.as_u16(),
                refused.json()["error"]["data"]["code"].as_str()
            ),
            (status, Some(code)),
            "{body}"
        );
    }
    let huge = world.rpc(vec![b' '; (40 << 20) + 1]).await;
    assert_eq!(
        (
            huge.status.as_u16(),
            huge.json()["error"]["data"]["code"].as_str()
        ),
        (413, Some("BODY_TOO_LARGE"))
    );
    let wrong = world
        .ask(Request::get("/app/rpc").body(Body::empty()).unwrap())
        .await;
    assert_eq!(
        (wrong.status.as_u16(), wrong.header("allow")),
        (405, "POST")
    );
}

#[tokio::test]
async fn events_can_be_resumed_and_end_with_the_server() {
    let world = World::new();
    let key = AppThreadKey::new("draft:1").unwrap();
    let update = SessionUpdate {
        text: Some("a\nb".into()),
        ..SessionUpdate::new(
            &key,
            &RunId::new("turn-1").unwrap(),
            UpdateKind::Delta,
            "delta",
            Millis(5),
        )
    };
    world.app.tells(vec![
        AppEvent::Update(42, Box::new(update.clone())),
        AppEvent::Removed(key),
    ]);
    let request = Request::get("/app/events?thread=rivers&after=3")
        .header("last-event-id", "41")
        .body(Body::empty())
        .unwrap();
    let response = world.routes(Some("local")).oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut frames = response.into_body().into_data_stream();
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(String::from_utf8(frames.next().await.unwrap().unwrap().to_vec()).unwrap());
    }
    let data = serde_json::to_string(&serde_json::to_value(&update).unwrap()).unwrap();
    assert_eq!(
        heard,
        [
            "retry: 1000\n\n".to_owned(),
            format!("event: update\nid: 42\ndata: {data}\n\n"),
            "event: removed\ndata: {\"threadId\":\"draft:1\"}\n\n".to_owned()
        ]
    );
    world.stop.cancel();
    assert!(frames.next().await.is_none());

    // The header wins over the address; without it the address counts.
    let again = Request::get("/app/events?thread=rivers&after=3")
        .body(Body::empty())
        .unwrap();
    world.routes(Some("local")).oneshot(again).await.unwrap();
    assert_eq!(
        world.app.asked(),
        [
            ("events".into(), json!(["rivers", 41])),
            ("events".into(), json!(["rivers", 3]))
        ]
    );
    for (path, last) in [
        ("/app/events?after=x", ""),
        ("/app/events?after=-1", ""),
        ("/app/events", "soon"),
    ] {
        let mut request = Request::get(path);
        if !last.is_empty() {
            request = request.header("last-event-id", last);
        }
        let refused = world.ask(request.body(Body::empty()).unwrap()).await;
        assert_eq!(
            (
                refused.status.as_u16(),
                refused.json()["error"]["data"]["code"].as_str()
            ),
            (400, Some("INVALID_REQUEST")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn forms_work_without_script() {
    let world = World::new();
    let view = thread(
        "river-report",
        Path::new("/x"),
        json!({}),
        json!({"status": "running"}),
    );
    world
        .app
        .says("app.send", view.clone())
        .says("app.answer", json!({}))
        .says("app.retry", view.clone())
        .says("app.delete", json!({}));
    for (form, to, asked) in [
        (
            "method=app.send&prompt=Do+it&runtime=&expect=a.md%0D%0A%20b%2F*.pdf%20%0A&workingDirectory=+",
            "/threads/river-report",
            (
                "app.send",
                json!({"thread": null, "prompt": "Do it", "runtime": null, "expect": [{"glob": "a.md"}, {"glob": "b/*.pdf"}], "workingDirectory": null, "newSession": false}),
            ),
        ),
        (
            "method=app.answer&questionId=q&optionId=yes&text=no&back=%2F",
            "/",
            ("app.answer", json!({"questionId": "q", "optionId": "yes"})),
        ),
        (
            "method=app.answer&questionId=q&text=My+own&back=%2Fthreads%2Fx",
            "/threads/x",
            ("app.answer", json!({"questionId": "q", "text": "My own"})),
        ),
        (
            "method=app.retry&thread=a&newSession=1&back=%2F%2Fevil.example",
            "/",
            ("app.retry", json!({"thread": "a", "newSession": true})),
        ),
        (
            "method=app.delete&thread=a&back=%2Fthreads%2Fa",
            "/threads?archived=1",
            ("app.delete", json!({"thread": "a"})),
        ),
    ] {
        let answer = world.form(form).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (303, to),
            "{form}"
        );
        assert_eq!(
            world.app.asked().last().unwrap(),
            &(asked.0.to_owned(), asked.1),
            "{form}"
        );
    }
    let before = world.app.asked().len();
    let refused = world.form("method=app.problems").await;
    assert_eq!(
        (refused.status.as_u16(), world.app.asked().len()),
        (400, before)
    );
    assert!(refused.body.contains("A form cannot do `app.problems`."));
}

#[tokio::test]
async fn searching_looks_through_all_pages() {
    let world = World::new();
    let summary = |name: &str| json!({"threadId": format!("draft:{name}"), "name": name, "title": name, "lifecycleStatus": "ready", "lastResultCode": "success", "updatedAtMs": 0, "files": 0, "bytes": 0});
    world.app.says(
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
    world.app.says("app.list", json!({"threads": [], "problems": [{"file": "threads/x.json", "message": "It ends in the middle.", "atMs": 0}]}));
    let empty = world.get("/threads").await.body;
    assert!(empty.contains("No threads yet.") && empty.contains("It ends in the middle."));
}

#[tokio::test]
async fn the_api_alone_has_no_pages() {
    let world = World::new();
    let caller = Caller {
        account: AccountId::local(),
        token: TokenId::fresh(),
        label: "test".into(),
    };
    let routes = router(world.web.clone(), Serving::ApiOnly).layer(Extension(caller));
    for path in ["/", "/threads", "/enter", "/new"] {
        assert_eq!(
            Answer::of(routes.clone(), browsing(path)).await.status,
            404,
            "{path}"
        );
    }
    world.app.says("app.problems", json!({"problems": []}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "app.problems"}).to_string();
    assert_eq!(
        Answer::of(routes, Request::post("/app/rpc").body(body.into()).unwrap())
            .await
            .status,
        200
    );
}
