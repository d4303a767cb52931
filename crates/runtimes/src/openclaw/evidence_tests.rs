use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{Code, Usage};

use super::{super::transcript::RECOVERY, *};
use crate::End;

const RUN: &str = "turn-1";

/// A gateway that knows nothing.
fn nothing() -> Evidence<'static> {
    Evidence {
        name: RUN,
        same_boot: true,
        cancel_asked: false,
        heard: Duration::from_secs(3600),
        uptime: Duration::from_secs(3600),
        wait: wait(json!({"status": "timeout"})),
        history: History::default(),
        tasks: Tasks::default(),
    }
}
fn wait(answer: Value) -> Wait {
    serde_json::from_value(answer).unwrap()
}
fn history(messages: Value) -> History {
    serde_json::from_value(json!({"messages": messages})).unwrap()
}
/// The same, and how the session says that it stands.
fn standing(messages: Value, info: Value) -> History {
    serde_json::from_value(json!({"messages": messages, "sessionInfo": info})).unwrap()
}
fn tasks(status: &str, error: &str) -> Tasks {
    let task = json!({"runId": RUN, "status": status, "error": error, "endedAt": 7});
    serde_json::from_value(json!({"tasks": [{"runId": "other", "status": "failed"}, task]}))
        .unwrap()
}
fn user(run: &str) -> Value {
    json!({"role": "user", "content": "do it", "idempotencyKey": format!("{run}:user"), "__openclaw": {"id": "u"}})
}
fn says(run: &str, text: &str, stop: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": stop,
           "__openclaw": {"runId": run, "id": format!("row-{text}")}})
}
fn recovery(run: &str) -> Value {
    json!({"role": "user", "content": "[System] …", "idempotencyKey": format!("{run}:user"),
           "provenance": {"kind": "internal_system", "sourceTool": RECOVERY}})
}
fn answered(text: &str) -> Told {
    completed(Some(Reply::whole(text)))
}
fn broke(why: &str) -> Told {
    End::failed(Code::ExecutionFailed, why).into()
}
fn done(text: &str) -> Ruling {
    Ruling::Ended(answered(text))
}

#[test]
fn agent_wait_is_the_first_witness() {
    let ended = |answer| wait(answer).end();
    assert_eq!(
        ended(
            json!({"status": "ok", "endedAt": 5, "terminalReply": {"disposition": "visible", "text": "hi"}})
        ),
        Some(answered("hi").at(Some(5)))
    );
    assert_eq!(
        ended(json!({"status": "ok", "terminalReply": {"disposition": "empty"}})),
        Some(completed(None))
    );
    assert_eq!(
        ended(json!({"status": "error", "error": "⚠️ HTTP 500.\nlogs"})),
        Some(broke("HTTP 500."))
    );
    for aborted in [
        json!({"status": "error", "endedAt": 5, "error": "aborted", "stopReason": "rpc"}),
        json!({"status": "error", "endedAt": 5, "stopReason": "rpc"}),
        json!({"status": "timeout", "endedAt": 5, "stopReason": "rpc"}),
    ] {
        assert_eq!(ended(aborted), Some(cancelled().at(Some(5))));
    }
    assert_eq!(
        ended(json!({"status": "error", "error": "agent run aborted", "stopReason": "delete"})),
        Some(stopped(Stop::Deleted))
    );
    // Not finished, unknown, forgotten, queued, draining: nothing distinguishes these.
    for unknown in [
        json!({"status": "timeout"}),
        json!({"status": "pending", "timeoutPhase": "queue"}),
        json!({"status": "pending", "timeoutPhase": "gateway_draining"}),
        json!({}),
    ] {
        assert_eq!(ended(unknown), None);
    }
    let mut seen = nothing();
    seen.wait = wait(json!({"status": "ok", "endedAt": 5}));
    seen.tasks = tasks("failed", "later");
    assert_eq!(rule(&seen), Ruling::Ended(completed(None).at(Some(5))));
}

#[test]
fn a_native_task_is_the_second_and_the_transcript_the_third() {
    let mut seen = nothing();
    seen.history = history(json!([user(RUN), says(RUN, "the answer", "stop")]));
    assert_eq!(rule(&seen), done("the answer"));
    seen.tasks = tasks("completed", "");
    assert_eq!(
        rule(&seen),
        Ruling::Ended(answered("the answer").at(Some(7)))
    );
    for status in ["failed", "timed_out"] {
        seen.tasks = tasks(status, "it broke");
        assert_eq!(rule(&seen), Ruling::Ended(broke("it broke").at(Some(7))));
    }
    seen.tasks = tasks("cancelled", "");
    assert_eq!(rule(&seen), Ruling::Ended(cancelled().at(Some(7))));
    seen.tasks = tasks("running", "");
    assert_eq!(rule(&seen), Ruling::Running);
}

