//! The pages on a real app whose bridge does not answer: the worst moment to open them.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use pretty_assertions::assert_eq;
use threadline_app::{App, Config, Endpoint};
use threadline_contract::{AccountId, TokenId};
use threadline_engine::Caller;
use threadline_web::{Serving, Web, router};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

async fn get(routes: &Router, path: &str) -> (StatusCode, String) {
    let response = routes
        .clone()
        .oneshot(Request::get(path).body(Body::empty()).unwrap())
        .await
        .unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn pages_work_while_the_bridge_is_away() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    // A port that nobody listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let bridge = Endpoint {
        url: format!("http://{free}"),
        token: Some("t".into()),
    };
    let app = App::open(Config::new(
        folder.path().join("data"),
        folder.path().join("threads"),
        bridge,
    ))
    .await
    .unwrap();
    let web = Web::new(
        Arc::new(app.clone()),
        8787,
        crate::common::mint(),
        CancellationToken::new(),
    );
    let caller = Caller {
        account: AccountId::local(),
        token: TokenId::fresh(),
        label: "test".into(),
    };
    let routes = router(web, Serving::Pages).layer(Extension(caller));

    let (status, home) = get(&routes, "/").await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        home.contains("Nothing needs you") && home.contains("A bridge does not answer."),
        "{home}"
    );
    assert!(get(&routes, "/threads").await.1.contains("No threads yet."));
    assert!(
        get(&routes, "/new")
            .await
            .1
            .contains("Where it can run is not known now.")
    );
    assert_eq!(
        get(&routes, "/threads/nobody").await.0,
        StatusCode::NOT_FOUND
    );

    let form = Request::post("/do").header("content-type", "application/x-www-form-urlencoded");
    let sent = routes
        .clone()
        .oneshot(
            form.body(Body::from(
                "method=app.send&prompt=Write+a+%3Cb%3Ereport%3C%2Fb%3E",
            ))
            .unwrap(),
        )
        .await
        .unwrap();
    assert_eq!(sent.status(), StatusCode::SEE_OTHER);
    let page = sent.headers()["location"].to_str().unwrap();
    let (status, thread) = get(&routes, page).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        thread.contains("<div class=\"you\">Write a &lt;b&gt;report&lt;/b&gt;</div>"),
        "{thread}"
    );
    assert!(thread.contains("data-stop"), "{thread}");
    assert!(get(&routes, "/threads").await.1.contains(page));
    app.close().await.unwrap();
}
