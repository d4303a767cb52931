//! When the server goes away, and when nobody looks.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{up::Up, window::browse};

#[tokio::test]
async fn browser_says_that_the_server_is_gone_and_goes_on_when_it_is_back() {
    let up = Up::with_model().await;
    let name = up
        .send("[[write a.txt = one]] [[sleep 9000]] [[write b.txt = two]] [[say Both.]]")
        .await;
    browse(up, |w, up| async move {
        w.enter().await;
        w.go(&format!("/threads/{name}")).await;
        w.sees("details.steps li .title", "Wrote a.txt").await;
        w.sees("#link", "Live").await;
        up.kill();
        w.sees("#link", "Reconnecting").await;
        w.sees("#banner", "Reconnecting…").await;
        // What is asked for meanwhile says why it cannot be, and is kept.
        w.write("[data-write]", "hello\u{e007}").await;
        w.sees(".composer .error", "Threadline does not answer")
            .await;
        assert_eq!(
            w.js("document.querySelector('[data-write]').value").await,
            json!("hello")
        );
        up.restart();
        w.sees("#link", "Live").await;
        w.until("document.getElementById('banner').hidden").await;
        w.sees(".said", "Both.").await;
        w.sees(".proof", "2 of 2 verified").await;
        // Each step once, although the stream was cut.
        w.click("details.steps summary").await;
        assert_eq!(
            w.texts("details.steps li .title").await,
            ["Wrote a.txt", "Wrote b.txt"]
        );
    })
    .await;
}

const SEEN: &str = "document.dispatchEvent(new Event('visibilitychange'))";
/// The streams that were closed.
const ENDED: &str = "performance.getEntriesByType('resource')
    .filter((e) => e.name.includes('/app/events')).map((e) => e.name.split('?')[1])";

#[tokio::test]
async fn browser_closes_its_stream_while_nobody_looks() {
    let up = Up::with_model().await;
    let thread = up.finished("[[write a.txt = one]] [[say Ready.]]").await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.go(&format!("/threads/{thread}")).await;
        w.sees("details.steps summary", "Wrote 1 file").await;
        let look = |hidden: bool| {
            let get = format!("{{configurable: true, get: () => {hidden}}}");
            format!("(Object.defineProperty(document, 'hidden', {get}), {SEEN})")
        };
        assert_eq!(w.js(ENDED).await, json!([]));
        w.js(&look(true)).await;
        w.until(&format!("({ENDED}).length === 1")).await;
        w.js(&look(false)).await;
        w.sees("#link", "Live").await;
        w.js(&look(true)).await;
        w.until(&format!("({ENDED}).length === 2")).await;
        let ended = w.js(ENDED).await;
        assert_eq!(ended[0], json!(format!("thread={thread}&last=1000")));
        // It went on after the last number, and heard nothing twice.
        let again = ended[1].as_str().unwrap();
        assert!(
            again.starts_with(&format!("thread={thread}&after=")),
            "{again}"
        );
        w.js(&look(false)).await;
        w.click("details.steps summary").await;
        assert_eq!(w.texts("details.steps li .title").await, ["Wrote a.txt"]);
    })
    .await;
}
