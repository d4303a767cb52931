//! A runtime elsewhere, which comes and goes: what is asked, kept, cancelled and downloaded meanwhile.

pub(crate) mod gateway;
mod logs;
mod owners;
mod routing;
mod rules;
mod words;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use threadline_contract::{QuestionId, Sha256 as Digest};
use threadline_runtimes::{Ask, End, EndStatus};

use self::gateway::{CONTENT, Gateway, Remote, ended};
use crate::support::{Options, TOKEN, World, with};

async fn world(folder: &std::path::Path, gateway: &Arc<Gateway>) -> World {
    keeping(folder, gateway, 1 << 20).await
}

/// A bridge that keeps so many bytes of the gateway's files.
async fn keeping(folder: &std::path::Path, gateway: &Arc<Gateway>, cache_bytes: u64) -> World {
    let options = Options {
        also: Some(Arc::new(Remote(gateway.clone()))),
        cache_bytes,
        ..Options::default()
    };
    World::with(folder, options).await
}

pub(crate) fn turn(thread: &str) -> Value {
    json!({
        "sessionId": thread, "prompt": "x",
        "routing": {"explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw"},
        "metadata": {"xworkmateTaskArtifactContract": {"schemaVersion": 1, "appThreadKey": thread, "expectedArtifactDirs": ["reports/"]}},
    })
}

async fn snapshot(world: &World, thread: &str) -> Value {
    world
        .rpc("xworkmate.tasks.get", json!({"appThreadKey": thread}))
        .await["result"]
        .clone()
}

/// A run that completed, and the link to its file.
async fn delivered(world: &World, gateway: &Gateway) -> String {
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    world.rpc("session.start", turn("draft:1")).await;
    let result = world.ended("draft:1").await;
    // B42: folders that were only expected make nothing pending.
    assert_eq!(result["status"], json!("completed"), "{result}");
    let url = result["artifacts"]["items"][0]["url"].as_str().unwrap();
    format!("{}{url}", world.url)
}

async fn get(world: &World, url: &str) -> reqwest::Response {
    world.http.get(url).bearer_auth(TOKEN).send().await.unwrap()
}

#[tokio::test]
async fn b35_b37_b38_a_gateway_that_is_away_is_said_and_ends_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    bridge.at_stage("draft:1", "working").await;
    gateway.up.send_replace(false);
    let running = snapshot(&bridge, "draft:1").await;
    assert_eq!(
        (
            &running["status"],
            &running["transportDegraded"],
            &running["transportDegradedCode"],
            &running["source"]
        ),
        (
            &json!("running"),
            &json!(true),
            &json!("PROVIDER_UNAVAILABLE"),
            &json!("stored")
        )
    );
    // A new turn is answered with a result that says why not.
    let refused = bridge.rpc("session.start", turn("draft:2")).await["result"].clone();
    assert_eq!(
        (
            &refused["success"],
            &refused["status"],
            &refused["unavailableCode"],
            &refused["unavailableMessage"]
        ),
        (
            &json!(false),
            &json!("unavailable"),
            &json!("PROVIDER_UNAVAILABLE"),
            &json!("The gateway is away.")
        )
    );
    gateway.up.send_replace(true);
    let running = snapshot(&bridge, "draft:1").await;
    assert_eq!(
        (&running["transportDegraded"], &running["source"]),
        (&Value::Null, &json!("registry"))
    );
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let first = bridge.ended("draft:1").await;
    // B37: the next run of the thread has not that end.
    gateway.end.send_replace(None);
    bridge.rpc("session.message", turn("draft:1")).await;
    let second = snapshot(&bridge, "draft:1").await;
    assert_ne!(second["runId"], first["runId"]);
    assert_eq!(second["status"], json!("running"));
    bridge.stop().await;
    // B38: a confirmed end is known without the gateway.
    gateway.up.send_replace(false);
    let bridge = world(folder.path(), &gateway).await;
    let kept = bridge
        .rpc(
            "xworkmate.tasks.get",
            json!({"appThreadKey": "draft:1", "runId": first["runId"]}),
        )
        .await["result"]
        .clone();
    assert_eq!(
        (&kept["status"], &kept["text"], &kept["source"]),
        (&json!("completed"), &json!("done"), &json!("stored"))
    );
    bridge.stop().await;
}

