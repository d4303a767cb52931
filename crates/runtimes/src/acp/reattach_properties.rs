//! A bridge that is killed and attaches again tells the same as one that stayed.

use std::{fs, path::Path, sync::Arc};

use pretty_assertions::assert_eq;
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};
use threadline_contract::QuestionId;
use threadline_files::Durability;
use threadline_host::{
    EndCause, Ended, Entry, Frame as HostFrame, Stray, StrayReason, What, reply_key,
};

use super::{
    drive::line_of,
    past::{Bound, Heard, Line, Past},
};
use crate::{
    Frame, Signal, Update,
    journaled::{
        Past as _, Record,
        replay::{self, Moments},
    },
};

const BASE: u64 = 10;

/// What comes to a run, in this order: from its host, or from people.
#[derive(Clone, Debug)]
enum Coming {
    FromHost(What),
    /// A person decides the question that this entry asked.
    Answer(u64, Option<String>),
    Stop,
}

fn said(frame: Value) -> Coming {
    Coming::FromHost(What::Said(HostFrame::of(&frame).unwrap()))
}

fn sent(key: String) -> Coming {
    Coming::FromHost(What::Sent { key, frame: None })
}

fn told(update: Value) -> Coming {
    let params = json!({"sessionId": "s", "update": update});
    said(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn tool_call(first: bool, id: u8, status: usize) -> Coming {
    let kind = if first {
        "tool_call"
    } else {
        "tool_call_update"
    };
    let status = ["pending", "in_progress", "completed", "failed"][status];
    told(
        json!({"sessionUpdate": kind, "toolCallId": format!("call-{id}"), "title": "Write it",
        "kind": "edit", "status": status, "locations": [{"path": format!("/project/{id}.md")}]}),
    )
}

fn permission(id: u8, call: u8) -> Coming {
    let options = json!([
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": format!("call-{call}")}});
    said(
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}),
    )
}

fn coming() -> impl Strategy<Value = Coming> {
    let chunk = |(text, message): (String, Option<u8>)| {
        let content = json!({"type": "text", "text": text});
        told(
            json!({"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message.map(|m| m.to_string())}),
        )
    };
    let cost = |n: u8| {
        let cost = json!({"amount": f64::from(n) / 4.0, "currency": "USD"});
        told(json!({"sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": cost}))
    };
    let stray = |long: bool| {
        let reason = match long {
            true => StrayReason::TooLong,
            false => StrayReason::NotJson,
        };
        Coming::FromHost(What::Stray(Stray {
            reason,
            bytes: 9_000_000,
            head: "{".into(),
            meant: None,
        }))
    };
    let taken_back = |id: u8| {
        let params = json!({"requestId": id});
        said(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}))
    };
    let answer = prop::option::of(prop_oneof![
        Just("Allow".to_owned()),
        Just("Reject".to_owned())
    ]);
    prop_oneof![
        8 => ("[a-zé\\n]{0,12}", prop::option::of(0u8..3)).prop_map(chunk),
        5 => (any::<bool>(), 0u8..3, 0usize..4).prop_map(|(first, id, status)| tool_call(first, id, status)),
        3 => (0u8..9, 0u8..3).prop_map(|(id, call)| permission(id, call)),
        3 => (6u64..40, answer).prop_map(|(no, answer)| Coming::Answer(no, answer)),
        2 => (6u64..40).prop_map(|no| sent(reply_key(no))),
        1 => (0u8..9).prop_map(taken_back),
        1 => (0u8..40).prop_map(cost),
        1 => any::<bool>().prop_map(stray),
        1 => Just(said(json!({"jsonrpc": "2.0", "method": "_vendor/heartbeat"}))),
        1 => Just(said(json!({"jsonrpc": "2.0", "id": 77, "method": "fs/read_text_file", "params": {}}))),
        1 => Just(Coming::Stop),
    ]
}

fn ending() -> impl Strategy<Value = Option<Coming>> {
    let gone = Coming::FromHost(What::Ended(Ended {
        cause: EndCause::Exited,
        status: Some(1),
        signal: None,
        stderr: "out of memory".into(),
    }));
    let done = json!({"jsonrpc": "2.0", "id": BASE + 2, "result": {"stopReason": "end_turn"}});
    let broken =
        json!({"jsonrpc": "2.0", "id": BASE + 2, "error": {"code": -32603, "message": "no model"}});
    prop_oneof![
        Just(None),
        Just(Some(gone)),
        Just(Some(said(done))),
        Just(Some(said(broken))),
    ]
}

/// A turn up to its prompt, then anything, then perhaps an end.
fn turn() -> impl Strategy<Value = Vec<Coming>> {
    let initialized = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}});
    let start = vec![
        sent(format!("init:{BASE}")),
        said(json!({"jsonrpc": "2.0", "id": BASE, "result": initialized})),
        sent(format!("session:{BASE}")),
        said(json!({"jsonrpc": "2.0", "id": BASE + 1, "result": {"sessionId": "s"}})),
        sent(format!("prompt:{BASE}")),
    ];
    (prop::collection::vec(coming(), 0..40), ending()).prop_map(move |(middle, end)| {
        let all = start.clone().into_iter();
        all.chain(middle).chain(end).collect()
    })
}

