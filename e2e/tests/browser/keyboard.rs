//! Everything without a mouse.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{up::Up, window::browse};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

/// Controls that a screen reader could not name.
const NAMELESS: &str = "[...document.querySelectorAll('button, a, input, textarea, summary')]
    .filter((e) => e.type !== 'hidden')
    .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length))
    .map((e) => e.outerHTML)";

#[tokio::test]
async fn browser_can_be_used_with_the_keyboard_alone() {
    let up = Up::demonstrating().await;
    browse(up, |w, _| async move {
        w.enter().await;
        // The first stop leads past the navigation, and can be seen.
        w.keys(TAB).await;
        assert_eq!(
            w.js("document.activeElement.className").await,
            json!("skip")
        );
        w.until("document.activeElement.getBoundingClientRect().top >= 0")
            .await;
        assert_eq!(
            w.js("getComputedStyle(document.activeElement).outlineStyle")
                .await,
            json!("solid")
        );
        w.keys("?").await;
        w.sees("dialog[open] h2", "Keys").await;
        w.keys(ESCAPE).await;
        w.until("!document.querySelector('dialog[open]')").await;
        w.keys("gt").await;
        w.until("location.pathname === '/threads'").await;
        w.keys("/").await;
        assert_eq!(w.js("document.activeElement.name").await, json!("q"));
        // What is written is not a command.
        w.keys("n?").await;
        assert_eq!(
            w.js("[document.activeElement.value, location.pathname]")
                .await,
            json!(["n?", "/threads"])
        );
        w.keys(ENTER).await;
        w.until("location.search === '?q=n%3F'").await;
        w.sees(".empty", "No thread has these words.").await;
        w.keys("gh").await;
        w.until("location.pathname === '/'").await;
        w.keys("n").await;
        w.until("location.pathname === '/new'").await;
        w.keys("Count these words").await;
        // A draft outlives a wrong step.
        w.go("/").await;
        w.go("/new").await;
        assert_eq!(
            w.js("document.querySelector('[name=prompt]').value").await,
            json!("Count these words")
        );
        w.keys("\u{e009}\u{e007}").await; // Ctrl+Enter
        w.until("location.pathname.startsWith('/threads/')").await;
        w.sees(".proof", "3 of 3 verified").await;
        // Tab reaches the files; Enter opens one, Esc closes it and gives the focus back.
        w.js("document.querySelector('[data-path=\"notes.md\"]').focus()")
            .await;
        w.keys(ENTER).await;
        w.until("document.querySelector('dialog[open] .said')")
            .await;
        w.keys(ESCAPE).await;
        w.until("document.activeElement.dataset.path === 'notes.md'")
            .await;
        w.keys("/").await;
        assert_eq!(w.js("document.activeElement.name").await, json!("prompt"));
        assert_eq!(
            w.js("document.querySelector('[role=log]').getAttribute('aria-live')")
                .await,
            json!("polite")
        );
        // Every control has a name.
        assert_eq!(w.js(NAMELESS).await, json!([]));
    })
    .await;
}
