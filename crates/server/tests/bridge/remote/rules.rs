//! What holds for every run: who answers permissions, how long it may take, and what is said when its
//! registry cannot be heard.

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use threadline_contract::{QuestionKind, QuestionOption, ToolKind, Usage};
use threadline_engine::{Budgets, Rules};

use super::*;

fn permission(tool: ToolKind, kinds: &[&str]) -> Ask {
    let option = |kind: &&str| QuestionOption {
        option_id: format!("id-{kind}"),
        label: format!("label {kind}"),
        kind: Some((*kind).to_owned()),
    };
    Ask {
        id: QuestionId::fresh(),
        kind: QuestionKind::Permission,
        text: "May I?".into(),
        options: kinds.iter().map(option).collect(),
        free_text: false,
        tool: Some(tool),
    }
}

const ALL: [&str; 4] = ["allow_always", "allow_once", "reject_always", "reject_once"];

fn asking(tool: ToolKind, kinds: &[&str]) -> Arc<Gateway> {
    let gateway = Gateway::new();
    *gateway.asks.lock().unwrap() = Some(permission(tool, kinds));
    Arc::new(gateway)
}

async fn ruled(folder: &std::path::Path, gateway: &Arc<Gateway>, rules: Rules) -> World {
    let options = Options {
        also: Some(Arc::new(Remote(gateway.clone()))),
        rules,
        ..Options::default()
    };
    World::with(folder, options).await
}

/// A turn with something in its metadata.
fn saying(thread: &str, metadata: Value) -> Value {
    with(turn(thread), json!({"metadata": metadata}))
}

async fn questions(bridge: &World, thread: &str) -> Value {
    let params = json!({"threadId": thread, "includeClosed": true});
    bridge.rpc("xworkmate.questions.list", params).await["result"]["questions"].clone()
}

