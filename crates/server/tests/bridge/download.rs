//! Downloads: signed, verified, ranged.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{OTHER, TOKEN, World, turn};

struct Files {
    world: World,
    items: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Files {
    async fn new(prompt: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = World::open(folder.path()).await;
        let (_, result) = world.run(&turn("draft:1", prompt)).await;
        let items = result["artifacts"]["items"].as_array().unwrap().clone();
        Self {
            world,
            items,
            folder,
        }
    }

    fn url(&self, path: &str) -> String {
        let item = self
            .items
            .iter()
            .find(|i| i["path"] == json!(path))
            .unwrap();
        format!("{}{}", self.world.url, item["url"].as_str().unwrap())
    }

    async fn get(&self, url: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        let mut request = self.world.http.get(url).bearer_auth(TOKEN);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    async fn refused(&self, url: &str) -> (u16, Value) {
        let answer = self.get(url, &[]).await;
        (
            answer.status().as_u16(),
            answer.json::<Value>().await.unwrap()["error"]["data"]["code"].clone(),
        )
    }
}

#[tokio::test]
async fn whole_files_and_ranges() {
    let files = Files::new("[[write digits.txt = 0123456789]] [[write empty.txt 0]] [[write page.html = <script>alert(1)</script>]]").await;
    let url = files.url("digits.txt");
    let whole = files.get(&url, &[]).await; // D01
    let header = |r: &reqwest::Response, name: &str| {
        r.headers()
            .get(name)
            .map(|v| v.to_str().unwrap().to_owned())
    };
    assert_eq!(whole.status(), 200);
    assert_eq!(
        header(&whole, "content-type").as_deref(),
        Some("text/plain")
    );
    assert_eq!(header(&whole, "content-length").as_deref(), Some("10"));
    assert_eq!(
        header(&whole, "content-disposition").as_deref(),
        Some("attachment; filename=\"digits.txt\"; filename*=UTF-8''digits.txt")
    );
    assert_eq!(
        header(&whole, "x-content-type-options").as_deref(),
        Some("nosniff")
    );
    let etag = header(&whole, "etag").unwrap();
    assert_eq!(whole.text().await.unwrap(), "0123456789");

    for (range, status, content_range, body) in [
        ("bytes=2-4", 206, Some("bytes 2-4/10"), "234"), // D07
        ("bytes=-3", 206, Some("bytes 7-9/10"), "789"),
        ("items=0-1", 200, None, "0123456789"), // D09
    ] {
        let part = files.get(&url, &[("range", range)]).await;
        assert_eq!(
            (
                part.status().as_u16(),
                header(&part, "content-range").as_deref()
            ),
            (status, content_range),
            "{range}"
        );
        assert_eq!(part.text().await.unwrap(), body);
    }
    for range in ["bytes=10-", "bytes=4-2", "bytes=0-1,3-4"] {
        let bad = files.get(&url, &[("range", range)]).await; // D09
        assert_eq!(
            (
                bad.status().as_u16(),
                header(&bad, "content-range").as_deref()
            ),
            (416, Some("bytes */10")),
            "{range}"
        );
    }
    assert_eq!(
        files.get(&url, &[("if-none-match", &etag)]).await.status(),
        304
    );
    assert_eq!(
        files
            .get(&url, &[("range", "bytes=2-4"), ("if-range", "\"other\"")])
            .await
            .status(),
        200
    );
    for (tags, status) in [
        (etag.as_str(), 200),
        ("*", 200),
        (&format!("\"other\", {etag}"), 200),
        ("\"other\"", 412),
        (&format!("W/{etag}"), 412),
    ] {
        let answer = files.get(&url, &[("if-match", tags)]).await;
        assert_eq!(answer.status(), status, "{tags}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = files.world.http.request(method.clone(), &url);
        let refused = request.bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(
            (refused.status().as_u16(), header(&refused, "allow")),
            (405, Some("GET, HEAD".into())),
            "{method}"
        );
        let body: Value = refused.json().await.unwrap();
        assert_eq!(body["error"]["data"]["code"], json!("METHOD_NOT_ALLOWED"));
    }
    let head = files
        .world
        .http
        .head(&url)
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    assert_eq!(
        (
            head.status().as_u16(),
            header(&head, "content-length").as_deref()
        ),
        (200, Some("10"))
    );

    let empty = files.get(&files.url("empty.txt"), &[]).await; // D14
    assert_eq!(
        (empty.status().as_u16(), empty.text().await.unwrap()),
        (200, String::new())
    );
    let page = files.get(&files.url("page.html"), &[]).await;
    assert_eq!(
        header(&page, "content-security-policy").as_deref(),
        Some("sandbox; default-src 'none'")
    );
    files.world.stop().await;
}

#[tokio::test]
async fn links_that_do_not_hold() {
    let files = Files::new("[[write digits.txt = 0123456789]]").await;
    let url = files.url("digits.txt");
    let (base, t) = url.rsplit_once("&t=").unwrap();
    let forged = |old: &str, new: &str| format!("{}&t={t}", base.replace(old, new));
    assert_eq!(
        files
            .refused(&format!("{base}&t={}", t.parse::<i64>().unwrap() + 1))
            .await,
        (403, json!("LINK_FORGED"))
    );
    // A link has one form.
    for other in [format!("+{t}"), format!("0{t}"), format!("%20{t}")] {
        assert_eq!(
            files.refused(&format!("{base}&t={other}")).await,
            (400, json!("INVALID_REQUEST"))
        );
    }
    let (head, mac) = base.rsplit_once('.').unwrap();
    let shouted = format!("{head}.{}&t={t}", mac.to_uppercase());
    assert_eq!(
        files.refused(&shouted).await,
        (400, json!("INVALID_REQUEST"))
    );
    assert_eq!(
        files.refused(&format!("{base}&t=1")).await,
        (403, json!("LINK_FORGED"))
    ); // D03
    assert_eq!(
        files.refused(&forged("digits.txt", "digitz.txt")).await,
        (403, json!("LINK_FORGED"))
    );
    assert_eq!(
        files
            .refused(&format!(
                "{}/artifacts/openclaw/download?ref=nonsense&t=1",
                files.world.url
            ))
            .await,
        (400, json!("INVALID_REQUEST"))
    );
    assert_eq!(
        files
            .refused(&format!(
                "{}/artifacts/openclaw/download?t=1",
                files.world.url
            ))
            .await,
        (400, json!("INVALID_REQUEST"))
    );
    let anybody = files.world.http.get(&url).send().await.unwrap(); // D05
    assert_eq!(anybody.status(), 401);
    let other = files
        .world
        .http
        .get(&url)
        .bearer_auth(OTHER)
        .send()
        .await
        .unwrap();
    assert_eq!(other.status(), 404);

    // What changed after the run is not what the run delivered.
    let scope = files.world.ended("draft:1").await["artifactScope"]
        .as_str()
        .unwrap()
        .to_owned();
    let on_disk = files.folder.path().join(scope).join("digits.txt");
    std::fs::write(&on_disk, "9876543210").unwrap();
    assert_eq!(files.refused(&url).await, (409, json!("artifact_changed")));
    std::fs::remove_file(&on_disk).unwrap();
    assert_eq!(
        files.refused(&url).await,
        (404, json!("artifact_not_found"))
    );
    std::os::unix::fs::symlink("/etc/hostname", &on_disk).unwrap();
    assert_ne!(files.refused(&url).await.0, 200);
    files.world.stop().await;
}
