//! Signing in with a token where the pages are served to a network, and what each account sees then.

use std::sync::{Arc, Mutex};

use axum::{body::Body, http::Request};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{Code, Fault, Principal};
use threadline_web::{Pending, Serving, SignIn};

use crate::{
    operator,
    scripted::Scripted,
    world::{Answer, World, browsing},
};

/// Knows one token, and whom it let out.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<String>>>);

impl SignIn for Desk {
    fn open<'a>(&'a self, token: &'a str) -> Pending<'a, Result<String, Fault>> {
        let refused = Fault::new(Code::Unauthorized, Code::Unauthorized.advice());
        Box::pin(async move {
            match token {
                "good" => Ok("browser-1".to_owned()),
                _ => Err(refused),
            }
        })
    }

    fn close<'a>(&'a self, principal: &'a Principal) -> Pending<'a, Result<(), Fault>> {
        self.0.lock().unwrap().push(principal.account.to_string());
        Box::pin(async { Ok(()) })
    }
}

fn world(only_https: bool) -> (World, Scripted, Desk) {
    let (mut world, app) = World::scripted();
    let desk = Desk::default();
    world.web = world.web.with_sign_in(Arc::new(desk.clone()), only_https);
    (world, app, desk)
}

async fn ask(world: &World, account: Option<&str>, request: Request<Body>) -> Answer {
    Answer::of(world.routes_of(Serving::PagesWithSignIn, account), request).await
}

fn form(path: &str, fields: &str) -> Request<Body> {
    let form = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
    form.body(fields.to_owned().into()).unwrap()
}

#[tokio::test]
async fn a_stranger_is_asked_for_a_token_and_led_where_they_wanted() {
    let (world, _, _) = world(false);
    let page = ask(&world, None, browsing("/operator/runs?which=failed")).await;
    assert_eq!(page.status, 401);
    for words in [
        "<h1>Sign in</h1>",
        "action=\"/sign-in\"",
        "type=\"password\" name=\"token\"",
        "name=\"next\" value=\"/operator/runs?which=failed\"",
    ] {
        assert!(page.body.contains(words), "{words}\n{}", page.body);
    }
    let entered = form("/sign-in", "token=+good%0A&next=%2Foperator%2Fruns");
    let entered = ask(&world, None, entered).await;
    assert_eq!(
        (
            entered.status.as_u16(),
            entered.header("location"),
            entered.header("set-cookie")
        ),
        (
            303,
            "/operator/runs",
            "threadline_8787=browser-1; Path=/; HttpOnly; SameSite=Strict; Max-Age=7776000"
        )
    );
    // The one-time link of `threadline up` is not served here.
    let link = world.web.new_entry_path();
    assert_eq!(ask(&world, None, browsing(&link)).await.status, 404);
}

#[tokio::test]
async fn a_wrong_token_is_told_so_and_sets_nothing() {
    let (world, _, _) = world(false);
    for (fields, words) in [
        ("token=bad&next=%2Fnew", "This token is not known here"),
        ("token=&next=%2Fnew", "Type or paste a token first."),
        ("", "Type or paste a token first."),
    ] {
        let answer = ask(&world, None, form("/sign-in", fields)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("set-cookie")),
            (401, ""),
            "{fields}"
        );
        assert!(answer.body.contains(words), "{words}\n{}", answer.body);
        assert!(!answer.body.contains("value=\"bad\""));
    }
    // Too many of them, and nobody is let in for a while.
    for _ in 0..9 {
        ask(&world, None, form("/sign-in", "token=bad")).await;
    }
    let answer = ask(&world, None, form("/sign-in", "token=good")).await;
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert_eq!(
        (answer.status.as_u16(), answer.header("set-cookie")),
        (429, "")
    );
    assert!((1..=3).contains(&wait), "{wait}");
    assert!(answer.body.contains("Too many wrong tokens were tried."));
}