#[test]
fn a_session_that_was_reset_stopped_its_run() {
    let mut seen = nothing();
    seen.wait = wait(
        json!({"status": "error", "endedAt": 5, "error": "agent run aborted for restart",
        "stopReason": "restart"}),
    );
    assert_eq!(rule(&seen), Ruling::Ended(stopped(Stop::Reset).at(Some(5))));
}

#[test]
fn a_reason_for_a_stop_is_what_the_run_did_not_say_itself() {
    let of = |error: &str, status: &str| -> Option<String> {
        let task = json!({"runId": RUN, "status": status, "error": error,
            "terminalSummary": "This operation was aborted | 20"});
        let tasks: Tasks = serde_json::from_value(json!({"tasks": [task]})).unwrap();
        tasks.reason(RUN)
    };
    assert_eq!(of("This operation was aborted | 20", "cancelled"), None);
    assert_eq!(
        of("I changed my mind", "cancelled"),
        Some("I changed my mind".into())
    );
    assert_eq!(of("I changed my mind", "running"), None);
}

#[test]
fn a_text_that_is_not_all_of_it_is_known_as_such() {
    let ended = wait(json!({"status": "ok", "terminalReply": {"text": "the begin…"}})).end();
    assert_eq!(ended, Some(completed(Some(Reply::of_wait("the begin…")))));
    assert!(ended.unwrap().is_cut);
    let mut row = says(RUN, "the begin\n...(truncated)...", "stop");
    row["__openclaw"]["truncated"] = json!(true);
    let mut history = history(json!([user(RUN), row]));
    let ids = history.cut_messages(RUN, RUN);
    assert_eq!(ids.len(), 1);
    let whole = serde_json::from_value(says(RUN, "the begin and the end", "stop")).unwrap();
    history.put(&ids[0], whole);
    assert_eq!(history.end(RUN), Some(answered("the begin and the end")));
    assert_eq!(history.cut_messages(RUN, RUN), Vec::<String>::new());
}

#[test]
fn another_runs_words_are_never_this_runs() {
    let mut seen = nothing();
    seen.history = history(json!([
        user("before"),
        says("before", "old answer", "stop"),
        user(RUN)
    ]));
    assert_eq!(rule(&seen), Ruling::Unclear);
    seen.tasks = tasks("completed", "");
    assert_eq!(rule(&seen), Ruling::Ended(completed(None).at(Some(7))));
}

#[test]
fn a_tool_call_is_not_the_last_word() {
    let mut seen = nothing();
    seen.history = history(json!([user(RUN), says(RUN, "I will look", "toolUse")]));
    assert_eq!(rule(&seen), Ruling::Unclear);
    seen.history = history(json!([
        user(RUN),
        says(RUN, "I will look", "toolUse"),
        {"role": "toolResult", "content": "x", "__openclaw": {"runId": RUN}},
    ]));
    assert_eq!(rule(&seen), Ruling::Unclear);
}

#[test]
fn failures_and_stops_in_the_transcript() {
    let mut seen = nothing();
    let error = json!({"role": "assistant", "content": [{"type": "text", "text": "⚠️ HTTP 500."}],
        "stopReason": "error", "idempotencyKey": format!("{RUN}:terminal-error"), "__openclaw": {"runId": RUN}});
    seen.history = history(json!([user(RUN), error]));
    assert_eq!(rule(&seen), Ruling::Ended(broke("HTTP 500.")));
    seen.history = history(json!([user(RUN), says(RUN, "hal", "aborted")]));
    assert_eq!(rule(&seen), Ruling::Ended(cancelled()));
}

#[test]
fn a_turn_that_the_gateway_took_up_goes_on_under_its_new_name() {
    let mut seen = nothing();
    seen.same_boot = false;
    (seen.heard, seen.uptime) = (Duration::from_secs(2), Duration::from_secs(50));
    seen.tasks = tasks("cancelled", "Task execution process exited before restart.");
    seen.history = history(json!([user(RUN), recovery("new")]));
    assert_eq!(rule(&seen), Ruling::Renamed("new".into()));
    // Also when half an answer was there already.
    seen.history = history(json!([
        user(RUN),
        says(RUN, "I will", "toolUse"),
        recovery("new")
    ]));
    assert_eq!(rule(&seen), Ruling::Renamed("new".into()));
    // Another message that a person sent in between is not this turn's.
    seen.history = history(json!([user(RUN), user("other"), recovery("new")]));
    assert_eq!(rule(&seen), Ruling::Unclear);
    // Nor is a message that looks like the gateway's but is a person's.
    let fake = json!({"role": "user", "content": "[System] Your previous turn was interrupted", "idempotencyKey": "x:user"});
    seen.history = history(json!([user(RUN), fake]));
    assert_eq!(rule(&seen), Ruling::Unclear);
}

