//! From a phone to a wide screen, in the light and in the dark.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{up::Up, window::browse};

#[tokio::test]
async fn browser_pages_fit_every_screen_in_light_and_dark() {
    let up = Up::with_model().await;
    let wide = "| one | two | three | four | five | six | seven | eight |\\n|---|---|---|---|---|---|---|---|\\n| aaaaaaaaaa | bbbbbbbbbb | cccccccccc | dddddddddd | e | f | g | h |";
    let long = "x".repeat(120);
    let name = up.finished(&format!("{long} [[write a/rather/deep/folder/with-a-very-long-file-name-that-does-not-fit-anywhere.csv = a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t]] [[say {long} {wide}]]")).await;
    let asking = up
        .send(&format!(
            "[[ask May I use {long}?|Yes, with {long}|No]] [[say x]]"
        ))
        .await;
    browse(up, |w, _| async move {
        w.enter().await;
        let file = format!("/threads/{name}/files/a/rather/deep/folder/with-a-very-long-file-name-that-does-not-fit-anywhere.csv");
            let asking = format!("/threads/{asking}");
        for (width, height, phone) in [(360, 780, true), (768, 1024, true), (1440, 900, false), (2560, 1300, false)] {
            w.cdp("Emulation.setDeviceMetricsOverride", json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone})).await;
            for path in ["/", "/threads", "/new", &thread, &asking, &file, "/nothing"] {
                w.go(path).await;
                let overflow = w.js("[document.documentElement.scrollWidth, innerWidth]").await;
                assert_eq!(overflow[0].as_i64().unwrap().max(width), width, "{path} at {width}");
                let cut = w.js("[...document.querySelectorAll('h1, h2, button, .button, .what, .you, .said > p')].filter((e) => e.checkVisibility() && !e.closest('.scroll, dialog') && (e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1)).map((e) => e.outerHTML.slice(0, 200))").await;
                assert_eq!(cut, json!([]), "{path} at {width}");
            }
        }
        // The question can be answered with a thumb, above the bar, without scrolling.
        w.cdp("Emulation.setDeviceMetricsOverride", json!({"width": 360, "height": 780, "deviceScaleFactor": 1, "mobile": true})).await;
        w.cdp("Emulation.setTouchEmulationEnabled", json!({"enabled": true})).await;
        w.go("/threads").await;
        assert!(w.js("document.querySelector('.rail').getBoundingClientRect().top > 700").await.as_bool().unwrap());
        let small = "[...document.querySelectorAll('.button, .rail > a')].filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect()).filter((r) => r.height < 40).length";
        for path in ["/", &asking, "/new"] {
            w.go(path).await;
            assert_eq!(w.js(small).await, json!(0), "{path}");
        }
        let ground = "getComputedStyle(document.body).backgroundColor";
        for (theme, colour) in [("light", "rgb(251, 250, 248)"), ("dark", "rgb(19, 20, 22)")] {
            w.cdp("Emulation.setEmulatedMedia", json!({"features": [{"name": "prefers-color-scheme", "value": theme}]})).await;
            w.go("/").await;
            assert_eq!(w.js(ground).await, json!(colour), "{theme}");
        }
        w.cdp("Emulation.setEmulatedMedia", json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]})).await;
        assert_eq!(w.js("getComputedStyle(document.querySelector('.running > .dot, .live .dot')).animationName").await, json!("none"));
    })
    .await;
}
