//! Files: looked at, attached, and never run.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::json;

use crate::{up::Up, window::browse};

const ESCAPE: &str = "\u{e00c}";

/// A script that drops a file onto the page; `content` is an expression.
fn drop(name: &str, content: &str) -> String {
    given("DragEvent('drop'", "dataTransfer", name, content)
}

/// A script that pastes a file into the message.
fn paste(name: &str, content: &str) -> String {
    given("ClipboardEvent('paste'", "clipboardData", name, content)
}

fn given(event: &str, field: &str, name: &str, content: &str) -> String {
    format!(
        "(() => {{
            const data = new DataTransfer();
            data.items.add(new File([{content}], '{name}'));
            const event = new {event}, {{{field}: data, bubbles: true, cancelable: true}});
            document.querySelector('[data-write]').dispatchEvent(event);
        }})()"
    )
}

#[tokio::test]
async fn browser_looks_at_files_of_every_kind() {
    let up = Up::with_model().await;
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'>\
               <script>parent.document.title='ran'</script><rect width='40' height='20'/></svg>";
    let name = up
        .finished(&format!(
            "[[write report.md = # Rivers, **bold** and <b>not</b>]] \
             [[write data/levels.csv = river,level]] [[write map.svg = {svg}]] \
             [[write long.txt 300000]] [[say Done.]]"
        ))
        .await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.go(&format!("/threads/{name}")).await;
        w.click("[data-path='report.md']").await;
        w.sees("dialog[open] .said h3", "Rivers, bold and <b>not</b>")
            .await;
        w.sees("dialog[open] .good", "verified").await;
        w.keys(ESCAPE).await;
        w.until("!document.querySelector('dialog[open]')").await;
        w.click("[data-path='data/levels.csv']").await;
        w.until("document.querySelector('dialog[open] th')").await;
        assert_eq!(w.texts("dialog[open] th").await, ["river", "level"]);
        w.click("dialog[open] [data-close]").await;
        w.click("[data-path='map.svg']").await;
        w.until("document.querySelector('dialog[open] img')?.naturalWidth === 40")
            .await;
        w.keys(ESCAPE).await;
        w.click("[data-path='long.txt']").await;
        w.sees("dialog[open] .note", "Only the beginning is shown")
            .await;
        // The same, as a page of its own.
        w.go(&format!("/threads/{name}/files/data/levels.csv"))
            .await;
        assert_eq!(w.texts("th").await, ["river", "level"]);
        w.click("[data-up]").await;
        w.until(&format!("location.pathname === '/threads/{name}'"))
            .await;
        assert_ne!(w.title().await, "ran");
    })
    .await;
}

#[tokio::test]
async fn browser_never_runs_what_an_agent_wrote() {
    let up = Up::with_model().await;
    let act = "{jsonrpc: '2.0', id: 1, method: 'app.send', params: {prompt: 'evil'}}";
    let script = format!(
        "document.title = 'ran'; fetch('/app/rpc', {{method: 'POST', body: JSON.stringify({act})}})"
    );
    let html = format!(
        "<title>quiet</title><script>{script}</script><img src=x onerror=document.title='ran'>
         <form action=/do method=post><input name=method value=app.send>
         <input name=prompt value=evil><button>Go</button></form>"
    );
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg'><title>quiet</title><script>{script}</script></svg>"
    );
    let thread = up
        .finished(&format!(
            "[[write page.html = {html}]] [[write pic.svg = {svg}]] [[write code.js = {script}]] \
             [[say <img src=x onerror=\"document.title='ran'\"> <script>{script}</script>]]"
        ))
        .await;
    browse(up, move |w, up| async move {
        w.enter().await;
        w.go(&format!("/threads/{thread}")).await;
        w.sees(".said", "<script>").await;
        w.click("[data-path='page.html']").await;
        w.until("document.querySelector('dialog[open] iframe')")
            .await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert_ne!(w.title().await, "ran");
        // Opened by itself, with our address in the bar.
        w.go(&format!("/app/files/{thread}/page.html")).await;
        assert_eq!(w.title().await, "quiet");
        w.click("button").await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert_eq!(w.path().await, format!("/app/files/{thread}/page.html"));
        w.go(&format!("/app/files/{thread}/pic.svg")).await;
        assert_eq!(w.title().await, "quiet");
        // Not even a page of ours could load it as a script.
        w.go("/").await;
        let loaded = format!(
            "new Promise((told) => {{
                const script = document.createElement('script');
                script.onload = () => told('ran');
                script.onerror = () => told('refused');
                script.src = '/app/files/{thread}/code.js';
                document.head.append(script);
            }})"
        );
        assert_eq!(w.js(&loaded).await, json!("refused"));
        let list = up.app("app.list", json!({})).await;
        let list = list["threads"].as_array().unwrap();
        let names: Vec<&str> = list.iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(names, [thread.as_str()]);
    })
    .await;
}

#[tokio::test]
async fn browser_attaches_chosen_dropped_and_pasted_files() {
    let up = Up::with_model().await;
    browse(up, |w, up| async move {
        let file = up.world.path().join("levels.txt");
        std::fs::write(&file, "the Elde is low").unwrap();
        w.enter().await;
        w.go("/new").await;
        w.write("[data-files]", file.to_str().unwrap()).await;
        w.js(&drop("dropped.txt", "'second'")).await;
        w.js(&paste("image.txt", "'third'")).await;
        w.js(&paste("image.txt", "'fourth'")).await;
        w.until("document.querySelectorAll('.chip').length === 4")
            .await;
        assert_eq!(
            w.texts(".chip .name").await,
            ["levels.txt", "dropped.txt", "image.txt", "image-2.txt"]
        );
        w.click("[aria-label='Remove image.txt']").await;
        w.write("[name=prompt]", "[[list]] [[say There is: {last}]]")
            .await;
        w.press("Start").await;
        w.sees(".said", "levels.txt").await;
        let said = w.text(".said").await;
        let has = |name: &str| said.contains(name);
        assert!(
            has("dropped.txt") && has("image-2.txt") && !has("image.txt"),
            "{said}"
        );
        w.write(
            "[data-write]",
            "[[read attachments/levels.txt]] [[say It says: {last}]]\u{e007}",
        )
        .await;
        w.sees(".said", "the Elde is low").await;
        // One that is too large is refused before it is sent.
        w.js(&paste("large.bin", "new Uint8Array(11 << 20)")).await;
        w.write("[data-write]", "too much\u{e007}").await;
        w.sees(".composer .error", "large.bin has 12 MB").await;
        // What happens meanwhile does not wipe it away.
        w.js("document.dispatchEvent(new Event('visibilitychange'))")
            .await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        w.sees(".composer .error", "large.bin has 12 MB").await;
        assert_eq!(
            w.js("document.querySelector('[data-write]').value").await,
            json!("too much")
        );
    })
    .await;
}
