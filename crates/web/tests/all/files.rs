//! Files on a real app: only what is listed, and never as a page of ours.

use std::sync::Arc;

use axum::{body::Body, http::Request};
use pretty_assertions::assert_eq;

use crate::world::{World, app, shelf};

#[tokio::test]
async fn every_page_is_sealed() {
    let home = tempfile::tempdir().unwrap();
    let world = World::on(Arc::new(
        shelf(home.path(), &[("a.md", "text/markdown", "# a")]).await,
    ));
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
async fn only_listed_files_are_served() {
    let home = tempfile::tempdir().unwrap();
    let world = World::on(Arc::new(
        shelf(
            home.path(),
            &[
                ("reports/ü \"q\".md", "text/markdown", "# hello"),
                ("swapped.txt", "text/plain", "mine"),
                ("gone.txt", "text/plain", "x"),
            ],
        )
        .await,
    ));
    let folder = home.path().join(".xworkmate/threads/rivers");
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
async fn a_part_of_a_file_can_be_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let files = [("song.mp3", "audio/mpeg", "0123456789")];
    let world = World::on(Arc::new(shelf(home.path(), &files).await));
    let ask = async |range: &str, tag: Option<&str>| {
        let mut request = Request::get("/app/files/rivers/song.mp3").header("range", range);
        if let Some(tag) = tag {
            request = request.header("if-range", tag);
        }
        world.ask(request.body(Body::empty()).unwrap()).await
    };
    let whole = world.get("/app/files/rivers/song.mp3").await;
    assert_eq!(
        (whole.header("accept-ranges"), whole.header("content-range")),
        ("bytes", "")
    );
    let tag = whole.header("etag").to_owned();
    for (range, tag, status, told, body) in [
        ("bytes=2-4", None, 206, "bytes 2-4/10", "234"),
        ("bytes=7-", Some(tag.as_str()), 206, "bytes 7-9/10", "789"),
        ("bytes=-3", None, 206, "bytes 7-9/10", "789"),
        ("bytes=7-", Some("\"another\""), 200, "", "0123456789"),
    ] {
        let part = ask(range, tag).await;
        assert_eq!(
            (
                part.status.as_u16(),
                part.header("content-range"),
                part.body.as_str()
            ),
            (status, told, body),
            "{range}"
        );
        assert_eq!(part.header("content-length"), body.len().to_string());
        assert!(
            part.header("content-security-policy")
                .starts_with("sandbox"),
            "{range}"
        );
    }
    let beyond = ask("bytes=10-", None).await;
    assert_eq!(
        (beyond.status.as_u16(), beyond.header("content-range")),
        (416, "bytes */10")
    );
}

#[tokio::test]
async fn an_agents_file_cannot_run_as_our_page() {
    let page = "<script>fetch('/app/rpc')</script>";
    let home = tempfile::tempdir().unwrap();
    let world = World::on(Arc::new(
        shelf(
            home.path(),
            &[
                ("page.html", "text/html", page),
                ("map.svg", "image/svg+xml", "<svg onload='x'/>"),
                ("code.js", "text/javascript", "alert(1)"),
                ("style.css", "text/css", "*{}"),
                ("odd.bin", "text/html\r\nX-Evil: 1", "x"),
                ("doc.pdf", "application/pdf", "%PDF-1.4"),
                ("worker.wasm", "application/wasm", "x"),
            ],
        )
        .await,
    ));
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
    let long = "x".repeat(300 << 10);
    let home = tempfile::tempdir().unwrap();
    let world = World::on(Arc::new(
        shelf(
            home.path(),
            &[
                (
                    "a.md",
                    "text/markdown",
                    "# Hi\n\n<b onclick=x>bold</b> [x](javascript:alert(1))",
                ),
                ("t.csv", "text/csv", "a,b\n\"<i>\",2\n"),
                ("long.txt", "text/plain", &long),
                ("x.zip", "application/zip", "PK"),
            ],
        )
        .await,
    ));
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
            .contains("<th scope=\"col\">a</th><th scope=\"col\" class=\"num\">b</th></tr></thead><tbody><tr><td>&lt;i&gt;</td><td class=\"num\">2</td></tr>")
    );
    let long = shown("long.txt").await;
    assert!(long.len() < 280 << 10 && long.contains("Only the beginning is shown"));
    assert!(shown("x.zip").await.contains("cannot be shown here"));
}

