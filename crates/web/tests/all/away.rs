//! The pages on a real app whose bridge does not answer: the worst moment to open them.

use std::sync::Arc;

use pretty_assertions::assert_eq;

use crate::world::{World, app};

#[tokio::test]
async fn pages_work_while_the_bridge_is_away() {
    let home = tempfile::tempdir().unwrap();
    let app = app(home.path()).await;
    let world = World::on(Arc::new(app.clone()));
    let page = world.get("/").await;
    assert_eq!(page.status, 200);
    // Questions of this machine's own engine are not asked for over the network.
    for (words, there) in [
        ("Nothing needs you", true),
        ("A bridge does not answer.", false),
    ] {
        assert_eq!(page.body.contains(words), there, "{}", page.body);
    }
    let unknown = "Where it can run is not known now.";
    assert!(world.get("/new").await.body.contains(unknown));
    assert!(world.get("/threads").await.body.contains("No threads yet."));

    let form = "method=app.send&prompt=Write+a+%3Cb%3Ereport%3C%2Fb%3E";
    let sent = world.form(form).await;
    assert_eq!(sent.status, 303);
    let path = sent.header("location");
    let page = world.get(path).await;
    let said = "<div class=\"you\">Write a &lt;b&gt;report&lt;/b&gt;</div>";
    assert!(
        page.body.contains(said) && page.body.contains("data-cancel"),
        "{}",
        page.body
    );
    assert!(world.get("/threads").await.body.contains(path));
    app.close().await.unwrap();
}