async fn heard(gateway: &Gateway) -> Vec<Option<String>> {
    for _ in 0..400 {
        let answers = gateway.answers.lock().unwrap().clone();
        if !answers.is_empty() {
            return answers;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no answer reached the runtime");
}

/// The kinds of a thread's events, and who closed its questions.
async fn events(bridge: &World, thread: &str) -> Vec<String> {
    let url = format!("{}/acp/events?threadId={thread}&wait=0", bridge.url);
    let answer = bridge
        .http
        .get(url)
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    let page: Value = answer.json().await.unwrap();
    let event = |e: &Value| {
        let by = e["update"]["question"]["closedBy"].as_str();
        let kind = e["update"]["event"].as_str().unwrap();
        by.map_or(kind.to_owned(), |by| format!("{kind} {by}"))
    };
    page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(event)
        .collect()
}

#[tokio::test]
async fn a_policy_answers_for_this_once_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for (n, said, tool, chosen, by) in [
        (
            1,
            json!({"permissionPolicy": "allow"}),
            ToolKind::Execute,
            "allow_once",
            "allow",
        ),
        (
            2,
            json!({"permissionLevel": "fullAccess"}),
            ToolKind::Other,
            "allow_once",
            "allow",
        ),
        (
            3,
            json!({"permissionPolicy": {"read": "allow"}}),
            ToolKind::Read,
            "allow_once",
            "read=allow",
        ),
        (
            4,
            json!({"permissionPolicy": "allow,execute=reject"}),
            ToolKind::Execute,
            "reject_once",
            "execute=reject",
        ),
    ] {
        let gateway = asking(tool, &ALL);
        let bridge = world(folder.path(), &gateway).await;
        let thread = format!("draft:{n}");
        let policy =
            bridge.rpc("session.start", saying(&thread, said)).await["result"]["permissionPolicy"]
                .clone();
        assert_eq!(
            heard(&gateway).await,
            [Some(format!("label {chosen}"))],
            "{policy}"
        );
        let question = questions(&bridge, &thread).await[0].clone();
        assert_eq!(
            (
                &question["state"],
                &question["answer"],
                &question["closedBy"],
                &question["tool"]
            ),
            (
                &json!("answered"),
                &json!({"optionId": format!("id-{chosen}")}),
                &json!(format!("policy:{by}")),
                &json!(tool),
            )
        );
        gateway.end.send_replace(Some(ended(EndStatus::Completed)));
        bridge.ended(&thread).await;
        let events = events(&bridge, &thread).await;
        let asked = events
            .iter()
            .position(|e| *e == format!("task.question_asked policy:{by}"))
            .unwrap();
        assert_eq!(
            events[asked + 1],
            format!("task.question_closed policy:{by}")
        );
        bridge.stop().await;
    }
}

#[tokio::test]
async fn a_person_is_asked_where_no_rule_holds_this_once() {
    let folder = tempfile::tempdir().unwrap();
    let allows = Rules {
        policy: "allow".parse().unwrap(),
        ..Rules::default()
    };
    for (n, said, rules, kinds) in [
        (1, json!({}), Rules::default(), &ALL[..]),
        (
            2,
            json!({"permissionPolicy": "ask"}),
            allows.clone(),
            &ALL[..],
        ),
        (
            3,
            json!({"permissionPolicy": "allow,execute=ask"}),
            Rules::default(),
            &ALL[..],
        ),
        // Nobody but the person allows or refuses for good.
        (4, json!({}), allows, &["allow_always", "reject_always"][..]),
        (
            5,
            json!({"permissionPolicy": "reject"}),
            Rules::default(),
            &["allow_once", "reject_always"][..],
        ),
    ] {
        let gateway = asking(ToolKind::Execute, kinds);
        let bridge = ruled(folder.path(), &gateway, rules).await;
        let thread = format!("draft:{n}");
        bridge.rpc("session.start", saying(&thread, said)).await;
        bridge.at_stage(&thread, "waiting").await;
        let question = questions(&bridge, &thread).await[0].clone();
        assert_eq!(question["state"], json!("open"));
        assert_eq!(*gateway.answers.lock().unwrap(), []);
        // D22: the run is cancelled, and so nobody waits for the answer.
        bridge
            .rpc("session.cancel", json!({"sessionId": thread}))
            .await;
        gateway.end.send_replace(Some(ended(EndStatus::Cancelled)));
        bridge.ended(&thread).await;
        let question = questions(&bridge, &thread).await[0].clone();
        assert_eq!(
            (&question["state"], &question["closedBy"]),
            (&json!("withdrawn"), &json!("the run ended"))
        );
        bridge.stop().await;
    }
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    for bad in [
        json!({"permissionPolicy": "always"}),
        json!({"permissionPolicy": {"write": "allow"}}),
        json!({"permissionLevel": "root"}),
    ] {
        assert_eq!(
            bridge
                .code("session.start", saying("draft:9", bad.clone()))
                .await,
            json!("INVALID_REQUEST"),
            "{bad}"
        );
    }
    bridge.stop().await;
}

#[tokio::test]
async fn a_thread_keeps_its_policy_and_a_restart_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    bridge
        .rpc(
            "session.start",
            saying("draft:1", json!({"permissionPolicy": "allow"})),
        )
        .await;
    bridge.ended("draft:1").await;
    gateway.end.send_replace(None);
    // The next turn does not say, and the question comes while nobody is there to hear it.
    bridge.rpc("session.message", turn("draft:1")).await;
    bridge.at_stage("draft:1", "working").await;
    bridge.stop().await;
    *gateway.asks.lock().unwrap() = Some(permission(ToolKind::Edit, &ALL));
    gateway.deaf.store(true, Ordering::SeqCst);
    let bridge = world(folder.path(), &gateway).await;
    for _ in 0..400 {
        if questions(&bridge, "draft:1").await[0]["closedBy"] == json!("policy:allow") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        questions(&bridge, "draft:1").await[0]["state"],
        json!("answered")
    );
    assert_eq!(*gateway.answers.lock().unwrap(), []);
    // It was decided and could not be handed over: the next life does it, and so does a later try.
    bridge.stop().await;
    let bridge = world(folder.path(), &gateway).await;
    bridge.at_stage("draft:1", "working").await;
    gateway.deaf.store(false, Ordering::SeqCst);
    assert_eq!(heard(&gateway).await, [Some("label allow_once".to_owned())]);
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let result = bridge.ended("draft:1").await;
    assert_eq!(result["permissionPolicy"], json!("allow"));
    bridge.stop().await;
}

#[tokio::test]
async fn a_question_that_waited_as_long_as_configured_expires_also_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = asking(ToolKind::Edit, &ALL);
    let bridge = ruled(folder.path(), &gateway, Rules::default()).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    bridge.at_stage("draft:1", "waiting").await;
    bridge.stop().await;
    let limited = Rules {
        question_wait: Some(Duration::from_secs(1)),
        ..Rules::default()
    };
    let bridge = ruled(folder.path(), &gateway, limited).await;
    // The agent is told no, by the option that holds this once.
    let no = Some("label reject_once".to_owned());
    assert_eq!(heard(&gateway).await, [no]);
    let question = questions(&bridge, "draft:1").await[0].clone();
    assert_eq!(
        (
            &question["state"],
            &question["closedBy"],
            &question["answer"]
        ),
        (
            &json!("expired"),
            &json!("nobody answered for 1 second"),
            &Value::Null
        )
    );
    let late = json!({"questionId": question["questionId"], "optionId": "id-allow_once"});
    assert_eq!(
        bridge.code("xworkmate.questions.answer", late).await,
        json!("QUESTION_ALREADY_CLOSED")
    );
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    bridge.ended("draft:1").await;
    bridge.stop().await;
}