#[tokio::test]
async fn signing_in_never_leads_away() {
    let (world, _, _) = world(true);
    for next in [
        "https%3A%2F%2Fevil.example",
        "%2F%2Fevil.example",
        "%2F%5Cevil.example",
    ] {
        let fields = format!("token=good&next={next}");
        let answer = ask(&world, None, form("/sign-in", &fields)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (303, "/")
        );
        // Behind an address with TLS the cookie is never sent without it.
        assert!(answer.header("set-cookie").ends_with("; Secure"));
    }
    // A form of another page, also of one on another port, signs nobody in or out.
    for (path, site) in [("/sign-in", "same-site"), ("/sign-out", "cross-site")] {
        let mut request = form(path, "token=good");
        let headers = request.headers_mut();
        headers.insert("sec-fetch-site", site.parse().unwrap());
        let answer = ask(&world, Some("local"), request).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("set-cookie")),
            (403, "")
        );
    }
    let page = ask(&world, None, browsing("/sign-in?next=//evil.example")).await;
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("evil.example"), "{}", page.body);
}

#[tokio::test]
async fn signing_out_ends_the_browsers_token_and_its_cookie() {
    let (world, _, desk) = world(false);
    let page = ask(&world, Some("local"), browsing("/sign-out")).await;
    assert!(
        page.body.contains("to the account <b>local</b>"),
        "{}",
        page.body
    );
    assert_eq!(desk.0.lock().unwrap().len(), 0);
    for account in [Some("local"), None] {
        let answer = ask(&world, account, form("/sign-out", "")).await;
        assert_eq!(
            (
                answer.status.as_u16(),
                answer.header("location"),
                answer.header("set-cookie")
            ),
            (
                303,
                "/sign-in",
                "threadline_8787=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
            )
        );
    }
    assert_eq!(*desk.0.lock().unwrap(), ["local"]);
}

#[tokio::test]
async fn another_account_sees_its_own_and_nothing_of_the_app() {
    let (world, app, _) = world(false);
    operator::says(&app, "t");
    app.says(
        "xworkmate.tasks.cancel",
        json!({"accepted": true, "cancelled": false}),
    );
    for path in ["/", "/operator"] {
        let page = ask(&world, Some("other"), browsing(path)).await;
        assert_eq!(page.status, 200, "{path}");
        for (words, there) in [
            ("2 running · 1 queued · 1 open question", true),
            ("data-rpc=\"app.answer\"", true),
            // The names are those of the app's threads.
            ("<code>draft:1</code>", true),
            ("href=\"/threads/t\"", false),
            ("href=\"/threads\"", false),
            ("href=\"/new\"", false),
            ("href=\"/sign-out\"", true),
            ("data-events", false),
        ] {
            assert_eq!(
                page.body.contains(words),
                there,
                "{path} {words}\n{}",
                page.body
            );
        }
    }
    let cancel = "method=app.operator.cancel&threadId=draft%3A1&runId=turn-1&back=%2Foperator";
    let done = ask(&world, Some("other"), form("/do", cancel)).await;
    assert_eq!(done.status, 303);
    let rpc = |method: &str| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
        let request = Request::post("/app/rpc").header("content-type", "application/json");
        request.body(call.to_string().into()).unwrap()
    };
    let asked: Vec<(String, Value)> = app.asked();
    assert!(
        asked
            .iter()
            .all(|(method, _)| method.starts_with("xworkmate.")),
        "{asked:?}"
    );
    for path in [
        "/threads",
        "/new",
        "/threads/t",
        "/app/events",
        "/app/files/t/a",
    ] {
        let answer = ask(&world, Some("other"), browsing(path)).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    for method in ["app.list", "app.send", "app.home"] {
        let answer = ask(&world, Some("other"), rpc(method)).await.json();
        assert_eq!(answer["error"]["data"]["code"], "NOT_FOUND", "{method}");
    }
    assert_eq!(app.asked().len(), asked.len());
}

#[tokio::test]
async fn the_machines_own_account_has_its_threads_there_too() {
    let (world, _, _) = world(false);
    let page = ask(&world, Some("local"), browsing("/")).await;
    for words in [
        "Nothing needs you",
        "href=\"/threads\"",
        "href=\"/sign-out\"",
    ] {
        assert!(page.body.contains(words), "{words}\n{}", page.body);
    }
    // Where there is no sign-in there is no way out either.
    let plain = world.get("/").await;
    assert_eq!(plain.status, 200);
    let stranger = Answer::of(world.routes(None), browsing("/sign-in")).await;
    assert_eq!(stranger.status, 404);
}
