use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{super::waiting::WAITING, *};

fn agent(story: &mut Story, stream: &str, data: Value) {
    let event = json!({"runId": "r", "stream": stream, "data": data});
    story.hear("agent", &event.to_string());
}
fn say(story: &mut Story, item: &str, text: &str) {
    agent(story, "assistant", json!({"itemId": item, "text": text}));
}
fn text(text: &str) -> Update {
    Update::Text(text.into())
}

#[test]
fn texts_are_cumulative_so_a_missed_one_costs_nothing() {
    let mut story = Story::default();
    say(&mut story, "a", "File");
    assert_eq!(story.take(), [text("File")]);
    // " writ" was missed.
    say(&mut story, "a", "File written.");
    say(&mut story, "a", "File written.");
    assert_eq!(story.take(), [text(" written.")]);
    say(&mut story, "b", "Done.");
    assert_eq!(story.take(), [text("\n\nDone.")]);
    assert_eq!(story.text().as_deref(), Some("File written.\n\nDone."));
}

#[test]
fn a_text_that_changes_is_said_anew() {
    let mut story = Story::default();
    say(&mut story, "a", "één");
    say(&mut story, "b", "two");
    story.take();
    say(&mut story, "b", "Two, better");
    assert_eq!(
        story.take(),
        [Update::Reset { keep: 3 }, text("\n\nTwo, better")]
    );
}

#[test]
fn what_a_failed_attempt_said_is_taken_back_and_only_a_failure_that_is_new_is_noted() {
    let mut story = Story::default();
    agent(&mut story, "lifecycle", json!({"phase": "start"}));
    say(&mut story, "a", "half a");
    let failed = json!({"phase": "finishing", "error": "⚠️ fake/scripted failed (HTTP 500)."});
    agent(&mut story, "lifecycle", failed.clone());
    agent(&mut story, "lifecycle", json!({"phase": "start"}));
    agent(&mut story, "lifecycle", failed);
    agent(&mut story, "lifecycle", json!({"phase": "start"}));
    say(&mut story, "b", "whole");
    // An attempt that ends well is not the run's end either.
    agent(
        &mut story,
        "lifecycle",
        json!({"phase": "finishing", "stopReason": "stop"}),
    );
    assert_eq!(
        story.take(),
        [
            text("half a"),
            Update::Reset { keep: 0 },
            Update::Note("An attempt failed: fake/scripted failed (HTTP 500).".into()),
            text("whole"),
        ]
    );
    assert_eq!(story.last_word(), None);
}

#[test]
fn a_step_that_waits_is_replaced_by_its_end() {
    let mut story = Story::default();
    let item = |phase: &str, status: &str| {
        json!({"itemId": "tool:1", "name": "exec", "title": "Exec ls", "phase": phase,
               "status": status, "startedAt": 10, "endedAt": 35})
    };
    agent(&mut story, "item", item("start", "running"));
    agent(&mut story, "item", item("update", "running"));
    agent(&mut story, "item", item("end", "failed"));
    assert_eq!(
        story.take(),
        [Update::Step(Step {
            step_id: "tool:1".into(),
            title: "Exec ls".into(),
            tool: Some("exec".into()),
            state: StepState::Failed,
            detail: None,
            duration_ms: Some(25),
        })]
    );
}

#[test]
fn only_a_write_that_worked_is_evidence() {
    let mut story = Story::default();
    for (call, path, bad) in [
        ("1", "a.md", false),
        ("2", "b.md", true),
        ("3", "a.md", false),
    ] {
        let start =
            json!({"phase": "start", "name": "write", "toolCallId": call, "args": {"path": path}});
        agent(&mut story, "tool", start);
        let result =
            json!({"phase": "result", "name": "write", "toolCallId": call, "isError": bad});
        agent(&mut story, "tool", result);
    }
    agent(
        &mut story,
        "tool",
        json!({"phase": "start", "name": "read", "toolCallId": "4", "args": {"path": "c.md"}}),
    );
    agent(
        &mut story,
        "tool",
        json!({"phase": "result", "name": "read", "toolCallId": "4"}),
    );
    assert_eq!(story.wrote(), ["a.md"]);
}

