//! The operator's page: what stands how and why, and what can be done about it.

use pretty_assertions::assert_eq;

use crate::{up::Up, window::browse};

#[tokio::test]
async fn browser_operator_sees_why_and_acts_in_place() {
    let up = Up::with_model().await;
    let failed = up.finished("[[fail 400]] [[say no]]").await;
    let asks = up
        .send("[[ask Which colour?|red|blue]] [[say {last}]]")
        .await;
    let hangs = up.send("[[hang]] [[say never]]").await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.press("Operator").await;
        w.sees("h1", "Operator").await;
        w.sees(".lead", "2 running · 0 queued · 1 open question")
            .await;
        w.sees(".need .what", "Which colour?").await;
        w.sees(".line .state.waiting", "waits for an answer").await;
        w.sees(
            ".standing[open] summary",
            "It asked something and waits for the answer.",
        )
        .await;
        w.sees(".standing[open] dl", "Event ").await;
        // Unfolded, the evidence and what happens next are there; the page refreshes beneath it.
        w.sees(
            ".standing[open] dl",
            "It goes on as soon as somebody answers.",
        )
        .await;
        w.sees(".line .why", "last error").await;

        w.press("blue").await;
        w.sees(".lead", "1 running · 0 queued · 0 open questions")
            .await;
        w.press("Cancel").await;
        w.click("#sure .danger").await;
        w.sees(".lead", "0 running · 0 queued · 0 open questions")
            .await;
        w.sees(".operator", "Nothing runs and nothing waits.").await;

        w.press("Runs").await;
        w.sees("h1", "Runs").await;
        w.until("document.querySelectorAll('.line').length === 3")
            .await;
        assert_eq!(
            w.texts(".line .top .state").await,
            ["cancelled", "done", "failed"]
        );
        w.press("Failed").await;
        w.until("document.querySelectorAll('.line').length === 1")
            .await;
        w.press("Sessions").await;
        w.sees("h1", "Sessions").await;
        w.until("document.querySelectorAll('.line').length === 3")
            .await;
        // What was unfolded stays so while the page is kept right.
        w.click(".standing summary").await;
        tokio::time::sleep(std::time::Duration::from_secs(6)).await;
        w.until("document.querySelector('.standing').open").await;
        for name in [asks, hangs, failed] {
            let link = format!("document.querySelector('a.what[href=\"/threads/{name}\"]')");
            w.until(&link).await;
        }
    })
    .await;
}
