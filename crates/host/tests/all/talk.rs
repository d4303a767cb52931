//! What is said reaches the other side: once, whole, in order.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_host::{EndCause, Frame, HostError, RefusalCode, Sent, Stray, StrayReason, What};

use crate::support::*;

fn code(result: Result<Sent, HostError>) -> RefusalCode {
    match result {
        Err(HostError::Refused(refusal)) => refusal.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn both_directions_are_in_one_journal() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    let ask = request(1, "echo", json!({"a": [1, 2.50]}));
    let sent = attached.control.send("k1", &ask).await.unwrap();
    assert_eq!(
        sent,
        Sent {
            no: 1,
            again: false
        }
    );
    let first = attached.frames.next().await.unwrap().unwrap();
    let sent = What::Sent {
        key: "k1".into(),
        frame: None,
    };
    assert_eq!((first.no, first.what), (1, sent));
    let second = attached.frames.next().await.unwrap().unwrap();
    let said = r#"{"id":1,"jsonrpc":"2.0","result":{"a":[1,2.5]}}"#;
    let said = Frame::parse(said.as_bytes()).unwrap();
    assert_eq!((second.no, second.what), (2, What::Said(said)));
    assert!(second.at >= first.at && first.at > 1_600_000_000_000);
}

#[tokio::test]
async fn a_frame_that_is_handed_in_again_reaches_the_agent_once() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.spec()).await;
    let ask = request(1, "echo", json!("once"));
    attached.control.send("k1", &ask).await.unwrap();
    assert_eq!(answered(&mut attached.frames, 1).await, json!("once"));
    // As a bridge does that was killed before it heard that it was taken.
    drop(attached);
    let mut attached = world.hosts.attach(SESSION, &state.boot, 0).await.unwrap();
    let again = attached.control.send("k1", &ask).await.unwrap();
    assert_eq!(again, Sent { no: 1, again: true });
    let other = request(1, "echo", json!("twice"));
    assert_eq!(
        code(attached.control.send("k1", &other).await),
        RefusalCode::KeyReused
    );
    attached
        .control
        .send("k2", &request(2, "echo", json!("then")))
        .await
        .unwrap();
    assert_eq!(answered(&mut attached.frames, 2).await, json!("then"));
    let methods: Vec<_> = world
        .received()
        .iter()
        .map(|line| line["params"].clone())
        .collect();
    assert_eq!(methods, [json!("once"), json!("then")]);
}

#[tokio::test]
async fn a_permission_waits_for_its_answer_while_no_bridge_is_there() {
    for id in [json!("perm-α-1"), json!(7), json!("7")] {
        let world = World::new();
        let (state, attached) = world.start(&world.spec()).await;
        let ask = request(1, "ask", json!({"id": id}));
        // Asked for by a bridge that is gone before the agent asks back.
        attached.control.send("turn", &ask).await.unwrap();
        drop(attached);
        until("the agent waits", async || {
            world.hosts.inspect(SESSION).await.unwrap().waiting == 1
        })
        .await;

        let mut attached = world.hosts.attach(SESSION, &state.boot, 1).await.unwrap();
        let asked = hear(&mut attached.frames).await;
        assert_eq!(asked["id"], id);
        assert_eq!(asked["method"], "session/request_permission");
        let allowed = answer(id.clone(), json!({"outcome": "allow"}));
        attached.control.send("answer", &allowed).await.unwrap();
        // The bridge dies once more, and does not know whether its answer was taken.
        drop(attached);
        let mut attached = world.hosts.attach(SESSION, &state.boot, 2).await.unwrap();
        assert!(
            attached
                .control
                .send("answer", &allowed)
                .await
                .unwrap()
                .again
        );
        let given = answered(&mut attached.frames, 1).await;
        assert_eq!(given, json!({"given": {"outcome": "allow"}, "id": id}));
        let second = attached.control.send("another", &allowed).await;
        assert_eq!(code(second), RefusalCode::NotWaiting);
        assert_eq!(world.received().len(), 2, "one request and one answer");
        let hello = world.hosts.inspect(SESSION).await.unwrap();
        assert_eq!((hello.open_turns, hello.waiting), (0, 0));
    }
}

