//! Who is let in, and how.

use axum::{Extension, body::Body, http::Request, middleware::from_fn_with_state};
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_web::{Serving, friendly, router};

use crate::world::{Answer, World, browsing, caller};

#[tokio::test]
async fn strangers_are_not_let_in() {
    let (world, app) = World::scripted();
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
    assert_eq!(app.asked(), []);
    let page = Answer::of(world.routes(None), browsing("/threads/rivers?x=1")).await;
    assert_eq!(page.status, 401);
    assert!(
        page.body.contains(
            "Run <code>threadline up</code> in a terminal and open the link that it prints."
        ),
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
    let (world, _) = World::scripted();
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
    // A key that never was is told the same, and what to do.
    for wrong in [again, ask(browsing("/enter?key=abc")).await] {
        assert_eq!(wrong.status, 401);
        for words in [
            "This link does not let you in",
            "Run <code>threadline up</code> in a terminal. It prints a fresh link",
        ] {
            assert!(wrong.body.contains(words), "{}", wrong.body);
        }
    }

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
async fn the_api_alone_has_no_pages() {
    let (world, app) = World::scripted();
    let routes = router(world.web.clone(), Serving::ApiOnly).layer(Extension(caller("local")));
    for path in ["/", "/threads", "/enter", "/new"] {
        assert_eq!(
            Answer::of(routes.clone(), browsing(path)).await.status,
            404,
            "{path}"
        );
    }
    // What there is instead is said to programs and to people, whoever they are.
    let words = "This is the bridge alone, without pages. Start it as `threadline serve --pages` to have them here, or run `threadline up` on a machine of your own.";
    let root = Request::get("/").body(Body::empty()).unwrap();
    let told = Answer::of(router(world.web.clone(), Serving::ApiOnly), root).await;
    assert_eq!(
        (told.status.as_u16(), &told.json()["error"]),
        (
            404,
            &json!({"code": -32004, "message": words, "data": {"code": "NOT_FOUND"}})
        )
    );
    let friendly = from_fn_with_state(Serving::ApiOnly, friendly);
    for path in ["/", "/threads"] {
        let page = Answer::of(routes.clone().layer(friendly.clone()), browsing(path)).await;
        assert_eq!(page.status, 404, "{path}");
        let html = "Start it as <code>threadline serve --pages</code> to have them here";
        assert!(page.body.contains(html), "{}", page.body);
    }
    app.says("app.problems", json!({"problems": []}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "app.problems"}).to_string();
    assert_eq!(
        Answer::of(routes, Request::post("/app/rpc").body(body.into()).unwrap())
            .await
            .status,
        200
    );
}