async fn ping(bridge: &World) -> Value {
    let url = format!("{}/api/ping", bridge.url);
    let open = bridge.http.get(&url).send().await.unwrap();
    assert_eq!(open.status(), 401);
    let answer = bridge
        .http
        .get(url)
        .bearer_auth(TOKEN)
        .send()
        .await
        .unwrap();
    answer.json().await.unwrap()
}

#[tokio::test]
async fn a_run_has_the_time_of_its_class_and_goes_on_past_it() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    for (thread, class, minutes) in [
        ("draft:1", Some("short_task"), 10),
        ("draft:2", None, 30),
        ("draft:3", Some("complex_chain_task"), 60),
    ] {
        let said = class.map_or(json!({}), |class| json!({"taskLoadClass": class}));
        bridge.rpc("session.start", saying(thread, said)).await;
        let run = bridge.ended(thread).await;
        let span = run["deadlineAt"].as_i64().unwrap() - run["startedAt"].as_i64().unwrap();
        assert_eq!(
            (
                &run["taskLoadClass"],
                &run["runtimeBudgetMinutes"],
                span,
                &run["deadlineExceeded"]
            ),
            (
                &json!(class.unwrap_or("long_task")),
                &json!(minutes),
                minutes * 60_000,
                &Value::Null
            )
        );
    }
    let bad = saying("draft:4", json!({"taskLoadClass": "endless"}));
    assert_eq!(
        bridge.code("session.start", bad).await,
        json!("INVALID_REQUEST")
    );
    bridge.stop().await;

    gateway.end.send_replace(None);
    let rules = Rules {
        budgets: Budgets {
            short: 0,
            ..Budgets::default()
        },
        ..Rules::default()
    };
    let bridge = ruled(folder.path(), &gateway, rules.clone()).await;
    let short = saying("draft:5", json!({"taskLoadClass": "short_task"}));
    bridge.rpc("session.start", short).await;
    bridge.at_stage("draft:5", "working").await;
    bridge.stop().await;
    let bridge = ruled(folder.path(), &gateway, rules).await;
    bridge.at_stage("draft:5", "working").await;
    let run = snapshot(&bridge, "draft:5").await;
    assert_eq!(
        (
            &run["status"],
            &run["success"],
            &run["deadlineExceeded"],
            &run["code"]
        ),
        (
            &json!("running"),
            &json!(true),
            &json!(true),
            &json!("OPENCLAW_RUN_DEADLINE_EXCEEDED")
        )
    );
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let run = bridge.ended("draft:5").await;
    assert_eq!(
        (&run["status"], &run["deadlineExceeded"], &run["code"]),
        (&json!("completed"), &Value::Null, &Value::Null)
    );
    // It was said once, whatever restarted.
    let events = events(&bridge, "draft:5").await;
    let said = events.iter().filter(|e| *e == "task.deadline_exceeded");
    assert_eq!(said.count(), 1, "{events:?}");
    bridge.stop().await;
}

#[tokio::test]
async fn time_in_which_a_question_is_open_counts_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = asking(ToolKind::Edit, &ALL);
    let rules = Rules {
        budgets: Budgets {
            long: 0,
            ..Budgets::default()
        },
        silence: Duration::from_millis(100),
        ..Rules::default()
    };
    let bridge = ruled(folder.path(), &gateway, rules).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    bridge.at_stage("draft:1", "waiting").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let run = snapshot(&bridge, "draft:1").await;
    assert_eq!(
        (&run["deadlineExceeded"], &run["code"]),
        (&Value::Null, &Value::Null)
    );
    let waited = run["waitedMs"].as_i64().unwrap();
    assert!(
        (300..=run["wallMs"].as_i64().unwrap()).contains(&waited),
        "{run}"
    );
    gateway.up.send_replace(false);
    // Nor does it make the gateway lost.
    let run = snapshot(&bridge, "draft:1").await;
    assert_eq!(run["transportDegradedCode"], json!("PROVIDER_UNAVAILABLE"));
    gateway.up.send_replace(true);
    let question = questions(&bridge, "draft:1").await[0]["questionId"].clone();
    let answer = json!({"questionId": question, "optionId": "id-allow_once"});
    bridge.rpc("xworkmate.questions.answer", answer).await;
    for _ in 0..400 {
        if snapshot(&bridge, "draft:1").await["deadlineExceeded"] == json!(true) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        ping(&bridge).await["metrics"]["runDeadlineInterrupt"],
        json!(1)
    );
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    bridge.ended("draft:1").await;
    bridge.stop().await;
}