#[tokio::test]
async fn a_frame_of_ten_megabytes_goes_both_ways() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    let large = "y".repeat(10_000_000);
    attached
        .control
        .send("k", &request(1, "echo", json!(large)))
        .await
        .unwrap();
    assert!(answered(&mut attached.frames, 1).await == json!(large));
}

#[tokio::test]
async fn lines_that_are_not_frames_are_told_and_nothing_is_lost_behind_them() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    attached
        .control
        .send("k", &request(1, "stray", json!({})))
        .await
        .unwrap();
    let mut strays = vec![];
    loop {
        match attached.frames.next().await.unwrap().unwrap().what {
            What::Stray(stray) => strays.push(stray),
            What::Said(_) => break,
            _ => {}
        }
    }
    let stray = |reason, bytes, head: &str| Stray {
        reason,
        bytes,
        head: head.into(),
        meant: None,
    };
    assert_eq!(
        strays,
        [
            stray(StrayReason::NotJson, 27, "Listening on standard input"),
            stray(StrayReason::NotUtf8, 2, "\u{fffd}\u{fffd}"),
            stray(StrayReason::NotRpc, 5, "[1,2]"),
        ]
    );
}

#[tokio::test]
async fn a_line_without_end_is_cut_and_the_next_one_is_heard() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    let bytes = threadline_host::LONGEST_FRAME + 10;
    attached
        .control
        .send("k", &request(1, "huge", json!({"bytes": bytes})))
        .await
        .unwrap();
    attached.frames.next().await.unwrap();
    match attached.frames.next().await.unwrap().unwrap().what {
        What::Stray(stray) => {
            assert_eq!(
                (stray.reason, stray.head.len()),
                (StrayReason::TooLong, 4096)
            );
            assert!(stray.bytes > bytes as u64);
        }
        other => panic!("{other:?}"),
    }
    attached
        .control
        .send("k2", &request(2, "echo", json!(2)))
        .await
        .unwrap();
    assert_eq!(answered(&mut attached.frames, 2).await, json!(2));
}

#[tokio::test]
async fn an_agent_gets_the_environment_that_it_was_given_and_no_more() {
    let world = World::new();
    let mut spec = world.spec();
    spec.env = BTreeMap::from([("GREETING".into(), "hello".into())]);
    let (state, mut attached) = world.start(&spec).await;
    attached
        .control
        .send("k", &request(1, "env", json!({})))
        .await
        .unwrap();
    assert_eq!(
        answered(&mut attached.frames, 1).await,
        json!({"GREETING": "hello", "THREADLINE_AGENT_HOST": state.boot})
    );
}

#[tokio::test]
async fn the_last_of_standard_error_is_kept_and_no_more() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    for i in 1..=8 {
        let ask = request(i, "errors", json!({"bytes": 300_000}));
        attached.control.send(&format!("k{i}"), &ask).await.unwrap();
        answered(&mut attached.frames, i).await;
    }
    attached.control.stop().await.unwrap();
    let entries = all(&mut attached.frames).await;
    match &entries.last().unwrap().what {
        What::Ended(ended) => {
            assert_eq!(ended.cause, EndCause::Stopped);
            assert_eq!(ended.stderr.len(), 2048);
            assert!(ended.stderr.ends_with("eelast words\n"));
        }
        other => panic!("{other:?}"),
    }
    let folder = world.hosts.folder(SESSION);
    let kept =
        ["stderr.log", "stderr.old.log"].map(|name| folder.join(name).metadata().unwrap().len());
    assert!(kept.iter().all(|bytes| *bytes < 600_000), "{kept:?}");
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_not_flooded() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    attached
        .control
        .send("deaf", &request(1, "deaf", json!({})))
        .await
        .unwrap();
    answered(&mut attached.frames, 1).await;
    let frame = request(2, "echo", json!("z".repeat(1_000)));
    let mut taken = 0;
    let refused = loop {
        match attached.control.send(&format!("k{taken}"), &frame).await {
            Ok(_) => taken += 1,
            refused => break code(refused),
        }
        assert!(taken < 1_000);
    };
    assert_eq!(refused, RefusalCode::AgentBusy);
    // Some in the pipe, one half way, and 256 that wait.
    assert!((300..400).contains(&taken), "{taken}");
}
