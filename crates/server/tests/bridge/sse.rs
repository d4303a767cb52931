//! Event streams: order, ids, resuming, and what is too large.

use std::time::Duration;

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{Millis, RunId, SessionUpdate, UpdateKind};
use threadline_store::{NewEvent, StreamId};

use crate::support::{TOKEN, World, frames, turn, with};

#[tokio::test]
async fn a_turn_streams_in_order_and_ends_with_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let events: Vec<_> = world
        .stream(
            &turn("draft:1", "[[write a.txt = hello]] [[say done]]"),
            None,
        )
        .await
        .collect()
        .await;
    // B08: accepted, updates with dense ids, the result under the caller's id, [DONE].
    let frames: Vec<Value> = events
        .iter()
        .map(|e| serde_json::from_str(&e.data).unwrap_or_else(|_| json!(e.data)))
        .collect();
    let (first, rest) = frames.split_first().unwrap();
    assert_eq!(first["method"], json!("xworkmate.bridge.accepted"));
    assert_eq!(rest.last(), Some(&json!("[DONE]")));
    let result = &rest[rest.len() - 2];
    assert_eq!(
        (
            &result["id"],
            &result["result"]["status"],
            &result["result"]["success"]
        ),
        (&json!(7), &json!("completed"), &json!(true))
    );
    let updates = &rest[..rest.len() - 2];
    assert!(
        updates
            .iter()
            .all(|u| u["method"] == json!("session.update")
                && u["params"]["threadId"] == json!("draft:1"))
    );
    let names: Vec<&str> = updates
        .iter()
        .map(|u| u["params"]["event"].as_str().unwrap())
        .filter(|e| *e != "delta" && *e != "task.usage")
        .collect();
    assert_eq!(
        names,
        [
            "started",
            "task.step",
            "task.step",
            "task.ended",
            "completed"
        ]
    );
    let ids: Vec<i64> = events[1..events.len() - 2]
        .iter()
        .map(|e| e.id.unwrap())
        .collect();
    assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
    assert_eq!(
        result["result"]["artifacts"]["items"][0]["path"],
        json!("a.txt")
    );
    world.stop().await;
}

#[tokio::test]
async fn a_stream_cut_thirty_times_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let words: Vec<String> = (0..150).map(|n| format!("word{n}")).collect();
    let params = with(
        turn(
            "draft:1",
            &format!("[[slow 20]] [[say {}]]", words.join(" ")),
        ),
        json!({"requestId": "r-1"}),
    );
    let (mut seen, mut text, mut cuts, mut result) = (vec![], String::new(), 0, None);
    while result.is_none() {
        let mut stream = world.stream(&params, seen.last().copied()).await;
        let cut_after = if cuts < 30 { 1 } else { usize::MAX };
        let mut taken = 0;
        while let Some(event) = stream.next().await {
            let frame: Value = serde_json::from_str(&event.data).unwrap_or_default();
            if frame["method"] == json!("session.update") {
                seen.push(event.id.unwrap());
                text.push_str(frame["params"]["text"].as_str().unwrap_or_default());
                taken += 1;
            } else if frame["id"] == json!(7) {
                result = Some(frame["result"].clone());
            }
            if taken == cut_after {
                cuts += 1;
                break;
            }
        }
    }
    assert_eq!(cuts, 30);
    assert_eq!(seen, (1..=seen.len() as i64).collect::<Vec<_>>());
    assert_eq!(text.trim(), words.join(" "));
    assert_eq!(
        result.unwrap()["text"].as_str().unwrap().trim(),
        words.join(" ")
    );
    world.stop().await;
}