#[tokio::test]
async fn b41_b45_b46_the_registrys_end_stands_whatever_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    for (status, thread, success) in [
        (EndStatus::Completed, "draft:1", true),
        (EndStatus::Failed, "draft:2", false),
    ] {
        let gateway = Arc::new(Gateway::new());
        let bridge = world(folder.path(), &gateway).await;
        bridge.rpc("session.start", turn(thread)).await;
        bridge.at_stage(thread, "working").await;
        let cancel = json!({"appThreadKey": thread});
        let receipt = bridge.rpc("xworkmate.tasks.cancel", cancel.clone()).await["result"].clone();
        assert_eq!(
            (&receipt["accepted"], &receipt["cancelled"]),
            (&json!(true), &json!(false))
        );
        gateway.end.send_replace(Some(ended(status)));
        let end = bridge.ended(thread).await;
        assert_eq!(
            (&end["success"], &end["cancelRequested"]),
            (&json!(success), &json!(true)),
            "{end}"
        );
        let again = bridge.rpc("xworkmate.tasks.cancel", cancel).await["result"].clone();
        assert_eq!(
            (&again["accepted"], &again["cancelled"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(snapshot(&bridge, thread).await["status"], end["status"]);
        bridge.stop().await;
    }
}

#[tokio::test]
async fn b29_b30_b31_the_lane_of_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    let request = |n: i32| with(turn(&format!("draft:{n}")), json!({"requestId": "r"}));
    for n in 1..=4 {
        bridge.rpc("session.start", request(n)).await;
    }
    bridge.at_stage("draft:1", "working").await;
    let busy = bridge.rpc("session.start", request(5)).await["error"].clone();
    assert_eq!(
        (&busy["code"], &busy["data"]),
        (
            &json!(-32002),
            &json!({"code": "OPENCLAW_GATEWAY_BUSY", "reason": "queue_full"})
        )
    );
    let place = async |n: i32| {
        // The same request again: the same run, and where it stands now.
        bridge.rpc("session.start", request(n)).await["result"]["queue"].clone()
    };
    assert_eq!(place(4).await, json!({"position": 3, "queued": 3}));
    let probed = bridge
        .rpc(
            "xworkmate.provider.probe",
            json!({"providerId": "openclaw"}),
        )
        .await["result"]["providers"][0]
        .clone();
    assert_eq!(
        with(probed, json!({"probedAt": 0})),
        json!({
            "providerId": "openclaw", "label": "A gateway", "targets": ["gateway"], "maxActive": 1,
            "maxQueued": 3, "available": true, "status": "ready", "about": "version 1", "active": 1, "queued": 3,
            "probedAt": 0,
        })
    );
    assert_eq!(
        bridge
            .code("xworkmate.provider.probe", json!({"providerId": "moon"}))
            .await,
        json!("PROVIDER_NOT_FOUND")
    );
    bridge
        .rpc("session.cancel", json!({"sessionId": "draft:2"}))
        .await;
    bridge.ended("draft:2").await;
    assert_eq!(place(3).await, json!({"position": 1, "queued": 2}));
    assert_eq!(place(4).await, json!({"position": 2, "queued": 2}));
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    for n in [1, 3, 4] {
        assert_eq!(
            bridge.ended(&format!("draft:{n}")).await["status"],
            json!("completed")
        );
    }
    bridge.stop().await;
}

#[tokio::test]
async fn d10_d11_downloads_wait_for_a_gateway_and_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    let url = delivered(&bridge, &gateway).await;
    // D10: it fails twice, then works; also in the middle of the file.
    gateway.failures.store(2, Ordering::SeqCst);
    let part = world_part(&bridge, &url, "bytes=6-").await;
    assert_eq!((part.0, part.1.as_str()), (206, "6789"));
    gateway.failures.store(2, Ordering::SeqCst);
    let whole = get(&bridge, &url).await;
    assert_eq!(whole.status(), 200);
    assert_eq!(whole.headers()["content-type"], "text/plain");
    assert_eq!(whole.bytes().await.unwrap(), CONTENT);
    // It was kept: nobody asks the gateway again.
    let reads = gateway.reads.load(Ordering::SeqCst);
    gateway.up.send_replace(false);
    let again = get(&bridge, &url).await;
    assert_eq!(
        (
            again.status().as_u16(),
            again.headers()["content-type"].to_str().unwrap()
        ),
        (200, "text/plain")
    );
    assert_eq!(again.bytes().await.unwrap(), CONTENT);
    assert_eq!(
        world_part(&bridge, &url, "bytes=2-4").await,
        (206, "234".to_owned())
    );
    assert_eq!(gateway.reads.load(Ordering::SeqCst), reads);
    let kept: Vec<_> = std::fs::read_dir(folder.path().join("data/downloads"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(kept, [Digest(Sha256::digest(CONTENT).into()).to_string()]);
    // What was deleted does not live on.
    gateway.up.send_replace(true);
    bridge
        .rpc("session.delete", json!({"sessionId": "draft:1"}))
        .await;
    for _ in 0..200 {
        if std::fs::read_dir(folder.path().join("data/downloads"))
            .unwrap()
            .count()
            == 0
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        std::fs::read_dir(folder.path().join("data/downloads"))
            .unwrap()
            .count(),
        0
    );
    bridge.stop().await;
}

async fn world_part(world: &World, url: &str, range: &str) -> (u16, String) {
    let request = world
        .http
        .get(url)
        .bearer_auth(TOKEN)
        .header("range", range);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn d11_a_gateway_that_stays_away_is_503_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = keeping(folder.path(), &gateway, 0).await;
    let url = delivered(&bridge, &gateway).await;
    gateway.up.send_replace(false);
    let back = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        gateway.up.send_replace(true);
    };
    let (answer, ()) = tokio::join!(get(&bridge, &url), back);
    assert_eq!(answer.status(), 200);
    drop(answer);
    gateway.up.send_replace(false);
    let head = bridge
        .http
        .head(&url)
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    assert_eq!(
        (
            head.status().as_u16(),
            head.headers()["retry-after"].to_str().unwrap()
        ),
        (503, "5")
    );
    gateway.up.send_replace(true);
    assert_eq!(get(&bridge, &url).await.bytes().await.unwrap(), CONTENT);
    bridge.stop().await;
}

#[tokio::test]
async fn d13_bytes_that_are_not_those_of_the_run_never_make_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    let url = delivered(&bridge, &gateway).await;
    // A digit is another, or the end is missing: nobody gets a whole file of it.
    for content in [&b"012345678X"[..], b"01234"] {
        *gateway.content.lock().unwrap() = content.to_vec();
        let request = bridge.http.get(&url).bearer_auth(TOKEN);
        let cut = match request.send().await {
            Ok(answer) => answer.bytes().await.is_err(),
            Err(_) => true,
        };
        assert!(cut, "{content:?}");
    }
    // Where the whole of it is looked at before anything is answered, the answer says what is wrong.
    gateway.piece.store(64, Ordering::SeqCst);
    *gateway.content.lock().unwrap() = b"012345678X".to_vec();
    let answer = get(&bridge, &url).await;
    assert_eq!(answer.status(), 502);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(
        (&body["error"]["code"], &body["error"]["data"]["code"]),
        (&json!(-32053), &json!("artifact_hash_mismatch"))
    );
    // Nothing of it was kept.
    *gateway.content.lock().unwrap() = CONTENT.to_vec();
    assert_eq!(get(&bridge, &url).await.bytes().await.unwrap(), CONTENT);
    bridge.stop().await;
}

