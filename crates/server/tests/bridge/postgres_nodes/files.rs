//! Files that lie with another server.

use pretty_assertions::assert_eq;

use super::*;

async fn get(world: &World, url: &str, range: Option<&str>) -> reqwest::Response {
    let mut request = world
        .http
        .get(format!("{}{url}", world.url))
        .bearer_auth(TOKEN);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn files_of_another_server_are_passed_through() {
    let nodes = Nodes::new().await;
    nodes.a.run(&turn("draft:1", FIRST)).await;
    let listed = nodes.b.ended("draft:1").await;
    let item = &listed["artifacts"]["items"][0];
    assert_eq!(item["path"], json!("notes.md"), "{listed:#}");
    let url = item["url"].as_str().unwrap();
    let whole = get(&nodes.b, url, None).await;
    let head: Vec<String> = [
        "content-length",
        "content-type",
        "content-disposition",
        "etag",
    ]
    .iter()
    .map(|name| whole.headers()[*name].to_str().unwrap().to_owned())
    .collect();
    let sha = item["sha256"].as_str().unwrap();
    assert_eq!(
        head,
        [
            "19",
            "text/markdown",
            "attachment; filename=\"notes.md\"; filename*=UTF-8''notes.md",
            &format!("\"{sha}\"")
        ]
    );
    assert_eq!(text_of(whole).await, b"from the first turn");
    let part = get(&nodes.b, url, Some("bytes=5-7")).await;
    assert_eq!(
        (part.status().as_u16(), text_of(part).await),
        (206, b"the".to_vec())
    );
    nodes.stop().await;
}

#[tokio::test]
async fn files_of_a_server_that_is_away_are_not_told_to_be_gone() {
    let Nodes {
        a,
        b,
        folders: _folders,
        ..
    } = Nodes::new().await;
    a.run(&turn("draft:1", FIRST)).await;
    let node_url = a.url.clone();
    a.stop().await;
    let listed = b.ended("draft:1").await;
    let url = listed["artifacts"]["items"][0]["url"].as_str().unwrap();
    let answer = get(&b, url, None).await;
    assert_eq!(
        (
            answer.status().as_u16(),
            answer.headers()["retry-after"].clone()
        ),
        (503, "5".parse().unwrap())
    );
    let body: Value = answer.json().await.unwrap();
    assert_eq!(
        body["error"],
        json!({
            "code": -32002,
            "message": format!("The file is on the server a at {node_url}, which cannot be reached from this one. Start it again, or check its `server.advertise`."),
            "data": {"code": "NODE_UNAVAILABLE", "node": "a", "nodeUrl": node_url},
        })
    );
    b.stop().await;
}

#[tokio::test]
async fn a_run_of_a_server_that_is_away_is_told_from_the_record() {
    let Nodes {
        a,
        b,
        folders: _folders,
        ..
    } = Nodes::new().await;
    a.rpc("session.start", turn("draft:1", "[[hang]] [[say never]]"))
        .await;
    a.at_stage("draft:1", "working").await;
    let asked = json!({"appThreadKey": "draft:1"});
    let told = |snapshot: &Value| {
        let result = &snapshot["result"];
        ["status", "transportDegradedCode", "source"].map(|key| result[key].clone())
    };
    // While it is there, it is asked.
    let there = b.rpc("xworkmate.tasks.get", asked.clone()).await;
    assert_eq!(
        told(&there),
        [json!("running"), Value::Null, json!("registry")]
    );
    a.stop().await;
    let away = b.rpc("xworkmate.tasks.get", asked).await;
    assert_eq!(
        told(&away),
        [json!("running"), json!("NODE_UNAVAILABLE"), json!("stored")]
    );
    b.stop().await;
}