#[tokio::test]
async fn a_file_that_was_changed_here_is_not_called_verified() {
    let home = tempfile::tempdir().unwrap();
    let world = World::on(Arc::new(
        shelf(home.path(), &[("a.md", "text/markdown", "# a")]).await,
    ));
    let page = async || world.get("/threads/rivers/files/a.md").await.body;
    let verified = "verified <code>";
    assert!(page().await.contains(verified));
    let served = async || world.get("/app/files/rivers/a.md").await;
    assert!(!served().await.headers.contains_key("threadline-changed"));
    // Of the same length: only the bytes tell.
    std::fs::write(home.path().join(".xworkmate/threads/rivers/a.md"), "# b").unwrap();
    let served = served().await;
    assert_eq!(
        (served.body.as_str(), served.header("threadline-changed")),
        ("# b", "true")
    );
    let changed = page().await;
    assert!(
        changed.contains("changed since it was verified") && !changed.contains(verified),
        "{changed}"
    );
}

#[tokio::test]
async fn a_thread_whose_files_were_touched_says_which_are_not_as_delivered() {
    let home = tempfile::tempdir().unwrap();
    let files = [
        ("a.md", "text/markdown", "# a"),
        ("b.md", "text/markdown", "# b"),
        ("c/d.md", "text/markdown", "# d"),
    ];
    let world = World::on(Arc::new(shelf(home.path(), &files).await));
    let page = async |path: &str| world.get(path).await;
    let thread = async || page("/threads/rivers").await.body;
    assert!(thread().await.contains("3 of 3 verified"));
    let folder = home.path().join(".xworkmate/threads/rivers");
    std::fs::write(folder.join("a.md"), "# x").unwrap();
    std::fs::remove_dir_all(folder.join("c")).unwrap();
    let shown = thread().await;
    for words in [
        "2 of 3 are no longer as delivered.",
        ">changed since it was verified</span>",
        ">is missing here; Sync brings it back</span>",
        ">Sync</button>",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert!(!shown.contains("class=\"proof\""), "{shown}");

    let missing = page("/threads/rivers/files/c/d.md").await;
    assert_eq!(missing.status, 404);
    for words in [
        "<article id=\"sight\">",
        "The file is not here",
        "<code>c/d.md</code> is missing in the thread's folder. Sync brings it back.",
        "value=\"app.sync\"",
        "data-close",
    ] {
        let body = &missing.body;
        assert!(body.contains(words), "{words}\n{body}");
    }
    let changed = page("/threads/rivers/files/a.md").await.body;
    assert!(
        changed.contains("This is not what was delivered.") && changed.contains("app.sync"),
        "{changed}"
    );
    let other = page("/threads/rivers/files/nothing.md").await;
    assert_eq!(other.status, 404);
    assert!(
        other.body.contains("There is nothing here") && !other.body.contains("app.sync"),
        "{}",
        other.body
    );
}

#[tokio::test]
async fn files_move_with_the_home_that_they_lie_in() {
    let home = tempfile::tempdir().unwrap();
    let old = home.path().join("old");
    let before = shelf(&old, &[("a.md", "text/markdown", "# a")]).await;
    before.close().await.unwrap();
    drop(before);
    let new = home.path().join("new");
    std::fs::rename(&old, &new).unwrap();
    let world = World::on(Arc::new(app(&new).await));
    assert_eq!(world.get("/app/files/rivers/a.md").await.body, "# a");
    let page = world.get("/threads/rivers").await.body;
    let folder = new.join(".xworkmate/threads/rivers").display().to_string();
    assert!(page.contains(&format!("<code>{folder}</code>")), "{page}");
}