/// The most memory that this process had since it was last asked, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    // From here on it is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    kib.parse::<u64>().unwrap() >> 10
}

#[tokio::test]
async fn d15_300_mib_come_through_a_bridge_that_stays_small() {
    const SIZE: u64 = 300 << 20;
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let mut digest = Sha256::new();
    let piece = vec![0; 1 << 20];
    (0..300).for_each(|_| digest.update(&piece));
    let digest = Digest(digest.finalize().into());
    *gateway.zeros.lock().unwrap() = Some((SIZE, digest));
    gateway.piece.store(1 << 20, Ordering::SeqCst);
    // Also while it is written to the disk, to be kept.
    let bridge = keeping(folder.path(), &gateway, 1 << 30).await;
    let url = delivered(&bridge, &gateway).await;
    peak();
    let mut whole = get(&bridge, &url).await;
    assert_eq!(whole.content_length(), Some(SIZE));
    let mut bytes = 0;
    while let Some(chunk) = whole.chunk().await.unwrap() {
        bytes += chunk.len() as u64;
    }
    assert_eq!(bytes, SIZE);
    let most = peak();
    assert!(most < 80, "the bridge and its client had {most} MiB");
    bridge.stop().await;
}

#[tokio::test]
async fn d21_d22_permissions_by_their_older_names() {
    let folder = tempfile::tempdir().unwrap();
    let option = |id: &str, kind: &str| threadline_contract::QuestionOption {
        option_id: id.into(),
        label: id.into(),
        kind: Some(kind.into()),
    };
    for (n, respond, heard) in [
        (1, json!({"optionId": "yes"}), Some("yes".to_owned())),
        (2, json!({"decision": "cancel"}), None),
        // Agents name their options as they like.
        (3, json!({"optionId": ""}), Some("nameless".to_owned())),
    ] {
        let gateway = Arc::new(Gateway {
            asks: std::sync::Mutex::new(Some(Ask {
                id: QuestionId::new(format!("perm-{n}")).unwrap(),
                kind: threadline_contract::QuestionKind::Permission,
                text: "May I?".into(),
                options: vec![
                    option("yes", "allow_once"),
                    option("no", "reject_once"),
                    threadline_contract::QuestionOption {
                        label: "nameless".into(),
                        ..option("", "weird")
                    },
                ],
                free_text: false,
                tool: None,
            })),
            ..Gateway::new()
        });
        let bridge = world(folder.path(), &gateway).await;
        let thread = format!("draft:{n}");
        bridge.rpc("session.start", turn(&thread)).await;
        bridge.at_stage(&thread, "waiting").await;
        let list = bridge
            .rpc("xworkmate.permissions.list", json!({"sessionId": thread}))
            .await["result"]["permissions"]
            .clone();
        assert_eq!(
            (
                &list[0]["requestId"],
                &list[0]["sessionId"],
                &list[0]["text"],
                &list[1]
            ),
            (
                &json!(format!("perm-{n}")),
                &json!(thread),
                &json!("May I?"),
                &Value::Null
            )
        );
        let method = "xworkmate.permissions.respond";
        let request = json!({"requestId": list[0]["requestId"], "sessionId": thread});
        for (change, code) in [
            (json!({"optionId": "maybe"}), "QUESTION_OPTION_NOT_OFFERED"),
            (
                json!({"optionId": "yes", "sessionId": "draft:other"}),
                "CONFLICT",
            ),
            (
                json!({"optionId": "yes", "requestId": "perm-none"}),
                "QUESTION_NOT_FOUND",
            ),
            (
                json!({"optionId": "yes", "decision": "cancel"}),
                "INVALID_REQUEST",
            ),
            (json!({}), "INVALID_REQUEST"),
        ] {
            assert_eq!(
                bridge
                    .code(method, with(request.clone(), change.clone()))
                    .await,
                json!(code),
                "{change}"
            );
        }
        let done = bridge
            .rpc(method, with(request.clone(), respond.clone()))
            .await["result"]
            .clone();
        let outcome = match &heard {
            Some(_) => json!({"outcome": "selected", "optionId": respond["optionId"]}),
            None => json!({"outcome": "cancelled"}),
        };
        assert_eq!(
            (&done["accepted"], &done["outcome"]),
            (&json!(true), &outcome)
        );
        // The same again is the same; another is too late.
        let again = bridge.rpc(method, with(request.clone(), respond)).await["result"].clone();
        assert_eq!(again["outcome"], outcome);
        assert_eq!(
            bridge
                .code(method, with(request, json!({"optionId": "no"})))
                .await,
            json!("QUESTION_ALREADY_CLOSED")
        );
        for _ in 0..200 {
            if !gateway.answers.lock().unwrap().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(*gateway.answers.lock().unwrap(), [heard]);
        gateway.end.send_replace(Some(ended(EndStatus::Completed)));
        bridge.ended(&thread).await;
        bridge.stop().await;
    }
}

#[tokio::test]
async fn a_closed_session_keeps_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    bridge.at_stage("draft:1", "working").await;
    let params = json!({"sessionId": "draft:1"});
    let closed = bridge.rpc("session.close", params).await["result"].clone();
    assert_eq!(closed["closed"], json!(true));
    // At once, for what has nothing to do; and again when the run that was asked to stop has done so.
    let times = || gateway.closed.lock().unwrap().clone();
    assert_eq!(times(), ["agent:main:draft:1"]);
    gateway.end.send_replace(Some(ended(EndStatus::Cancelled)));
    bridge.ended("draft:1").await;
    for _ in 0..200 {
        if times().len() > 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(times(), ["agent:main:draft:1", "agent:main:draft:1"]);
    bridge.stop().await;
}

#[tokio::test]
async fn secrets_in_an_error_are_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    gateway.end.send_replace(Some(End {
        message: Some("401 api_key=sk-secret-value, Bearer abcdefgh12345".into()),
        ..ended(EndStatus::Failed)
    }));
    let told = bridge.ended("draft:1").await;
    assert_eq!(told["message"], json!("401 api_key=…, Bearer …"));
    bridge.stop().await;
}