#[tokio::test]
async fn the_threads_log_serves_streams_pages_and_polls_with_one_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    world.run(&turn("draft:1", "[[say one]]")).await;
    let get = async |query: &str| {
        let answer = world
            .http
            .get(format!("{}/acp/events?{query}", world.url))
            .bearer_auth(TOKEN)
            .send()
            .await
            .unwrap();
        (
            answer.status().as_u16(),
            answer.json::<Value>().await.unwrap(),
        )
    };
    let (_, all) = get("threadId=draft:1").await;
    let count = all["events"].as_array().unwrap().len();
    assert!(count >= 4, "{all}");
    assert_eq!(all["next"], json!(count));
    let (_, tail) = get(&format!("threadId=draft:1&after={}", count - 1)).await;
    assert_eq!(
        (&tail["events"][0]["update"]["event"], &tail["events"][1]),
        (&json!("completed"), &Value::Null)
    );
    let (_, nothing) = get(&format!("threadId=draft:1&after={count}")).await;
    assert_eq!(nothing, json!({"events": [], "next": count}));
    // From the end of the log, whose length nobody need know.
    let (_, last) = get("threadId=draft:1&last=2").await;
    assert_eq!(
        (last["events"][0]["id"].as_u64(), &last["next"]),
        (Some(count as u64 - 1), &json!(count))
    );
    let (_, none) = get("threadId=draft:1&last=0").await;
    assert_eq!(none, nothing);
    let (_, whole) = get("threadId=draft:1&last=4000000000").await;
    assert_eq!(whole, all);
    // A long poll wakes with the news.
    let waiting = format!("threadId=draft:1&after={count}&wait=20");
    let poll = get(&waiting);
    let (news, _) = tokio::join!(poll, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        world
            .rpc("session.message", turn("draft:1", "[[say two]]"))
            .await
    });
    assert_eq!(news.1["events"][0]["id"], json!(count + 1));
    for (query, status, code) in [
        ("threadId=draft:none", 404, "mapping_not_found"),
        ("threadId=", 400, "INVALID_REQUEST"),
        ("threadId=draft:1&after=-1", 400, "INVALID_REQUEST"),
        ("threadId=draft:1&last=-1", 400, "INVALID_REQUEST"),
        ("threadId=draft:1&last=1&after=1", 400, "INVALID_REQUEST"),
        ("threadId=draft:none&last=1", 404, "mapping_not_found"),
    ] {
        let (got, body) = get(query).await;
        assert_eq!(
            (got, &body["error"]["data"]["code"]),
            (status, &json!(code)),
            "{query}"
        );
    }
    let bad = world
        .http
        .get(format!("{}/acp/events?threadId=draft:1", world.url))
        .bearer_auth(TOKEN)
        .header("last-event-id", "x")
        .send()
        .await
        .unwrap();
    assert_eq!(bad.status(), 400);
    world.ended("draft:1").await;
    world.stop().await;
}

#[tokio::test]
async fn an_update_that_is_too_large_is_shortened_and_kept_whole() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    world.run(&turn("draft:1", "[[say one]]")).await;
    let thread = "draft:1".parse().unwrap();
    let mut update = SessionUpdate::new(
        &thread,
        &RunId::new("turn-x").unwrap(),
        UpdateKind::Task,
        "task.note",
        Millis(1),
    );
    update.message = Some("é".repeat(50_000)); // B11
    let body = serde_json::to_string(&update).unwrap();
    let stream = StreamId::of(&"local".parse().unwrap(), &thread.into());
    let event = NewEvent {
        run: None,
        frame: None,
        kind: "task.note".into(),
        body: body.as_str().into(),
        at: Millis(1),
    };
    let seq = world
        .engine
        .store()
        .append(&stream, None, vec![event])
        .await
        .unwrap()
        .last;

    let answer = world
        .http
        .get(format!(
            "{}/acp/events?threadId=draft:1&after={}",
            world.url,
            seq - 1
        ))
        .bearer_auth(TOKEN)
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    let event = frames(answer).next().await.unwrap();
    let frame: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(
        (event.id, &frame["params"]["truncated"]),
        (Some(seq), &json!(true))
    );
    assert!(event.data.len() < 64 << 10);
    let whole = world
        .http
        .get(format!(
            "{}{}",
            world.url,
            frame["params"]["wholeAt"].as_str().unwrap()
        ))
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    assert_eq!(whole.text().await.unwrap(), body);
    world.stop().await;
}
