//! Files over the plugin's HTTP route, and over the WebSocket where that does not do.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{ArtifactPath, Sha256};
use threadline_runtimes::{ArtifactIdentity, Files as _};

use super::script::{Do, Gateway, Scripted, hello, plan, session};

const ROUTE: &str = "/plugins/openclaw-multi-session-plugins/artifact";
/// What comes with the first question.
const FIRST: u64 = 256 * 1024;
/// What comes with each further one.
const CHUNK: u64 = 4 * 1024 * 1024;
const SIZE: u64 = FIRST + 3 * CHUNK + 1000;

static WHOLE: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..SIZE).map(|n| (n * 7 % 251) as u8).collect());
static DIGEST: LazyLock<Sha256> = LazyLock::new(|| Sha256(Hasher::digest(&*WHOLE).into()));

fn script(method: &str, params: &Value, gateway: &mut Gateway) -> Do {
    match method {
        "connect" => Do::Ok(hello(gateway)),
        "xworkmate.artifacts.read" => {
            let from = params["offset"].as_u64().unwrap();
            let to = (from + params["length"].as_u64().unwrap()).min(SIZE);
            let content = BASE64.encode(&WHOLE[from as usize..to as usize]);
            let time = gateway.times("read");
            Do::Ok(json!({
                "downloadPath": ROUTE, "offset": from,
                "artifacts": [{"relativePath": "large.bin", "sizeBytes": SIZE, "sha256": *DIGEST,
                               "contentType": "x/y", "artifactRef": format!("ref-{time}"), "content": content}],
            }))
        }
        _ => Do::Ok(json!({})),
    }
}

/// What a request asks for, beginning here.
fn begin_of(head: &str) -> u64 {
    let range = head.split("bytes=").nth(1).unwrap();
    range.split('-').next().unwrap().parse().unwrap()
}

/// A good answer, of which so many bytes come.
fn answer(head: &str, most: usize) -> Vec<u8> {
    let (from, digest) = (begin_of(head), *DIGEST);
    let mut all = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{SIZE}\r\nETag: \"{digest}\"\r\n\r\n",
        SIZE - from,
        SIZE - 1
    )
    .into_bytes();
    all.extend(WHOLE[from as usize..].iter().take(most));
    all
}

/// Reads everything as a download does, and tells at which offsets each way was asked.
async fn read(http: Option<fn(&str) -> Vec<u8>>) -> (Vec<u64>, Vec<u64>, Vec<String>) {
    let gateway = Scripted::start(script).await;
    gateway.look(|g| g.http = http);
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    let identity = ArtifactIdentity {
        session: session(),
        run: plan("turn-1", "").run,
        path: ArtifactPath::new("large.bin").unwrap(),
        size: SIZE,
        sha256: *DIGEST,
    };
    let body = runtime.open(&identity).await.unwrap();
    assert_eq!(body.artifact.content_type, "x/y");
    let mut bytes = vec![];
    while (bytes.len() as u64) < SIZE {
        let piece = body.reader.read_at(bytes.len() as u64, 256 * 1024).await;
        bytes.extend_from_slice(&piece.unwrap());
    }
    assert!(bytes == *WHOLE, "other bytes");
    gateway.look(|g| {
        let frames = g.asked("xworkmate.artifacts.read");
        let frames = frames.iter().map(|p| p["offset"].as_u64().unwrap());
        let heads = std::mem::take(&mut g.heads);
        let routes = heads.iter().map(|head| begin_of(head)).collect();
        (frames.collect(), routes, heads)
    })
}

#[tokio::test]
async fn a_large_file_comes_in_one_stream() {
    let (frames, routes, heads) = read(Some(|head| answer(head, usize::MAX))).await;
    assert_eq!((frames, routes), (vec![0], vec![FIRST]));
    let query = "?openclawSessionKey=agent%3Amain%3Adraft%3A1&runId=turn-1 HTTP/1.1\r\n";
    assert!(
        heads[0].starts_with(&format!("GET {ROUTE}{query}")),
        "{heads:?}"
    );
    assert!(
        heads[0].contains("authorization: Bearer cmVmLTE\r\n"),
        "{heads:?}"
    );
}

/// Behind a proxy that passes only the WebSocket, or has a page of its own for everything else.
#[tokio::test]
async fn where_http_does_not_do_the_websocket_does() {
    let frames = vec![
        0,
        FIRST,
        FIRST + CHUNK,
        FIRST + 2 * CHUNK,
        FIRST + 3 * CHUNK,
    ];
    for http in [
        None,
        Some(
            (|_| b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec())
                as fn(&str) -> Vec<u8>,
        ),
        Some(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec()),
        Some(|_| b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_vec()),
        // Another file, or another part of it.
        Some(|head| {
            String::from_utf8_lossy(&answer(head, 0))
                .replace("ETag: \"", "ETag: \"0")
                .into_bytes()
        }),
        Some(|head| {
            String::from_utf8_lossy(&answer(head, 0))
                .replace("Range: bytes ", "Range: bytes 1")
                .into_bytes()
        }),
    ] {
        let (by_frames, by_route, _) = read(http).await;
        // Tried twice, and then left alone.
        assert_eq!(
            (by_frames, by_route),
            (frames.clone(), vec![FIRST, FIRST + CHUNK])
        );
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_where_it_broke() {
    let (frames, routes, heads) = read(Some(|head| {
        let most = if begin_of(head) == FIRST {
            100_000
        } else {
            usize::MAX
        };
        answer(head, most)
    }))
    .await;
    let broke = FIRST + 100_000;
    assert_eq!(
        (frames, routes),
        (vec![0, broke], vec![FIRST, broke + CHUNK])
    );
    // With the reference that came last.
    assert!(
        heads[1].contains("authorization: Bearer cmVmLTI\r\n"),
        "{heads:?}"
    );
}
