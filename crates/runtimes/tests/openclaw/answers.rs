//! Long answers: whole and once, in what is told while the run goes on and in its result.

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_runtimes::{End, Frame, Logged, Signal, Turns as _, Update, openclaw::OpenClaw};

use super::{
    caps,
    once::{begin, completed, usual},
    script::{Do, Gateway, Scripted, end, run_ref},
};

const RUN: &str = "turn-1";
/// Around what `agent.wait` tells, above what a transcript shows, and above what the last event carries.
const SIZES: [usize; 6] = [4095, 4096, 4097, 6000, 60_000, 1_048_576];

/// A text of so many characters; some have two units, and it never repeats itself.
fn answer(characters: usize) -> String {
    let words = (0..).flat_map(|n| format!("word {n} 🦀 ").chars().collect::<Vec<_>>());
    let mut text: String = words.take(characters - 1).collect();
    text.push('.');
    text
}

/// What somebody who reads along has before them in the end, and how it ended.
fn read(signals: Vec<Signal>) -> (String, Vec<String>, End) {
    let (mut text, mut notes) = (String::new(), vec![]);
    for signal in signals {
        match signal {
            Signal::Frame(Frame { update, .. }) => match update {
                Update::Text(more) => text.push_str(&more),
                Update::Reset { keep } => text = text.chars().take(keep as usize).collect(),
                Update::Note(note) => notes.push(note),
                other => panic!("{other:?}"),
            },
            Signal::End(end) => return (text, notes, end),
        }
    }
    panic!("no end: {text:?}");
}

fn whole(text: &str) -> (String, Vec<String>, End) {
    (text.to_owned(), vec![], completed(text))
}

/// What a gateway tells of a run that has ended with this.
fn ended(method: &str, params: &serde_json::Value, gateway: &mut Gateway, text: &str) -> Do {
    match method {
        "agent.wait" => Do::Ok(caps::waited(RUN, text)),
        "chat.history" => Do::Ok(caps::history(RUN, text)),
        "chat.message.get" => Do::Ok(caps::message(RUN, text, params)),
        _ => usual(method, params, gateway),
    }
}

#[tokio::test]
async fn a_long_answer_is_told_whole_and_once() {
    for size in SIZES {
        for events in ["all", "the half", "none"] {
            let text = answer(size);
            let told = text.clone();
            let gateway = Scripted::start(move |method, params, gateway| match method {
                "agent.wait" => {
                    let half = told.char_indices().nth(size / 2).unwrap().0;
                    let answer = json!({"type": "res", "id": "$id", "ok": true,
                        "payload": caps::waited(RUN, &told)});
                    Do::Frames(match events {
                        "all" => vec![
                            caps::said(RUN, &told[..half]),
                            caps::said(RUN, &told),
                            caps::last_event(RUN, &told),
                            answer,
                        ],
                        "the half" => vec![caps::said(RUN, &told[..half]), answer],
                        _ => vec![answer],
                    })
                }
                _ => ended(method, params, gateway, &told),
            })
            .await;
            let folder = tempfile::tempdir().unwrap();
            let runtime = gateway.runtime(folder.path(), Some("t"));
            begin(&runtime, RUN).await.unwrap();
            let read = read(end(&runtime, RUN).await);
            assert!(read == whole(&text), "{size} characters, {events} heard");
        }
    }
}

/// The bridge dies before the end, with some of it told or nothing, and comes back after it.
#[tokio::test]
async fn a_long_answer_is_whole_when_the_bridge_was_dead_at_its_end() {
    for size in SIZES {
        for frames in [0, 3] {
            let text = answer(size);
            let told = text.clone();
            let gateway = Scripted::start(move |method, params, gateway| {
                ended(method, params, gateway, &told)
            })
            .await;
            let folder = tempfile::tempdir().unwrap();
            let before = gateway.runtime(folder.path(), Some("t"));
            begin(&before, RUN).await.unwrap();
            before.stop().await;
            let after = gateway.runtime(folder.path(), Some("t"));
            let read = read(follow(&after, frames).await);
            assert!(read == whole(&text), "{size} characters after {frames}");
        }
    }
}

async fn follow(runtime: &OpenClaw, after: i64) -> Vec<Signal> {
    let mut signals = runtime
        .follow(&run_ref(RUN), Logged::up_to(after))
        .await
        .unwrap();
    let mut all = vec![];
    while let Some(signal) = signals.recv().await {
        all.push(signal);
    }
    all
}

/// The connection breaks in the middle of the answer, and the rest of it is never heard.
#[tokio::test]
async fn what_was_said_while_the_connection_was_gone_is_read_from_the_transcript() {
    let text = answer(60_000);
    let told = text.clone();
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "agent.wait" if gateway.times("agent.wait") == 1 => {
            let half = told.char_indices().nth(30_000).unwrap().0;
            Do::LastFrames(vec![caps::said(RUN, &told[..half])])
        }
        _ => ended(method, params, gateway, &told),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, RUN).await.unwrap();
    let all = end(&runtime, RUN).await;
    assert_eq!(gateway.look(|g| g.connects.len()), 2);
    assert!(read(all) == whole(&text));
}

/// The gateway keeps a part of it and no more.
#[tokio::test]
async fn an_answer_of_which_the_gateway_lost_the_rest_says_so() {
    let text = answer(60_000);
    let told = text.clone();
    let gateway = Scripted::start(move |method, params, gateway| match method {
        "chat.message.get" => Do::Ok(json!({"ok": false, "unavailableReason": "oversized"})),
        _ => ended(method, params, gateway, &told),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = gateway.runtime(folder.path(), Some("t"));
    begin(&runtime, RUN).await.unwrap();
    let (read, notes, end) = read(end(&runtime, RUN).await);
    let shown = read.strip_suffix('…').unwrap();
    assert!(text.starts_with(shown), "{shown}");
    let kept = shown.chars().count();
    assert!((7000..8000).contains(&kept), "{kept}");
    let missing = format!(
        "The answer is longer than this: the OpenClaw gateway has only its first {kept} characters, and the rest is lost."
    );
    assert_eq!(notes, std::slice::from_ref(&missing));
    assert_eq!(
        end,
        End {
            message: Some(missing),
            ..completed(&read)
        }
    );
}
