//! From a phone to a wide screen, in the light and in the dark.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    up::Up,
    window::{Window, browse},
};

/// What stands out of the screen at its sides, beside what scrolls by itself.
const CUT: &str = "[...document.querySelectorAll('h1, h2, button, .button, .what, .you, .said > p')]
    .filter((e) => e.checkVisibility() && !e.closest('.scroll, dialog'))
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1)
    .map((e) => e.outerHTML.slice(0, 200))";
/// What is too small for a thumb.
const SMALL: &str = "[...document.querySelectorAll('button, .button, summary, .rail > a:not(.brand), .tabs a, a.file, a.row, label.card')]
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)
    .map((e) => e.outerHTML.slice(0, 200))";
const FILE: &str = "a/rather/deep/folder/with-a-very-long-file-name-that-does-not-fit-anywhere.csv";

impl Window {
    async fn size(&self, width: u32, height: u32, phone: bool) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
            .await;
    }

    async fn prefers(&self, feature: &str, value: &str) {
        let media = json!({"features": [{"name": feature, "value": value}]});
        self.cdp("Emulation.setEmulatedMedia", media).await;
    }
}

#[tokio::test]
async fn browser_pages_fit_every_screen_in_light_and_dark() {
    let up = Up::with_model().await;
    let long = "x".repeat(120);
    let table = "| one | two | three | four | five | six |\n|---|---|---|---|---|---|\n\
                 | aaaaaaaa | bbbbbbbb | cccccccc | dddddddd | e | f |";
    let prompt = format!(
        "{long} [[write {FILE} = a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t]] [[say {long}\n\n{table}]]"
    );
    let thread = format!("/threads/{}", up.finished(&prompt).await);
    let prompt = format!("[[ask May I use {long}?|Yes, with {long}|No]] [[say x]]");
    let asking = format!("/threads/{}", up.send(&prompt).await);
    browse(up, |w, _| async move {
        w.enter().await;
        let file = format!("{thread}/files/{FILE}");
        let operator = ["/operator", "/operator/runs", "/operator/sessions"];
        let paths = ["/", "/threads", "/new", &thread, &asking, &file, "/nothing"];
        let paths = paths.into_iter().chain(operator);
        for (width, height, phone) in [
            (360, 780, true),
            (768, 1024, true),
            (1440, 900, false),
            (2560, 1300, false),
        ] {
            w.size(width, height, phone).await;
            for path in paths.clone() {
                w.go(path).await;
                let widest = w.js("document.documentElement.scrollWidth").await;
                assert!(
                    widest.as_u64().unwrap() <= width.into(),
                    "{path} at {width}: {widest}"
                );
                assert_eq!(w.js(CUT).await, json!([]), "{path} at {width}");
            }
        }
        // On a phone the navigation is at the thumb, and everything large enough for it.
        w.size(360, 780, true).await;
        w.cdp(
            "Emulation.setTouchEmulationEnabled",
            json!({"enabled": true}),
        )
        .await;
        for path in ["/", "/threads", &asking, &thread, "/new"] {
            w.go(path).await;
            assert_eq!(w.js(SMALL).await, json!([]), "{path}");
            assert_eq!(
                w.js("document.querySelector('.rail').getBoundingClientRect().bottom")
                    .await,
                json!(780)
            );
        }
        for (theme, ground) in [("light", "rgb(251, 250, 248)"), ("dark", "rgb(19, 20, 22)")] {
            w.prefers("prefers-color-scheme", theme).await;
            assert_eq!(
                w.js("getComputedStyle(document.body).backgroundColor")
                    .await,
                json!(ground)
            );
        }
        w.go(&asking).await;
        w.sees(".ask .what", "May I use").await;
        w.prefers("prefers-reduced-motion", "reduce").await;
        assert_eq!(
            w.js("getComputedStyle(document.querySelector('.live .dot')).animationName")
                .await,
            json!("none")
        );
    })
    .await;
}