#[test]
fn a_turn_that_nobody_takes_up_is_lost_and_not_before_that_is_sure() {
    let mut seen = nothing();
    seen.same_boot = false;
    seen.tasks = tasks("cancelled", "Task execution process exited before restart.");
    seen.history = history(json!([user(RUN)]));
    // It took long to start, and is here for only a moment.
    (seen.heard, seen.uptime) = (Duration::from_secs(2), Duration::from_secs(290));
    assert_eq!(rule(&seen), Ruling::Unclear);
    seen.heard = Duration::from_secs(61);
    assert_eq!(rule(&seen), Ruling::Ended(lost()));
    // We were away when it started.
    (seen.heard, seen.uptime) = (Duration::from_secs(2), Duration::from_secs(310));
    assert_eq!(rule(&seen), Ruling::Ended(lost()));
    seen.history = standing(json!([user(RUN)]), json!({"status": "running"}));
    assert_eq!(rule(&seen), Ruling::Unclear);
    seen.heard = Duration::from_secs(901);
    assert_eq!(rule(&seen), Ruling::Ended(lost()));
    seen.history = standing(json!([user(RUN)]), json!({"hasActiveRun": true}));
    assert_eq!(rule(&seen), Ruling::Unclear);
}

#[test]
fn a_stop_that_was_asked_for_counts_when_nothing_can_go_on_any_more() {
    let mut seen = nothing();
    seen.same_boot = false;
    seen.cancel_asked = true;
    seen.tasks = tasks("cancelled", "Task execution process exited before restart.");
    seen.history = history(json!([user(RUN)]));
    (seen.heard, seen.uptime) = (Duration::from_secs(2), Duration::from_secs(20));
    // The gateway may still take it up, and then it must be stopped there.
    assert_eq!(rule(&seen), Ruling::Unclear);
    seen.heard = Duration::from_secs(61);
    assert_eq!(rule(&seen), Ruling::Ended(cancelled()));
    // It was stopped before the gateway went.
    seen.heard = Duration::from_secs(2);
    seen.history = standing(json!([user(RUN)]), json!({"status": "killed"}));
    assert_eq!(rule(&seen), Ruling::Ended(cancelled().at(Some(7))));
}

#[test]
fn a_turn_that_a_stopping_gateway_gave_back_was_never_worked_on() {
    let given_back = |messages: Value| -> History {
        let inputs = json!([{"id": "p", "state": "interrupted", "runId": RUN}]);
        let pending = json!({"total": 1, "items": inputs});
        serde_json::from_value(json!({"messages": messages, "pendingInputs": pending})).unwrap()
    };
    let mut seen = nothing();
    seen.same_boot = false;
    seen.tasks = tasks("failed", "Gateway is draining; new tasks are not accepted");
    seen.history = given_back(json!([]));
    assert_eq!(rule(&seen), Ruling::GivenBack);
    // A turn that is in the transcript was worked on.
    seen.history = given_back(json!([user(RUN)]));
    let failed = broke("Gateway is draining; new tasks are not accepted");
    assert_eq!(rule(&seen), Ruling::Ended(failed.at(Some(7))));
    // One that was broken off may be taken up by the gateway itself.
    seen.history = given_back(json!([]));
    seen.tasks = tasks("cancelled", "Task execution process exited before restart.");
    seen.heard = Duration::from_secs(2);
    seen.uptime = Duration::from_secs(20);
    assert_eq!(rule(&seen), Ruling::Unclear);
}

#[test]
fn what_was_used_is_told_when_all_of_it_is_in_view() {
    let used = |mut row: Value, input: u64, output: u64| {
        row["usage"] = json!({"input": input, "output": output, "cacheRead": 5, "cacheWrite": 1,
                              "totalTokens": 9, "cost": {"input": 0, "total": 0.25}});
        row
    };
    let rows = json!([
        used(says("before", "x", "stop"), 1000, 1000),
        user(RUN),
        used(says(RUN, "I will", "toolUse"), 100, 10),
        used(says(RUN, "done", "stop"), 200, 20),
    ]);
    assert_eq!(
        history(rows.clone()).usage(RUN),
        Some(Usage {
            input_tokens: Some(312),
            output_tokens: Some(30),
            cost_usd: Some(0.5),
        })
    );
    // Rows before these may be missing.
    let mut cut = rows.as_array().unwrap().clone();
    cut.drain(..2);
    assert_eq!(history(Value::Array(cut)).usage(RUN), None);
    assert_eq!(
        history(json!([user(RUN), says(RUN, "x", "stop")])).usage(RUN),
        None
    );
}