#[test]
fn the_first_terminal_event_stands_and_frames_that_are_none_of_ours_are_left_alone() {
    let mut story = Story::default();
    story.hear("chat", "not json");
    story.hear("chat", r#"{"state":"delta","deltaText":"x"}"#);
    story.hear("sessions.changed", "{}");
    assert_eq!(story.last_word(), None);
    let first =
        json!({"state": "error", "errorMessage": "first", "errorDetail": {"provider": "p"}});
    story.hear("chat", &first.to_string());
    story.hear("chat", r#"{"state":"error","errorMessage":"second"}"#);
    assert_eq!(
        story.last_word(),
        Some(&LastWord {
            state: LastState::Error,
            of_model: true,
            message: Some("first".into()),
            reply: None,
            stop_reason: None,
        })
    );
    let mut story = Story::default();
    let last =
        json!({"state": "final", "message": {"content": [{"type": "text", "text": "done"}]}});
    story.hear("chat", &last.to_string());
    assert_eq!(
        story.last_word(),
        Some(&LastWord {
            state: LastState::Final,
            of_model: false,
            message: None,
            reply: Some(Reply::whole("done")),
            stop_reason: None,
        })
    );
}

#[test]
fn a_final_text_that_no_event_told_is_told() {
    let mut story = Story::again(String::new());
    story.settle(Some("All of it."));
    assert_eq!(story.take(), [text("All of it.")]);
    story.settle(Some("All of it.\n"));
    assert_eq!(story.take(), []);
    story.settle(None);
    story.settle(Some("  "));
    assert_eq!(story.take(), []);
}

#[test]
fn the_end_of_a_message_that_was_missed_is_all_that_is_said_of_it() {
    let mut story = Story::default();
    say(&mut story, "a", "I begin.");
    say(&mut story, "b", "All ");
    story.take();
    story.settle(Some("All of it."));
    assert_eq!(story.take(), [text("of it.")]);
}

#[test]
fn what_was_missed_is_recalled_in_its_place() {
    let rows = || {
        let row = |id: &str, text: &str| (id.to_owned(), text.to_owned());
        vec![row("r1", "one"), row("r2", "two, whole")]
    };
    // Heard to the middle of the second, and of the third which is not written down yet.
    let mut story = Story::default();
    for (item, said) in [("a", "one"), ("b", "two, wh"), ("c", "thr")] {
        say(&mut story, item, said);
    }
    story.take();
    story.recall(rows());
    assert_eq!(
        story.take(),
        [Update::Reset { keep: 3 }, text("\n\ntwo, whole\n\nthr")]
    );
    say(&mut story, "c", "three");
    assert_eq!(story.take(), [text("ee")]);
    story.recall(rows());
    assert_eq!(story.take(), []);
    // The second message was missed, and the first goes on where it was.
    let mut story = Story::default();
    say(&mut story, "a", "o");
    story.take();
    story.recall(rows());
    assert_eq!(story.take(), [text("ne\n\ntwo, whole")]);
    // After a restart nothing was heard but what came while the transcript was read, also when it begins
    // like another message.
    let mut story = Story::again(String::new());
    say(&mut story, "b", "two, whole");
    say(&mut story, "c", "o");
    story.recall(rows());
    say(&mut story, "c", "oh");
    assert_eq!(story.text().as_deref(), Some("one\n\ntwo, whole\n\noh"));
    let mut story = Story::again(String::new());
    say(&mut story, "c", "thr");
    story.recall(rows());
    assert_eq!(story.text().as_deref(), Some("one\n\ntwo, whole\n\nthr"));
}

#[test]
fn an_answer_is_whole_when_the_terminal_event_confirms_what_was_heard() {
    let end = |text: &str| json!({"state": "final", "message": {"content": [{"type": "text", "text": text}]}});
    let mut story = Story::default();
    say(&mut story, "a", "the beginning and the end");
    assert_eq!(story.whole("the begin"), None);
    story.hear("chat", &end("the beginning and the end").to_string());
    assert_eq!(
        story.whole("the begin").as_deref(),
        Some("the beginning and the end")
    );
    assert_eq!(story.whole("another"), None);
    // Of a very long one the event has only the end.
    let long = "word ".repeat(200_000);
    let tail = &long[long.len() - 500_000..];
    let mut story = Story::default();
    story.hear("chat", &end(tail).to_string());
    assert_eq!(story.whole("word"), None);
    say(&mut story, "a", &long);
    assert_eq!(story.whole("word").as_deref(), Some(long.trim_end()));
}

#[test]
fn what_waits_for_a_slow_reader_is_bounded_and_says_so() {
    let mut story = Story::default();
    for i in 0..(WAITING + 500) {
        let item = json!({"itemId": format!("tool:{i}"), "phase": "start", "title": "t"});
        agent(&mut story, "item", item);
    }
    say(&mut story, "a", "still told");
    let told = story.take();
    assert_eq!(told.len(), WAITING + 2);
    assert_eq!(told[WAITING], text("still told"));
    assert!(matches!(told.last(), Some(Update::Note(_))));
}

#[test]
fn a_message_becomes_one_sentence() {
    assert_eq!(sentence("⚠️ It broke.\nTo view logs, run"), "It broke.");
    assert_eq!(sentence("  "), "The gateway gives no reason.");
    assert_eq!(sentence(&"x".repeat(900)).len(), 500);
}

/// The log as it reads when these updates were added to it.
fn logged(mut log: String, told: &[Update]) -> String {
    for update in told {
        match update {
            Update::Text(text) => log.push_str(text),
            Update::Reset { keep } => log = log.chars().take(*keep as usize).collect(),
            _ => {}
        }
    }
    log
}

fn rows(texts: &[&str]) -> Vec<(String, String)> {
    let row = |(i, text): (usize, &&str)| (format!("row-{i}"), (*text).to_owned());
    texts.iter().enumerate().map(row).collect()
}

#[test]
fn what_a_gateway_did_not_write_down_before_it_was_killed_is_said_anew() {
    // Two messages, the second to its middle; then the gateway takes the turn up and begins it again.
    let mut story = Story::default();
    say(&mut story, "a", "First part.");
    say(&mut story, "b", "1 2 3 4");
    let mut log = logged(String::new(), &story.take());
    story.recall(rows(&["First part."]));
    story.taken_up();
    let told = story.take();
    assert_eq!(told, [Update::Reset { keep: 11 }]);
    log = logged(log, &told);
    say(&mut story, "c", "1 2 3");
    story.recall(rows(&["First part."]));
    say(&mut story, "c", "1 2 3 4 5 6");
    story.settle(Some("1 2 3 4 5 6"));
    log = logged(log, &story.take());
    assert_eq!(log, "First part.\n\n1 2 3 4 5 6");
    assert_eq!(story.text(), Some(log));

    // The same, when the bridge was away too.
    let before = "First part.\n\n1 2 3 4".to_owned();
    let mut story = Story::again(before.clone());
    story.recall(rows(&["First part."]));
    assert_eq!(story.take(), []);
    story.taken_up();
    say(&mut story, "c", "1 2");
    let log = logged(before, &story.take());
    assert_eq!(log, "First part.\n\n1 2");
    assert_eq!(story.text(), Some(log));
}

/// (what the log has, what the transcript has, what is heard then, what is told, what the log has then)
#[test]
fn a_text_that_the_log_has_goes_on_or_stays_whatever_the_transcript_has_lost() {
    type Heard<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, &[&str], Heard<'_>, &str); 11] = [
        // The session was deleted or reset.
        ("one\n\n1 2 3", &[], &[], "one\n\n1 2 3"),
        // The message in the middle of which it was stopped was not written down.
        ("one\n\n1 2 3", &["one"], &[], "one\n\n1 2 3"),
        ("one\n\n1 2 3", &["one", "1 2 3 4"], &[], "one\n\n1 2 3 4"),
        ("one\n\n1 2", &["one"], &[("b", "1 2 3")], "one\n\n1 2 3"),
        (
            "one\n\n1 2",
            &[],
            &[("b", "1 2 3"), ("c", "x")],
            "one\n\n1 2 3\n\nx",
        ),
        ("one", &["one"], &[("b", "1")], "one\n\n1"),
        ("", &["one"], &[("b", "1")], "one\n\n1"),
        // A transcript that is read only so far back.
        (
            "one\n\ntwo\n\nthr",
            &["two", "three"],
            &[],
            "one\n\ntwo\n\nthree",
        ),
        (
            "one\n\ntwo\n\nthr",
            &["two"],
            &[("c", "three")],
            "one\n\ntwo\n\nthree",
        ),
        // What a failed attempt said was taken back meanwhile.
        ("one\n\n1 2", &["one"], &[("b", "other")], "one\n\nother"),
        ("one\n\n1 2", &["one", "other"], &[], "one\n\nother"),
    ];
    for (log, known, heard, want) in cases {
        // Also when it is heard while the transcript is read.
        for early in [false, true] {
            let mut story = Story::again(log.to_owned());
            let hear = |story: &mut Story| {
                for (item, text) in heard {
                    say(story, item, text);
                }
            };
            if early {
                hear(&mut story);
                assert_eq!(story.take(), [], "nothing before it is known what was told");
            }
            story.recall(rows(known));
            if !early {
                hear(&mut story);
            }
            let told = story.take();
            assert_eq!(
                logged(log.to_owned(), &told),
                want,
                "{log:?} {known:?} {early} {told:?}"
            );
            assert_eq!(story.text().as_deref(), Some(want));
        }
    }
}

#[test]
fn a_final_text_goes_on_where_the_log_ends() {
    for (log, last, want) in [
        ("one\n\n1 2", "1 2 3", "one\n\n1 2 3"),
        ("one\n\n1 2", "one\n\n1 2", "one\n\n1 2"),
        ("one", "two", "one\n\ntwo"),
    ] {
        let mut story = Story::again(log.to_owned());
        story.settle(Some(last));
        assert_eq!(logged(log.to_owned(), &story.take()), want);
        assert_eq!(story.text().as_deref(), Some(want));
    }
}

#[test]
fn a_message_that_was_finished_meanwhile_stays_when_the_next_one_comes() {
    let mut story = Story::again("one\n\n1 2".to_owned());
    story.recall(rows(&["one"]));
    // The connection broke once more, and the message was written down before it was heard again.
    story.recall(rows(&["one", "1 2 3"]));
    say(&mut story, "c", "next");
    // A late word about a message that is known changes nothing.
    say(&mut story, "c", "next");
    say(&mut story, "d", "and on");
    say(&mut story, "c", "next");
    let log = logged("one\n\n1 2".to_owned(), &story.take());
    assert_eq!(log, "one\n\n1 2 3\n\nnext\n\nand on");
    assert_eq!(story.text(), Some(log));
}