fn bound() -> Line {
    Line::Bound(Box::new(Bound {
        boot: "boot".into(),
        base: BASE,
        ..Bound::default()
    }))
}

/// How a person's decision is written down.
fn decided(past: &Past, coming: &Coming) -> Option<Line> {
    match coming {
        _ if past.run.ended.is_some() => None,
        Coming::FromHost(_) => None,
        Coming::Answer(no, answer) => Some(Line::Answered {
            question: QuestionId::new(format!("q-boot-{no}")).unwrap(),
            answer: answer.clone(),
        }),
        Coming::Stop => Some(Line::CancelAsked),
    }
}

/// What comes, with the number of its entry if it is one.
fn numbered(coming: Vec<Coming>) -> Vec<(Option<Entry>, Coming)> {
    let mut no = 0;
    let number = |coming: Coming| {
        let entry = match &coming {
            Coming::FromHost(what) => {
                no += 1;
                Some(Entry {
                    no,
                    at: no as i64 * 1_000,
                    what: what.clone(),
                })
            }
            _ => None,
        };
        (entry, coming)
    };
    coming.into_iter().map(number).collect()
}

/// A bridge that stays: everything is taken in as it comes.
fn stayed(coming: &[(Option<Entry>, Coming)]) -> (Past, Vec<Line>) {
    let mut past = Past::default();
    let mut lines = vec![bound()];
    past.apply(bound());
    for (entry, coming) in coming {
        let line = match entry {
            Some(entry) => line_of(&past, entry, entry.no, &[]),
            None => decided(&past, coming),
        };
        if let Some(line) = line {
            past.apply(line.clone());
            lines.push(line);
        }
    }
    (past, lines)
}

fn signals(lines: Vec<Line>) -> Vec<Signal> {
    lines.into_iter().flat_map(Past::signals).collect()
}

/// A bridge that is killed after each batch, at a byte of what it wrote of that batch, and attaches again after
/// the last entry that it has.
async fn killed(path: &Path, coming: &[(Option<Entry>, Coming)], kills: &[(u8, Index)]) {
    let open = || Arc::new(Record::<Past>::open(path).unwrap());
    let mut record = open();
    record.write(bound(), Durability::Later).await.unwrap();
    let (mut at, mut kills) = (0, kills.iter().cycle());
    // Each kill takes what was written of one batch at most once, so that this comes to its end.
    let mut may_kill = true;
    while at < coming.len() {
        let (size, cut) = kills.next().unwrap();
        let begins = fs::metadata(path).unwrap().len();
        let batch = batch(&coming[at..], usize::from(*size).max(1));
        take(&record, batch).await;
        let ends = fs::metadata(path).unwrap().len();
        at += batch.len();
        if !may_kill {
            may_kill = true;
            continue;
        }
        drop(record);
        let kept = begins + cut.index(usize::try_from(ends - begins).unwrap() + 1) as u64;
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(kept).unwrap();
        record = open();
        // The host tells again what comes after the last entry that was taken in; a person's decision that
        // was not written was not taken, and is handed over again.
        let heard = record.look(|past| past.heard);
        let written = |(entry, _): &&(Option<Entry>, Coming)| match entry {
            Some(entry) => entry.no > heard,
            None => kept < ends,
        };
        let again = batch.iter().filter(written).count();
        at -= again;
        may_kill = again == 0;
    }
}

/// The next entries that come together, or one decision.
fn batch(coming: &[(Option<Entry>, Coming)], most: usize) -> &[(Option<Entry>, Coming)] {
    let entries = coming.iter().take_while(|(entry, _)| entry.is_some());
    &coming[..entries.take(most).count().max(1)]
}

async fn take(record: &Arc<Record<Past>>, batch: &[(Option<Entry>, Coming)]) {
    let last = batch
        .iter()
        .filter_map(|(entry, _)| entry.as_ref())
        .next_back();
    let last = last.map(|entry| entry.no).unwrap_or_default();
    let taken = record.decide_each(
        Durability::Later,
        batch.to_vec(),
        move |past, (entry, coming)| {
            Ok(match entry {
                Some(entry) => line_of(past, &entry, last, &[]),
                None => decided(past, &coming),
            })
        },
    );
    taken.await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn attaching_again_gives_the_same_updates_as_having_stayed(
        coming in turn(),
        kills in prop::collection::vec((1u8..9, any::<Index>()), 1..12),
    ) {
        let coming = numbered(coming);
        let (past, lines) = stayed(&coming);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.journal");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(killed(&path, &coming, &kills));
        let record = Record::<Past>::open(&path).unwrap();
        record.look(|found| assert_eq!(found, &past, "what the run knows"));
        let reader = threadline_files::JournalReader::open(&path).unwrap();
        let written = reader.read_after::<Line>(0).unwrap();
        let written = written.map(|line| line.unwrap().value).collect();
        assert_eq!(signals(written), signals(lines), "what was told");
    }

    #[test]
    fn replaying_a_journal_is_the_same_as_having_listened(coming in turn(), moments in Moments::any()) {
        let (_, lines) = stayed(&numbered(coming));
        replay::check::<Past>(lines, &moments, |no| Line::Heard(Box::new(Heard {
            no: 1_000 + no as u64,
            frames: vec![Frame { no, update: Update::Text(format!("and {no}")) }],
            ..Heard::default()
        })));
    }
}