#[tokio::test]
async fn b35_each_way_of_not_hearing_the_gateway_has_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let rules = Rules {
        silence: Duration::from_millis(400),
        ..Rules::default()
    };
    let bridge = ruled(folder.path(), &gateway, rules).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    bridge.at_stage("draft:1", "working").await;
    let stands = async || {
        let run = snapshot(&bridge, "draft:1").await;
        let of = |name: &str| run[name].clone();
        (
            of("status"),
            of("transportDegraded"),
            of("transportDegradedCode"),
            of("source"),
        )
    };
    let degraded = |code: &str| (json!("running"), json!(true), json!(code), json!("stored"));
    // It is there, and cannot say.
    gateway.refuses.store(true, Ordering::SeqCst);
    assert_eq!(stands().await, degraded("OPENCLAW_WAIT_FAILED"));
    gateway.refuses.store(false, Ordering::SeqCst);
    let heard = (
        json!("running"),
        Value::Null,
        Value::Null,
        json!("registry"),
    );
    assert_eq!(stands().await, heard);
    // It is away, and after a while it counts as lost; the run goes on all the same.
    gateway.up.send_replace(false);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stands().await, degraded("OPENCLAW_GATEWAY_LOST"));
    let run = snapshot(&bridge, "draft:1").await;
    assert_eq!(run["observedAt"], run["startedAt"]);
    assert_eq!(
        ping(&bridge).await["metrics"]["taskGetUnconfirmedFallback"],
        json!(3)
    );
    gateway.up.send_replace(true);
    assert_eq!(stands().await, heard);
    // It has no record: files that lie there are no proof.
    gateway.forgets.store(true, Ordering::SeqCst);
    gateway.up.send_replace(false);
    gateway.up.send_replace(true);
    let run = bridge.ended("draft:1").await;
    assert_eq!(
        (&run["status"], &run["success"], &run["code"]),
        (
            &json!("failed"),
            &json!(false),
            &json!("OPENCLAW_TERMINAL_WITHOUT_EVIDENCE")
        )
    );
    bridge.stop().await;
}

#[tokio::test]
async fn what_a_run_used_is_recorded_as_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    *gateway.uses.lock().unwrap() = Some(Usage {
        input_tokens: Some(1200),
        output_tokens: None,
        cost_usd: Some(0.25),
    });
    let used = json!({"inputTokens": 1200, "costUsd": 0.25});
    let bridge = world(folder.path(), &gateway).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    for _ in 0..400 {
        if snapshot(&bridge, "draft:1").await["usage"] != Value::Null {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(snapshot(&bridge, "draft:1").await["usage"], used);
    // The end does not say it, and what was known stands; also where both come at once.
    gateway.end.send_replace(Some(ended(EndStatus::Failed)));
    let run = bridge.ended("draft:1").await;
    assert_eq!(run["usage"], used);
    assert_eq!(
        run["wallMs"].as_i64(),
        Some(run["endedAt"].as_i64().unwrap() - run["startedAt"].as_i64().unwrap())
    );
    bridge.rpc("session.start", turn("draft:2")).await;
    assert_eq!(bridge.ended("draft:2").await["usage"], used);
    bridge.stop().await;
}

#[tokio::test]
async fn a_run_that_waits_for_its_runtime_is_stopped_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.stuck.store(true, Ordering::SeqCst);
    let bridge = world(folder.path(), &gateway).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    bridge.at_stage("draft:1", "preparing").await;
    bridge
        .rpc("xworkmate.tasks.cancel", json!({"appThreadKey": "draft:1"}))
        .await;
    let run = bridge.ended("draft:1").await;
    assert_eq!(
        (&run["status"], &run["message"]),
        (&json!("cancelled"), &json!("Stopped before it began."))
    );
    bridge.stop().await;
}

