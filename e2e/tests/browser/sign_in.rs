//! Pages on a server: signing in with a token, what is seen then, and signing out.

use pretty_assertions::assert_eq;

use crate::{up::Up, window::browse};

#[tokio::test]
async fn browser_signs_in_with_a_token_and_operates_the_server() {
    let up = Up::serving().await;
    let hangs = up.send("[[hang]] [[say never]]").await;
    browse(up, |w, up| async move {
        w.go("/operator").await;
        w.sees("h1", "Sign in").await;
        w.write("#token", "twrong").await;
        w.press("Sign in").await;
        w.sees("#wrong", "This token is not known here").await;
        assert_eq!(w.path().await, "/sign-in");
        assert_eq!(w.js("document.cookie").await, "");

        // Where somebody wanted to go is not forgotten over a wrong try.
        w.write("#token", &up.world.token).await;
        w.press("Sign in").await;
        w.sees("h1", "Operator").await;
        assert_eq!(w.path().await, "/operator");
        w.sees(".lead", "1 running · 0 queued").await;
        w.sees(".standing[open] dl", "Begun by").await;

        // The cookie lets the page act, and who did it is recorded.
        w.press("Cancel").await;
        w.click("#sure .danger").await;
        w.sees(".lead", "0 running · 0 queued").await;
        w.press("Home").await;
        w.sees("nav.rail", "Threads").await;
        w.go(&format!("/threads/{hangs}")).await;
        w.until("document.title.includes('Threadline')").await;

        w.press("Sign out").await;
        w.sees("main", "to the account local").await;
        w.click("main form button").await;
        w.sees("h1", "Sign in").await;
        w.go("/operator").await;
        w.sees("h1", "Sign in").await;
    })
    .await;
}
