//! What is told of a runtime, and to whom; and in which form an answer comes that is no run.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_engine::Rules;
use threadline_runtimes::LaneSize;

use super::*;
use crate::support::OTHER;

/// Where the scripted gateway says it is.
const PLACE: &str = "gateway.private";

#[tokio::test]
async fn runtimes_are_told_in_a_word_and_their_places_to_the_operator_alone() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    let told = |answer: &Value, list: &str| -> Vec<[Value; 3]> {
        let list = answer["result"][list].as_array().unwrap();
        let line = |one: &Value| ["available", "status", "about"].map(|key| one[key].clone());
        list.iter().map(line).collect()
    };
    let line = |available: bool, status: &str, about: &str| {
        [json!(available), json!(status), json!(about)]
    };
    let model = line(true, "ready", "model scripted");
    let there = [model.clone(), line(true, "ready", "version 1")];
    let away = [model, line(false, "unreachable", "The gateway is away.")];
    for (up, wanted) in [(true, there), (false, away)] {
        gateway.up.send_replace(up);
        let probed = bridge.rpc("xworkmate.provider.probe", json!({})).await;
        let capabilities = bridge.rpc("acp.capabilities", json!({})).await;
        let mut listed = told(&capabilities, "providerProbeSummary");
        // In the order of their names, whatever that is.
        listed.sort_by_key(|line| line[2] != wanted[0][2]);
        let mut states = told(&probed, "providers");
        states.sort_by_key(|line| line[2] != wanted[0][2]);
        assert_eq!((listed, states), (wanted.to_vec(), wanted.to_vec()));
        let turned_away = bridge.rpc("session.start", turn("draft:1")).await;
        for answer in [&probed, &capabilities, &turned_away] {
            let text = answer.to_string();
            assert!(
                !text.contains(PLACE) && !text.contains("127.0.0.1"),
                "{text}"
            );
        }
    }
    for (token, sees) in [(TOKEN, true), (OTHER, false)] {
        let status = bridge
            .rpc_as(token, "xworkmate.operator.status", json!({}))
            .await;
        assert_eq!(status.to_string().contains(PLACE), sees, "{status:#}");
    }
    bridge.stop().await;
}

#[tokio::test]
async fn whoever_asks_for_a_stream_gets_one_whatever_the_answer_is() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    gateway.up.send_replace(false);
    let nobody = with(
        turn("draft:1"),
        json!({"prompt": "", "sessionId": "draft:1"}),
    );
    for (method, params) in [
        // Its runtime cannot take it.
        ("session.start", turn("draft:1")),
        // There is nothing to go on with.
        ("session.message", turn("draft:1")),
        ("session.start", nobody),
        ("no.such", json!({})),
        ("xworkmate.tasks.get", json!({"appThreadKey": "draft:none"})),
        ("xworkmate.questions.list", json!({})),
    ] {
        let plain = bridge.rpc(method, params.clone()).await;
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let request = bridge.http.post(format!("{}/acp/rpc", bridge.url));
        let answer = request
            .bearer_auth(TOKEN)
            .header("accept", "text/event-stream")
            .json(&body)
            .send()
            .await
            .unwrap();
        let head = (
            answer.status().as_u16(),
            answer.headers()["content-type"].clone(),
        );
        assert_eq!(
            head,
            (200, "text/event-stream".parse().unwrap()),
            "{method}"
        );
        let text = answer.text().await.unwrap();
        let envelope = text.strip_prefix("data: ").unwrap();
        let envelope = envelope.strip_suffix("\n\ndata: [DONE]\n\n").unwrap();
        let streamed: Value = serde_json::from_str(envelope).unwrap();
        assert_eq!(streamed, plain, "{method}");
    }
    bridge.stop().await;
}

#[tokio::test]
async fn a_turn_that_waits_too_long_for_a_place_fails_with_its_own_code() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        lane: LaneSize {
            max_active: 1,
            max_queued: 5,
        },
        rules: Rules {
            queue_wait: Some(Duration::from_secs(1)),
            ..Rules::default()
        },
        ..Options::default()
    };
    let bridge = World::with(folder.path(), options).await;
    let start = |thread: &'static str, prompt: &'static str| {
        bridge.rpc("session.start", crate::support::turn(thread, prompt))
    };
    start("draft:1", "[[hang]] [[say never]]").await;
    bridge.at_stage("draft:1", "working").await;
    start("draft:2", "[[say too late]]").await;
    let ended = bridge.ended("draft:2").await;
    let told = ["status", "code", "message", "success"].map(|key| ended[key].clone());
    assert_eq!(
        told,
        [
            json!("failed"),
            json!("QUEUE_TIMEOUT"),
            json!(
                "It waited for a place for 1 second and never began. Send it again when fewer wait."
            ),
            json!(false)
        ]
    );
    bridge
        .rpc("session.cancel", json!({"sessionId": "draft:1"}))
        .await;
    bridge.ended("draft:1").await;
    // Whoever gets a place in time is not ended by it.
    start("draft:3", "[[sleep 1500]] [[say done]]").await;
    assert_eq!(bridge.ended("draft:3").await["text"], json!("done"));
    // Nor does the wait for the run of the own thread count.
    start("draft:3", "[[sleep 2500]] [[say first]]").await;
    bridge.at_stage("draft:3", "working").await;
    start("draft:3", "[[say second]]").await;
    assert_eq!(bridge.ended("draft:3").await["text"], json!("second"));
    bridge.stop().await;
}
