//! The ring of keys that servers share.

use pretty_assertions::assert_eq;

use threadline_contract::Millis;

use super::*;

#[tokio::test]
async fn a_link_that_was_signed_with_a_newer_key_is_honoured() {
    let Nodes {
        a,
        b,
        folders,
        database,
    } = Nodes::new().await;
    a.run(&turn("draft:1", FIRST)).await;
    let store = b.engine.store();
    let [key] = store.signing_keys().await.unwrap().try_into().unwrap();
    store
        .retire_signing_key(&key.kid, Millis::now())
        .await
        .unwrap();
    b.stop().await;
    // The next start takes a new key into use, of which the other server has not heard.
    let b = World::with(folders[1].path(), options("b", &database, false)).await;
    let mut session = sessions(&b, "draft:1").await.remove(0);
    assert_eq!(session.node.take().as_deref(), Some("a"));
    let listed = b.engine.store().signing_keys().await.unwrap();
    assert_eq!(listed.len(), 2);
    // Moved, so that b itself signs.
    let (from, to) = (Some("a"), "b");
    let moved = b
        .engine
        .store()
        .move_session(&session.session_key, from, to);
    assert!(moved.await.unwrap());
    let snapshot = b.ended("draft:1").await;
    let url = snapshot["artifacts"]["items"][0]["url"].as_str().unwrap();
    assert!(url.contains(&listed[0].kid), "{url}");
    let (from, to) = (Some("b"), "a");
    let moved = b
        .engine
        .store()
        .move_session(&session.session_key, from, to);
    assert!(moved.await.unwrap());
    let request = a.http.get(format!("{}{url}", a.url)).bearer_auth(TOKEN);
    let answer = request.send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), text_of(answer).await),
        (200, b"from the first turn".to_vec())
    );
    a.stop().await;
    b.stop().await;
}