#[test]
fn a_restart_after_the_end_changes_nothing() {
    let mut seen = nothing();
    seen.same_boot = false;
    seen.history = history(json!([user(RUN), says(RUN, "done", "stop"), user("next")]));
    assert_eq!(rule(&seen), done("done"));
}

#[test]
fn no_trace_at_all_means_that_it_never_came() {
    let mut seen = nothing();
    assert_eq!(rule(&seen), Ruling::NoRecord);
    seen.same_boot = false;
    seen.history = history(json!([user("other"), says("other", "x", "stop")]));
    assert_eq!(rule(&seen), Ruling::NoRecord);
}

#[test]
fn a_run_that_is_at_work_is_running() {
    let mut seen = nothing();
    seen.history = serde_json::from_value(json!({"inFlightRun": {"runId": RUN}})).unwrap();
    assert_eq!(rule(&seen), Ruling::Running);
    seen = nothing();
    seen.wait = wait(json!({"status": "pending"}));
    assert_eq!(rule(&seen), Ruling::Running);
}

#[test]
fn a_run_whose_session_is_gone_was_stopped_by_deleting_it() {
    let gone = || standing(json!([]), json!({"key": "k", "updatedAt": null}));
    let stopped_by = |seen: &Evidence<'_>| match rule(seen) {
        Ruling::Ended(told) => (told.end.status, told.stop),
        other => panic!("{other:?}"),
    };
    let aborted =
        wait(json!({"status": "error", "endedAt": 5, "error": "aborted", "stopReason": "rpc"}));
    let seen = Evidence {
        wait: aborted.clone(),
        history: gone(),
        ..nothing()
    };
    let deleted = (EndStatus::Cancelled, Some(Stop::Deleted));
    assert_eq!(stopped_by(&seen), deleted);
    // Also when the gateway was restarted since.
    let seen = Evidence {
        same_boot: false,
        history: gone(),
        tasks: tasks("cancelled", "Cancelled by operator."),
        ..nothing()
    };
    assert_eq!(stopped_by(&seen), deleted);
    let there = standing(json!([]), json!({"key": "k", "updatedAt": 7}));
    let seen = Evidence {
        wait: aborted,
        history: there,
        ..nothing()
    };
    assert_eq!(stopped_by(&seen), (EndStatus::Cancelled, None));
}

#[test]
fn only_a_reason_that_somebody_gave_is_one() {
    assert_eq!(
        tasks("cancelled", "Cancelled by operator.").reason(RUN),
        None
    );
    assert_eq!(
        tasks("cancelled", "Cancelled by operator").reason(RUN),
        None
    );
    let given = tasks("cancelled", "wrong file");
    assert_eq!(given.reason(RUN).as_deref(), Some("wrong file"));
}

#[test]
fn the_messages_of_a_run_are_told_once_under_all_its_names() {
    let texts = |history: &History, name: &str| -> Vec<String> {
        let said = history.said(RUN, name).into_iter();
        said.map(|(_, text)| text).collect()
    };
    // A run that is stopped leaves everything once more.
    let mut stopped = says(RUN, "one\n\n1 2 3", "stop");
    stopped["idempotencyKey"] = json!(format!("{RUN}:assistant"));
    let rows = json!([user(RUN), says(RUN, "one", "toolUse"), stopped]);
    assert_eq!(texts(&history(rows), RUN), ["one", "1 2 3"]);
    let mut stopped = says(RUN, "one", "stop");
    stopped["idempotencyKey"] = json!(format!("{RUN}:assistant"));
    let rows = json!([user(RUN), says(RUN, "one", "toolUse"), stopped]);
    assert_eq!(texts(&history(rows), RUN), ["one"]);
    // A message that only repeats what was said is one of its own.
    let rows = json!([
        user(RUN),
        says(RUN, "one", "toolUse"),
        says(RUN, "one\n\ntwo", "stop")
    ]);
    assert_eq!(texts(&history(rows), RUN), ["one", "one\n\ntwo"]);
    // One that was taken up.
    let rows = json!([
        user(RUN),
        says(RUN, "one", "toolUse"),
        recovery("new"),
        says("new", "two", "stop"),
        user("other"),
        says("other", "theirs", "stop"),
    ]);
    assert_eq!(texts(&history(rows.clone()), "new"), ["one", "two"]);
    assert_eq!(texts(&history(rows), RUN), ["one"]);
    // Of which the beginning is no longer in view.
    let rows = json!([says("new", "two", "stop")]);
    assert_eq!(texts(&history(rows), "new"), ["two"]);
}
