//! Runs that somebody else stops at the gateway, in each of the ways that a real one has.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Code;
use threadline_runtimes::{End, EndStatus, Frame, Signal, Turns as _, Update};

use super::{
    once::{begin, usual},
    script::{Do, Scripted, end, run_ref},
};

const RUN: &str = "turn-1";
const STOPPED: &str = "Somebody stopped the run at the OpenClaw gateway.";

/// A gateway at which a run is stopped: what `agent.wait` and its native task then say.
async fn stops_it(waited: Value, error: &'static str) -> Scripted {
    Scripted::start(move |method, params, gateway| match method {
        "agent.wait" => {
            let told = |event: &str, mut payload: Value| {
                payload["runId"] = json!(RUN);
                payload["sessionKey"] = json!("agent:main:draft:1");
                json!({"type": "event", "event": event, "payload": payload})
            };
            Do::Frames(vec![
                told(
                    "agent",
                    json!({"stream": "lifecycle", "data": {"phase": "start"}}),
                ),
                told(
                    "agent",
                    json!({"stream": "assistant", "data": {"itemId": "i", "text": "one two"}}),
                ),
                told(
                    "chat",
                    json!({"state": "aborted", "stopReason": waited["stopReason"]}),
                ),
                json!({"type": "res", "id": "$id", "ok": true, "payload": waited.clone()}),
            ])
        }
        "tasks.list" => {
            // The reason is written down a moment after the end.
            let error = match gateway.times("tasks.list") {
                1 => "This operation was aborted | 20",
                _ => error,
            };
            Do::Ok(
                json!({"tasks": [{"runId": RUN, "status": "cancelled", "error": error,
                "terminalSummary": "This operation was aborted | 20"}]}),
            )
        }
        _ => usual(method, params, gateway),
    })
    .await
}

fn stopped(message: &str) -> End {
    End {
        status: EndStatus::Cancelled,
        code: Some(Code::StoppedAtGateway),
        message: Some(message.to_owned()),
        text: Some("one two".into()),
        usage: None,
        wrote: vec![],
    }
}

async fn ended(waited: Value, error: &'static str) -> End {
    let gateway = stops_it(waited, error).await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, RUN).await.unwrap();
    match end(&runtime, RUN).await.pop() {
        Some(Signal::End(end)) => end,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whoever_stops_a_run_at_the_gateway_it_was_stopped_there() {
    const OWN: &str = "This operation was aborted | 20";
    let aborted = json!({"status": "error", "endedAt": 9, "stopReason": "rpc"});
    // `chat.abort` and `sessions.abort` look the same.
    assert_eq!(ended(aborted.clone(), OWN).await, stopped(STOPPED));
    assert_eq!(
        ended(aborted, "I changed my mind").await,
        stopped(&format!("{STOPPED} The reason given: I changed my mind"))
    );
    let deleted = json!({"status": "error", "endedAt": 9, "error": "agent run aborted", "stopReason": "delete"});
    assert_eq!(
        ended(deleted, OWN).await,
        stopped(&format!("{STOPPED} Its session was deleted there."))
    );
    let reset = json!({"status": "error", "endedAt": 9, "error": "agent run aborted for restart",
        "stopReason": "restart"});
    assert_eq!(
        ended(reset, OWN).await,
        stopped(&format!("{STOPPED} Its conversation was reset there."))
    );
}

/// What others do to a session between two turns of it.
#[tokio::test]
async fn a_turn_says_when_its_conversation_is_gone() {
    const KNOWS_NOTHING: &str = "The agent does not know what was said before.";
    let user = |run: &str| json!({"role": "user", "idempotencyKey": format!("{run}:user")});
    let reset = || json!({"role": "system", "__openclaw": {"kind": "reset", "id": "x"}});
    let since = |what: &str| {
        vec![format!(
            "The {what} at the OpenClaw gateway since the last message. {KNOWS_NOTHING}"
        )]
    };
    for (rows, notes) in [
        (json!([user("turn-1"), user("turn-2")]), vec![]),
        (
            json!([reset(), user("turn-2")]),
            since("conversation was reset"),
        ),
        (
            json!([reset(), user("theirs")]),
            since("conversation was reset"),
        ),
        (json!([reset(), user("turn-1")]), vec![]),
        (json!([user("turn-2")]), since("session was deleted")),
        (json!([]), since("session was deleted")),
    ] {
        let told = rows.clone();
        let gateway = Scripted::start(move |method, params, gateway| match method {
            "agent.wait" => Do::Ok(json!({"status": "ok", "terminalReply": {"text": "done"}})),
            "chat.history" => Do::Ok(json!({"messages": told})),
            _ => usual(method, params, gateway),
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let runtime = gateway.runtime(folder.path(), Some("t"));
        for (run, notes) in [("turn-1", vec![]), ("turn-2", notes)] {
            begin(&runtime, run).await.unwrap();
            let signals = end(&runtime, run).await.into_iter();
            let told: Vec<String> = signals
                .filter_map(|signal| match signal {
                    Signal::Frame(Frame {
                        update: Update::Note(note),
                        ..
                    }) => Some(note),
                    _ => None,
                })
                .collect();
            assert_eq!(told, notes, "{run} after {rows}");
        }
    }
}

#[tokio::test]
async fn a_run_that_we_asked_to_stop_was_not_stopped_by_somebody_else() {
    let aborted = json!({"status": "error", "endedAt": 9, "stopReason": "rpc"});
    let gateway = stops_it(aborted, "").await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, RUN).await.unwrap();
    runtime.cancel(&run_ref(RUN)).await.unwrap();
    let ended = end(&runtime, RUN).await;
    assert_eq!(
        ended.last(),
        Some(&Signal::End(End {
            code: None,
            message: None,
            ..stopped("")
        }))
    );
}
