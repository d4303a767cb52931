//! The bridge is killed while agents work. They work on; afterwards everything they said is there, once and
//! in order, and nothing ran twice.

use std::{fs, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::{agents::Agent, procs, scripted_model::Model, world::World};

use crate::{
    bridge::{TURN, files, in_order},
    scripted,
};

const RATES: [u32; 3] = [10, 66, 500];

/// Three agents talk at these rates, from before the bridge is killed until it is there again.
async fn nothing_is_lost_in(gap: Duration) {
    let mut world = scripted::world(5);
    world.start().await;
    let seconds = gap.as_secs() as u32 + 4;
    for rate in RATES {
        let prompt = format!("[[rate {rate}]] [[count {}]]", rate * seconds);
        scripted::send(&world, &format!("draft:{rate}"), &prompt).await;
    }
    for rate in RATES {
        scripted::says(&world, &format!("draft:{rate}"), "5 6 ").await;
    }
    world.kill();
    tokio::time::sleep(gap).await;
    world.start().await;
    for rate in RATES {
        let thread = format!("draft:{rate}");
        let ended = world.ended_within(&thread, TURN).await;
        let events = world.events(&thread).await;
        let expected: String = (1..=rate * seconds).map(|n| format!("{n} ")).collect();
        let told = scripted::said(&events);
        assert_eq!(ended["status"], json!("completed"), "{ended:#}");
        assert!(
            told == expected,
            "at {rate} a second: {} instead of {} characters, different after {}",
            told.len(),
            expected.len(),
            told.bytes()
                .zip(expected.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        );
        in_order(&events);
        assert_eq!(ended["text"], json!(expected.trim()));
    }
}

#[tokio::test]
async fn no_event_is_lost_or_doubled_in_a_gap_of_0_3_seconds() {
    nothing_is_lost_in(Duration::from_millis(300)).await;
}

#[tokio::test]
async fn no_event_is_lost_or_doubled_in_a_gap_of_1_second() {
    nothing_is_lost_in(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn no_event_is_lost_or_doubled_in_a_gap_of_10_seconds() {
    nothing_is_lost_in(Duration::from_secs(10)).await;
}

/// A mixed crowd: some talk, some wait for leave, some are queued, one fails, one is cancelled, one dies.
#[tokio::test]
async fn twenty_runs_end_truthfully_after_the_bridge_was_killed() {
    let mut world = scripted::world(12);
    world.start().await;
    let witness = world.path().join("witness");
    fs::create_dir_all(&witness).unwrap();
    let prompt = |n: usize| {
        let seen = format!("[[shell echo {n} >> {}/{n}]]", witness.display());
        match n {
            0 => format!("{seen} [[sleep 1500]] [[drop 1]] [[say gone]]"),
            1 => format!("{seen} [[sleep 1500]] [[fail 400]] [[say no]]"),
            2 => format!("{seen} [[slow 100]] [[count 1000]]"),
            3..8 => format!("{seen} [[write out-{n}.md = text {n}]] [[say wrote {n}]]"),
            _ => format!("{seen} [[slow 30]] [[count 60]] [[say x]]"),
        }
    };
    for n in 0..20 {
        scripted::send(&world, &format!("draft:{n}"), &prompt(n)).await;
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    world.kill();
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.start().await;
    // A client that heard no answer sends again: the same run.
    for n in 0..20 {
        scripted::send(&world, &format!("draft:{n}"), &prompt(n)).await;
    }
    for n in 3..8 {
        let question = world.question(&format!("draft:{n}")).await;
        world.permit(&question, "allow_once").await;
    }
    world
        .rpc("xworkmate.tasks.cancel", json!({"appThreadKey": "draft:2"}))
        .await;
    for n in 0..20 {
        let thread = format!("draft:{n}");
        let ended = world.ended_within(&thread, TURN).await;
        let (status, code) = match n {
            0 => ("failed", json!("AGENT_LOST")),
            1 => ("failed", json!("EXECUTION_FAILED")),
            2 => ("cancelled", Value::Null),
            _ => ("completed", Value::Null),
        };
        assert_eq!(
            (ended["status"].as_str(), &ended["code"]),
            (Some(status), &code),
            "{ended:#}"
        );
        let expected = match n {
            3..8 => vec![format!("out-{n}.md")],
            _ => vec![],
        };
        assert_eq!(files(&ended), expected, "{ended:#}");
        let ran = fs::read_to_string(witness.join(n.to_string()));
        assert_eq!(ran.unwrap_or_default(), format!("{n}\n"), "draft:{n}");
        let events = world.events(&thread).await;
        in_order(&events);
        let ends = events
            .iter()
            .filter(|e| e["update"]["event"] == json!("task.ended"));
        assert_eq!(ends.count(), 1, "{events:#?}");
    }
}

/// A question that is asked while nobody listens waits for its answer, which reaches the same agent.
#[tokio::test]
async fn a_permission_asked_while_the_bridge_was_down_is_answered_afterwards() {
    let mut world = scripted::world(5);
    world.start().await;
    let prompt = "[[say a ]] [[sleep 1200]] [[write a.md = text]] [[say wrote]]";
    let prompt = prompt.replace("[[say a ]]", "[[shell true]]");
    scripted::send(&world, "draft:1", &prompt).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    world.kill();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    world.start().await;
    let question = world.question("draft:1").await;
    // The question keeps its id over one more restart.
    world.kill();
    world.start().await;
    let again = world.question("draft:1").await;
    assert_eq!(again["questionId"], question["questionId"]);
    world.permit(&again, "allow_once").await;
    let ended = world.ended_within("draft:1", TURN).await;
    assert_eq!(
        (&ended["status"], files(&ended)),
        (&json!("completed"), vec!["a.md".to_owned()]),
        "{ended:#}"
    );
}

/// The host is killed, too: that is said, and what the agent had started is gone before anybody else works
/// in the folder.
#[tokio::test]
async fn a_killed_host_is_told_and_leaves_nobody_behind() {
    let mut world = scripted::world(5);
    world.start().await;
    let prompt = "[[shell sleep 600 >/dev/null 2>&1 &]] [[slow 50]] [[count 4000]]";
    scripted::send(&world, "draft:1", prompt).await;
    scripted::says(&world, "draft:1", "2 3 ").await;
    let data = world.data().display().to_string();
    let hosts = procs::named(&["agent-host", &data]);
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    let tasks = world.data().join("tasks");
    assert!(procs::working_in(&tasks).len() >= 2);
    world.kill();
    hosts.into_iter().for_each(procs::kill);
    world.start().await;
    let ended = world.ended_within("draft:1", TURN).await;
    assert_eq!(
        (&ended["status"], &ended["code"]),
        (&json!("failed"), &json!("AGENT_LOST")),
        "{ended:#}"
    );
    let mut turn = World::turn_on("scripted", "draft:1", "[[say on]]");
    turn["requestId"] = json!("again");
    world.rpc("session.start", turn).await;
    let again = world.ended_within("draft:1", TURN).await;
    assert_eq!(again["status"], json!("completed"), "{again:#}");
    let here = procs::working_in(&tasks);
    assert!(
        !here
            .iter()
            .any(|(_, command)| command.contains("sleep 600")),
        "{here:?}"
    );
}

/// One of each real agent in flight when the bridge is killed.
#[tokio::test]
async fn real_agents_work_on_while_the_bridge_is_killed() {
    let model = Model::start().await;
    let mut world = World::new();
    let all: Vec<Agent> = Agent::ALL.into_iter().collect();
    let here: Vec<Agent> = all
        .into_iter()
        .filter(|agent| agent.enter(&mut world, &model.url))
        .collect();
    world.start().await;
    let words: Vec<String> = (1..=80).map(|n| n.to_string()).collect();
    for agent in &here {
        let thread = format!("draft:{}", agent.name());
        let prompt = format!("[[rate 10]] [[count 80]] for {}", agent.name());
        let turn = World::turn_on(agent.name(), &thread, &prompt);
        let sent = world.rpc("session.start", turn).await;
        assert!(sent["result"]["runId"].is_string(), "{sent:#}");
    }
    for agent in &here {
        scripted::says(&world, &format!("draft:{}", agent.name()), "2 3").await;
    }
    world.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.start().await;
    for agent in &here {
        let thread = format!("draft:{}", agent.name());
        let ended = world.ended_within(&thread, TURN).await;
        let text = ended["text"].as_str().unwrap_or_default();
        assert_eq!(ended["status"], json!("completed"), "{ended:#}");
        assert!(text.contains(&words.join(" ")), "{ended:#}");
        let own = format!("for {}", agent.name());
        let prompts = model.seen.prompts();
        let ran = prompts.iter().filter(|prompt| prompt.contains(&own));
        assert_eq!(ran.count(), 1, "{}: {prompts:#?}", agent.name());
    }
}
