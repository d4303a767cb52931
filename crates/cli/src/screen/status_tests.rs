use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn standing(why: &str) -> Value {
    json!({"why": why, "since": 0, "evidence": "The record.", "seenAt": 60_000, "next": "Nothing."})
}

fn host(state: &str, pid: u32) -> Value {
    json!({
        "sessionKey": "acp:codex:draft:1", "threadId": "draft:1", "runtime": "acp:codex", "pid": pid,
        "agentPid": pid + 100, "state": state, "startedAt": 0, "standing": standing("It is so."),
    })
}

fn shown() -> Shown {
    let names = json!({"draft:1": {"name": "river-report", "title": "Rivers"}});
    let status = json!({
        "version": "0.1.0", "at": 120_000, "questions": 0, "names": names,
        "open": {"queued": 0, "running": 1, "collecting": 0},
        "runtimes": [{
            "runtime": "builtin", "providerId": "builtin", "label": "Builtin agent", "targets": ["agent"],
            "maxActive": 5, "maxQueued": 20, "available": true, "status": "x", "active": 1, "queued": 0, "probedAt": 0,
            "lastError": {"runId": "turn-2", "threadId": "draft:9", "code": "MODEL_FAILED", "message": "HTTP\u{1b}[2J 400", "at": 0},
            "standing": standing("demonstration"),
        }],
        "hosts": [host("idle", 7), host("working", 8), host("idle", 9)],
    });
    let runs = json!({"names": names, "nextCursor": "41", "runs": [{
        "runId": "turn-1", "threadId": "draft:1", "runtime": "builtin", "sessionKey": "builtin:main:draft:1",
        "status": "completed", "createdAt": 0, "startedAt": 0, "endedAt": 61_000,
        "usage": {"inputTokens": 8400, "outputTokens": 12, "costUsd": 0.031},
        "standing": standing("It is done."),
    }]});
    Shown {
        status: serde_json::from_value(status).unwrap(),
        runs: serde_json::from_value(runs).unwrap(),
        sessions: None,
        questions: vec![],
        waiting: serde_json::from_value(json!({"turns": [{
            "threadId": "draft:1", "threadName": "river-report", "requestId": "q", "prompt": "Add a map",
            "waitsFor": "own_thread", "position": 1, "queued": 1, "attachments": 0, "queuedAtMs": 60_000,
        }]}))
        .unwrap(),
    }
}

#[test]
fn everything_says_why_since_when_on_what_evidence_and_what_is_next() {
    let text = all(&shown(), Millis(120_000), &TimeZone::UTC, Terminal::PLAIN);
    assert_eq!(
        text,
        "\
1 running, 0 queued, 1 message waiting in its thread, 0 open questions  version 0.1.0

Waiting messages
river-report  1  1 min ago, for the run before it  Add a map

Runs
river-report  done  builtin · 1 min 1 s · 8.4 k tokens read, 12 written, $0.031
  Why       It is done.
  Since     00:00:00 (2 min ago)
  Evidence  The record. (1 min ago)
  Next      Nothing.
  Run       turn-1
There are more: --before 41 shows them.

Runtimes
Builtin agent  ready  builtin · 1 of 5 places, 0 of 20 queued
  Why       demonstration
  Since     00:00:00 (2 min ago)
  Evidence  The record. (1 min ago)
  Next      Nothing.
  Error     HTTP\u{fffd}[2J 400 [MODEL_FAILED] (draft:9, 2 min ago)

Agent processes
river-report  at work  acp:codex · process 8
  Why       It is so.
  Since     00:00:00 (2 min ago)
  Evidence  The record. (1 min ago)
  Next      Nothing.
  Session   acp:codex:draft:1
2 processes idle (each ends by itself): river-report (process 7), river-report (process 9)
"
    );
}