/// Nobody has asked a registry about a run that it has not got yet.
#[tokio::test]
async fn a_run_that_waits_for_its_runtime_is_told_from_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.stuck.store(true, Ordering::SeqCst);
    let bridge = world(folder.path(), &gateway).await;
    let handle = bridge.rpc("session.start", turn("draft:1")).await["result"].clone();
    bridge.at_stage("draft:1", "preparing").await;
    let asked = snapshot(&bridge, "draft:1").await;
    for run in [handle, asked] {
        assert_eq!(
            (&run["status"], &run["source"], &run["transportDegraded"]),
            (&json!("running"), &json!("stored"), &Value::Null),
            "{run:#}"
        );
        assert_eq!(run["observedAt"], run["createdAt"]);
    }
    bridge.stop().await;
}

#[tokio::test]
async fn a_driver_that_panics_is_started_again_and_the_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.panics.store(1, Ordering::SeqCst);
    let bridge = world(folder.path(), &gateway).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let run = bridge.ended("draft:1").await;
    assert_eq!(
        (&run["status"], &run["text"]),
        (&json!("completed"), &json!("done"))
    );
    assert_eq!(gateway.panics.load(Ordering::SeqCst), 0);
    // Its place in the lane is free again.
    bridge.rpc("session.start", turn("draft:2")).await;
    assert_eq!(bridge.ended("draft:2").await["status"], json!("completed"));
    bridge.stop().await;
}

/// A gateway that cannot take the turn now, and is waited for: the run says so, and can be stopped.
#[tokio::test]
async fn a_turn_for_a_gateway_that_starts_waits_and_says_what_for() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.up.send_replace(false);
    let bridge = world(folder.path(), &gateway).await;
    let refused = bridge.rpc("session.start", turn("draft:1")).await;
    assert_eq!(refused["result"]["status"], json!("unavailable"));

    gateway.stuck.store(true, Ordering::SeqCst);
    let notes: Vec<Value> = {
        let mut events = bridge.stream(&turn("draft:2"), None).await;
        let mut notes = vec![];
        while notes.is_empty() {
            let frame = events.next().await.unwrap().data;
            let frame: Value = serde_json::from_str(&frame).unwrap();
            let update = &frame["params"];
            if update["event"] == json!("task.note") {
                notes.push(update["message"].clone());
            }
        }
        notes
    };
    assert_eq!(notes, [json!("It starts. The turn waits.")]);
    bridge
        .rpc("xworkmate.tasks.cancel", json!({"appThreadKey": "draft:2"}))
        .await;
    assert_eq!(bridge.ended("draft:2").await["status"], json!("cancelled"));
    bridge.stop().await;
}

/// Nothing is bound to a folder in which no turn could ever work.
#[tokio::test]
async fn a_folder_that_the_gateway_does_not_take_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    let bridge = world(folder.path(), &gateway).await;
    let mut there = turn("draft:1");
    there["workingDirectory"] = json!(folder.path().to_str().unwrap());
    for (method, params) in [
        ("session.start", there.clone()),
        ("xworkmate.routing.resolve", there),
    ] {
        let code = bridge.code(method, params).await;
        assert_eq!(code, json!("WORKDIR_NOT_ALLOWED"), "{method}");
    }
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    bridge.rpc("session.start", turn("draft:1")).await;
    assert_eq!(bridge.ended("draft:1").await["status"], json!("completed"));
    bridge.stop().await;
}

/// Files that could not be collected come when somebody asks for them after a while.
#[tokio::test]
async fn files_that_were_given_up_come_when_somebody_asks_later() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.plain.store(true, Ordering::SeqCst);
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let rules = Rules {
        files_wait: Duration::ZERO,
        files_rest: Duration::from_secs(2),
        ..Rules::default()
    };
    let bridge = ruled(folder.path(), &gateway, rules).await;
    bridge.rpc("session.start", turn("draft:1")).await;
    let failed = bridge.ended("draft:1").await;
    assert_eq!(
        (&failed["status"], &failed["artifactsFailed"]),
        (
            &json!("completed"),
            &json!("PROVIDER_UNAVAILABLE: It has no plugin.")
        )
    );
    gateway.plain.store(false, Ordering::SeqCst);
    // Not at every question.
    let still = snapshot(&bridge, "draft:1").await;
    assert_eq!(still["artifactsFailed"], failed["artifactsFailed"]);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let came = bridge.ended("draft:1").await;
    assert_eq!(
        (
            &came["status"],
            &came["artifactsFailed"],
            &came["artifacts"]["total"]
        ),
        (&json!("completed"), &Value::Null, &json!(1))
    );
    bridge.stop().await;
}
